//! Ways to break each invariant of the heap, so that tests can see the verifier report it. Only with the feature
//! `hooks`; never called by the heap itself.

use crate::region::{RegionId, RegionState};
use crate::space::Space;
use std::sync::atomic::Ordering::Relaxed;

/// What to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// The counter of used bytes is one cell off (INV-HEAP-USED).
    Used,
    /// The counter of regions in use is one off (INV-HEAP-REGIONS).
    Regions,
    /// A region in use is in the pool too (INV-HEAP-POOL).
    PooledInUse,
    /// A free region is lost from the pool (INV-HEAP-POOL).
    LostFromPool,
    /// A region is in the pool twice (INV-HEAP-POOL).
    PooledTwice,
    /// A region that was never taken is in use (INV-HEAP-POOL).
    NeverTaken,
    /// A list names a region that does not exist (INV-HEAP-POOL).
    NoSuchRegion,
    /// A listed region says that it is not (INV-HEAP-LISTED).
    ListedButFull,
    /// A region says that it is listed, and is in no list (INV-HEAP-LISTED).
    ListedInNoList,
    /// A listed region has yet to be swept (INV-HEAP-SWEPT).
    ListedUnswept,
    /// A free cell is marked (INV-HEAP-MARK).
    MarkedFree,
    /// A bit beyond the last cell is set (INV-HEAP-MARK).
    BeyondLast,
    /// An unmarked cell is remembered as grey (INV-HEAP-GREY).
    GreyUnmarked,
    /// A marked cell is condemned (INV-HEAP-CONDEMNED).
    CondemnedMarked,
    /// A free cell is condemned (INV-HEAP-CONDEMNED).
    CondemnedFree,
    /// A region in the reap list says that it is in use (INV-HEAP-REAPING).
    ReapingInUse,
}

impl Space {
    /// Puts the counters wrong. *Stopped*.
    pub fn corrupt_counters(&self, used: u64, in_use: u32) {
        let (u, r) = self.counters();
        // Relaxed: stopped.
        u.fetch_add(used, Relaxed);
        r.fetch_add(in_use, Relaxed);
    }

    /// Takes the mark off the cell that holds `p`, as if it had never been marked. *Stopped*.
    pub fn corrupt_unmark(&self, p: *const u8) {
        let (meta, cell) = self.meta_and_cell(p);
        // Relaxed: stopped.
        meta.mark[cell / 64].fetch_and(!(1 << (cell % 64)), Relaxed);
    }

    /// Breaks an invariant by means of region `id`. *Stopped*.
    ///
    /// The region must be: Listed, with cell 0 allocated, its last cell free and the last word of its bitmaps not
    /// full, for all but these: Free and taken before for `LostFromPool` and `PooledTwice`; never taken for
    /// `NeverTaken`; Reaping for `ReapingInUse`.
    ///
    /// # Panics
    /// If the region is not in that state.
    pub fn corrupt(&self, what: Corruption, id: RegionId) {
        let meta = &self.metas()[id.0 as usize];
        let wanted = match what {
            Corruption::LostFromPool | Corruption::PooledTwice | Corruption::NeverTaken => RegionState::Free,
            Corruption::ReapingInUse => RegionState::Reaping,
            _ => RegionState::Listed,
        };
        assert_eq!(meta.state(), wanted, "{what:?} needs another region");
        // Relaxed, here and below: stopped.
        let cells = meta.cells.load(Relaxed) as usize;
        let last = cells.saturating_sub(1);
        let set = |map: &crate::region::Bitmap, cell: usize| {
            map[cell / 64].fetch_or(1 << (cell % 64), Relaxed);
        };
        let link = |i: u32| &self.metas()[i as usize].link;
        let (pool, ..) = self.pool_and_lists();
        match what {
            Corruption::Used => self.corrupt_counters(8, 0),
            Corruption::Regions => self.corrupt_counters(0, 1),
            Corruption::PooledInUse => pool.push(id.0, link),
            Corruption::LostFromPool => {
                let mut others = Vec::new();
                while let Some(i) = pool.pop(link) {
                    if i != id.0 {
                        others.push(i);
                    }
                }
                others.into_iter().for_each(|i| pool.push(i, link));
            }
            Corruption::PooledTwice => pool.push(id.0, link),
            Corruption::NeverTaken => meta.set_state(RegionState::Full),
            Corruption::NoSuchRegion => {
                // The region becomes the pool's last entry, and its link leads nowhere.
                meta.set_state(RegionState::Free);
                pool.clear();
                pool.push(id.0, link);
                // Relaxed: one thread only, as all of this.
                link(id.0).store(self.regions() + 1, Relaxed);
            }
            Corruption::ListedButFull => meta.set_state(RegionState::Full),
            Corruption::ListedInNoList => {
                let (_, lists, _) = self.pool_and_lists();
                lists.iter().filter(|l| l.peek() == Some(id.0)).for_each(crate::stack::IndexStack::clear);
            }
            Corruption::ListedUnswept => {
                // Relaxed: one thread only, as all of this.
                meta.swept.fetch_sub(1, Relaxed);
            }
            Corruption::MarkedFree => set(&meta.mark, last),
            Corruption::BeyondLast => {
                assert!(!cells.is_multiple_of(64), "the last word is full");
                set(&meta.alloc, cells);
            }
            Corruption::GreyUnmarked => set(&meta.grey, 0),
            Corruption::CondemnedMarked => {
                set(&meta.mark, 0);
                set(&meta.condemned, 0);
            }
            Corruption::CondemnedFree => set(&meta.condemned, last),
            Corruption::ReapingInUse => meta.set_state(RegionState::Full),
        }
    }
}
