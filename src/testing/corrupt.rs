//! Damage that the verifier must find.

use super::TestHeap;
use crate::array::{GcArray, shape_of};
use crate::gc::Gc;
use metronome_arraylet::array::TABLE_OFFSET;

impl TestHeap {
    /// Marks an object, as if a cycle had left the mark.
    pub fn corrupt_mark<T>(&self, object: Gc<'_, T>) {
        self.shared.space.mark(object.cell_ptr());
    }

    /// Notes an object as grey.
    pub fn corrupt_grey<T>(&self, object: Gc<'_, T>) {
        self.shared.space.push_grey(object.cell_ptr());
    }

    /// Lets the first free entry of the table of globals follow itself. There must be one.
    pub fn corrupt_free_handles(&self) {
        self.shared.globals.corrupt_free_list();
    }

    /// Counts one global less than there are.
    pub fn corrupt_handle_count(&self) {
        self.shared.globals.corrupt_live();
    }

    /// Replaces an object's header by `word`. The object must not be used any more, and the heap is not dropped well: its
    /// old header is given back to [`restore_header`](TestHeap::restore_header).
    pub fn corrupt_header<T>(&self, object: Gc<'_, T>, word: usize) -> usize {
        let p = object.cell_ptr().cast::<usize>();
        // SAFETY: the cell's first word; the test uses neither the object nor the collector until it is restored.
        unsafe { p.replace(word) }
    }

    /// Undoes [`corrupt_header`](TestHeap::corrupt_header).
    pub fn restore_header<T>(&self, object: Gc<'_, T>, word: usize) {
        self.corrupt_header(object, word);
    }

    /// Lets the first leaf of one array be the first leaf of another one too.
    ///
    /// # Panics
    /// If one of them is too short to have leaves.
    pub fn corrupt_leaf<E: 'static>(&self, from: Gc<'_, GcArray<E>>, to: Gc<'_, GcArray<E>>) {
        for a in [from, to] {
            // SAFETY: a complete spine.
            assert!(unsafe { shape_of(a.cell_ptr()) }.0 > 0, "the array has no leaves");
        }
        // SAFETY: both have leaves, so their tables have a first entry; the elements are values without drop glue, which
        // both arrays may show.
        unsafe {
            let entry = |a: Gc<'_, GcArray<E>>| a.cell_ptr().add(TABLE_OFFSET).cast::<*mut u8>();
            *entry(to) = *entry(from);
        }
    }

    /// Takes the note of its registration off an object.
    pub fn corrupt_registration<T>(&self, object: Gc<'_, T>) {
        // SAFETY: the object is reachable, as the caller's reference shows.
        unsafe { crate::header::note(object.cell_ptr(), |_| Some(0)) };
    }
}

/// Puts the counter of used bytes of a heap with threads of its own wrong.
pub fn corrupt_used(heap: &crate::Heap) {
    heap.shared().space.corrupt_counters(8, 0);
}

/// The same while `f` runs.
pub fn corrupt_used_while<R>(heap: &crate::Heap, f: impl FnOnce() -> R) -> R {
    corrupt_used(heap);
    let out = f();
    heap.shared().space.corrupt_counters(8_u64.wrapping_neg(), 0);
    out
}
