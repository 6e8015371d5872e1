//! Modes for tests that make misuse of memory visible and rare paths common.
//!
//! # State
//! With `zap` each free cell of a region in use is filled with [`FREED`] from the moment it is freed, the whole region when
//! it becomes free, and a cell that is handed out with [`FRESH`] (INV-HEAP-ZAPPED). With `protect` a region that becomes
//! free can be neither read nor written until it is taken or its memory is returned.
//!
//! # Who may touch what
//! Cells are filled by who frees or takes them: the collector while *stopped*, the owner or the reaper while *running*.
//! A region is protected and unprotected by who owns it at that moment, before it is put into the pool and after it is
//! found there. Costs O(bytes), and system calls: both are outside the bounds that the access rules state otherwise.

use crate::class::{REGION_BYTES, REGION_SHIFT};
use crate::region::RegionId;
use crate::space::{RUN_BYTES_MAX, Space};
use crate::verify::Violation;
use std::ops::Range;

/// What freed memory is filled with.
pub const FREED: u8 = 0xDF;
/// What a cell is filled with before it is initialised.
pub const FRESH: u8 = 0xD0;

/// Regions from this one on are never protected: each may split the system's map of the process, which has by default
/// room for 65530 parts.
const PROTECTED_MAX: u32 = 1 << 14;

/// Pages are vacant each for itself: the system gives and takes them singly.
const PAGE: usize = 4096;

/// Modes of one heap's memory. The default is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceStress {
    /// Each run is one cell, so that every allocation is a refill.
    pub single_cells: bool,
    /// Fills freed and fresh memory, and is called with what was written into freed memory: by the thread that takes the
    /// memory, which may not go on with it, so it should not return.
    pub zap: Option<fn(Violation)>,
    /// Free regions that were in use cannot be accessed.
    pub protect: bool,
}

impl SpaceStress {
    /// Bytes of the longest run, if they hold more than one cell.
    pub(crate) fn run_bytes_max(&self) -> usize {
        if self.single_cells { 0 } else { RUN_BYTES_MAX }
    }
}

impl Space {
    /// Sets the modes. Before the heap is used.
    pub fn set_stress(&mut self, stress: SpaceStress) {
        self.stress = stress;
    }

    /// Cells of a region are free now: fills those whose bit is set, of the 64 from `first` on.
    pub(crate) fn zap_cells(&self, id: u32, first: usize, mut bits: u64, size: usize) {
        if self.stress.zap.is_none() {
            return;
        }
        while bits != 0 {
            let at = offset(id, first + bits.trailing_zeros() as usize, size);
            bits &= bits - 1;
            self.fill(at..at + size, FREED);
        }
    }

    /// A region is about to become free: nothing in it is in use.
    pub(crate) fn zap_region(&self, id: u32) {
        let region = region_range(id);
        if self.stress.zap.is_some() {
            self.fill(region.clone(), FREED);
        }
        if self.stress.protect && id < PROTECTED_MAX {
            // A region that the system does not protect stays accessible.
            let _ = self.heap.protect(&region, true);
        }
    }

    /// A region was taken from the pool: makes it accessible, and looks whether it was written to while it was free.
    pub(crate) fn zap_taken(&self, id: u32) {
        self.unprotect(id);
        let Some(found) = self.stress.zap else { return };
        let region = region_range(id);
        for page in region.clone().step_by(PAGE) {
            // Never used or returned to the system, or freed.
            if let Some(at) = self.written(page..page + PAGE, FREED)
                && self.written(page..page + PAGE, 0).is_some()
            {
                found(violation(at, "a free region"));
            }
        }
        self.fill(region, FREED);
    }

    /// Makes a region accessible whose memory is to be returned, or that was taken.
    pub(crate) fn unprotect(&self, id: u32) {
        if self.stress.protect && id < PROTECTED_MAX {
            let done = self.heap.protect(&region_range(id), false);
            // By `PROTECTED_MAX` there is room in the system's map of the process.
            assert!(done.is_ok(), "a free region cannot be made accessible again: {done:?}");
        }
    }

    /// A run was reserved: looks whether its cells were written to while they were free, and fills them as fresh.
    pub(crate) fn zap_run(&self, id: RegionId, first: usize, bytes: usize, size: usize) {
        let Some(found) = self.stress.zap else { return };
        let at = offset(id.0, first, size);
        if let Some(at) = self.written(at..at + bytes, FREED) {
            found(violation(at, "a freed cell"));
        }
        self.fill(at..at + bytes, FRESH);
    }

    /// Cells of a run that were not used are free again.
    pub(crate) fn zap_rest(&self, id: RegionId, first: usize, end: usize, size: usize) {
        if self.stress.zap.is_some() {
            self.fill(offset(id.0, first, size)..offset(id.0, end, size), FREED);
        }
    }

    /// Fills memory of the heap that is nobody else's at this moment, by the callers' access rules.
    #[allow(unsafe_code)]
    fn fill(&self, range: Range<usize>, with: u8) {
        debug_assert!(range.start <= range.end && range.end <= self.heap.bytes());
        let at = self.heap.base().as_ptr().wrapping_add(range.start);
        // SAFETY: the range lies in the heap's mapping, in cells or a region that the caller is freeing or has just
        // taken (see the module's documentation), so nobody else accesses it.
        unsafe { at.write_bytes(with, range.len()) };
    }

    /// Offset of the first byte in `range` that is not `expected`.
    #[allow(unsafe_code)]
    fn written(&self, range: Range<usize>, expected: u8) -> Option<usize> {
        debug_assert!(range.start <= range.end && range.end <= self.heap.bytes());
        let at = self.heap.base().as_ptr().wrapping_add(range.start);
        // SAFETY: as in `fill`; the memory is initialised, by the system's zeroes at least.
        let bytes = unsafe { std::slice::from_raw_parts(at, range.len()) };
        // By pages, which the system's comparison of memory does fast in every build.
        let whole = [expected; PAGE];
        let page = bytes.chunks(PAGE).position(|page| page != &whole[..page.len()])? * PAGE;
        bytes[page..].iter().position(|&b| b != expected).map(|i| range.start + page + i)
    }
}

fn offset(id: u32, cell: usize, size: usize) -> usize {
    ((id as usize) << REGION_SHIFT) + cell * size
}

fn region_range(id: u32) -> Range<usize> {
    offset(id, 0, 0)..offset(id, 0, 0) + REGION_BYTES
}

fn violation(at: usize, what: &str) -> Violation {
    Violation {
        invariant: "INV-HEAP-ZAPPED",
        detail: format!("byte {at:#x} of the heap was written to while it was part of {what}"),
    }
}
