//! The heap of regions: taking and giving back regions, marking, sweeping, reaping.
//!
//! # State
//! `used` is the exact number of bytes in cells whose allocation bit is set (INV-HEAP-USED); `in_use` the number
//! of regions that are not Free (INV-HEAP-REGIONS). `sweep` counts sweeps: a region whose `swept` equals it may
//! be allocated from (INV-HEAP-SWEPT). Each free region is in the pool once or above `fresh` (INV-HEAP-POOL).
//!
//! # Who may touch what
//! Functions say *running* or *stopped* (see the crate's documentation). The counters may be read by anyone.
//!
//! # Safety
//! The metadata table and the regions are mappings that live as long as the `Space`; region ids are checked
//! against the table's length wherever they come from outside.

use crate::bits;
use crate::class::{CLASSES_ALL, Class, REGION_BYTES, REGION_SHIFT};
use crate::os::{Mapping, OsOptions, ReserveError};
use crate::region::{RegionId, RegionMeta, RegionState};
use crate::stack::IndexStack;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// How new cells are coloured, decided by the caller from the collector's phase at the time of the refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Not marked: no cycle is active, or the region has been swept.
    White,
    /// Marked: a cycle is between arming and sweeping.
    Black,
}

/// A run of contiguous free cells handed to a cursor.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// First byte.
    pub start: NonNull<u8>,
    /// Bytes.
    pub bytes: usize,
    /// Cell index after the run.
    pub next_cell: u32,
}

/// What sweeping one region did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepOutcome {
    /// Bytes freed at once.
    pub freed_bytes: u64,
    /// Bytes condemned: freed later by the reaper.
    pub condemned_bytes: u64,
    /// Bytes kept.
    pub live_bytes: u64,
    /// The region went back to the pool.
    pub region_freed: bool,
}

/// Condemned cells of one region, a few at a time.
#[derive(Debug)]
pub struct ReapBatch {
    /// The region.
    pub region: RegionId,
    /// First cell of the batch's bitmap word.
    pub first_cell: u32,
    /// Bit i: cell `first_cell + i` is condemned.
    pub bits: u64,
}

/// Counters that anyone may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Bytes in allocated cells.
    pub used_bytes: u64,
    /// Regions not free.
    pub regions_in_use: u32,
    /// Regions in all.
    pub regions: u32,
}

/// Longest run handed out at once: bounds a refill's work (bitmap words and, in black runs, header words).
pub const RUN_BYTES_MAX: usize = 8192;

/// A heap of 64 KiB regions with a hard limit.
#[derive(Debug)]
pub struct Space {
    heap: Mapping,
    table: Mapping,
    regions: u32,
    pool: IndexStack,
    fresh: AtomicU32,
    in_use: AtomicU32,
    used: AtomicU64,
    allocated: AtomicU64,
    sweep: AtomicU32,
    /// Regions with free cells by class; second half: regions with drop glue.
    lists: [IndexStack; 2 * CLASSES_ALL],
    reap: IndexStack,
    grey: IndexStack,
}

impl Space {
    /// Reserves a heap of `bytes` (rounded down to regions, at least one) and its metadata table. Also returns
    /// what the system refused of `options`.
    ///
    /// # Errors
    /// [`ReserveError`] when the address space cannot be had.
    pub fn new(bytes: u64, options: OsOptions) -> Result<(Space, Vec<String>), ReserveError> {
        let regions = usize::try_from(bytes >> REGION_SHIFT)
            .ok()
            .filter(|&r| r > 0 && r < u32::MAX as usize)
            .ok_or(ReserveError::Size { bytes: bytes as usize })?;
        let heap_bytes = regions * REGION_BYTES;
        if options.prefault || options.lock {
            Mapping::check_available(heap_bytes)?;
        }
        let heap = Mapping::new(heap_bytes, heap_bytes.next_power_of_two())?;
        let table = Mapping::new(regions * size_of::<RegionMeta>(), 4096)?;
        let mut refused = heap.apply(options);
        refused.extend(table.apply(OsOptions { huge_pages: false, ..options }));
        let space = Space {
            heap,
            table,
            regions: regions as u32,
            pool: IndexStack::new(),
            fresh: AtomicU32::new(0),
            in_use: AtomicU32::new(0),
            used: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            sweep: AtomicU32::new(1),
            lists: [const { IndexStack::new() }; 2 * CLASSES_ALL],
            reap: IndexStack::new(),
            grey: IndexStack::new(),
        };
        Ok((space, refused))
    }

