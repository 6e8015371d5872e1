//! Arrays in the heap: [`GcArray`] of values or of slots, with arraylets behind long ones.

use crate::gc::{Gc, Slot};
use crate::mark::MarkQueue;
use crate::mutator::Mutator;
use crate::trace::{Kind, TYPE_TAG, Trace, Tracer, TypeInfo};
use metronome_arraylet::array::{
    ArrayShape, INDEX_FAN_OUT, LEN_OFFSET, SHAPE_OFFSET, TABLE_OFFSET, path, per_leaf, tail_offset,
    top_entries, unpack,
};
use metronome_arraylet::{LEAF_BYTES, Space};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire};

mod leaves;
pub use leaves::Leaves;

/// Slots scanned in one slice of an array.
const SLOT_SLICE: usize = if cfg!(metronome_tiny) { 4 } else { 64 };
/// Leaves marked in one slice of an array of values.
const LEAF_SLICE: usize = if cfg!(metronome_tiny) { 3 } else { 32 };
/// Elements after which bulk operations poll.
const BULK: usize = if cfg!(metronome_tiny) { 3 } else { 128 };

/// An array in the heap, used as `Gc<GcArray<E>>`: of slots (`E = Slot<T>`), or of plain values.
///
/// Its length is fixed. Short arrays are one cell; longer ones are a spine with leaves of 4 KiB anywhere in the
/// heap. Access to an element is a comparison, a division by a constant and two loads (three or four above 2 MiB);
/// loops go fastest over [`leaves`](Gc::leaves), which are plain slices.
///
/// Values are shared between mutators, so they are read through `&E`; use atomics for elements that change. They
/// must be `Send + Sync + 'static`, at most 4096 bytes, and have no drop glue (put such values into objects of
/// their own, and slots to these into the array).
pub struct GcArray<E> {
    _elements: PhantomData<*mut E>,
}

impl<E> std::fmt::Debug for GcArray<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GcArray<{}>", std::any::type_name::<E>())
    }
}

// SAFETY: arrays are never traced through this function: their header's kind says how (see `scan_spine`).
unsafe impl<E: 'static> Trace for GcArray<E> {
    const NEEDS_TRACE: bool = true;
    unsafe fn trace(&self, _: &mut Tracer<'_>) {}
}

/// Facts of an element type.
pub(crate) struct ElementOf<E>(PhantomData<E>);

impl<E: 'static> ElementOf<E> {
    pub(crate) const CHECK: () = {
        assert!(size_of::<E>() <= LEAF_BYTES, "an array element may have at most 4096 bytes");
        assert!(align_of::<E>() <= 128, "an array element's alignment may be at most 128 bytes");
        assert!(
            !std::mem::needs_drop::<E>(),
            "array elements must not have drop glue: put such values into heap objects and slots into the array"
        );
    };
    pub(crate) const VALUES: &'static TypeInfo =
        &TypeInfo { tag: TYPE_TAG, kind: Kind::Values, drop: None, name: std::any::type_name::<GcArray<E>> };
}

impl<T: Trace> ElementOf<Slot<T>> {
    pub(crate) const SLOTS: &'static TypeInfo = &TypeInfo {
        tag: TYPE_TAG,
        kind: if T::NEEDS_TRACE { Kind::Slots } else { Kind::LeafSlots },
        drop: None,
        name: std::any::type_name::<GcArray<Slot<T>>>,
    };
}

/// What the elements of a spine are to the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    Values,
    Slots,
    /// Slots whose objects have none.
    LeafSlots,
}

/// # Safety
/// `cell` is a spine.
#[inline(always)]
unsafe fn len_of(cell: *const u8) -> usize {
    // SAFETY: by this function's contract; the length is written once, before the array is published.
    unsafe { cell.add(LEN_OFFSET).cast::<usize>().read() }
}

/// # Safety
/// `cell` is a spine.
#[inline(always)]
pub(crate) unsafe fn shape_of(cell: *const u8) -> (usize, u8) {
    // SAFETY: as in `len_of`.
    unpack(unsafe { cell.add(SHAPE_OFFSET).cast::<u64>().read() })
}

/// Address of the table entry of leaf `k`; `visit` gets each index leaf on the way.
///
/// # Safety
/// `cell` is a spine of depth `depth` ≥ 1 with more than `k` leaves, whose index leaves are in place.
#[inline]
pub(crate) unsafe fn leaf_entry(
    cell: *mut u8,
    k: usize,
    depth: u8,
    mut visit: impl FnMut(*mut u8),
) -> *mut *mut u8 {
    let p = path(k, depth);
    // SAFETY: the table has an entry for each leaf or index leaf (shape arithmetic of `ArrayShape`).
    let mut entry = unsafe { cell.add(TABLE_OFFSET).cast::<*mut u8>().add(p[0]) };
    for &i in &p[1..usize::from(depth)] {
        // SAFETY: an index leaf is `INDEX_FAN_OUT` pointers, and `i` is below that.
        let index_leaf = unsafe { *entry };
        visit(index_leaf);
        debug_assert!(i < INDEX_FAN_OUT);
        // SAFETY: as above.
        entry = unsafe { index_leaf.cast::<*mut u8>().add(i) };
    }
    entry
}

