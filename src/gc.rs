//! References to heap objects: [`Gc`] in locals, [`Slot`] inside objects.

use crate::mutator::Mutator;
use crate::slot::SlotWord;
use crate::trace::{CellOf, Trace, Tracer};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A reference to a heap object, valid until its mutator's next safepoint.
///
/// It borrows the [`Mutator`] shared; a safepoint borrows it exclusively; so the borrow checker keeps the two
/// apart. Free to copy and to dereference: one plain pointer, no count, no rooting. To keep an object across a
/// safepoint, make a [`Root`](crate::Root) or a [`Global`](crate::Global), or store it in a slot.
pub struct Gc<'m, T> {
    cell: NonNull<u8>,
    /// Neither `Send` nor `Sync`.
    _life: PhantomData<(&'m T, *mut T)>,
}

impl<T> Clone for Gc<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Gc<'_, T> {}

impl<'m, T> Gc<'m, T> {
    /// # Safety
    /// `cell` holds a complete `T` of the heap that lives for `'m`: it is held by a slot, a handle or a local of the
    /// running mutator that `'m` borrows.
    #[inline(always)]
    pub(crate) unsafe fn from_cell(cell: NonNull<u8>) -> Gc<'m, T> {
        Gc { cell, _life: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn cell_ptr(self) -> *mut u8 {
        self.cell.as_ptr()
    }

    /// Whether two references point to one object.
    #[inline]
    #[must_use]
    pub fn ptr_eq(a: Gc<'_, T>, b: Gc<'_, T>) -> bool {
        a.cell == b.cell
    }

    /// The object's address, for printing and hashing. Objects never move.
    #[inline]
    #[must_use]
    pub fn address(this: Gc<'_, T>) -> usize {
        this.cell.addr().get()
    }
}

impl<'m, T: Trace> Gc<'m, T> {
    /// The object, borrowed for as long as the reference is valid. An associated function, as `address`, so that it
    /// hides no method of `T`.
    #[inline(always)]
    #[must_use]
    pub fn object(this: Gc<'m, T>) -> &'m T {
        // SAFETY: by `from_cell` the cell holds a complete `T` at OFFSET for `'m`; nobody has it mutably, since no
        // API gives out `&mut` to an object in the heap.
        unsafe { &*this.cell.as_ptr().add(CellOf::<T>::OFFSET).cast::<T>() }
    }
}

impl<T: Trace> std::ops::Deref for Gc<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        Gc::object(*self)
    }
}

impl<T: Trace + fmt::Debug> fmt::Debug for Gc<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Gc::object(*self).fmt(f)
    }
}

/// A field that refers to a heap object, or is null. Lives only inside heap objects.
///
/// There is no public constructor: `#[derive(Trace)]` writes an initialiser in which the field is an
/// `Option<Gc<T>>`. Neither `Send` nor `Sync`, so it cannot sit in a static, an `Arc` or a `Mutex`, nor be lent to
/// another thread; threads share objects through slots and [`Global`](crate::Global)s.
///
/// `load` is one acquire load. `store`, `swap` and `compare_exchange` run the barrier: with no cycle active one
/// load and a branch besides the store. A slot may be read and written by several mutators at once.
pub struct Slot<T> {
    cell: SlotWord,
    _type: PhantomData<*mut T>,
}

impl<T: Trace> Slot<T> {
    /// # Safety
    /// The value must be moved into a heap object, and nowhere else, with no pause point before that object is
    /// published.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub unsafe fn __new(value: Option<Gc<'_, T>>) -> Slot<T> {
        let cell = value.map_or(std::ptr::null_mut(), Gc::cell_ptr);
        Slot { cell: SlotWord::new(cell), _type: PhantomData }
    }

    /// # Safety
    /// Called by a `Trace` implementation, on a slot inside a heap object.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn __trace(&self, tracer: &mut Tracer<'_>) {
        // The acquire matters when a helper is late and mutators run; else the stop orders their stores.
        let cell = self.cell.load();
        // A slot refers to objects of its own type only.
        if T::NEEDS_TRACE { tracer.visit(cell) } else { tracer.visit_leaf(cell) }
    }

    /// The object referred to. One acquire load.
    #[inline(always)]
    #[must_use]
    pub fn load<'m>(&self, _m: &'m Mutator<'_>) -> Option<Gc<'m, T>> {
        let cell = NonNull::new(self.cell.load())?;
        // SAFETY: a slot holds complete objects of type T (the type of everything stored in it). The slot is in a
        // live object of this thread's heap, so its object is live now, and stays so until the mutator's next
        // safepoint: it is in the snapshot, or black, or was shaded (INV-BARRIER-RULES).
        Some(unsafe { Gc::from_cell(cell) })
    }

    /// Whether the slot is null. One relaxed load.
    #[inline(always)]
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.cell.peek().is_null()
    }

    /// Stores a reference, or null.
    #[inline(always)]
    pub fn store<'a>(&self, m: &Mutator<'_>, value: impl Into<Option<Gc<'a, T>>>)
    where
        T: 'a,
    {
        let new = value.into().map_or(std::ptr::null_mut(), Gc::cell_ptr);
        self.cell.store(m, new);
    }

    /// Stores a reference and returns the one that was there.
    #[inline]
    pub fn swap<'m, 'a>(&self, m: &'m Mutator<'_>, value: impl Into<Option<Gc<'a, T>>>) -> Option<Gc<'m, T>>
    where
        T: 'a,
    {
        let new = value.into().map_or(std::ptr::null_mut(), Gc::cell_ptr);
        let old = self.cell.swap(m, new);
        // SAFETY: as in `load`; the removed object was shaded if marking is going on.
        NonNull::new(old).map(|c| unsafe { Gc::from_cell(c) })
    }

    /// Stores `new` if the slot refers to `current` (or is null for `None`).
    ///
    /// # Errors
    /// What the slot refers to, if that is not `current`; nothing was stored then.
    #[inline]
    pub fn compare_exchange<'m>(
        &self,
        m: &'m Mutator<'_>,
        current: Option<Gc<'_, T>>,
        new: Option<Gc<'_, T>>,
    ) -> Result<Option<Gc<'m, T>>, Option<Gc<'m, T>>> {
        let raw = |v: Option<Gc<'_, T>>| v.map_or(std::ptr::null_mut(), Gc::cell_ptr);
        let (current, new) = (raw(current), raw(new));
        // SAFETY: as in `load` and `swap`.
        let yielded = |p: *mut u8| NonNull::new(p).map(|c| unsafe { Gc::from_cell(c) });
        self.cell.compare_exchange(m, current, new).map(yielded).map_err(yielded)
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({:p})", self.cell.peek())
    }
}
