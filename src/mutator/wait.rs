//! Waiting for memory at a safepoint: the ladder.

use super::Mutator;
use crate::error::{AllocError, Remedy, Shortage};
use crate::shared::Shared;
use crate::sync::futex_wait;
use metronome_arraylet::cursor::CursorIndex;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What a mutator waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// Bytes that it could not have, for reports.
    pub(crate) bytes: u64,
    /// Free regions that it needs, or
    pub(crate) regions: u32,
    /// cells of this cursor, which a cycle may free without freeing a region.
    pub(crate) cells: Option<CursorIndex>,
}

impl Want {
    /// Whether there is enough now: a hint, others take memory too.
    fn is_there(&self, s: &Shared) -> bool {
        match self.cells {
            Some(cursor) => s.space.has_cells(cursor),
            None => s.space.free_bytes() >= self.bytes && s.space.free_regions() >= self.regions,
        }
    }
}

impl Mutator<'_> {
    /// Waits at a safepoint until there is what is wanted, or the collector has done all it can.
    #[cold]
    pub(crate) fn wait_for_memory(&mut self, want: Want) -> Result<(), AllocError> {
        let (s, r) = (self.shared(), self.record());
        // Relaxed: written by this thread only.
        r.starved.store(false, Relaxed);
        if want.is_there(s) {
            return Ok(());
        }
        if !s.may_wait() {
            // Nobody has waited.
            return Err(AllocError::exhausted(s, want.bytes));
        }
        // Relaxed: for reports.
        s.failed_bytes.store(want.bytes, Relaxed);
        let deadline = s.clock.now().saturating_add(s.config.memory_wait_ns);
        self.stop_running();
        let mut out = self.climb(want, deadline);
        self.start_running();
        if out.is_err()
            && let Some(ask) = s.before_failure()
        {
            // The program's code: outside the heap, and once.
            let shortage = Shortage { requested_bytes: want.bytes, free_bytes: s.space.free_bytes() };
            let again = self.blocking(|| ask(&shortage)) == Remedy::Retry;
            let s = self.shared();
            self.stop_running();
            if again {
                let deadline = s.clock.now().saturating_add(s.config.memory_wait_ns);
                out = self.wait_through(s.request_cycle(), deadline, want);
            }
            self.start_running();
        }
        out.map_err(|()| self.out_of_memory(want.bytes))
    }

    /// The ladder: the cycle that is under way, a whole one, one that clears soft references. Native.
    pub(super) fn climb(&self, want: Want, deadline: u64) -> Result<(), ()> {
        let s = self.shared();
        // Acquire: pairs with the Release at a cycle's start and end.
        let running = s.cycle.load(Acquire);
        if !s.has_ended(running) && self.wait_through(running, deadline, want).is_ok() {
            return Ok(());
        }
        loop {
            if self.wait_through(s.request_cycle(), deadline, want).is_ok() {
                return Ok(());
            }
            // Relaxed: written before the end of that cycle, which was acquired.
            let others_were_faster = want.cells.is_some() && s.freed_last.load(Relaxed) >= want.bytes;
            // Relaxed: a late look costs one limit of the wait.
            if !others_were_faster || s.clock.now() >= deadline || s.shutdown.load(Relaxed) {
                break;
            }
        }
        // Acquire: as above.
        let before = s.cycle.load(Acquire);
        // Acquire: pairs with the Release of the collector before such a cycle ends. The next cycle may begin before it has
        // seen the request; then it is asked once more.
        while s.softs.live() > 0 && s.softs_cleared.load(Acquire) <= before {
            let last = s.request_clearing_cycle();
            if self.wait_through(last, deadline, want).is_ok() {
                return Ok(());
            }
            // Relaxed: a late look costs one limit of the wait.
            if s.clock.now() >= deadline || s.shutdown.load(Relaxed) {
                break;
            }
        }
        Err(())
    }

    /// Waits until there is enough, until cycle `target` has ended and its dead are reaped, or until the deadline. Native.
    pub(super) fn wait_through(&self, target: u64, deadline: u64, want: Want) -> Result<(), ()> {
        let s = self.shared();
        // Relaxed: the collector reads it as a hint; woken below and by this count's change.
        s.waiting_for_memory.fetch_add(1, Relaxed);
        s.wake_collector();
        let out = loop {
            // Acquire: pairs with the Release in `announce_memory`.
            let seq = s.memory_seq.load(Acquire);
            if want.is_there(s) {
                break Ok(());
            }
            // Relaxed: the shutdown wakes this thread after it is stored; a late look costs one limit.
            let over = s.has_ended(target) && s.space.reap_is_empty();
            if over || s.clock.now() >= deadline || s.shutdown.load(Relaxed) {
                break Err(());
            }
            // A short limit, so that a wake-up that was missed costs little.
            let limit = s.clock.now().saturating_add(10_000_000).min(deadline);
            futex_wait(&s.memory_seq, seq, Some(limit));
        };
        // Relaxed: as its increment.
        s.waiting_for_memory.fetch_sub(1, Relaxed);
        out
    }

    #[cold]
    pub(crate) fn out_of_memory(&self, bytes: u64) -> AllocError {
        let s = self.shared();
        // Relaxed: a counter.
        s.out_of_memory.fetch_add(1, Relaxed);
        AllocError::exhausted(s, bytes)
    }
}
