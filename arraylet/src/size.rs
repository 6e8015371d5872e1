//! How large the heap is: limit and maximum, growing and shrinking, returning memory to the system, and an account of
//! the memory that agrees with the system's.
//!
//! # State
//! The *limit* is the number of regions that may be in use, the *maximum* the largest limit. A region is *resident*
//! when memory backs it: from its first taking, or from the backing in advance, until it is *trimmed* (given back to the
//! system). With `prefault` or `lock` all regions that the limit admits are resident before it admits them, and are
//! handed out before any other (INV-HEAP-BACKED): no allocation faults a page of the heap in.
//!
//! # Who may touch what
//! Growing and trimming take the administration lock and call the system (access rule *aside*); no function of another
//! access rule waits for that lock. Shrinking and all queries take no lock.

use crate::class::REGION_SHIFT;
use crate::os::{Mapping, ReserveError};
use crate::side::SideTable;
use crate::space::Space;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};

/// Most regions backed by one call of the system, so that none of them takes long while the process's memory map is
/// locked (mutators that fault or map memory wait for it): 4 MiB.
const BACK_CHUNK: u32 = if cfg!(metronome_tiny) { 2 } else { 64 };

fn heap_range(first: u32, n: u32) -> Range<usize> {
    (first as usize) << REGION_SHIFT..(first as usize + n as usize) << REGION_SHIFT
}

impl Space {
    /// Regions that may be in use at present. O(1), any thread.
    #[must_use]
    pub fn limit_regions(&self) -> u32 {
        self.pool.count().limit
    }

    /// Regions that may ever be in use.
    #[must_use]
    pub fn max_regions(&self) -> u32 {
        self.pool.max
    }

    /// Bytes of the heap at its present limit. O(1), any thread.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        u64::from(self.limit_regions()) << REGION_SHIFT
    }

    /// Bytes of the heap at its largest.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        u64::from(self.pool.max) << REGION_SHIFT
    }

    /// Bytes within the limit that are not in allocated cells, wherever they lie. O(1), any thread.
    #[inline]
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.heap_bytes().saturating_sub(self.used_bytes())
    }

    /// Regions within the limit that are neither in use nor promised. O(1), any thread.
    #[must_use]
    pub fn free_regions(&self) -> u32 {
        let count = self.pool.count();
        count.limit.saturating_sub(count.in_use)
    }

    /// Regions that memory backs. O(1), any thread.
    #[must_use]
    pub fn resident_regions(&self) -> u32 {
        self.pool.resident()
    }

    /// Bytes of regions that memory backs: touched or prefaulted, and not returned since. A region counts as a whole
    /// from its taking. O(1), any thread.
    ///
    /// With prefaulting this is what the system says ([`Space::system_resident_bytes`]), to the byte; without, the
    /// system has less where a region in use has pages never touched. With huge pages the system may have more: the
    /// rest of a huge page that holds a resident region.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        u64::from(self.pool.resident()) << REGION_SHIFT
    }

    /// Bytes of the heap's mapping that the system holds in memory, by mincore(2). Slow (O(address space of the heap)):
    /// for checks and tests. Pages that were swapped out do not count.
    ///
    /// # Errors
    /// What the system answers instead.
    pub fn system_resident_bytes(&self) -> std::io::Result<u64> {
        self.heap.resident_bytes()
    }

    /// The administration lock. A holder that unwound left nothing half done that others rely on: at worst one lent
    /// region is lost, which the spare makes up for.
    pub(crate) fn administration(&self) -> MutexGuard<'_, ()> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises the limit to `to_regions`, or to the maximum if that is less; returns the limit and what the system refused
    /// (locking), in words. A limit that is higher already stays. *Aside*. Cost: with prefaulting or locking
    /// O(bytes that are not resident yet), else O(1).
    ///
    /// # Errors
    /// [`ReserveError`] when memory is to be backed and the system has not that much. The limit stays as it was.
    pub fn grow(&self, to_regions: u32) -> Result<(u32, Vec<String>), ReserveError> {
        let to = to_regions.min(self.pool.max);
        if !self.os.backs() {
            // No lock: mutators and the collector grow such a heap while another thread trims it.
            return Ok((self.pool.raise(to), Vec::new()));
        }
        let _admin = self.administration();
        let mut refused = Vec::new();
        if to > self.limit_regions() {
            self.back(to.saturating_sub(self.pool.resident()), &mut refused)?;
        }
        Ok((self.pool.raise(to), refused))
    }

    /// Makes `n` more regions resident. Holder of the administration lock.
    fn back(&self, n: u32, refused: &mut Vec<String>) -> Result<(), ReserveError> {
        if n == 0 {
            return Ok(());
        }
        Mapping::check_available(heap_range(0, n).len() + SideTable::bytes_of(n))?;
        let mut note = |r: Option<String>| {
            if let Some(r) = r
                && !refused.contains(&r)
            {
                refused.push(r);
            }
        };
        let mut left = n;
        while left > 0 {
            let one = |id| self.heap.back(&heap_range(id, 1), self.os.lock).map(&mut note);
            if !self.pool.back_returned(self.metas(), one)? {
                break;
            }
            left -= 1;
        }
        while left > 0 {
            let chunk = left.min(BACK_CHUNK);
            self.pool.back_fresh(self.metas(), chunk, |first| {
                note(self.heap.back(&heap_range(first, chunk), self.os.lock)?);
                self.table.back(first, chunk, self.os.lock)?.into_iter().for_each(&mut note);
                Ok(())
            })?;
            left -= chunk;
        }
        Ok(())
    }

    /// Lowers the limit to `to_regions`, but not below one region nor below what is in use or promised; returns the
    /// limit. A limit that is lower already stays. Gives no memory back: see [`Space::trim`]. Any thread, O(1),
    /// lock-free.
    pub fn shrink(&self, to_regions: u32) -> u32 {
        self.pool.lower(to_regions.max(1))
    }

    /// Returns the memory of at most `at_most` free regions to the system; returns how many. *Aside*; two system calls
    /// for each region at most. Less than `at_most` means that there is no more to return, or that the system refused.
    ///
    /// With prefaulting or locking only the regions that the limit does not admit are returned, so lower it before.
    /// Mutators allocate on meanwhile: a region is taken from the pool before its memory goes, and the spare region
    /// makes up for it, so neither an allocation nor a promise fails for it. Returned regions are taken after all
    /// resident ones.
    pub fn trim(&self, at_most: u32) -> u32 {
        let _admin = self.administration();
        for done in 0..at_most {
            // The holder of the lock alone raises the limit, so one resident region more than it stays one more.
            if self.os.backs() && self.pool.resident() <= self.limit_regions() {
                return done;
            }
            let Some(id) = self.pool.lend(self.metas()) else { return done };
            self.unprotect(id);
            if self.heap.give_back(&heap_range(id, 1), self.os.lock).is_err() {
                self.pool.put_ready(self.metas(), id);
                return done;
            }
            self.pool.put_returned(self.metas(), id);
        }
        at_most
    }

    /// Gives the memory of a closed heap back to the system. Nothing may use the heap any more.
    pub fn discard(&self) {
        let _admin = self.administration();
        if self.heap.give_back(&(0..self.heap.bytes()), self.os.lock).is_err() {
            return;
        }
        // Metadata that was never used stays untouched: its pages would be had only to be given back.
        for meta in &self.metas()[..self.regions_touched() as usize] {
            // Relaxed: nothing uses the heap.
            if meta.resident.swap(false, Relaxed) {
                self.pool.resident.fetch_sub(1, Relaxed);
            }
        }
    }
}
