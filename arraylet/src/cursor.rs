//! Thread-local allocation: a bump cursor per size class over runs of free cells.
//!
//! # State
//! A cursor owns at most one region and within it one run, whose cells are all *reserved* (allocation bits set,
//! and mark bits in a black run) when the run is taken. So the fast path touches no bitmap. With a run that is shorter than
//! its bitmap word come the *gaps* behind it, the other free cells of the word, reserved in the same way: when the run
//! is used up, the next gap becomes the run. What is left of both is unreserved when the cursor is flushed
//! (INV-CURSOR-RUN).
//!
//! A *promise* is a number of regions set aside for one mutator: they count as in use, and the mutator alone turns
//! them into regions of its own, each when it needs one ([`crate::promise`] says how many suffice).
//!
//! # Who may touch what
//! The mutator that owns the `Cursors`, while running. It must flush them before it runs on after the collector
//! changed the colour of new objects (arming, start of sweep): a run keeps the colour it was taken with.

use crate::bits;
use crate::class::{CLASSES_ALL, Class, LEAF_CLASS, REGION_BYTES};
use crate::region::RegionId;
use crate::space::{Colour, Space};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Clone, Copy, Debug)]
struct Cursor {
    ptr: *mut u8,
    end: *mut u8,
    /// Gaps that are yet to become runs: bits of the bitmap word that holds cell `next_cell - 1`.
    gaps: u64,
    region: u32,
    next_cell: u32,
}

impl Cursor {
    /// First cell of the bitmap word of `gaps`, and where its region begins.
    fn gap_base(&self) -> (u32, *mut u8) {
        // The run's end is behind one of the region's cells, and so is the region's own end.
        let region = self.end.map_addr(|a| (a - 1) & !(REGION_BYTES - 1));
        ((self.next_cell - 1) & !63, region)
    }
}

const NO_REGION: u32 = u32::MAX;
const EMPTY: Cursor =
    Cursor { ptr: std::ptr::null_mut(), end: std::ptr::null_mut(), gaps: 0, region: NO_REGION, next_cell: 0 };

/// Allocation cursors of one mutator: one per size class, and one per class for objects with drop glue.
#[derive(Debug)]
pub struct Cursors {
    cursors: [Cursor; 2 * CLASSES_ALL],
    /// Bit i of word i/64: cursor i owns a region.
    active: [u64; 2],
    /// Regions that are set aside for these cursors.
    promised: u32,
}

/// Index of a cursor, a compile-time constant for a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorIndex(u8);

impl CursorIndex {
    /// The cursor for `class`, with or without drop glue (leaves have none).
    #[must_use]
    pub const fn new(class: Class, drop_glue: bool) -> CursorIndex {
        debug_assert!(!drop_glue || class.0 != LEAF_CLASS.0, "leaves have no drop glue");
        CursorIndex(class.0 + if drop_glue { CLASSES_ALL as u8 } else { 0 })
    }

    /// The list of regions that this cursor takes from.
    pub(crate) const fn list(self) -> usize {
        self.0 as usize
    }

    const fn class(self) -> Class {
        Class(self.0 % CLASSES_ALL as u8)
    }
}

impl Default for Cursors {
    fn default() -> Self {
        Cursors { cursors: [EMPTY; 2 * CLASSES_ALL], active: [0; 2], promised: 0 }
    }
}

impl Cursors {
    /// Takes a cell from the current run: a compare, an add, a store. `None` when the run is used up.
    ///
    /// `size` must be `index`'s class size (a constant at the caller, so that no table is read).
    #[inline(always)]
    pub fn bump(&mut self, index: CursorIndex, size: usize) -> Option<NonNull<u8>> {
        self.bump_ptr(index, size).and_then(NonNull::new)
    }

    /// The same without a look whether the cell is null, which a run's cells never are: one branch less for a caller that
    /// may say so.
    #[inline(always)]
    pub fn bump_ptr(&mut self, index: CursorIndex, size: usize) -> Option<*mut u8> {
        debug_assert_eq!(size, index.class().size_dynamic());
        let c = &mut self.cursors[index.0 as usize];
        let p = c.ptr;
        // No overflow: the pointer is at most the end of a run, or null. An empty cursor's end is null, so it has no room.
        let next = p.wrapping_add(size);
        if next.addr() > c.end.addr() {
            return None;
        }
        c.ptr = next;
        Some(p)
    }

