//! Allocating arrays: a spine and its leaves, filled with pauses.

use super::{Mutator, Want};
use crate::array::{ElementOf, GcArray, leaf_entry, place_of, shape_of, write_spine};
use crate::error::AllocError;
use crate::gc::{Gc, Slot};
use crate::trace::{Trace, TypeInfo};
use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{ArrayShape, Class, LEAF_BYTES, LEAF_CLASS};
use std::ptr::NonNull;

impl Mutator<'_> {
    /// Allocates an array of values, element `i` from `f(i)`. Polls at every leaf (4 KiB).
    ///
    /// `f` may allocate and poll. If it panics, what was built is garbage and the panic goes on.
    ///
    /// # Errors
    /// [`AllocError`] when the heap is full, or the array is larger than the heap.
    pub fn alloc_array<'m, E, F>(&'m self, len: usize, mut f: F) -> Result<Gc<'m, GcArray<E>>, AllocError>
    where
        E: Send + Sync + 'static,
        F: FnMut(usize) -> E,
    {
        self.build_array::<E>(ElementOf::<E>::VALUES, len, |_, place, i| {
            // SAFETY: `build_array` gives the place of element `i`, in memory of this array alone.
            unsafe { place.write(f(i)) }
        })
    }

    /// Allocates an array of null slots. Polls at every leaf (512 slots).
    ///
    /// # Errors
    /// [`AllocError`] when the heap is full, or the array is larger than the heap.
    pub fn alloc_slots<'m, T: Trace>(&'m self, len: usize) -> Result<Gc<'m, GcArray<Slot<T>>>, AllocError> {
        self.build_array::<Slot<T>>(ElementOf::<Slot<T>>::SLOTS, len, |_, place, _| {
            // SAFETY: as in `alloc_array`; a null slot in a heap array.
            unsafe { place.write(Slot::__new(None)) }
        })
    }

    fn build_array<'m, E: 'static>(
        &'m self,
        info: &'static TypeInfo,
        len: usize,
        mut fill: impl FnMut(&Self, *mut E, usize),
    ) -> Result<Gc<'m, GcArray<E>>, AllocError> {
        const { ElementOf::<E>::CHECK };
        let s = self.shared();
        let too_large = || AllocError::too_large(s, (len as u64).saturating_mul(size_of::<E>() as u64));
        let shape = ArrayShape::new(size_of::<E>(), align_of::<E>(), len).ok_or_else(too_large)?;
        let leaves = shape.full_leaves + shape.index_leaves();
        if (leaves * LEAF_BYTES) as u64 > s.space.max_bytes() {
            return Err(too_large());
        }
        let class = if align_of::<E>() <= 8 {
            Class::of_dynamic(shape.spine_bytes)
        } else {
            Class::of(shape.spine_bytes, align_of::<E>())
        };
        let class = class.ok_or_else(too_large)?;
        let cell = self.cell(CursorIndex::new(class, false), class.size_dynamic())?.as_ptr();
        // SAFETY: a fresh cell of the spine's class.
        unsafe { write_spine(cell, info, &shape) };
        // The array is reached by nobody else before it is returned, and this mutator cannot pass a safepoint
        // meanwhile; so it may poll between leaves with some of them missing.
        for k in 0..shape.full_leaves {
            self.poll();
            // SAFETY: `cell` is a spine under construction whose leaves before `k` are in place.
            if let Err(e) = unsafe { self.put_leaf(cell, k) } {
                // One more leaf would not do: the next try begins with the first.
                let bytes = (leaves * LEAF_BYTES) as u64;
                self.with_local(|l| l.failed = Some(Want { bytes, regions: 1, cells: None }));
                return Err(e);
            }
            for i in k * shape.per_leaf..(k + 1) * shape.per_leaf {
                // SAFETY: leaf `k` is in place.
                fill(self, unsafe { place_of::<E>(cell, i) }, i);
            }
        }
        let first = if shape.depth == 0 { 0 } else { shape.full_leaves * shape.per_leaf };
        for i in first..len {
            if i % LEAF_BYTES == LEAF_BYTES - 1 {
                self.poll();
            }
            // SAFETY: the tail is part of the spine. (Zero-sized elements all lie here.)
            fill(self, unsafe { place_of::<E>(cell, i) }, i);
        }
        // SAFETY: the spine is complete. It is not null.
        Ok(unsafe { Gc::from_cell(NonNull::new_unchecked(cell)) })
    }

    /// Allocates leaf `k`, and the index leaves on the way to it that are missing.
    ///
    /// # Safety
    /// `cell` is a spine under construction of this thread; leaves are put in order.
    unsafe fn put_leaf(&self, cell: *mut u8, k: usize) -> Result<(), AllocError> {
        // SAFETY: by this function's contract.
        let (_, depth) = unsafe { shape_of(cell) };
        // Index leaves first, from the top: level d has its entry in level d - 1.
        for level in 1..depth {
            // SAFETY: the levels above are in place (they were put by earlier rounds).
            let entry = unsafe { leaf_entry(cell, k_of_level(k, depth, level), level, |_| {}) };
            // SAFETY: the entry lies in the spine's table or in an index leaf, both zeroed when made.
            if unsafe { (*entry).is_null() } {
                let leaf = self.cell(CursorIndex::new(LEAF_CLASS, false), LEAF_BYTES)?.as_ptr();
                // SAFETY: a fresh leaf; and as above.
                unsafe {
                    leaf.write_bytes(0, LEAF_BYTES);
                    *entry = leaf;
                }
            }
        }
        let leaf = self.cell(CursorIndex::new(LEAF_CLASS, false), LEAF_BYTES)?.as_ptr();
        // SAFETY: all index leaves on the way are in place now.
        unsafe { *leaf_entry(cell, k, depth, |_| {}) = leaf };
        Ok(())
    }

    fn cell(&self, cursor: CursorIndex, size: usize) -> Result<NonNull<u8>, AllocError> {
        match self.with_local(|l| l.cursors.bump(cursor, size)) {
            Some(c) => Ok(c),
            None => self.refill(cursor, size),
        }
    }
}

/// The index, among the index leaves of `level` (1 = those that the spine's table points to), of the one that leads
/// to leaf `k` in an array of depth `depth`.
fn k_of_level(k: usize, depth: u8, level: u8) -> usize {
    let fan = metronome_arraylet::array::INDEX_FAN_OUT;
    k / fan.pow(u32::from(depth - level))
}
