//! What the writer is told.

use crate::model::{Generation, QuantumPhase, SyncReason};
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
    /// Free heap at its end.
    pub heap_free_bytes: u64,
    /// Weak references cleared.
    pub weak_cleared: u64,
    /// Objects handed to finalization.
    pub finalizer_enqueued: u64,
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
    /// Time to stop the mutators.
    pub exclusive_access_ns: u64,
    /// Priority of the collector's thread.
    pub priority: u64,
    /// CPU time; `None` where it cannot be measured.
    pub cpu_ns: Option<u64>,
    /// Weak references cleared.
    pub weak_cleared: u64,
    /// Objects handed to finalization.
    pub finalizer_enqueued: u64,
}
