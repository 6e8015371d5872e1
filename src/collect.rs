//! Collections that the program asks for.

use crate::mutator::Mutator;
use crate::reason::SyncReason;
use crate::shared::{MutatorState, Shared};
use crate::sync::futex_wait;
use metronome_barrier::Phase;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How to collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Collect {
    /// A cycle that begins after the call, by quanta, as every other cycle: the target is kept. Returns when it has ended.
    Cycle,
    /// Finishes the cycle that is active at once, with the mutators stopped for as long as it takes. Nothing if none is.
    Finish,
    /// Finishes the active cycle and does a whole one, both at once (the original's system garbage collect): all that is
    /// unreachable at the call has been found when it returns.
    Full,
    /// As `Full`, and then gives the memory of all empty regions back to the system.
    Trim,
    /// Now would be a good moment: asks for a cycle by quanta and does not wait for it; nothing if one is active, or if
    /// less than a sixteenth of the heap has been allocated since the last one ended. (.NET: `Optimized`.)
    Hint,
}

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Cycles that ended meanwhile.
    pub cycles: u64,
    /// There was nothing to do.
    pub skipped: bool,
    /// Memory given back to the system, in bytes.
    pub returned_bytes: u64,
}

/// Why a collection that was asked for is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectError {
    /// The calling thread is inside the heap: the collection would wait for its safepoint. Use [`Mutator::collect`].
    Inside,
    /// `memory-wait` was over before; it goes on by itself. It waits for safepoints of all mutators.
    TimedOut {
        /// A mutator that has not come by a safepoint since the cycle began, if there is one.
        mutator: Option<String>,
    },
    /// The heap is closed or being closed.
    Closed,
    /// The process is a fork of the one that made the heap; it has no collector.
    Forked,
}

impl fmt::Display for CollectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectError::Inside => f.write_str(
                "this thread is inside the heap, whose collection would wait for it: use Mutator::collect",
            ),
            CollectError::TimedOut { mutator: Some(name) } => write!(
                f,
                "memory-wait is over before the collection has ended: the thread {name} has not come by a safepoint; \
                 let it, or wrap what it waits for in Mutator::blocking"
            ),
            CollectError::TimedOut { mutator: None } => {
                f.write_str("memory-wait is over before the collection has ended: raise memory-wait")
            }
            CollectError::Closed => f.write_str("the heap is closed"),
            CollectError::Forked => f.write_str(
                "a forked child has no collector for its parent's heap: make a heap of its own, or exec",
            ),
        }
    }
}

impl std::error::Error for CollectError {}

/// Asks for a collection and waits for it. On a thread that is not running inside the heap.
pub(crate) fn collect(s: &Shared, mode: Collect) -> Result<Collected, CollectError> {
    if s.forked() {
        return Err(CollectError::Forked);
    }
    // Acquire, both: pair with the Release at a cycle's start and end.
    let (started, before) = (s.cycle.load(Acquire), s.cycles_done.load(Acquire));
    let target = match mode {
        Collect::Hint => {
            let skipped = started > before || s.allocated_since_cycle() < s.space.heap_bytes() / 16;
            if !skipped {
                s.request_cycle();
            }
            return Ok(Collected { skipped, ..Collected::default() });
        }
        Collect::Finish if started == before && s.phase.get() == Phase::Idle => {
            return Ok(Collected { skipped: true, ..Collected::default() });
        }
        Collect::Finish => {
            s.finish_through(started, SyncReason::SystemGc);
            s.wake_collector();
            started
        }
        Collect::Cycle => s.request_cycle(),
        Collect::Full => s.request_cycle_at_once(SyncReason::SystemGc),
        Collect::Trim => s.request_cycle_at_once(SyncReason::Trim),
    };
    wait(s, target)?;
    let returned_bytes = if mode == Collect::Trim { s.trim_all("explicit") } else { 0 };
    // Acquire: as above.
    let cycles = s.cycles_done.load(Acquire).saturating_sub(before);
    Ok(Collected { cycles, skipped: false, returned_bytes })
}

fn wait(s: &Shared, target: u64) -> Result<(), CollectError> {
    let deadline = s.clock.now().saturating_add(s.config.memory_wait_ns);
    // Relaxed: a hint for `announce_memory`; one that is missed costs one limit of the wait below.
    s.waiting_for_cycle.fetch_add(1, Relaxed);
    // Relaxed: a report.
    let cancelled = s.stops_cancelled.load(Relaxed);
    let out = loop {
        // Acquire: pairs with the Release in `announce_memory`.
        let seq = s.memory_seq.load(Acquire);
        if s.has_ended(target) {
            break Ok(());
        }
        // Relaxed: the shutdown wakes this thread after it is stored; a late look costs one limit.
        if s.shutdown.load(Relaxed) {
            break Err(CollectError::Closed);
        }
        let now = s.clock.now();
        if now >= deadline {
            // Relaxed: a report.
            let cycle = s.cycle.load(Relaxed);
            let running = || s.records().filter(|r| r.state() == MutatorState::Running);
            let late = running().find(|r| r.passed.load(Relaxed) != cycle);
            // If stops failed, the cycle may not even have begun: some mutator does not poll.
            let late = late.or_else(|| running().find(|_| s.stops_cancelled.load(Relaxed) != cancelled));
            break Err(CollectError::TimedOut { mutator: late.map(|r| r.name().to_string()) });
        }
        futex_wait(&s.memory_seq, seq, Some(now.saturating_add(10_000_000).min(deadline)));
    };
    // Relaxed: as its increment.
    s.waiting_for_cycle.fetch_sub(1, Relaxed);
    out
}

impl Mutator<'_> {
    /// Collects as `mode` says. A safepoint; waits as a native thread, at most `memory-wait`.
    ///
    /// A synchronous mode stops all mutators for as long as the collection takes, and leaves the utilization target: that
    /// is an event, with its reason, in the log.
    ///
    /// # Errors
    /// [`CollectError`].
    pub fn collect(&mut self, mode: Collect) -> Result<Collected, CollectError> {
        // SAFETY: a mutator's heap is alive and in an `Arc`.
        let shared = unsafe { crate::handle::arc_of(self.shared) };
        self.blocking(|| collect(&shared, mode))
    }
}
