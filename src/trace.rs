//! What the collector must know of a type: its slots, its drop glue, its place in a cell.

use crate::gc::{Gc, Slot};
use crate::mark::MarkQueue;
use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{CELL_ALIGN_MAX, CELL_MAX, Class};
use std::marker::PhantomData;

/// Types whose values can live in the heap. Implemented by `#[derive(Trace)]`.
///
/// # Safety
/// `trace` must visit every slot of the value and must not unwind (if it does, the process aborts: a half-scanned
/// object must not be mistaken for a scanned one). A type that has slots must not implement `Drop`, must be built
/// only inside heap cells, and `NEEDS_TRACE` must be true for it. The derive sees to all of that; there is no
/// reason to implement this by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in the heap",
    label = "not a heap type",
    note = "derive `Trace` for it, or wrap a plain value in `Payload`"
)]
pub unsafe trait Trace: 'static {
    /// Whether the type has slots.
    const NEEDS_TRACE: bool;
    /// Visits every slot.
    ///
    /// # Safety
    /// Called by the collector only, with the value in a heap cell.
    unsafe fn trace(&self, tracer: &mut Tracer<'_>);
}

/// Collects the references that an object holds. Handed to [`Trace::trace`].
#[derive(Debug)]
pub struct Tracer<'a> {
    pub(crate) queue: &'a mut MarkQueue,
    pub(crate) space: &'a metronome_arraylet::Space,
    /// For the verifier: collect instead of mark.
    pub(crate) children: Option<&'a mut Vec<*mut u8>>,
}

impl Tracer<'_> {
    #[inline]
    pub(crate) fn visit(&mut self, cell: *mut u8) {
        match &mut self.children {
            None => self.queue.visit(self.space, cell),
            Some(c) => c.push(cell),
        }
    }

    /// The same for an object whose type has no slots.
    #[inline]
    pub(crate) fn visit_leaf(&mut self, cell: *mut u8) {
        match &mut self.children {
            None => self.queue.visit_leaf(self.space, cell),
            Some(c) => c.push(cell),
        }
    }

    /// Visits a slot, for the derive. The array keeps a reference to another type from being dereferenced until it
    /// fits; with that, the call proves that the field is a slot of this crate.
    #[doc(hidden)]
    #[inline]
    pub fn __visit<T: Trace>(&mut self, [slot]: [&Slot<T>; 1]) {
        // SAFETY: slots live inside heap objects only (`Slot::__new`), and only the collector has a `Tracer` to call
        // this on.
        unsafe { slot.__trace(self) }
    }

    /// The same for an array of slots.
    #[doc(hidden)]
    #[inline]
    pub fn __visit_all<T: Trace, const N: usize>(&mut self, [slots]: [&[Slot<T>; N]; 1]) {
        for slot in slots {
            self.__visit([slot]);
        }
    }

    /// Does nothing; the call proves that the field may be payload.
    #[doc(hidden)]
    #[inline]
    pub fn __payload<T: PayloadField>(&mut self, _: [&T; 1]) {}
}

/// An opaque reference, for the derive.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct RawRef(pub(crate) *mut u8);

/// An initialiser: what [`Mutator::alloc`](crate::Mutator::alloc) takes. Written by `#[derive(Trace)]`: a type
/// without slots is its own initialiser; a type `Node` with slots gets `NodeInit`, in which each `Slot<T>` is an
/// `Option<Gc<T>>`.
///
/// # Safety
/// `write` must build a complete `Target`, and `values` must visit every reference that it writes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not initialise a heap object",
    label = "not an initialiser",
    note = "a type with slots is allocated from its `…Init` (written by `#[derive(Trace)]`); wrap a plain value in `Payload`"
)]
pub unsafe trait Init<'m>: Sized {
    /// The type of the object.
    type Target: Trace;
    /// Whether the object has slots.
    const HAS_SLOTS: bool;
    #[doc(hidden)]
    fn values(&self, visit: &mut dyn FnMut(RawRef));
    /// Builds the object.
    ///
    /// # Safety
    /// `place` must be valid for writes, aligned, and in a heap cell.
    unsafe fn write(self, place: *mut Self::Target);

    // For the derive, which reaches them through this trait and so through nothing that could be forged: a type
    // that does not implement this very trait cannot be allocated.

    /// Visits the reference that a slot is made from.
    #[doc(hidden)]
    #[inline]
    fn __value<T: Trace>([value]: [&Option<Gc<'m, T>>; 1], visit: &mut dyn FnMut(RawRef)) {
        visit(RawRef(value.map_or(std::ptr::null_mut(), Gc::cell_ptr)));
    }

    /// The same for an array of slots.
    #[doc(hidden)]
    #[inline]
    fn __values<T: Trace, const N: usize>(
        [values]: [&[Option<Gc<'m, T>>; N]; 1],
        visit: &mut dyn FnMut(RawRef),
    ) {
        for value in values {
            Self::__value([value], visit);
        }
    }

    /// Makes a slot.
    ///
    /// # Safety
    /// As for `Slot::__new`.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    unsafe fn __slot<T: Trace>(value: Option<Gc<'m, T>>) -> Slot<T> {
        // SAFETY: by this function's contract, which is the same.
        unsafe { Slot::__new(value) }
    }

    /// The same for an array of slots.
    ///
    /// # Safety
    /// As for `Slot::__new`.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    unsafe fn __slots<T: Trace, const N: usize>(values: [Option<Gc<'m, T>>; N]) -> [Slot<T>; N] {
        // SAFETY: by this function's contract, which is the same.
        values.map(|value| unsafe { Slot::__new(value) })
    }
}

