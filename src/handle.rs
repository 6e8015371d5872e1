//! Handles: what keeps objects alive across safepoints and outside `enter`.

use crate::gc::Gc;
use crate::hooks::fault;
use crate::mutator::Mutator;
use crate::shared::{Record, Shared};
use crate::slot::Barrier as _;
use crate::trace::Trace;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// A handle that belongs to the thread that made it: one entry of that thread's table for the heap.
///
/// Keeps its object alive until dropped; may outlive `enter`, the heap, even the thread's other state. Making one
/// is a table entry (about 20 ns), getting at the object a load.
pub struct Root<T> {
    shared: Arc<Shared>,
    record: NonNull<Record>,
    index: u32,
    /// Neither `Send` nor `Sync`.
    _type: PhantomData<*mut T>,
}

impl<T: Trace> Root<T> {
    /// Roots an object.
    #[must_use]
    pub fn new(m: &Mutator<'_>, object: Gc<'_, T>) -> Root<T> {
        // SAFETY: the heap is alive while a mutator is inside it, and every `Shared` is in an `Arc`.
        let shared = unsafe { arc_of(m.shared) };
        // No barrier: the table is taken after this thread's next safepoint, and the object is kept until then as
        // every local is (rule 3).
        let index = m.record().roots.insert(object.cell_ptr());
        Root { shared, record: m.record, index, _type: PhantomData }
    }

    fn record(&self) -> &Record {
        // SAFETY: records live as long as their `Shared`, which this handle holds.
        unsafe { self.record.as_ref() }
    }

    /// The object.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn get<'m>(&self, m: &'m Mutator<'_>) -> Gc<'m, T> {
        check_heap(&self.shared, m, "Root");
        let cell = self.record().roots.get(self.index);
        m.shade_yielded(cell);
        // SAFETY: a root's entry is never null, holds a `T`, and keeps it alive; the heap is this mutator's.
        unsafe { Gc::from_cell(NonNull::new_unchecked(cell)) }
    }

    /// Another root of the same object.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn duplicate(&self, m: &Mutator<'_>) -> Root<T> {
        Root::new(m, self.get(m))
    }
}

impl<T> Drop for Root<T> {
    fn drop(&mut self) {
        // SAFETY: as in `record`. A `Root` is not `Send`, so this is the thread that made it.
        self.shared.release_root(unsafe { self.record.as_ref() }, self.index);
    }
}

impl<T> fmt::Debug for Root<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Root<{}>", std::any::type_name::<T>())
    }
}

/// A handle that any thread may hold, clone, send and drop.
///
/// Clones share one entry of the heap's table.
pub struct Global<T> {
    shared: Arc<Shared>,
    index: u32,
    _type: PhantomData<fn() -> *const T>,
}

impl<T: Trace> Global<T> {
    /// Makes an object reachable from everywhere.
    #[must_use]
    pub fn new(m: &Mutator<'_>, object: Gc<'_, T>) -> Global<T> {
        // SAFETY: as in `Root::new`.
        let shared = unsafe { arc_of(m.shared) };
        // During the snapshot the table may have been taken already, so the object is shaded (rule 2).
        if !fault!(m.shared(), NoGlobalCreateBarrier) {
            m.shade_new(object.cell_ptr());
        }
        let index = shared.globals.insert(object.cell_ptr());
        Global { shared, index, _type: PhantomData }
    }

    /// The object.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn get<'m>(&self, m: &'m Mutator<'_>) -> Gc<'m, T> {
        check_heap(&self.shared, m, "Global");
        let cell = self.shared.globals.get(self.index);
        m.shade_yielded(cell);
        // SAFETY: as in `Root::get`.
        unsafe { Gc::from_cell(NonNull::new_unchecked(cell)) }
    }
}

impl<T> Clone for Global<T> {
    /// Another owner of the same entry; needs no mutator and no barrier.
    fn clone(&self) -> Self {
        self.shared.globals.retain(self.index);
        Global { shared: Arc::clone(&self.shared), index: self.index, _type: PhantomData }
    }
}

impl<T> Drop for Global<T> {
    fn drop(&mut self) {
        self.shared.globals.release(self.index);
    }
}

impl<T> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Global<{}>", std::any::type_name::<T>())
    }
}

/// A [`Global`] whose object also stays where it is: for foreign code that is given its address.
///
/// Nothing moves in this heap, so the promise costs nothing today; a program that needs it says so here, and stays right
/// should the heap ever be compacted.
pub struct Pinned<T> {
    global: Global<T>,
}

impl<T: Trace> Pinned<T> {
    /// Makes an object reachable from everywhere, at a fixed address.
    #[must_use]
    pub fn new(m: &Mutator<'_>, object: Gc<'_, T>) -> Pinned<T> {
        Pinned { global: Global::new(m, object) }
    }

    /// The object.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn get<'m>(&self, m: &'m Mutator<'_>) -> Gc<'m, T> {
        self.global.get(m)
    }

    /// The object's address. Valid as long as this handle or a clone of it lives and the heap is not closed; needs no
    /// mutator. Reading through it is up to foreign or unsafe code; others may read the object at the same time, and
    /// write its slots.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        let cell = self.global.shared.globals.get(self.global.index);
        cell.wrapping_add(crate::trace::CellOf::<T>::OFFSET).cast_const().cast()
    }

    /// The handle without the promise.
    #[must_use]
    pub fn into_global(self) -> Global<T> {
        self.global
    }
}

impl<T> Clone for Pinned<T> {
    fn clone(&self) -> Self {
        Pinned { global: self.global.clone() }
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned<{}>", std::any::type_name::<T>())
    }
}

// Global and the weak references are Send + Sync for every T: they give access to the object only through a mutator of its heap,
// whose threads share objects anyway (all payload is Send + Sync by construction).

/// # Safety
/// `shared` comes from `Arc::as_ptr` of a living `Arc`.
pub(crate) unsafe fn arc_of(shared: NonNull<Shared>) -> Arc<Shared> {
    let p: *const Shared = shared.as_ptr();
    // SAFETY: by this function's contract; the count is raised before the new owner is made.
    unsafe {
        Arc::increment_strong_count(p);
        Arc::from_raw(p)
    }
}

#[track_caller]
pub(crate) fn check_heap(shared: &Arc<Shared>, m: &Mutator<'_>, what: &str) {
    assert!(
        std::ptr::eq(Arc::as_ptr(shared), m.shared()),
        "a {what} of heap {} was used with a mutator of heap {}: a handle belongs to one heap",
        shared.id,
        m.shared().id
    );
}
