//! The heap's own verifier. Runs while *stopped*; O(heap), for tests and checked builds only.

use crate::region::{RegionId, RegionState};
use crate::space::{Space, SpaceStats};
use std::sync::atomic::Ordering::Relaxed;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Id of the invariant, as in `DESIGN.md`.
    pub invariant: &'static str,
    /// What was found.
    pub detail: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

impl std::error::Error for Violation {}

fn broken(invariant: &'static str, detail: String) -> Result<(), Violation> {
    Err(Violation { invariant, detail })
}

impl Space {
    /// Checks the invariants of `DESIGN.md` while no sweep is under way. *Stopped*; O(heap). Waits for a trimming or growing
    /// that is under way.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify(&self) -> Result<(), Violation> {
        self.verify_sweeping(0..0)
    }

    /// [`verify`](Space::verify) in the middle of a sweep that has yet to visit the regions `unswept`.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify_sweeping(&self, unswept: std::ops::Range<u32>) -> Result<(), Violation> {
        // Nobody holds a region that was lent.
        let _admin = self.administration();
        let metas = self.metas();
        let (mut used, mut in_use) = (0u64, 0u32);
        let mut pooled = vec![false; metas.len()];
        let mut returned = vec![false; metas.len()];
        let mut listed = vec![false; metas.len()];
        let walk = |head: Option<u32>,
                    seen: &mut Vec<bool>,
                    want: RegionState,
                    inv|
         -> Result<(), Violation> {
            let mut at = head;
            while let Some(id) = at {
                let Some(meta) = metas.get(id as usize) else {
                    return broken(inv, format!("a list names region {id}, which does not exist"));
                };
                if std::mem::replace(&mut seen[id as usize], true) {
                    return broken(inv, format!("region {id} is listed twice"));
                }
                if meta.state() != want {
                    return broken(inv, format!("listed region {id} is {:?}, not {want:?}", meta.state()));
                }
                // Relaxed: stopped.
                at = meta.link.load(Relaxed).checked_sub(1);
            }
            Ok(())
        };
        walk(self.pool.ready.peek(), &mut pooled, RegionState::Free, "INV-HEAP-POOL")?;
        walk(self.pool.returned.peek(), &mut returned, RegionState::Free, "INV-HEAP-POOL")?;
        for list in &self.lists {
            walk(list.peek(), &mut listed, RegionState::Listed, "INV-HEAP-LISTED")?;
        }
        let mut reaping = vec![false; metas.len()];
        walk(self.reap.peek(), &mut reaping, RegionState::Reaping, "INV-HEAP-REAPING")?;
        for (id, meta) in metas.iter().enumerate() {
            let state = meta.state();
            let touched = (id as u32) < self.regions_touched();
            if state == RegionState::Free {
                let places = u8::from(!touched) + u8::from(pooled[id]) + u8::from(returned[id]);
                if places != 1 {
                    return broken(
                        "INV-HEAP-POOL",
                        format!("free region {id} is in {places} places, not one"),
                    );
                }
                continue;
            }
            if !touched {
                return broken("INV-HEAP-POOL", format!("region {id} is in use but was never taken"));
            }
            in_use += 1;
            used += u64::from(meta.allocated_cells()) * meta.class().size_dynamic() as u64;
            // Relaxed: stopped.
            let swept = meta.swept.load(Relaxed) == self.current_sweep();
            // The beginning of the sweep has emptied the lists.
            let to_come = !swept && !listed[id] && unswept.contains(&(id as u32));
            if (state == RegionState::Listed) != listed[id] && !to_come {
                return broken(
                    "INV-HEAP-LISTED",
                    format!("region {id} is {state:?}; in a list: {}", listed[id]),
                );
            }
            if listed[id] && !swept {
                return broken("INV-HEAP-SWEPT", format!("region {id} is listed but not swept"));
            }
            // Relaxed, here and below: stopped.
            let cells = meta.cells.load(Relaxed) as usize;
            for w in 0..meta.words() {
                let word = |m: &crate::region::Bitmap| m[w].load(Relaxed);
                let (alloc, mark) = (word(&meta.alloc), word(self.table.marks(id as u32)));
                let (grey, condemned) = (word(&meta.grey), word(&meta.condemned));
                let bad = |what: &str, bits: u64| {
                    let cell = w * 64 + bits.trailing_zeros() as usize;
                    format!("region {id} cell {cell}: {what}")
                };
                if mark & !alloc != 0 {
                    return broken("INV-HEAP-MARK", bad("marked but free", mark & !alloc));
                }
                if grey & !alloc != 0 {
                    return broken("INV-HEAP-GREY", bad("grey but free", grey & !alloc));
                }
                if condemned & !alloc != 0 || condemned & mark != 0 {
                    let bits = condemned & (mark | !alloc);
                    return broken("INV-HEAP-CONDEMNED", bad("condemned but free or marked", bits));
                }
                let valid = if cells >= (w + 1) * 64 { !0 } else { (1u64 << (cells - w * 64)) - 1 };
                if alloc & !valid != 0 {
                    return broken("INV-HEAP-MARK", bad("beyond the last cell", alloc & !valid));
                }
            }
        }
        let stats = self.stats();
        if used != stats.used_bytes {
            return broken(
                "INV-HEAP-USED",
                format!("{used} bytes allocated, counter says {}", stats.used_bytes),
            );
        }
        // Relaxed: stopped.
        let promised = self.pool.promised.load(Relaxed);
        if in_use.checked_add(promised) != Some(stats.regions_in_use) {
            let says = stats.regions_in_use;
            return broken(
                "INV-HEAP-REGIONS",
                format!("{in_use} regions in use and {promised} promised, counter says {says}"),
            );
        }
        self.verify_size(&returned)
    }

    /// The part of [`Space::verify`] about the limit and about memory.
    fn verify_size(&self, returned: &[bool]) -> Result<(), Violation> {
        let SpaceStats { regions_in_use, limit_regions, max_regions, resident_regions, .. } = self.stats();
        if regions_in_use > limit_regions || limit_regions > max_regions {
            return broken(
                "INV-HEAP-LIMIT",
                format!("{regions_in_use} regions in use, limit {limit_regions}, maximum {max_regions}"),
            );
        }
        let mut resident = 0;
        for (id, meta) in self.metas().iter().enumerate() {
            // Relaxed: stopped, and the administration lock is held.
            let is = meta.resident.load(Relaxed);
            let backed = (id as u32) < self.pool.backed.load(Relaxed);
            let touched = (id as u32) < self.regions_touched();
            if is != (!returned[id] && (touched || backed)) {
                return broken(
                    "INV-HEAP-RESIDENT",
                    format!(
                        "region {id} ({:?}, returned: {}, backed: {backed}) says of being resident: {is}",
                        meta.state(),
                        returned[id]
                    ),
                );
            }
            resident += u32::from(is);
        }
        if resident != resident_regions {
            return broken(
                "INV-HEAP-RESIDENT",
                format!("{resident} regions are resident, counter says {resident_regions}"),
            );
        }
        if self.pool.backs && resident < limit_regions {
            return broken(
                "INV-HEAP-BACKED",
                format!("the limit admits {limit_regions} regions, {resident} are resident"),
            );
        }
        Ok(())
    }

    /// Whether `p` is the first byte of an allocated cell. O(1).
    #[must_use]
    pub fn is_cell(&self, p: *const u8) -> bool {
        self.is_allocated(p) && {
            let id = self.region_of(p);
            let cell = self.cell_index(self.meta(id), p);
            self.cell_ptr(RegionId(id), cell as u32).as_ptr().addr() == p.addr()
        }
    }

    /// Size of the cell that holds `p`, in bytes. `p` points into a region in use. O(1).
    #[must_use]
    pub fn cell_bytes(&self, p: *const u8) -> u64 {
        self.meta(self.region_of(p)).class().size_dynamic() as u64
    }

    /// Whether the region that holds `p` has been swept by the sweep that was begun last. O(1).
    #[must_use]
    pub fn is_swept(&self, p: *const u8) -> bool {
        // Relaxed: changed only while stopped.
        self.contains(p) && self.meta(self.region_of(p)).swept.load(Relaxed) == self.current_sweep()
    }

    /// Calls `f` with each cell that is remembered as grey, without taking it. *Stopped*; O(heap).
    pub fn for_each_grey(&self, mut f: impl FnMut(std::ptr::NonNull<u8>)) {
        for (id, meta) in self.metas()[..self.regions_touched() as usize].iter().enumerate() {
            if meta.state() == RegionState::Free {
                continue;
            }
            // Relaxed, here and below: the caller has stopped the mutators, whose stop orders everything.
            let cells = meta.cells.load(Relaxed) as usize;
            let mut i = 0;
            while let Some(c) = crate::bits::next_set(&meta.grey, i, cells) {
                f(self.cell_ptr(RegionId(id as u32), c as u32));
                i = c + 1;
            }
        }
    }

    /// Calls `f(cell, marked)` for each allocated cell of regions in use. *Stopped*; O(heap).
    pub fn for_each_allocated(&self, mut f: impl FnMut(std::ptr::NonNull<u8>, bool)) {
        for (id, meta) in self.metas()[..self.regions_touched() as usize].iter().enumerate() {
            if meta.state() == RegionState::Free {
                continue;
            }
            // Relaxed, here and below: the caller has stopped the mutators, whose stop orders everything.
            let cells = meta.cells.load(Relaxed) as usize;
            let mut i = 0;
            while let Some(c) = crate::bits::next_set(&meta.alloc, i, cells) {
                let marked = self.table.marks(id as u32)[c / 64].load(Relaxed) >> (c % 64) & 1 != 0;
                f(self.cell_ptr(RegionId(id as u32), c as u32), marked);
                i = c + 1;
            }
        }
    }
}