/// Address of element `i`.
///
/// # Safety
/// `cell` is a complete spine of elements `E`, and `i` is below its length.
#[inline(always)]
unsafe fn element_ptr<E>(cell: *mut u8, i: usize) -> *mut E {
    let per_leaf = const { per_leaf(size_of::<E>()) };
    // SAFETY: by this function's contract.
    let (full, depth) = unsafe { shape_of(cell) };
    let k = i / per_leaf;
    if k >= full {
        let tail = tail_offset(top_entries(full, depth), align_of::<E>());
        // SAFETY: elements from `full * per_leaf` on lie in the spine's tail.
        unsafe { cell.add(tail).cast::<E>().add(i - full * if depth == 0 { 0 } else { per_leaf }) }
    } else if depth == 1 {
        // SAFETY: the spine's table points to leaf `k`, which holds `per_leaf` elements.
        unsafe { (*cell.add(TABLE_OFFSET).cast::<*mut u8>().add(k)).cast::<E>().add(i % per_leaf) }
    } else {
        // SAFETY: leaf `k` exists and holds `per_leaf` elements.
        unsafe { (*leaf_entry(cell, k, depth, |_| {})).cast::<E>().add(i % per_leaf) }
    }
}

/// Slices of an array: of [`SLOT_SLICE`] slots, or of [`LEAF_SLICE`] leaves of values. An array of at most 2^39 bytes has
/// at most 2^30 of them.
///
/// # Safety
/// `cell` is a complete spine.
pub(crate) unsafe fn units_of_spine(cell: *mut u8, elements: Elements) -> u32 {
    // SAFETY: by this function's contract.
    let units = unsafe {
        match elements {
            Elements::Values => shape_of(cell).0.div_ceil(LEAF_SLICE),
            Elements::Slots | Elements::LeafSlots => len_of(cell).div_ceil(SLOT_SLICE),
        }
    };
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Scans a slice of an array: [`SLOT_SLICE`] slots, or marks [`LEAF_SLICE`] leaves of values. Slots are read as a running mutator
/// reads them, since a helper may be late.
///
/// # Safety
/// `cell` is a complete spine with more than `slice` slices; the collector or a helper calls.
pub(crate) unsafe fn scan_spine(
    cell: *mut u8,
    slice: u32,
    elements: Elements,
    queue: &mut MarkQueue,
    space: &Space,
) {
    const { assert!(per_leaf(size_of::<usize>()).is_multiple_of(SLOT_SLICE), "a slice lies in one leaf") };
    // SAFETY: by this function's contract.
    let (full, depth) = unsafe { shape_of(cell) };
    if elements == Elements::Values {
        let begin = slice as usize * LEAF_SLICE;
        for k in begin..full.min(begin + LEAF_SLICE) {
            // SAFETY: `k` is below the number of leaves, and a complete spine has all of them.
            let leaf = unsafe { *leaf_entry(cell, k, depth, |index| queue.mark_leaf(space, index)) };
            queue.mark_leaf(space, leaf);
        }
        return;
    }
    let per_leaf = const { per_leaf(size_of::<usize>()) };
    // SAFETY: by this function's contract.
    let len = unsafe { len_of(cell) };
    let position = slice as usize * SLOT_SLICE;
    let k = position / per_leaf;
    let first = if k >= full {
        // SAFETY: as in `element_ptr`.
        unsafe { element_ptr::<AtomicPtr<u8>>(cell, position) }
    } else {
        // SAFETY: as above.
        let leaf = unsafe { *leaf_entry(cell, k, depth, |index| queue.mark_leaf(space, index)) };
        queue.mark_leaf(space, leaf);
        // SAFETY: the position lies in leaf `k`.
        unsafe { leaf.cast::<AtomicPtr<u8>>().add(position % per_leaf) }
    };
    for i in 0..SLOT_SLICE.min(len - position) {
        // SAFETY: `first..first + n` are slots of this array, which are atomic pointers.
        let slot = unsafe { &*first.add(i) };
        // Acquire: pairs with the Release of the store that published the object, when a helper is late.
        let object = slot.load(Acquire);
        if elements == Elements::LeafSlots {
            queue.visit_leaf(space, object);
        } else {
            queue.visit(space, object);
        }
    }
}

impl<'m, E: 'static> Gc<'m, GcArray<E>> {
    /// Number of elements.
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> usize {
        // SAFETY: a `Gc<GcArray>` is a complete spine.
        unsafe { len_of(self.cell_ptr()) }
    }

    /// Whether there is no element.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Element `i`, if there is one.
    #[inline]
    #[must_use]
    pub fn get(self, i: usize) -> Option<&'m E> {
        // SAFETY: the index is checked; elements are initialised before the array is handed out and live as long
        // as the array, which lives for 'm.
        (i < self.len()).then(|| unsafe { &*element_ptr::<E>(self.cell_ptr(), i) })
    }

    /// Element `i`.
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn at(self, i: usize) -> &'m E {
        let len = self.len();
        match self.get(i) {
            Some(e) => e,
            None => panic!("index {i} is out of bounds of an array of {len} elements"),
        }
    }

    /// The elements as contiguous slices, in order: one per leaf, then the tail if it has any. What a slice costs besides
    /// the loop over it: some five instructions, and the fetching of the next leaf ahead of time.
    #[inline]
    #[must_use]
    pub fn leaves(self) -> Leaves<'m, E> {
        // SAFETY: a `Gc<GcArray>` is a complete spine of `E`.
        unsafe { Leaves::new(self) }
    }

    /// The elements one after the other.
    pub fn iter(self) -> impl Iterator<Item = &'m E> + use<'m, E> {
        self.leaves().flatten()
    }
}

