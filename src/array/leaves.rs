//! Going over an array leaf by leaf.

use super::{GcArray, element_ptr, leaf_entry, len_of, shape_of};
use crate::gc::Gc;
use metronome_arraylet::array::{INDEX_FAN_OUT, per_leaf};
use metronome_arraylet::space::prefetch;
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// Bytes of the next leaf that are fetched when a leaf is handed out. Leaves lie anywhere, so the processor does not see
/// from one where the next begins; some lines into it, it does.
const AHEAD: usize = if cfg!(metronome_tiny) { 64 } else { 256 };

/// The slices of an array, from [`Gc::leaves`].
pub struct Leaves<'m, E> {
    /// Table entry of leaf `k`, where `k` is below `table_end`.
    entry: *const *mut u8,
    /// Next leaf.
    k: usize,
    /// End of the leaves whose entries follow `entry` contiguously.
    table_end: usize,
    /// Number of leaves.
    full: usize,
    depth: u8,
    cell: *mut u8,
    /// Elements of the tail that are yet to come.
    tail: usize,
    _array: PhantomData<&'m [E]>,
}

impl<'m, E: 'static> Leaves<'m, E> {
    const PER_LEAF: usize = per_leaf(size_of::<E>());

    /// # Safety
    /// `array` is a complete spine of elements `E`.
    #[inline]
    pub(super) unsafe fn new(array: Gc<'m, GcArray<E>>) -> Self {
        let cell = array.cell_ptr();
        // SAFETY: by this function's contract.
        let ((full, depth), len) = unsafe { (shape_of(cell), len_of(cell)) };
        // Without leaves (depth 0) all elements are the tail; then those of one leaf may be more than can be counted.
        let tail = if depth == 0 { len } else { len - full * Self::PER_LEAF };
        Leaves { entry: std::ptr::null(), k: 0, table_end: 0, full, depth, cell, tail, _array: PhantomData }
    }

    /// Finds the next table.
    #[cold]
    #[inline(never)]
    fn next_table(&mut self) {
        // SAFETY: a complete spine has an entry for each leaf, and there are leaves: `k < full`.
        self.entry = unsafe { leaf_entry(self.cell, self.k, self.depth, |_| {}) };
        self.table_end = if self.depth == 1 {
            self.full
        } else {
            // An index leaf has this many entries, the last one fewer.
            self.full.min((self.k / INDEX_FAN_OUT + 1) * INDEX_FAN_OUT)
        };
    }

    #[inline]
    fn next_tail(&mut self) -> Option<&'m [E]> {
        let n = std::mem::take(&mut self.tail);
        if n == 0 {
            return None;
        }
        let first = if self.depth == 0 { 0 } else { self.full * Self::PER_LEAF };
        // SAFETY: the elements from `first` on lie contiguously in the tail; they are initialised before the array is
        // handed out and live as long as the array, which lives for 'm.
        Some(unsafe { std::slice::from_raw_parts(element_ptr::<E>(self.cell, first), n) })
    }
}

impl<'m, E: 'static> Iterator for Leaves<'m, E> {
    type Item = &'m [E];

    #[inline]
    fn next(&mut self) -> Option<&'m [E]> {
        if self.k == self.table_end {
            if self.k == self.full {
                return self.next_tail();
            }
            self.next_table();
        }
        // SAFETY: `k < table_end`, so `entry` is the entry of leaf `k`, which a complete spine has; it is changed by
        // nobody after the array was handed out.
        let leaf = unsafe { *self.entry };
        self.k += 1;
        self.entry = self.entry.wrapping_add(1);
        if self.k < self.table_end {
            // SAFETY: as above, for the next leaf.
            let next = unsafe { *self.entry };
            for offset in (0..AHEAD).step_by(64) {
                prefetch(next.wrapping_add(offset));
            }
        }
        // SAFETY: a full leaf holds this many elements, one after the other; as in `next_tail`.
        Some(unsafe { std::slice::from_raw_parts(leaf.cast::<E>(), Self::PER_LEAF) })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.full - self.k + usize::from(self.tail > 0);
        (n, Some(n))
    }
}

impl<E: 'static> ExactSizeIterator for Leaves<'_, E> {}
impl<E: 'static> FusedIterator for Leaves<'_, E> {}

impl<E> std::fmt::Debug for Leaves<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leaves(leaf {} of {}, {} in the tail)", self.k, self.full, self.tail)
    }
}
