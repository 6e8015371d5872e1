//! The heap of regions: taking regions, runs of cells in them, and giving both back. How large the heap is:
//! [`size`](crate::size). Marking and sweeping: [`marking`](crate::marking), [`sweep`](crate::sweep).
//!
//! # State
//! `used` is the exact number of bytes in cells whose allocation bit is set (INV-HEAP-USED). The pool counts the
//! regions in use: those that are not Free, and those promised to mutators (INV-HEAP-REGIONS). `sweep` counts sweeps:
//! a region whose `swept` equals it may be allocated from (INV-HEAP-SWEPT).
//!
//! # Who may touch what
//! Functions say *running* or *stopped* (see the crate's documentation). The counters may be read by anyone.
//!
//! # Safety
//! The metadata table and the regions are mappings that live as long as the `Space`; region ids are checked
//! against the table's length wherever they come from outside.

use crate::bits;
use crate::class::{CLASSES_ALL, Class, REGION_BYTES, REGION_SHIFT};
use crate::cursor::CursorIndex;
pub use crate::marking::prefetch;
use crate::os::{Mapping, OsOptions, ReserveError};
use crate::pool::Pool;
use crate::region::{Bitmap, RegionId, RegionMeta, RegionState};
use crate::side::SideTable;
use crate::stack::IndexStack;
use crate::stress::SpaceStress;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// How large a heap is, and how its memory is had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceOptions {
    /// Largest size in bytes, rounded down to regions; at least one region. Address space is reserved for it.
    pub max_bytes: u64,
    /// Size to begin with in bytes, rounded down to regions; at least one region, at most `max_bytes`.
    pub initial_bytes: u64,
    /// Prefaulting, locking, huge pages.
    pub os: OsOptions,
}

impl SpaceOptions {
    /// A heap of a fixed size, with the system's ordinary pages, backed when they are touched.
    #[must_use]
    pub fn fixed(bytes: u64) -> SpaceOptions {
        SpaceOptions { max_bytes: bytes, initial_bytes: bytes, os: OsOptions::default() }
    }
}

/// How new cells are coloured, decided by the caller from the collector's phase at the time of the refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Not marked: no cycle is active, or the region has been swept.
    White,
    /// Marked: a cycle is between arming and sweeping.
    Black,
}

/// A run of contiguous free cells handed to a cursor, and the gaps behind it.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// First byte.
    pub start: NonNull<u8>,
    /// Bytes.
    pub bytes: usize,
    /// Cell index after the run and the gaps.
    pub next_cell: u32,
    /// The other free cells of the bitmap word in which the run ends, reserved with it: bit i of the word that holds cell
    /// `next_cell - 1`.
    pub gaps: u64,
}

/// Counters that anyone may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Bytes in allocated cells.
    pub used_bytes: u64,
    /// Regions not free, or promised.
    pub regions_in_use: u32,
    /// Regions that may be in use at present.
    pub limit_regions: u32,
    /// Regions that may ever be in use.
    pub max_regions: u32,
    /// Regions that memory backs.
    pub resident_regions: u32,
}

/// Longest run handed out at once: bounds a refill's work (bitmap words and, in black runs, header words). 8 KiB;
/// in a tiny build 64 bytes, so that runs are a few small cells or one.
pub const RUN_BYTES_MAX: usize = if cfg!(metronome_tiny) { 64 } else { 8192 };

/// A heap of 64 KiB regions with a limit that can be changed, up to a maximum that cannot.
#[derive(Debug)]
pub struct Space {
    pub(crate) heap: Mapping,
    pub(crate) table: SideTable,
    pub(crate) os: OsOptions,
    pub(crate) stress: SpaceStress,
    pub(crate) pool: Pool,
    /// Held by those who change which free regions are resident, and by the verifier.
    pub(crate) admin: Mutex<()>,
    pub(crate) used: AtomicU64,
    allocated: AtomicU64,
    pub(crate) sweep: AtomicU32,
    /// Regions with free cells by class; second half: regions with drop glue.
    pub(crate) lists: [IndexStack; 2 * CLASSES_ALL],
    pub(crate) reap: IndexStack,
    pub(crate) grey: IndexStack,
}

