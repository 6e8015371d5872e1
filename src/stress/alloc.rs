//! `alloc=N`: every N allocations ask for a whole cycle.
//!
//! # State
//! A counter of all threads' allocations. Under the mode each run is one cell, so that every allocation comes by the slow
//! path and is counted; cells that a failed allocation did not get are not.
//!
//! # Exactness
//! Each N-th allocation asks for one cycle more than has been asked for, so that none is lost, however fast allocations
//! follow each other. The thread that asked waits at its next safepoint, where it holds nothing that the cycle would wait
//! for; it gives up when a stop fails meanwhile, which may be its own doing.

use crate::mutator::Mutator;
use crate::shared::Shared;
use crate::sync::futex_wait;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// A safepoint waits at most this long for the cycle that its thread has asked for.
const WAIT_NS: u64 = 200_000_000;

/// Allocations counted under the mode.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    count: AtomicU64,
}

impl Shared {
    /// One more cell was handed out. Lock-free; a wake-up every N-th time.
    pub(crate) fn count_allocation(&self) -> bool {
        let Some(n) = self.config.stress.alloc else { return false };
        // Relaxed: only the number matters.
        let count = self.stress.allocations.count.fetch_add(1, Relaxed) + 1;
        let due = count.is_multiple_of(n);
        if due {
            // Acquire, both: pair with the Release at a cycle's start and end.
            let begun = self.cycle.load(Acquire).max(self.cycles_done.load(Acquire));
            // AcqRel: pairs with the Acquire in `should_start`, as in `request_cycle`; so does Acquire, of an update that is
            // tried again.
            let _ = self.requested.fetch_update(AcqRel, Acquire, |asked| Some(asked.max(begun) + 1));
            self.wake_collector();
        }
        due
    }
}

impl Mutator<'_> {
    /// Waits, at a safepoint, for the cycles asked for so far.
    pub(crate) fn wait_for_asked_cycles(&mut self) {
        let s = self.shared();
        // Relaxed: written by this thread only.
        self.record().starved.store(false, Relaxed);
        // Acquire: pairs with the AcqRel in `count_allocation`.
        let target = s.requested.load(Acquire);
        // Relaxed: a counter.
        let cancelled = s.stops_cancelled.load(Relaxed);
        let deadline = s.clock.now().saturating_add(s.config.memory_wait_ns.min(WAIT_NS));
        self.stop_running();
        // Relaxed: a hint for `announce_memory`; one that is missed costs one limit of the wait below.
        s.waiting_for_cycle.fetch_add(1, Relaxed);
        loop {
            // Acquire: pairs with the Release in `announce_memory`.
            let seq = s.memory_seq.load(Acquire);
            let now = s.clock.now();
            // Relaxed: hints; a late look costs one limit of the wait.
            let in_vain =
                s.stops_cancelled.load(Relaxed) != cancelled || s.shutdown.load(Relaxed) || s.forked();
            if s.has_ended(target) || in_vain || now >= deadline {
                break;
            }
            futex_wait(&s.memory_seq, seq, Some(now.saturating_add(10_000_000).min(deadline)));
        }
        // Relaxed: as its increment.
        s.waiting_for_cycle.fetch_sub(1, Relaxed);
        self.start_running();
    }
}