/// A plain value as a heap object: `m.alloc(Payload(String::new()))`.
///
/// The value may be anything that other threads may share and drop: `Send + Sync + 'static`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Payload<T>(pub T);

impl<T> std::ops::Deref for Payload<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

// SAFETY: a Send + Sync type holds no slot (`Slot` is neither), so there is nothing to visit.
unsafe impl<T: Send + Sync + 'static> Trace for Payload<T> {
    const NEEDS_TRACE: bool = false;
    unsafe fn trace(&self, _: &mut Tracer<'_>) {}
}

// SAFETY: `write` moves the complete value; there are no references.
unsafe impl<'m, T: Send + Sync + 'static> Init<'m> for Payload<T> {
    type Target = Payload<T>;
    const HAS_SLOTS: bool = false;
    fn values(&self, _: &mut dyn FnMut(RawRef)) {}
    unsafe fn write(self, place: *mut Self) {
        // SAFETY: `place` is valid by this function's contract.
        unsafe { place.write(self) }
    }
}

/// What may be stored in a heap object besides slots.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a payload field of a heap object",
    label = "not `Send + Sync + 'static`",
    note = "payload is shared between mutators and dropped on the reaper's thread, so it must be `Send + Sync + 'static`",
    note = "references to heap objects go into fields of type `Slot<T>`, written as such (a slot behind an alias or inside another type is refused)"
)]
pub trait PayloadField: Send + Sync + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> PayloadField for T {}

/// How an object is scanned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A value without slots.
    Leaf,
    /// A value with slots.
    Object(unsafe fn(*mut u8, &mut Tracer<'_>)),
    /// A spine of values: leaves are marked, not scanned.
    Values,
    /// A spine of slots.
    Slots,
    /// A spine of slots whose objects have none.
    LeafSlots,
}

/// First word of all type information: lets the verifier tell a header from a wild pointer.
pub(crate) const TYPE_TAG: u64 = 0x4D65_7472_6F54_7970;

/// Static description of a type; an object's header points to it.
#[derive(Debug)]
pub(crate) struct TypeInfo {
    /// [`TYPE_TAG`].
    #[cfg_attr(not(feature = "verify"), allow(dead_code))]
    pub(crate) tag: u64,
    pub(crate) kind: Kind,
    /// Runs the drop glue of the object in a cell.
    pub(crate) drop: Option<unsafe fn(*mut u8)>,
    pub(crate) name: fn() -> &'static str,
}

/// Where a `T` lies in its cell: a header word, then the value at its alignment.
pub(crate) struct CellOf<T>(PhantomData<T>);

impl<T> CellOf<T> {
    pub(crate) const OFFSET: usize = {
        assert!(align_of::<T>() <= CELL_ALIGN_MAX, "a heap object's alignment may be at most 128 bytes");
        if align_of::<T>() > 8 { align_of::<T>() } else { 8 }
    };
    pub(crate) const CLASS: Class = {
        match Class::of(Self::OFFSET + size_of::<T>(), Self::OFFSET) {
            Some(c) => c,
            None => panic!("a heap object may have at most 8184 bytes: use a GcArray, or box its payload"),
        }
    };
    pub(crate) const SIZE: usize = Self::CLASS.size();
    pub(crate) const CURSOR: CursorIndex = CursorIndex::new(Self::CLASS, std::mem::needs_drop::<T>());
    const _FITS: () = assert!(Self::SIZE <= CELL_MAX);
}

impl<T: Trace> CellOf<T> {
    pub(crate) const INFO: &'static TypeInfo = &TypeInfo {
        tag: TYPE_TAG,
        kind: if T::NEEDS_TRACE { Kind::Object(trace_cell::<T>) } else { Kind::Leaf },
        drop: if std::mem::needs_drop::<T>() { Some(drop_cell::<T>) } else { None },
        name: std::any::type_name::<T>,
    };
}

/// # Safety
/// `cell` holds a `T`.
unsafe fn trace_cell<T: Trace>(cell: *mut u8, tracer: &mut Tracer<'_>) {
    /// Aborts when dropped: `trace` must not unwind.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            eprintln!(
                "metronome: a Trace implementation panicked; the heap cannot be trusted any more: aborting"
            );
            std::process::abort();
        }
    }
    let bomb = Bomb;
    // SAFETY: by this function's contract; the value lies at OFFSET.
    unsafe { (*cell.add(CellOf::<T>::OFFSET).cast::<T>()).trace(tracer) };
    std::mem::forget(bomb);
}

/// # Safety
/// `cell` holds a `T` that nobody can reach and that is dropped once.
unsafe fn drop_cell<T>(cell: *mut u8) {
    // SAFETY: by this function's contract.
    unsafe { cell.add(CellOf::<T>::OFFSET).cast::<T>().drop_in_place() };
}