impl Space {
    /// Reserves address space for the largest heap and its metadata, and memory for the initial one where it is
    /// to be backed in advance. Also returns what the system refused of `options.os`. Cost: O(initial bytes) with
    /// prefaulting or locking, else O(1).
    ///
    /// # Errors
    /// [`ReserveError`] when the address space cannot be had, the memory that is to be backed is not there, or the
    /// sizes make no sense.
    ///
    /// # Safety
    /// Who makes a space answers for its use: each function is called as its access rule says (*running* by the owner,
    /// *stopped*, *aside*), with addresses, region ids, places of marks and cursors of this space, and on cells in the state that it
    /// names. None of that is checked again on the way, and no other function here is unsafe.
    #[allow(unsafe_code)]
    pub unsafe fn new(options: SpaceOptions) -> Result<(Space, Vec<String>), ReserveError> {
        let SpaceOptions { max_bytes, initial_bytes, os } = options;
        let size_error =
            |bytes: u64| ReserveError::Size { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) };
        let regions = |bytes: u64| {
            let n = u32::try_from(bytes >> REGION_SHIFT).ok().filter(|&n| n > 0 && n < u32::MAX - 1);
            n.ok_or_else(|| size_error(bytes))
        };
        let (max, initial) = (regions(max_bytes)?, regions(initial_bytes)?);
        if initial_bytes > max_bytes {
            return Err(ReserveError::Initial { initial: initial_bytes, max: max_bytes });
        }
        // And the spare region (see `crate::pool`).
        let entries = max + 1;
        let heap_bytes = (entries as usize).checked_mul(REGION_BYTES).ok_or_else(|| size_error(max_bytes))?;
        let align = (heap_bytes - REGION_BYTES).checked_next_power_of_two();
        let heap = Mapping::new(heap_bytes, align.ok_or_else(|| size_error(max_bytes))?)?;
        let table = SideTable::new(entries, REGION_BYTES)?;
        let mut refused = heap.advise_huge(os.huge_pages);
        let space = Space {
            heap,
            table,
            os,
            stress: SpaceStress::default(),
            pool: Pool::new(max, os.backs()),
            admin: Mutex::new(()),
            used: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            sweep: AtomicU32::new(1),
            lists: [const { IndexStack::new() }; 2 * CLASSES_ALL],
            reap: IndexStack::new(),
            grey: IndexStack::new(),
        };
        refused.extend(space.grow(initial)?.1);
        Ok((space, refused))
    }

    /// The metadata of all regions.
    #[must_use]
    pub fn metas(&self) -> &[RegionMeta] {
        self.table.metas()
    }

    #[inline(always)]
    pub(crate) fn meta(&self, id: u32) -> &RegionMeta {
        self.table.meta(id)
    }

    pub(crate) fn link<'a>(&'a self) -> impl Fn(u32) -> &'a AtomicU32 + Copy {
        |i| &self.meta(i).link
    }

    /// Counters; each is exact, together they may be of slightly different moments.
    #[must_use]
    pub fn stats(&self) -> SpaceStats {
        let count = self.pool.count();
        SpaceStats {
            used_bytes: self.used_bytes(),
            regions_in_use: count.in_use,
            limit_regions: count.limit,
            max_regions: self.pool.max,
            resident_regions: self.pool.resident(),
        }
    }

    /// Bytes in allocated cells. O(1), any thread.
    #[inline]
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        // Relaxed: a counter.
        self.used.load(Relaxed)
    }

    /// Bytes handed out since the heap was made. O(1), any thread. Exact up to cells that a stopped mutator still
    /// reserves.
    #[inline]
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        // Relaxed: a counter.
        self.allocated.load(Relaxed)
    }

    /// Whether `p` points into the heap.
    #[must_use]
    pub fn contains(&self, p: *const u8) -> bool {
        p.addr().wrapping_sub(self.heap.base().as_ptr().addr()) < self.heap.bytes()
    }

    // ---- allocation (running) -------------------------------------------------------------------------------

    /// Takes a region with free cells for `class`: from the class's list, else from the pool, where the caller's
    /// promise comes before what is left for all. *Running*. O(1) plus clearing ≤ 2 KiB of bitmaps, and the looks of
    /// [`Pool::find`]. `None` when there is none; never while the promise lasts.
    pub(crate) fn take(&self, class: Class, drop_glue: bool, promised: &mut u32) -> Option<RegionId> {
        let list = &self.lists[class.0 as usize + if drop_glue { CLASSES_ALL } else { 0 }];
        if let Some(id) = list.pop(self.link()) {
            let meta = self.meta(id);
            debug_assert_eq!(meta.state(), RegionState::Listed);
            meta.set_state(RegionState::Owned);
            return Some(RegionId(id));
        }
        if *promised > 0 {
            *promised -= 1;
            // Relaxed: a counter for the verifier; the claim itself was made with the promise.
            self.pool.promised.fetch_sub(1, Relaxed);
        } else if !self.pool.claim(1) {
            return None;
        }
        let id = self.pool.find(self.metas());
        self.zap_taken(id);
        // Relaxed: changed only while stopped.
        self.meta(id).init(self.table.marks(id), class, drop_glue, self.sweep.load(Relaxed));
        self.table.reciprocal(id).store(class.reciprocal(), Relaxed);
        Some(RegionId(id))
    }

    /// Whether a refill of this cursor would find cells: in a listed region of its class, or in a free one. O(1), any
    /// thread; a hint, since others take cells too.
    #[must_use]
    pub fn has_cells(&self, index: CursorIndex) -> bool {
        !self.lists[index.list()].is_empty() || self.free_regions() > 0
    }

    /// Gives a region up (*running*, by its owner or the reaper): to the pool when empty, to its class's list
    /// when it has free cells and has been swept, else to nobody (the sweep lists it). Reads ≤ 64 words.
    pub(crate) fn release(&self, id: RegionId) {
        let meta = self.meta(id.0);
        // Relaxed: `swept` of an owned region changes only while stopped.
        // One that was passed over is not listed, so that nobody owns it when the next sweep comes.
        let passed_over = meta.passed_over.load(Relaxed);
        if meta.swept.load(Relaxed) != self.sweep.load(Relaxed) || passed_over {
            meta.set_state(RegionState::Full);
            return;
        }
        self.list(id.0, meta, meta.allocated_cells());
    }

    /// Puts a region where its number of allocated cells says.
    pub(crate) fn list(&self, id: u32, meta: &RegionMeta, allocated: u32) -> bool {
        // Relaxed: fixed while the region is in use.
        let cells = meta.cells.load(Relaxed);
        if allocated == 0 {
            self.zap_region(id);
            meta.set_state(RegionState::Free);
            self.pool.put(self.metas(), id);
            return true;
        }
        if allocated < cells {
            meta.set_state(RegionState::Listed);
            // Relaxed: fixed while the region is in use.
            let drop_glue = meta.drop_glue.load(Relaxed);
            let list = usize::from(meta.class().0) + if drop_glue { CLASSES_ALL } else { 0 };
            self.lists[list].push(id, self.link());
        } else {
            meta.set_state(RegionState::Full);
        }
        false
    }

    /// Reserves the next run of free cells of an owned region, at or after `from_cell` (*running*, owner). Where a run ends
    /// within its bitmap word, and 64 cells are no more than the longest run, all free cells of the word behind it are
    /// reserved too: so where free cells lie singly among others, one call and its atomic operations do for many. Reads
    /// ≤ 64 words, writes ≤ [`RUN_BYTES_MAX`] / 16 / 64 + 1 words of each bitmap.
    pub(crate) fn reserve_run(&self, id: RegionId, from_cell: u32, colour: Colour) -> Option<Run> {
        let meta = self.meta(id.0);
        // Relaxed: fixed while the region is in use.
        let (cells, size) = (meta.cells.load(Relaxed) as usize, meta.cell_size.load(Relaxed) as usize);
        let start = bits::next_clear(&meta.alloc, from_cell as usize, cells)?;
        let longest = self.stress.run_bytes_max();
        let limit = cells.min(start + (longest / size).max(1));
        let end = bits::next_set(&meta.alloc, start, limit).unwrap_or(limit);
        let marks = self.table.marks(id.0);
        let reserve = |w: usize, m: u64| {
            // Relaxed: the owner is the only one to set bits; the reaper may clear others in the same word.
            meta.alloc[w].fetch_or(m, Relaxed);
            if colour == Colour::Black {
                marks[w].fetch_or(m, Relaxed);
            }
        };
        let (mut gaps, mut next_cell) = (0, end);
        let word_end = cells.min((start / 64 + 1) * 64);
        if end < word_end && 64 * size <= longest {
            next_cell = word_end;
            bits::for_each_mask(end, word_end, |w, m| {
                // Relaxed: as in `reserve`.
                gaps = m & !meta.alloc[w].load(Relaxed);
                bits::for_each_mask(start, end, |_, run| reserve(w, run | gaps));
            });
        } else {
            bits::for_each_mask(start, end, reserve);
        }
        let bytes = (end - start + gaps.count_ones() as usize) * size;
        // Relaxed: a counter.
        self.used.fetch_add(bytes as u64, Relaxed);
        self.allocated.fetch_add(bytes as u64, Relaxed);
        self.prepare_run(id, meta, start, end - start);
        let mut left = gaps;
        // Only where there is something to prepare, since these are up to 32 runs.
        // Relaxed: fixed while the region is in use.
        let prepares = self.stress.zap.is_some() || cfg!(metronome_asan) || meta.drop_glue.load(Relaxed);
        while prepares && left != 0 {
            let (first, n, rest) = bits::first_run(left);
            left = rest;
            self.prepare_run(id, meta, start / 64 * 64 + first as usize, n as usize);
        }
        let start = self.cell_ptr(id, start as u32);
        Some(Run {
            start,
            bytes: bytes - gaps.count_ones() as usize * size,
            next_cell: next_cell as u32,
            gaps,
        })
    }

    /// Makes the cells of a run that was just reserved usable: `n` cells from `first` on.
    #[allow(unsafe_code)]
    fn prepare_run(&self, id: RegionId, meta: &RegionMeta, first: usize, n: usize) {
        // Relaxed: fixed while the region is in use.
        let size = meta.cell_size.load(Relaxed) as usize;
        self.zap_run(id, first, n * size, size);
        let first = self.cell_ptr(id, first as u32);
        crate::poison::usable(first.as_ptr(), n * size);
        // Relaxed: fixed while the region is in use.
        if meta.drop_glue.load(Relaxed) {
            for i in 0..n {
                // SAFETY: the cells first..first + n lie in this region and were free: nobody else uses them. A zero
                // header says "no object" to the reaper (INV-HEAP-VACANT).
                unsafe { first.as_ptr().add(i * size).cast::<usize>().write(0) };
            }
        }
    }

    /// Frees the unused cells of a run, `from` to `to` (*running*, owner). Idempotent: only cells still reserved
    /// count.
    pub(crate) fn unreserve(&self, id: RegionId, from: *const u8, to: *const u8) {
        if from.addr() >= to.addr() {
            return;
        }
        let meta = self.meta(id.0);
        let start = self.cell_index(meta, from);
        // Relaxed: fixed while the region is in use.
        let size = meta.cell_size.load(Relaxed) as usize;
        let end = start + (to.addr() - from.addr()) / size;
        self.vacate_run(id, start, end, size);
        let mut freed = 0;
        bits::for_each_mask(start, end, |w, m| {
            freed += unreserve_in_word(&meta.alloc, self.table.marks(id.0), w, m)
        });
        self.uncount(freed, size);
    }

    /// The same for gaps that were reserved behind a run: cells of bitmap word `w`. One word of each bitmap.
    pub(crate) fn unreserve_gaps(&self, id: RegionId, w: usize, gaps: u64) {
        if gaps == 0 {
            return;
        }
        let meta = self.meta(id.0);
        // Relaxed: fixed while the region is in use.
        let size = meta.cell_size.load(Relaxed) as usize;
        let mut left = gaps;
        while (self.stress.zap.is_some() || cfg!(metronome_asan)) && left != 0 {
            let (first, n, rest) = bits::first_run(left);
            left = rest;
            let start = w * 64 + first as usize;
            self.vacate_run(id, start, start + n as usize, size);
        }
        self.uncount(unreserve_in_word(&meta.alloc, self.table.marks(id.0), w, gaps), size);
    }

    /// The cells from `start` to `end` are about to be free. The region is the caller's until it is released, so they are
    /// nobody else's.
    fn vacate_run(&self, id: RegionId, start: usize, end: usize, size: usize) {
        self.zap_rest(id, start, end, size);
        crate::poison::freed(self.cell_ptr(id, start as u32).as_ptr(), (end - start) * size);
    }

    fn uncount(&self, cells: u32, size: usize) {
        let bytes = u64::from(cells) * size as u64;
        // Relaxed: a counter.
        self.used.fetch_sub(bytes, Relaxed);
        self.allocated.fetch_sub(bytes, Relaxed);
    }

    // ---- addresses ------------------------------------------------------------------------------------------

    /// First byte of a cell.
    #[must_use]
    pub fn cell_ptr(&self, id: RegionId, cell: u32) -> NonNull<u8> {
        // Relaxed: fixed while the region is in use.
        let size = self.meta(id.0).cell_size.load(Relaxed) as usize;
        let offset = ((id.0 as usize) << REGION_SHIFT) + cell as usize * size;
        debug_assert!(offset < self.heap.bytes());
        self.heap.base().map_addr(|a| a.saturating_add(offset))
    }

    #[inline]
    pub(crate) fn region_of(&self, p: *const u8) -> u32 {
        ((p.addr() - self.heap.base().as_ptr().addr()) >> REGION_SHIFT) as u32
    }

    #[inline]
    pub(crate) fn cell_index(&self, meta: &RegionMeta, p: *const u8) -> usize {
        let offset = (p.addr() & (REGION_BYTES - 1)) as u64;
        // Relaxed: fixed while the region is in use.
        ((offset * u64::from(meta.reciprocal.load(Relaxed))) >> 32) as usize
    }

    #[cfg(feature = "hooks")]
    pub(crate) fn marks_and_cell(&self, p: *const u8) -> (&Bitmap, usize) {
        let id = self.region_of(p);
        (self.table.marks(id), self.cell_index(self.meta(id), p))
    }

    pub(crate) fn current_sweep(&self) -> u32 {
        // Relaxed: stopped.
        self.sweep.load(Relaxed)
    }
}

/// Frees the cells `mask` of bitmap word `w` as far as they are reserved; returns how many. The region's owner, *running*.
fn unreserve_in_word(alloc: &Bitmap, marks: &Bitmap, w: usize, mask: u64) -> u32 {
    // Relaxed: owner only, see `Space::reserve_run`.
    let freed = (alloc[w].fetch_and(!mask, Relaxed) & mask).count_ones();
    // Relaxed: as above; other mutators may mark other cells of the word.
    marks[w].fetch_and(!mask, Relaxed);
    freed
}
