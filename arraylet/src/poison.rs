//! Tells AddressSanitizer which cells are free, so that it reports a use of one like a use of freed memory.
//!
//! Only with `--cfg metronome_asan`, which `scripts/sanitize` sets; else these functions are empty. A cell is poisoned when
//! its allocation bit is cleared, and accessible again when a run that contains it is reserved. Cells are multiples of
//! eight bytes, the sanitizer's own unit, so that neighbours do not share one.

// SAFETY: the sanitizer's run-time library defines both, with these types.
#[cfg(metronome_asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(at: *const std::ffi::c_void, bytes: usize);
    fn __asan_unpoison_memory_region(at: *const std::ffi::c_void, bytes: usize);
}

/// Nobody may use these bytes of the heap from now on.
#[inline(always)]
pub(crate) fn freed(at: *const u8, bytes: usize) {
    #[cfg(metronome_asan)]
    // SAFETY: changes only what the sanitizer knows of the range, which is part of a mapping.
    unsafe {
        __asan_poison_memory_region(at.cast(), bytes)
    };
    let _ = (at, bytes);
}

/// These bytes may be used again.
#[inline(always)]
pub(crate) fn usable(at: *const u8, bytes: usize) {
    #[cfg(metronome_asan)]
    // SAFETY: as in `freed`.
    unsafe {
        __asan_unpoison_memory_region(at.cast(), bytes)
    };
    let _ = (at, bytes);
}

#[cfg(all(test, metronome_asan))]
mod tests {
    use crate::class::Class;
    use crate::cursor::{CursorIndex, Cursors};
    use crate::region::RegionId;
    use crate::space::{Colour, Space, SpaceOptions};

    /// A cell that a sweep freed, read afterwards: the sanitizer must end this.
    #[test]
    #[ignore = "a fault for AddressSanitizer"]
    fn a_freed_cell_is_read() {
        // SAFETY: the test keeps the access rules, up to its end.
        let (space, _) = unsafe { Space::new(SpaceOptions::fixed(1 << 20)) }.unwrap();
        let mut cursors = Cursors::default();
        let index = CursorIndex::new(Class(1), false);
        let cell = cursors.refill(&space, index, Colour::White).unwrap();
        // SAFETY: the cell was handed out to us, and has eight bytes at least.
        unsafe { cell.cast::<u64>().write(7) };
        cursors.flush(&space);
        // SAFETY: as above.
        assert_eq!(unsafe { cell.cast::<u64>().read_volatile() }, 7);
        space.begin_sweep();
        for i in 0..space.regions_touched() {
            let _ = space.sweep_region(RegionId(i));
        }
        // SAFETY: none, the sweep has freed the cell: that is the fault.
        println!("{}", unsafe { cell.cast::<u64>().read_volatile() });
    }
}
