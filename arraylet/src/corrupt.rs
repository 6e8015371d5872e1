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
    /// A promise is not in the count of regions in use (INV-HEAP-REGIONS).
    PromisedTwice,
    /// More regions are in use than the limit allows (INV-HEAP-LIMIT).
    LimitBelowUse,
    /// The limit is above the maximum (INV-HEAP-LIMIT).
    LimitAboveMax,
    /// The counter of resident regions is one off (INV-HEAP-RESIDENT).
    Resident,
    /// A region in use has no memory (INV-HEAP-RESIDENT).
    InUseNotResident,
    /// A region whose memory was returned says that it has some (INV-HEAP-RESIDENT).
    ReturnedResident,
    /// A region that was never touched says that it has memory (INV-HEAP-RESIDENT).
    NeverTakenResident,
    /// The limit of a heap that is backed in advance admits regions without memory (INV-HEAP-BACKED).
    Unbacked,
    /// A returned region is in the pool of resident ones too (INV-HEAP-POOL).
    ReturnedAndReady,
    /// A region that was never taken is in the pool (INV-HEAP-POOL).
    PooledNeverTaken,
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
    /// A free cell is remembered as grey (INV-HEAP-GREY).
    GreyFree,
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
        // Relaxed: stopped.
        self.used.fetch_add(used, Relaxed);
        self.pool.count.fetch_add(u64::from(in_use), Relaxed);
    }

    /// Takes the mark off the cell that holds `p`, as if it had never been marked. *Stopped*.
    pub fn corrupt_unmark(&self, p: *const u8) {
        let (marks, cell) = self.marks_and_cell(p);
        // Relaxed: stopped.
        marks[cell / 64].fetch_and(!(1 << (cell % 64)), Relaxed);
    }

    /// Breaks an invariant by means of region `id`. *Stopped*.
    ///
    /// The region must be: Listed, with cell 0 allocated, its last cell free and the last word of its bitmaps not
    /// full, for all but these: Free and taken before for `LostFromPool` and `PooledTwice`; Free and returned for
    /// `ReturnedResident` and `ReturnedAndReady`; never taken for `NeverTaken`, `PooledNeverTaken` and
    /// `NeverTakenResident`; Reaping for `ReapingInUse`. For `Unbacked` the heap must be backed in advance, with as
    /// many resident regions as the limit says, which is below the maximum.
    ///
    /// # Panics
    /// If the region is not in that state.
    pub fn corrupt(&self, what: Corruption, id: RegionId) {
        let meta = &self.metas()[id.0 as usize];
        let wanted = match what {
            Corruption::LostFromPool
            | Corruption::PooledTwice
            | Corruption::ReturnedResident
            | Corruption::ReturnedAndReady
            | Corruption::NeverTaken
            | Corruption::PooledNeverTaken
            | Corruption::NeverTakenResident => RegionState::Free,
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
        let pool = &self.pool.ready;
        // Relaxed: stopped.
        let limit = |to: u32| {
            let in_use = self.pool.count().in_use;
            self.pool.count.store(u64::from(to) << 32 | u64::from(in_use), Relaxed);
        };
        match what {
            Corruption::Used => self.corrupt_counters(8, 0),
            Corruption::Regions => self.corrupt_counters(0, 1),
            Corruption::PromisedTwice => {
                // Relaxed: stopped.
                self.pool.promised.fetch_add(1, Relaxed);
            }
            Corruption::LimitBelowUse => limit(self.pool.count().in_use - 1),
            Corruption::LimitAboveMax => limit(self.pool.max + 1),
            Corruption::Resident => {
                // Relaxed: stopped.
                self.pool.resident.fetch_add(1, Relaxed);
            }
            Corruption::InUseNotResident => meta.resident.store(false, Relaxed),
            // Relaxed: stopped.
            Corruption::ReturnedResident | Corruption::NeverTakenResident => {
                meta.resident.store(true, Relaxed);
            }
            Corruption::Unbacked => limit(self.pool.resident() + 1),
            Corruption::ReturnedAndReady | Corruption::PooledNeverTaken | Corruption::PooledInUse => {
                pool.push(id.0, link)
            }
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
                link(id.0).store(self.pool.max + 2, Relaxed);
            }
            Corruption::ListedButFull => meta.set_state(RegionState::Full),
            Corruption::ListedInNoList => {
                self.lists
                    .iter()
                    .filter(|l| l.peek() == Some(id.0))
                    .for_each(crate::stack::IndexStack::clear);
            }
            Corruption::ListedUnswept => {
                // Relaxed: one thread only, as all of this.
                meta.swept.fetch_sub(1, Relaxed);
            }
            Corruption::MarkedFree => set(self.table.marks(id.0), last),
            Corruption::BeyondLast => {
                assert!(!cells.is_multiple_of(64), "the last word is full");
                set(&meta.alloc, cells);
            }
            Corruption::GreyFree => set(&meta.grey, last),
            Corruption::CondemnedMarked => {
                set(self.table.marks(id.0), 0);
                set(&meta.condemned, 0);
            }
            Corruption::CondemnedFree => set(&meta.condemned, last),
            Corruption::ReapingInUse => meta.set_state(RegionState::Full),
        }
    }
}
