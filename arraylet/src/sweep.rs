//! Sweeping (while *stopped*) and reaping (while *running*: the reaper is a mutator).

use crate::bits;
use crate::region::{RegionId, RegionState};
use crate::space::Space;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

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
    /// Words of each bitmap that were swept: what it cost. 0 for a region that is free.
    pub words: u32,
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

impl Space {
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
        // Relaxed: grows by running mutators, and by trimming, which uses none.
        self.pool.fresh.load(Relaxed)
    }

    /// Sweeps one region: allocation bitmap := mark bitmap, marks cleared; dead objects with drop glue are
    /// condemned. Collector, *stopped*. At most 64 words of three bitmaps; no object is touched.
    pub fn sweep_region(&self, id: RegionId) -> SweepOutcome {
        let mut out = SweepOutcome::default();
        let (meta, marks) = (self.meta(id.0), self.table.marks(id.0));
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
        out.words = meta.words() as u32;
        for (w, marks) in marks.iter().enumerate().take(meta.words()) {
            let (alloc, mark) = (meta.alloc[w].load(Relaxed), marks.load(Relaxed));
            debug_assert_eq!(mark & !alloc, 0, "a free cell is marked");
            // Relaxed: stopped.
            marks.store(0, Relaxed);
            let dead = alloc & !mark;
            if !glue {
                // Relaxed: as the marks; no mutator allocates here before the region is listed.
                meta.alloc[w].store(mark, Relaxed);
                self.zap_cells(id.0, w * 64, dead, size as usize);
                self.poison(id, w, dead);
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
        // Relaxed: fixed while the region is in use.
        let size = meta.cell_size.load(Relaxed) as usize;
        self.zap_cells(batch.region.0, w * 64, batch.bits, size);
        // Relaxed: the reaper runs as a mutator; the collector is stopped out, other mutators touch other bits.
        meta.alloc[w].fetch_and(!batch.bits, Relaxed);
        self.poison(batch.region, w, batch.bits);
        meta.condemned[w].fetch_and(!batch.bits, Relaxed);
        let bytes = u64::from(batch.bits.count_ones()) * u64::from(meta.cell_size.load(Relaxed));
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Tells the sanitizer that the cells of these bits of bitmap word `w` are free; nothing in ordinary builds.
    #[inline(always)]
    fn poison(&self, id: RegionId, w: usize, cells: u64) {
        if cfg!(metronome_asan) {
            // Relaxed: fixed while the region is in use.
            let size = self.meta(id.0).cell_size.load(Relaxed) as usize;
            for i in (0..64).filter(|i| cells >> i & 1 != 0) {
                crate::poison::freed(self.cell_ptr(id, w as u32 * 64 + i).as_ptr(), size);
            }
        }
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
}
