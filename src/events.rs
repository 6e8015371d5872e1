//! What the collector tells: typed events, recorded into a preallocated ring and drained by the writer thread.
//!
//! Recording never allocates, locks or does I/O; when the ring is full the newest event is dropped and counted.

#[allow(unsafe_code)]
pub(crate) mod ring;

use crate::collector::{CycleCounts, StepName};
use crate::reason::{CycleReason, DepartureReason, SyncReason};
use crate::stats::ReferenceCounts;
use metronome_barrier::Phase;
use ring::{Consumer, Producer};

/// One quantum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantum {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// From the stop request until no mutator ran.
    pub(crate) stop_ns: u64,
    /// How late the collector thread came for it.
    pub(crate) wakeup_ns: u64,
    pub(crate) planned_ns: u64,
    /// CPU time of the collector thread from the end of the stop to the resumption.
    pub(crate) cpu_ns: u64,
    /// Wall time of the same stretch.
    pub(crate) work_ns: u64,
    /// What is charged to the collector: the stop (up to its budget) and the CPU time of the work.
    pub(crate) charged_ns: u64,
    /// When the last mutator ran on (0: unknown).
    pub(crate) resumed_ns: u64,
    pub(crate) phase: Phase,
    pub(crate) steps: u32,
    /// Steps that took longer than any step can, and what they took above that.
    pub(crate) interrupted: u32,
    pub(crate) interrupted_ns: u64,
    /// CPU time of the helpers that came out since the last quantum.
    pub(crate) helpers_cpu_ns: u64,
    pub(crate) longest_step: StepName,
    pub(crate) longest_step_ns: u64,
    pub(crate) free_bytes: u64,
    pub(crate) references: ReferenceCounts,
    /// Cycles that an unused soft reference is kept in this cycle.
    pub(crate) soft_age: u64,
    /// Set for the quanta of a synchronous collection.
    pub(crate) synchronous: bool,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    TriggerStart {
        ns: u64,
    },
    TriggerEnd {
        ns: u64,
    },
    CycleStart {
        ns: u64,
        reason: CycleReason,
        free_bytes: u64,
    },
    CycleEnd(CycleEnd),
    Quantum(Quantum),
    Synchronous {
        start_ns: u64,
        end_ns: u64,
        stop_ns: u64,
        cpu_ns: u64,
        free_before: u64,
        free_after: u64,
        references: ReferenceCounts,
        soft_age: u64,
        reason: SyncReason,
        requested_bytes: u64,
    },
    StopCancelled {
        ns: u64,
        waited_ns: u64,
        budget_ns: u64,
        running: u32,
        record: u32,
    },
    SafepointOverdue {
        ns: u64,
        since_ns: u64,
        record: u32,
    },
    Departure {
        ns: u64,
        reason: DepartureReason,
        allowance_ns: u64,
        enough: Option<Enough>,
    },
    HeadroomLow {
        free_bytes: u64,
        heap_bytes: u64,
    },
    Grown {
        ns: u64,
        from_bytes: u64,
        to_bytes: u64,
    },
    AllocationFailed {
        ns: u64,
        count: u64,
        total: u64,
        enough: Option<Enough>,
    },
    ClockStep {
        ns: u64,
    },
}

/// The heap that would have been enough, and what that follows from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enough {
    pub(crate) heap_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) allocation_bytes: u64,
}

/// A finished cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CycleEnd {
    pub(crate) ns: u64,
    pub(crate) free_bytes: u64,
    pub(crate) quanta: u64,
    pub(crate) collector_ns: u64,
    pub(crate) cpu_ns: u64,
    /// Of it, in steps over roots and globals.
    pub(crate) handles_ns: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) predicted_collector_ns: Option<u64>,
    pub(crate) predicted_allocated_bytes: Option<u64>,
    pub(crate) counts: CycleCounts,
}

/// The collector's end of the ring.
#[derive(Debug)]
pub(crate) struct Recorder(Producer<Event>);

/// The writer's end of the ring.
#[derive(Debug)]
pub(crate) struct Drain(Consumer<Event>);

/// A ring for `records` events, allocated now.
pub(crate) fn ring(records: usize) -> (Recorder, Drain) {
    let (mut producer, mut consumer) = ring::ring(records);
    // Filled once, so that its pages are touched now and not in a quantum.
    while producer.push(Event::ClockStep { ns: 0 }).is_ok() {}
    while consumer.pop().is_some() {}
    (Recorder(producer), Drain(consumer))
}

impl Recorder {
    /// Records an event, or counts it as lost. O(1), wait-free.
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn emit(&mut self, e: Event) {
        self.0.offer(e);
    }
}

impl Drain {
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.0.pop()
    }

    /// Events lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.0.lost()
    }
}
