//! Stretches of code that cannot fail to allocate.
//!
//! # State
//! A reservation sets whole regions aside for this thread: the most that any mix of sizes can need for so many bytes,
//! with two colour changes in between (see the arraylet crate's promises). It lasts as long as its [`Reserved`], which
//! borrows the mutator exclusively: so there is no safepoint, and at most two colour changes.

use crate::array::GcArray;
use crate::error::AllocError;
use crate::gc::{Gc, Slot};
use crate::mutator::{Mutator, Want};
use crate::trace::{CellOf, Init, Trace};
use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{ArrayShape, LEAF_BYTES, REGION_BYTES, promise};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Memory set aside, and the mutator that may use it. Dropping it gives back what is left.
///
/// ```
/// use metronome_gc::{Heap, Payload};
///
/// let heap = Heap::builder().heap_bytes(64 << 20).build()?;
/// heap.enter(|m| -> Result<(), metronome_gc::AllocError> {
///     // May wait here, and fail here:
///     let reserved = m.reserve_objects::<Payload<u64>>(1000)?;
///     // … but not here.
///     let sum: u64 = (0..1000).map(|i| reserved.alloc(Payload(i)).0).sum();
///     assert_eq!(sum, 499_500);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reserved<'a, 'h> {
    mutator: &'a mut Mutator<'h>,
    left: Cell<u64>,
    /// The only cells that were set aside, if not any.
    only: Option<CursorIndex>,
}

impl fmt::Debug for Reserved<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserved({} bytes left)", self.left.get())
    }
}

impl<'h> Mutator<'h> {
    /// Sets memory aside for objects and arrays of at most `bytes` in all, their headers and the rounding up to size
    /// classes included (an object of `n` bytes counts `n` + 8, rounded up by at most an eighth), in any mix of sizes.
    /// A safepoint; may wait for the collector, as a failed allocation does.
    ///
    /// Costs free memory: since any mix of sizes must fit, and what is left of a region may go to others at two colour
    /// changes, up to 381 regions of 64 KiB (24 MiB) more than the bytes fill, about one for each kilobyte of the first
    /// half megabyte; for objects of one known type [`reserve_objects`](Mutator::reserve_objects) sets aside what they
    /// need and two regions. What is not used is
    /// given back when the result is dropped. Meanwhile there is no safepoint on this thread, which holds up cycles.
    ///
    /// # Errors
    /// [`AllocError`] if the memory cannot be had.
    pub fn reserve(&mut self, bytes: u64) -> Result<Reserved<'_, 'h>, AllocError> {
        self.reserve_regions(bytes, promise::regions_for_bytes(bytes), None)
    }

    /// Sets memory aside for `count` objects of type `T`, and for nothing else. As [`reserve`](Mutator::reserve) otherwise.
    ///
    /// # Errors
    /// As [`reserve`](Mutator::reserve).
    pub fn reserve_objects<T: Trace>(&mut self, count: u64) -> Result<Reserved<'_, 'h>, AllocError> {
        let bytes = count.saturating_mul(CellOf::<T>::SIZE as u64);
        let regions = promise::regions_for_cells(CellOf::<T>::CLASS, count);
        self.reserve_regions(bytes, regions, Some(CellOf::<T>::CURSOR))
    }

    fn reserve_regions(
        &mut self,
        bytes: u64,
        regions: u32,
        only: Option<CursorIndex>,
    ) -> Result<Reserved<'_, 'h>, AllocError> {
        self.safepoint();
        if regions > self.shared().space.max_regions() {
            return Err(AllocError::too_large(
                self.shared(),
                bytes.max(u64::from(regions) * REGION_BYTES as u64),
            ));
        }
        let promised = |m: &Self| m.with_local(|l| l.cursors.promise(&m.shared().space, regions));
        if !promised(self) {
            while self.shared().space.free_regions() < regions && self.shared().grow_on_demand() {}
            let waited = self.wait_for_memory(Want { bytes, regions, cells: None });
            // There may be enough, and another thread faster.
            if let Err(e) = waited.and_then(|()| match promised(self) {
                true => Ok(()),
                false => Err(self.out_of_memory(bytes)),
            }) {
                // Relaxed: a counter.
                self.shared().failed_allocations.fetch_add(1, Relaxed);
                return Err(e);
            }
        }
        Ok(Reserved { mutator: self, left: Cell::new(bytes), only })
    }
}

impl<'h> Reserved<'_, 'h> {
    /// Bytes that may still be allocated.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.left.get()
    }

    /// The mutator, for loads, stores, polls. What is allocated through it counts as well.
    #[must_use]
    pub fn mutator(&self) -> &Mutator<'h> {
        self.mutator
    }

    fn take(&self, cursor: Option<CursorIndex>, bytes: u64) {
        assert!(
            self.only.is_none() || self.only == cursor,
            "this was reserved for objects of one type and size: reserve bytes for a mix, or arrays"
        );
        let left = self.left.get();
        assert!(
            left >= bytes,
            "{bytes} bytes are to be allocated and {left} are left of the reservation: reserve more"
        );
        self.left.set(left - bytes);
    }

    /// Allocates an object. A pause point.
    ///
    /// # Panics
    /// If the object does not fit into what is left of the reservation, or the reservation is for objects of another type.
    pub fn alloc<'m, I: Init<'m>>(&'m self, init: I) -> Gc<'m, I::Target> {
        self.take(Some(CellOf::<I::Target>::CURSOR), CellOf::<I::Target>::SIZE as u64);
        self.fits(self.mutator.alloc(init))
    }

    /// Allocates an array of values, as [`Mutator::alloc_array`].
    ///
    /// # Panics
    /// If the array does not fit into what is left of the reservation, or the reservation is for objects of one type.
    pub fn alloc_array<'m, E, F>(&'m self, len: usize, f: F) -> Gc<'m, GcArray<E>>
    where
        E: Send + Sync + 'static,
        F: FnMut(usize) -> E,
    {
        self.take(None, array_bytes::<E>(len));
        self.fits(self.mutator.alloc_array(len, f))
    }

    /// Allocates an array of null slots, as [`Mutator::alloc_slots`].
    ///
    /// # Panics
    /// If the array does not fit into what is left of the reservation, or the reservation is for objects of one type.
    pub fn alloc_slots<'m, T: Trace>(&'m self, len: usize) -> Gc<'m, GcArray<Slot<T>>> {
        self.take(None, array_bytes::<Slot<T>>(len));
        self.fits(self.mutator.alloc_slots(len))
    }

    fn fits<T>(&self, allocated: Result<T, AllocError>) -> T {
        match allocated {
            Ok(t) => t,
            Err(e) => panic!("the reservation was used up through the plain mutator: {e}"),
        }
    }
}

/// Bytes of all cells of an array.
fn array_bytes<E>(len: usize) -> u64 {
    let shape = ArrayShape::new(size_of::<E>(), align_of::<E>(), len);
    shape.map_or(u64::MAX, |s| {
        let leaves = (s.full_leaves + s.index_leaves()) as u64 * LEAF_BYTES as u64;
        // Rounded up to its class.
        leaves + s.spine_bytes as u64 + s.spine_bytes as u64 / 8 + 128
    })
}

impl Drop for Reserved<'_, '_> {
    fn drop(&mut self) {
        let m = &self.mutator;
        m.with_local(|l| l.cursors.end_promise(&m.shared().space));
    }
}
