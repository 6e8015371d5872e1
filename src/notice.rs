//! What the writer tells `tracing`, after it has let go of everything that a subscriber might want.

use crate::events::CycleEnd;

/// Something worth a line.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    CycleStart { free_bytes: u64 },
    CycleEnd(CycleEnd),
    Synchronous { ns: u64 },
    StopCancelled { mutator: String },
    BlockedInKernel { mutator: String, place: String },
    SafepointOverdue { mutator: String, ms: u64 },
    Departure { reason: &'static str },
    AllocationFailed { count: u64 },
}

impl Notice {
    /// Calls the program's subscriber, if it has one.
    pub(crate) fn tell(&self) {
        match self {
            Notice::CycleStart { free_bytes } => {
                tracing::debug!(target: "metronome", free_bytes, "cycle start")
            }
            Notice::CycleEnd(end) => tracing::debug!(
                target: "metronome",
                quanta = end.quanta,
                collector_us = end.collector_ns / 1000,
                elapsed_ms = end.elapsed_ns / 1_000_000,
                live_bytes = end.counts.live_bytes,
                freed_bytes = end.counts.freed_bytes,
                scanned = end.counts.scanned,
                spilled = end.counts.spilled,
                condemned_bytes = end.counts.condemned_bytes,
                regions_freed = end.counts.regions_freed,
                "cycle end"
            ),
            Notice::Synchronous { ns } => {
                tracing::warn!(target: "metronome", ms = ns / 1_000_000, "synchronous collection");
            }
            Notice::StopCancelled { mutator } => {
                tracing::warn!(target: "metronome", %mutator, "stop cancelled: the mutator did not arrive");
            }
            Notice::BlockedInKernel { mutator, place } => {
                tracing::warn!(target: "metronome", %mutator, %place, "blocked in the kernel without Mutator::blocking");
            }
            Notice::SafepointOverdue { mutator, ms } => {
                tracing::warn!(target: "metronome", %mutator, ms, "safepoint overdue");
            }
            Notice::Departure { reason } => {
                tracing::warn!(target: "metronome", reason, "departure from the utilization target");
            }
            Notice::AllocationFailed { count } => {
                tracing::warn!(target: "metronome", count, "allocations failed");
            }
        }
    }
}