    /// The metadata of all regions.
    #[must_use]
    #[allow(unsafe_code)]
    pub fn metas(&self) -> &[RegionMeta] {
        // SAFETY: the table is a zeroed mapping of this many entries; zeroes are a valid RegionMeta, all of its
        // fields are atomics, and the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.table.base().as_ptr().cast(), self.regions as usize) }
    }

    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn meta(&self, id: u32) -> &RegionMeta {
        debug_assert!(id < self.regions);
        // SAFETY: ids come from this heap's lists, cursors and addresses, all below `regions` (INV-HEAP-POOL);
        // otherwise as in `metas`.
        unsafe { &*self.table.base().as_ptr().cast::<RegionMeta>().add(id as usize) }
    }

    fn link<'a>(&'a self) -> impl Fn(u32) -> &'a AtomicU32 + Copy {
        |i| &self.meta(i).link
    }

    /// Counters; each is exact, together they may be of slightly different moments.
    #[must_use]
    pub fn stats(&self) -> SpaceStats {
        // Relaxed: counters only.
        SpaceStats {
            used_bytes: self.used.load(Relaxed),
            regions_in_use: self.in_use.load(Relaxed),
            regions: self.regions,
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

    /// Bytes of the whole heap.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        u64::from(self.regions) << REGION_SHIFT
    }

    /// Bytes not in allocated cells, wherever they lie. O(1), any thread.
    #[inline]
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.heap_bytes().saturating_sub(self.used_bytes())
    }

    /// Regions in the heap.
    #[must_use]
    pub fn regions(&self) -> u32 {
        self.regions
    }

    /// Regions in the pool. O(1), any thread.
    #[must_use]
    pub fn free_regions(&self) -> u32 {
        // Relaxed: a counter.
        self.regions - self.in_use.load(Relaxed).min(self.regions)
    }

    /// Whether `p` points into the heap.
    #[must_use]
    pub fn contains(&self, p: *const u8) -> bool {
        p.addr().wrapping_sub(self.heap.base().as_ptr().addr()) < self.heap.bytes()
    }

    // ---- allocation (running) -------------------------------------------------------------------------------

    /// Takes a region with free cells for `class`: from the class's list, else from the pool. *Running*. O(1)
    /// plus clearing ≤ 2 KiB of bitmaps. `None` when neither has one.
    pub(crate) fn take(&self, class: Class, drop_glue: bool) -> Option<RegionId> {
        let list = &self.lists[class.0 as usize + if drop_glue { CLASSES_ALL } else { 0 }];
        if let Some(id) = list.pop(self.link()) {
            let meta = self.meta(id);
            debug_assert_eq!(meta.state(), RegionState::Listed);
            meta.set_state(RegionState::Owned);
            return Some(RegionId(id));
        }
        let id = self.pool.pop(self.link()).or_else(|| self.take_fresh())?;
        // Relaxed: a counter.
        self.in_use.fetch_add(1, Relaxed);
        // Relaxed: changed only while stopped.
        self.meta(id).init(class, drop_glue, self.sweep.load(Relaxed));
        Some(RegionId(id))
    }

    fn take_fresh(&self) -> Option<u32> {
        // Relaxed: the exchange hands out each index once; its region was never used by anyone.
        self.fresh.fetch_update(Relaxed, Relaxed, |f| (f < self.regions).then_some(f + 1)).ok()
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
    fn list(&self, id: u32, meta: &RegionMeta, allocated: u32) -> bool {
        // Relaxed: fixed while the region is in use.
        let cells = meta.cells.load(Relaxed);
        if allocated == 0 {
            meta.set_state(RegionState::Free);
            // Relaxed: a counter.
            self.in_use.fetch_sub(1, Relaxed);
            self.pool.push(id, self.link());
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

    /// Reserves the next run of free cells of an owned region, at or after `from_cell` (*running*, owner). Reads
    /// ≤ 64 words, writes ≤ [`RUN_BYTES_MAX`] / 16 / 64 + 1 words of each bitmap.
    #[allow(unsafe_code)]
    pub(crate) fn reserve_run(&self, id: RegionId, from_cell: u32, colour: Colour) -> Option<Run> {
        let meta = self.meta(id.0);
        // Relaxed: fixed while the region is in use.
        let (cells, size) = (meta.cells.load(Relaxed) as usize, meta.cell_size.load(Relaxed) as usize);
        let start = bits::next_clear(&meta.alloc, from_cell as usize, cells)?;
        let limit = cells.min(start + (RUN_BYTES_MAX / size).max(1));
        let end = bits::next_set(&meta.alloc, start, limit).unwrap_or(limit);
        bits::for_each_mask(start, end, |w, m| {
            // Relaxed: the owner is the only one to set bits; the reaper may clear others in the same word.
            meta.alloc[w].fetch_or(m, Relaxed);
            if colour == Colour::Black {
                meta.mark[w].fetch_or(m, Relaxed);
            }
        });
        let bytes = (end - start) * size;
        // Relaxed: a counter.
        self.used.fetch_add(bytes as u64, Relaxed);
        self.allocated.fetch_add(bytes as u64, Relaxed);
        let first = self.cell_ptr(id, start as u32);
        // Relaxed: fixed while the region is in use.
        if meta.drop_glue.load(Relaxed) {
            for i in 0..end - start {
                // SAFETY: the cells start..end lie in this region and were free: nobody else uses them. A zero
                // header says "no object" to the reaper (INV-HEAP-VACANT).
                unsafe { first.as_ptr().add(i * size).cast::<usize>().write(0) };
            }
        }
        Some(Run { start: first, bytes, next_cell: end as u32 })
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
        let mut freed = 0;
        bits::for_each_mask(start, end, |w, m| {
            // Relaxed: owner only, see `reserve_run`.
            freed += (meta.alloc[w].fetch_and(!m, Relaxed) & m).count_ones() as usize;
            meta.mark[w].fetch_and(!m, Relaxed);
        });
        // Relaxed: a counter.
        self.used.fetch_sub((freed * size) as u64, Relaxed);
        self.allocated.fetch_sub((freed * size) as u64, Relaxed);
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
    fn region_of(&self, p: *const u8) -> u32 {
        ((p.addr() - self.heap.base().as_ptr().addr()) >> REGION_SHIFT) as u32
    }

    #[inline]
    fn cell_index(&self, meta: &RegionMeta, p: *const u8) -> usize {
        let offset = (p.addr() & (REGION_BYTES - 1)) as u64;
        // Relaxed: fixed while the region is in use.
        ((offset * u64::from(meta.reciprocal.load(Relaxed))) >> 32) as usize
    }

    // ---- marking --------------------------------------------------------------------------------------------

    /// Marks the cell that holds `p`; true if this call marked it. Any running mutator or the collector. `p` must
    /// point into an allocated cell of this heap. O(1).
    #[inline]
    pub fn mark(&self, p: *const u8) -> bool {
        debug_assert!(self.contains(p));
        let meta = self.meta(self.region_of(p));
        let i = self.cell_index(meta, p);
        let (word, mask) = (&meta.mark[i / 64], 1u64 << (i % 64));
        // Relaxed: the bit was set before the reference could reach this thread.
        debug_assert!(meta.alloc[i / 64].load(Relaxed) & mask != 0, "marking a free cell");
        // Relaxed: marks are read by the collector after a stop, whose handshake orders them.
        word.load(Relaxed) & mask == 0 && word.fetch_or(mask, Relaxed) & mask == 0
    }

    /// Whether the cell that holds `p` is marked. O(1).
    #[inline]
    #[must_use]
    pub fn is_marked(&self, p: *const u8) -> bool {
        self.bit(p, |m| &m.mark)
    }

    /// Whether the cell that holds `p` is allocated. O(1).
    #[must_use]
    pub fn is_allocated(&self, p: *const u8) -> bool {
        self.contains(p)
            && self.meta(self.region_of(p)).state() != RegionState::Free
            && self.bit(p, |m| &m.alloc)
    }

    /// Whether `p` lies in a region of leaves, whose cells have no header. O(1).
    #[must_use]
    pub fn is_leaf(&self, p: *const u8) -> bool {
        self.contains(p) && self.meta(self.region_of(p)).class() == crate::class::LEAF_CLASS
    }

    /// Whether the cell that holds `p` is condemned. O(1).
    #[must_use]
    pub fn is_condemned(&self, p: *const u8) -> bool {
        self.bit(p, |m| &m.condemned)
    }

    fn bit(&self, p: *const u8, map: impl Fn(&RegionMeta) -> &crate::region::Bitmap) -> bool {
        debug_assert!(self.contains(p));
        let meta = self.meta(self.region_of(p));
        let i = self.cell_index(meta, p);
        // Relaxed: see `mark`.
        map(meta)[i / 64].load(Relaxed) >> (i % 64) & 1 != 0
    }

    /// Hints the processor to load the mark word of `p`'s cell.
    #[inline]
    pub fn prefetch_mark(&self, p: *const u8) {
        let meta: *const RegionMeta = self.meta(self.region_of(p));
        prefetch(meta.cast());
    }

    /// Remembers a marked cell that is yet to be scanned, when the mark queue or a log is full. The collector while
    /// *stopped*, or mutators while *running*. O(1), lock-free.
    pub fn push_grey(&self, p: *const u8) {
        let id = self.region_of(p);
        let meta = self.meta(id);
        let i = self.cell_index(meta, p);
        // Relaxed: read by the collector after a stop; whoever flips the flag lists the region, once.
        meta.grey[i / 64].fetch_or(1 << (i % 64), Relaxed);
        if !meta.grey_listed.swap(true, Relaxed) {
            self.grey.push(id, |i| &self.meta(i).grey_link);
        }
    }

    /// Takes grey cells of one region: calls `f` with the first byte of each, at most 64 (one bitmap word).
    /// False when there are none in the heap. Collector, *stopped*. Reads ≤ 64 words.
    pub fn pop_grey(&self, mut f: impl FnMut(NonNull<u8>)) -> bool {
        let Some(id) = self.grey.peek() else { return false };
        let meta = self.meta(id);
        for w in 0..meta.words() {
            // Relaxed: collector only.
            let mut bits = meta.grey[w].swap(0, Relaxed);
            if bits != 0 {
                while bits != 0 {
                    f(self.cell_ptr(RegionId(id), (w * 64) as u32 + bits.trailing_zeros()));
                    bits &= bits - 1;
                }
                return true;
            }
        }
        // Relaxed: collector only.
        meta.grey_listed.store(false, Relaxed);
        self.grey.pop(|i| &self.meta(i).grey_link);
        true
    }

    /// Whether any grey cell is remembered.
    #[must_use]
    pub fn has_grey(&self) -> bool {
        !self.grey.is_empty()
    }

    // ---- sweeping (stopped) ---------------------------------------------------------------------------------

    /// Starts a sweep: empties the class lists (the sweep refills them). Collector, *stopped*. O(classes).
    pub fn begin_sweep(&self) {
        for list in &self.lists {
            list.clear();
        }
        // Relaxed: read by mutators after this stop.
        self.sweep.fetch_add(1, Relaxed);
    }

    /// Number of regions ever used: the sweep need not go further. Collector, *stopped*.
    #[must_use]
    pub fn regions_touched(&self) -> u32 {
        // Relaxed: grows by running mutators only.
        self.fresh.load(Relaxed)
    }

    /// Sweeps one region: allocation bitmap := mark bitmap, marks cleared; dead objects with drop glue are
    /// condemned. Collector, *stopped*. At most 64 words of three bitmaps; no object is touched.
    pub fn sweep_region(&self, id: RegionId) -> SweepOutcome {
        let mut out = SweepOutcome::default();
        let meta = self.meta(id.0);
        let state = meta.state();
        // Relaxed: stopped.
        let sweep = self.sweep.load(Relaxed);
        if state == RegionState::Free || meta.swept.load(Relaxed) == sweep {
            return out;
        }
        meta.swept.store(sweep, Relaxed);
        let size = u64::from(meta.cell_size.load(Relaxed));
        let (mut live, mut freed, mut condemned) = (0u32, 0u32, 0u32);
        let glue = meta.drop_glue.load(Relaxed);
        meta.passed_over.store(glue && state == RegionState::Owned, Relaxed);
        for w in 0..meta.words() {
            let (alloc, mark) = (meta.alloc[w].load(Relaxed), meta.mark[w].load(Relaxed));
            debug_assert_eq!(mark & !alloc, 0, "a free cell is marked");
            // Relaxed: stopped.
            meta.mark[w].store(0, Relaxed);
            let dead = alloc & !mark;
            if !glue {
                // Relaxed: as the marks; no mutator allocates here before the region is listed.
                meta.alloc[w].store(mark, Relaxed);
                freed += dead.count_ones();
                live += mark.count_ones();
            } else if state == RegionState::Owned {
                // Its owner's cursor still reserves cells here: condemn in the next cycle.
                live += alloc.count_ones();
            } else {
                // Relaxed: the reaper sees it by way of the reap list.
                condemned += (meta.condemned[w].fetch_or(dead, Relaxed) | dead).count_ones();
                live += mark.count_ones();
            }
        }
        // Relaxed: a counter.
        self.used.fetch_sub(u64::from(freed) * size, Relaxed);
        out.freed_bytes = u64::from(freed) * size;
        out.condemned_bytes = u64::from(condemned) * size;
        out.live_bytes = u64::from(live) * size;
        match state {
            RegionState::Owned | RegionState::Reaping => {}
            _ if condemned > 0 => {
                meta.set_state(RegionState::Reaping);
                self.reap.push(id.0, self.link());
            }
            _ => out.region_freed = self.list(id.0, meta, live),
        }
        out
    }

    // ---- reaping (running: the reaper is a mutator) ---------------------------------------------------------

    /// Takes a region with condemned objects off the reap list. O(1).
    #[must_use]
    pub fn pop_reap(&self) -> Option<RegionId> {
        self.reap.pop(self.link()).map(RegionId)
    }

    /// Whether the reap list looks empty.
    #[must_use]
    pub fn reap_is_empty(&self) -> bool {
        self.reap.is_empty()
    }

    /// Condemned cells of a region, one bitmap word at a time; `None` when there are no more. Reads ≤ 64 words.
    #[must_use]
    pub fn condemned(&self, id: RegionId) -> Option<ReapBatch> {
        let meta = self.meta(id.0);
        (0..meta.words()).find_map(|w| {
            // Relaxed: changed by the collector while stopped, else by the reaper.
            let bits = meta.condemned[w].load(Relaxed);
            (bits != 0).then_some(ReapBatch { region: id, first_cell: (w * 64) as u32, bits })
        })
    }

    /// Frees the cells of a batch whose drop glue has run. *Running*. O(1).
    pub fn reaped(&self, batch: &ReapBatch) {
        let meta = self.meta(batch.region.0);
        let w = batch.first_cell as usize / 64;
        // Relaxed: the reaper runs as a mutator; the collector is stopped out, other mutators touch other bits.
        meta.alloc[w].fetch_and(!batch.bits, Relaxed);
        meta.condemned[w].fetch_and(!batch.bits, Relaxed);
        let bytes = u64::from(batch.bits.count_ones()) * u64::from(meta.cell_size.load(Relaxed));
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Ends the reaping of a region. *Running*, after [`Space::condemned`] gave `None` with no pause between.
    pub fn reap_done(&self, id: RegionId) {
        self.release(id);
    }

    /// Calls `f` with each allocated, not yet condemned cell of regions with drop glue, and each condemned one:
    /// for the teardown of a heap. Nothing else may use the heap.
    pub fn for_each_with_drop_glue(&self, mut f: impl FnMut(NonNull<u8>)) {
        for (id, meta) in self.metas()[..self.regions_touched() as usize].iter().enumerate() {
            // Relaxed: nothing else uses the heap.
            if meta.state() == RegionState::Free || !meta.drop_glue.load(Relaxed) {
                continue;
            }
            let cells = meta.cells.load(Relaxed) as usize;
            let mut i = 0;
            while let Some(c) = bits::next_set(&meta.alloc, i, cells) {
                f(self.cell_ptr(RegionId(id as u32), c as u32));
                i = c + 1;
            }
        }
    }

    /// Gives the memory of a closed heap back to the system. Nothing may use the heap any more.
    pub fn discard(&self) {
        self.heap.discard();
    }

    /// Whether the region list/pool structure may be walked: used by [`crate::verify`].
    pub(crate) fn pool_and_lists(&self) -> (&IndexStack, &[IndexStack], &IndexStack) {
        (&self.pool, &self.lists, &self.reap)
    }

    #[cfg(feature = "hooks")]
    pub(crate) fn counters(&self) -> (&AtomicU64, &AtomicU32) {
        (&self.used, &self.in_use)
    }

    #[cfg(feature = "hooks")]
    pub(crate) fn meta_and_cell(&self, p: *const u8) -> (&RegionMeta, usize) {
        let meta = self.meta(self.region_of(p));
        (meta, self.cell_index(meta, p))
    }

    pub(crate) fn current_sweep(&self) -> u32 {
        // Relaxed: stopped.
        self.sweep.load(Relaxed)
    }
}

/// Hints the processor to load the cache line at `p`. Harmless for any address.
#[inline]
#[allow(unsafe_code)]
pub fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and has no effect that a program can observe.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}