    /// Makes the next gap the run and takes a cell of it; `None` when there is none. For when the run is
    /// used up; what is left of it stays reserved otherwise. *Running*. O(1), no atomic operation: such cells are reserved
    /// already.
    #[inline]
    pub fn next_gap(&mut self, index: CursorIndex, size: usize) -> Option<NonNull<u8>> {
        let c = &mut self.cursors[index.0 as usize];
        debug_assert_eq!(size, index.class().size_dynamic());
        if c.gaps == 0 {
            return None;
        }
        let (word, region) = c.gap_base();
        let (first, n, rest) = bits::first_run(c.gaps);
        c.gaps = rest;
        let cell = region.wrapping_add((word + first) as usize * size);
        c.ptr = cell.wrapping_add(size);
        c.end = cell.wrapping_add(n as usize * size);
        NonNull::new(cell)
    }

    /// Gets a new run, taking a new region if needed, and a cell of it. `None` when the heap has no region for
    /// it; never while a promise lasts. *Running*. At most two bitmap scans and one region change.
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    #[cold]
    #[inline(never)]
    pub fn refill(&mut self, space: &Space, index: CursorIndex, colour: Colour) -> Option<NonNull<u8>> {
        let i = index.0 as usize;
        let (class, drop_glue) = (index.class(), i >= CLASSES_ALL);
        if let Some(cell) = self.next_gap(index, class.size_dynamic()) {
            return Some(cell);
        }
        loop {
            let c = &mut self.cursors[i];
            if c.region != NO_REGION {
                if let Some(run) = space.reserve_run(RegionId(c.region), c.next_cell, colour) {
                    c.ptr = run.start.as_ptr();
                    c.end = c.ptr.wrapping_add(run.bytes);
                    c.next_cell = run.next_cell;
                    c.gaps = run.gaps;
                    return self.bump(index, class.size_dynamic());
                }
                let full = RegionId(c.region);
                *c = EMPTY;
                self.active[i / 64] &= !(1 << (i % 64));
                space.release(full);
            }
            // A listed or fresh region has a free cell, so the second round ends the loop.
            let id = space.take(class, drop_glue, &mut self.promised)?;
            self.cursors[i].region = id.0;
            self.active[i / 64] |= 1 << (i % 64);
        }
    }

    /// Sets `regions` more free regions aside for these cursors; false, and nothing changes, if the heap has fewer
    /// within its limit. While the promise lasts no allocation fails: free cells of the class come first (the
    /// cursor's own, then those of listed regions), then the promise, then the regions left for all.
    /// [`regions_for_cells`](crate::promise::regions_for_cells) and
    /// [`regions_for_bytes`](crate::promise::regions_for_bytes) say how many regions suffice for what. *Running*. O(1),
    /// lock-free.
    ///
    /// End it by [`Cursors::end_promise`]: cursors that are dropped without keep the regions for ever.
    #[must_use]
    pub fn promise(&mut self, space: &Space, regions: u32) -> bool {
        let made = space.pool.claim(regions);
        if made {
            self.promised += regions;
            // Relaxed: a counter for the verifier.
            space.pool.promised.fetch_add(regions, Relaxed);
        }
        made
    }

    /// Gives back what is left of the promise, if any. *Running*. O(1), wait-free.
    pub fn end_promise(&mut self, space: &Space) {
        let left = std::mem::take(&mut self.promised);
        if left > 0 {
            // Relaxed: as in `promise`.
            space.pool.promised.fetch_sub(left, Relaxed);
            space.pool.unclaim(left);
        }
    }

    /// Regions that are set aside and not taken yet.
    #[must_use]
    pub fn promised(&self) -> u32 {
        self.promised
    }

    /// Gives all regions back, with what is left of their runs. A promise stays. *Running*. Cost: O(classes in use), each at most
    /// 64 words.
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub fn flush(&mut self, space: &Space) {
        for w in 0..2 {
            let mut bits = std::mem::take(&mut self.active[w]);
            while bits != 0 {
                let i = w * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let c = std::mem::replace(&mut self.cursors[i], EMPTY);
                space.unreserve(RegionId(c.region), c.ptr, c.end);
                space.unreserve_gaps(RegionId(c.region), (c.next_cell.max(1) as usize - 1) / 64, c.gaps);
                space.release(RegionId(c.region));
            }
        }
    }

    /// Whether no region is owned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.active == [0; 2]
    }

    /// Calls `f(start, end)` for each unused rest of a run, and for each gap.
    pub fn for_each_rest(&self, mut f: impl FnMut(*const u8, *const u8)) {
        for (i, c) in self.cursors.iter().enumerate() {
            if c.ptr.addr() < c.end.addr() {
                f(c.ptr, c.end);
            }
            let size = CursorIndex(i as u8).class().size_dynamic();
            let mut gaps = c.gaps;
            while gaps != 0 {
                let (word, region) = c.gap_base();
                let (first, n, rest) = bits::first_run(gaps);
                gaps = rest;
                let start = region.wrapping_add((word + first) as usize * size);
                f(start, start.wrapping_add(n as usize * size));
            }
        }
    }
}
