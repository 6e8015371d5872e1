//! What the writer is told.

use crate::model::{CycleReason, Generation, QuantumPhase, References, SyncReason};
use crate::time::WallClock;

/// The format to write.
pub type Format = Generation;

/// Settings of a [`LogWriter`](super::LogWriter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Version string of the root element. The 2007 generation is recognised by its end, so `-Metronome` is
    /// appended there if it is missing.
    pub version: String,
    /// A heartbeat is written by the first quantum that ends this long after the last one; not 0 in practice
    /// (0 writes one heartbeat for each quantum). Default one second.
    pub heartbeat_interval_ns: u64,
    /// Mapping of the facts' monotonic times to printed ones.
    pub wall_clock: WallClock,
}

impl Options {
    /// Options with the default interval.
    pub fn new(version: impl Into<String>, wall_clock: WallClock) -> Self {
        Self { version: version.into(), heartbeat_interval_ns: 1_000_000_000, wall_clock }
    }
}

/// A cycle's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleStartFacts {
    /// Free heap.
    pub heap_free_bytes: u64,
    /// Why it began; written only if it is told.
    pub reason: Option<CycleReason>,
}

/// References cleared and finalizers, of one quantum or one synchronous collection. A count of 0 is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkFacts {
    /// Soft references cleared.
    pub soft_cleared: u64,
    /// Age in cycles at which soft references are cleared now.
    pub soft_threshold: u64,
    /// The highest such age, with all memory free; 0 says that this quantum knows of no thresholds.
    pub soft_threshold_max: u64,
    /// Weak references cleared, without long ones.
    pub weak_cleared: u64,
    /// Phantom references cleared (or enqueued, as a reference queue has it).
    pub phantom_cleared: u64,
    /// Objects handed to finalization.
    pub finalizer_enqueued: u64,
    /// What the old forms have no place for.
    pub references: References,
}

impl WorkFacts {
    /// Takes the next quantum's. Thresholds are the last ones known, the backlog is the highest, all else sums.
    pub(super) fn add(&mut self, next: &Self) {
        let sum = |total: &mut u64, n: u64| *total = total.saturating_add(n);
        sum(&mut self.soft_cleared, next.soft_cleared);
        if next.soft_threshold_max > 0 {
            self.soft_threshold = next.soft_threshold;
            self.soft_threshold_max = next.soft_threshold_max;
        }
        sum(&mut self.weak_cleared, next.weak_cleared);
        sum(&mut self.phantom_cleared, next.phantom_cleared);
        sum(&mut self.finalizer_enqueued, next.finalizer_enqueued);
        let (r, n) = (&mut self.references, &next.references);
        sum(&mut r.weak_long_cleared, n.weak_long_cleared);
        sum(&mut r.ephemerons_cleared, n.ephemerons_cleared);
        sum(&mut r.finalizers_run, n.finalizers_run);
        sum(&mut r.finalizers_suppressed, n.finalizers_suppressed);
        sum(&mut r.finalizers_panicked, n.finalizers_panicked);
        r.finalizer_backlog = r.finalizer_backlog.max(n.finalizer_backlog);
    }
}

/// One quantum.
///
/// `start_ns` is the stop request and `end_ns` the last mutator's resumption: the quantum as the mutators feel
/// it. All times are on the monotonic clock of [`WallClock`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuantumFacts {
    /// Stop request.
    pub start_ns: u64,
    /// Last mutator resumed.
    pub end_ns: u64,
    /// The collector was done and let the mutators go; `None` if that is not known.
    pub released_ns: Option<u64>,
    /// What it worked on.
    pub phase: QuantumPhase,
    /// Time to stop the mutators.
    pub exclusive_access_ns: u64,
    /// From the beat to the running collector.
    pub wakeup_ns: u64,
    /// Length that was planned.
    pub planned_ns: u64,
    /// CPU time of the collector; `None` where it cannot be measured.
    pub cpu_ns: Option<u64>,
    /// Wall time of the stretch that `cpu_ns` was measured over; `None` if that is not known.
    pub work_ns: Option<u64>,
    /// Free heap at its end.
    pub heap_free_bytes: u64,
    /// Free immortal memory at its end; `None` if there is no such memory.
    pub immortal_free_bytes: Option<u64>,
    /// References cleared and finalizers.
    pub work: WorkFacts,
    /// Packets that overflowed the mark queue.
    pub overflow_packets: u64,
    /// Objects that overflowed the mark queue.
    pub overflow_objects: u64,
    /// Priority of the collector's thread.
    pub gc_thread_priority: u64,
    /// Longest uninterruptible step.
    pub longest_step_ns: u64,
    /// Its name.
    pub longest_step: &'static str,
}

/// One stop-the-world collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncGcFacts {
    /// Stop request.
    pub start_ns: u64,
    /// Mutators resumed.
    pub end_ns: u64,
    /// Why.
    pub reason: SyncReason,
    /// The request that could not be served; printed with [`SyncReason::OutOfMemory`] only.
    pub requested_bytes: u64,
    /// Free heap before.
    pub free_before_bytes: u64,
    /// Free heap after.
    pub free_after_bytes: u64,
    /// Free immortal memory before; `None` if there is no such memory.
    pub immortal_before_bytes: Option<u64>,
    /// Free immortal memory after.
    pub immortal_after_bytes: Option<u64>,
    /// Time to stop the mutators.
    pub exclusive_access_ns: u64,
    /// Priority of the collector's thread.
    pub priority: u64,
    /// CPU time; `None` where it cannot be measured.
    pub cpu_ns: Option<u64>,
    /// References cleared and finalizers.
    pub work: WorkFacts,
}