impl<'m, T: Trace> Gc<'m, GcArray<Slot<T>>> {
    /// Loads slot `i`.
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn load<'n>(self, m: &'n Mutator<'_>, i: usize) -> Option<Gc<'n, T>> {
        self.at(i).load(m)
    }

    /// Stores into slot `i`.
    ///
    /// # Panics
    /// If `i` is not below the length.
    #[inline]
    #[track_caller]
    pub fn store<'a>(self, m: &Mutator<'_>, i: usize, value: impl Into<Option<Gc<'a, T>>>)
    where
        T: 'a,
    {
        self.at(i).store(m, value);
    }

    /// Stores one reference into all slots of `range`. Polls after every 128 slots.
    ///
    /// # Panics
    /// If the range is not within the array.
    pub fn fill(self, m: &Mutator<'_>, range: std::ops::Range<usize>, value: Option<Gc<'_, T>>) {
        assert!(range.start <= range.end && range.end <= self.len(), "the range is not within the array");
        for (n, i) in range.enumerate() {
            if n % BULK == BULK - 1 {
                m.poll();
            }
            self.at(i).store(m, value);
        }
    }

    /// Copies `len` slots from `source` at `from` to this array at `to`; both may be one array. Polls after every
    /// 128 slots. Other mutators may see the copy half done.
    ///
    /// # Panics
    /// If either range is not within its array.
    pub fn copy_from(
        self,
        m: &Mutator<'_>,
        to: usize,
        source: Gc<'_, GcArray<Slot<T>>>,
        from: usize,
        len: usize,
    ) {
        let fits = |start: usize, max: usize| start.checked_add(len).is_some_and(|e| e <= max);
        assert!(fits(to, self.len()) && fits(from, source.len()), "the ranges are not within the arrays");
        let backwards = Gc::ptr_eq(self, source) && from < to;
        for n in 0..len {
            if n % BULK == BULK - 1 {
                m.poll();
            }
            let i = if backwards { len - 1 - n } else { n };
            self.at(to + i).store(m, source.at(from + i).load(m));
        }
    }
}

/// Writes the fixed words of a spine and clears its table.
///
/// # Safety
/// `cell` is a fresh cell of at least `shape.spine_bytes` bytes.
pub(crate) unsafe fn write_spine(cell: *mut u8, info: &'static TypeInfo, shape: &ArrayShape) {
    // SAFETY: by this function's contract: the words and the table lie within the cell.
    unsafe {
        crate::header::write(cell, info);
        cell.add(LEN_OFFSET).cast::<usize>().write(shape.len);
        cell.add(SHAPE_OFFSET).cast::<u64>().write(shape.word());
        cell.add(TABLE_OFFSET).write_bytes(0, shape.top * size_of::<usize>());
    }
}

/// Address of element `i` of an array under construction; the same as [`element_ptr`].
///
/// # Safety
/// The leaf of `i` is in place.
pub(crate) unsafe fn place_of<E>(cell: *mut u8, i: usize) -> *mut E {
    // SAFETY: by this function's contract.
    unsafe { element_ptr::<E>(cell, i) }
}
