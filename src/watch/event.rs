//! What watchers see.

use crate::events::{Event, Quantum};
use crate::reason::{CycleReason, DepartureReason, SyncReason};
use metronome_barrier::Phase;
use metronome_verbosegc::model::QuantumPhase;

/// An event and when it was, on the heap's clock (monotonic, nanoseconds; at the end of what took time).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// When.
    pub ns: u64,
    /// What.
    pub event: HeapEvent,
}

/// One quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuantumEvent {
    /// The stop request.
    pub start_ns: u64,
    /// When the last mutator ran on, or the release if nobody waited.
    pub end_ns: u64,
    /// From the stop request until no mutator ran.
    pub stop_ns: u64,
    /// How late the collector's thread came for it.
    pub wakeup_ns: u64,
    /// Its budget.
    pub planned_ns: u64,
    /// CPU time of its work.
    pub cpu_ns: u64,
    /// What is charged to the collector.
    pub charged_ns: u64,
    /// The phase in which it began, in the words of the verbose GC log.
    pub phase: QuantumPhase,
    /// Steps of work.
    pub steps: u32,
    /// Name of the longest step.
    pub longest_step: &'static str,
    /// The longest step.
    pub longest_step_ns: u64,
    /// Free heap afterwards.
    pub free_bytes: u64,
    /// It was a whole synchronous collection.
    pub synchronous: bool,
}

/// What happened, or what was seen when somebody looked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapEvent {
    /// Use of memory passed the trigger.
    TriggerStart,
    /// A cycle ended with use below the trigger.
    TriggerEnd,
    /// A cycle began.
    CycleStart {
        /// Why.
        reason: CycleReason,
        /// Free bytes.
        free_bytes: u64,
    },
    /// A cycle ended.
    CycleEnd {
        /// Its quanta.
        quanta: u64,
        /// Charged collector time.
        collector_ns: u64,
        /// From start to end.
        elapsed_ns: u64,
        /// Bytes allocated meanwhile.
        allocated_bytes: u64,
        /// Bytes kept.
        live_bytes: u64,
        /// Bytes freed.
        freed_bytes: u64,
        /// Free bytes.
        free_bytes: u64,
    },
    /// A quantum.
    Quantum(QuantumEvent),
    /// A synchronous collection, besides its quantum.
    Synchronous {
        /// Why.
        reason: SyncReason,
        /// The stop request.
        start_ns: u64,
        /// Time to stop the mutators.
        stop_ns: u64,
        /// Free bytes before.
        free_before_bytes: u64,
        /// Free bytes after.
        free_after_bytes: u64,
    },
    /// A stop was given up because mutators did not arrive.
    StopCancelled {
        /// One that did not, by its thread's name.
        mutator: String,
        /// How long the others waited.
        waited_ns: u64,
        /// How long a stop may take.
        budget_ns: u64,
        /// How many did not arrive.
        missing: u32,
    },
    /// A mutator polls but comes by no safepoint; the cycle waits for it.
    SafepointOverdue {
        /// Its thread's name.
        mutator: String,
        /// For how long.
        waited_ns: u64,
    },
    /// The collector left the target.
    Departure {
        /// Why.
        reason: DepartureReason,
        /// Collector time that a window may hold from now on.
        allowance_ns: u64,
        /// The heap that would have been enough, by what was measured, if something was.
        enough_heap_bytes: Option<u64>,
    },
    /// Free memory is low.
    HeadroomLow {
        /// Free bytes.
        free_bytes: u64,
        /// Size of the heap.
        heap_bytes: u64,
    },
    /// The heap grew, shrank or gave memory back.
    Resized {
        /// Size before.
        from_bytes: u64,
        /// Size after.
        to_bytes: u64,
        /// Why.
        reason: &'static str,
    },
    /// Allocations returned an error to the program.
    AllocationFailed {
        /// How many since this was last told.
        count: u64,
        /// How many in all.
        total: u64,
    },
    /// The clock went back.
    ClockStep,
    /// Memory, looked at some times per second.
    Memory {
        /// Bytes in allocated cells.
        used_bytes: u64,
        /// Size of the heap.
        heap_bytes: u64,
        /// Use at which the next cycle is to start, if it is known.
        trigger_bytes: Option<u64>,
        /// Bytes allocated since the heap was made.
        allocated_bytes: u64,
        /// Memory that the heap has of the system.
        resident_bytes: u64,
    },
    /// How a mutator answered stop requests since it was last told.
    MutatorStops {
        /// Its thread's name.
        mutator: String,
        /// Stops that it was asked for while it ran, and answered.
        stops: u64,
        /// From the requests to its arrivals, in sum.
        sum_ns: u64,
        /// The longest of them.
        max_ns: u64,
    },
    /// A bookmark of the program; see [`Heap::bookmark`](crate::Heap::bookmark).
    Bookmark {
        /// Its text.
        text: String,
    },
    /// A line of text, as in the log.
    Note {
        /// The line.
        text: String,
    },
    /// The collector's ring was full: some events never came to the writer.
    Lost {
        /// How many since this was last told.
        count: u64,
        /// How many in all.
        total: u64,
    },
}

/// The log's word for a phase.
pub(crate) const fn word(phase: Phase) -> QuantumPhase {
    match phase {
        Phase::Idle => QuantumPhase::Unknown,
        Phase::Snapshot => QuantumPhase::Precollect,
        Phase::Mark => QuantumPhase::Mark,
        Phase::Weak | Phase::Finalize | Phase::Phantom => QuantumPhase::Postcollect,
        Phase::Sweep => QuantumPhase::Sweep,
    }
}

impl From<&Quantum> for QuantumEvent {
    fn from(q: &Quantum) -> QuantumEvent {
        QuantumEvent {
            start_ns: q.start_ns,
            end_ns: q.resumed_ns.max(q.end_ns),
            stop_ns: q.stop_ns,
            wakeup_ns: q.wakeup_ns,
            planned_ns: q.planned_ns,
            cpu_ns: q.cpu_ns,
            charged_ns: q.charged_ns,
            phase: word(q.phase),
            steps: q.steps,
            longest_step: q.longest_step.text(),
            longest_step_ns: q.longest_step_ns,
            free_bytes: q.free_bytes,
            synchronous: q.synchronous,
        }
    }
}

impl Seen {
    /// What watchers see of an event of the collector; `now` for what has no time of its own.
    pub(crate) fn of(e: &Event, now: u64, name: impl Fn(u32) -> String) -> Seen {
        let (ns, event) = match *e {
            Event::TriggerStart { ns } => (ns, HeapEvent::TriggerStart),
            Event::TriggerEnd { ns } => (ns, HeapEvent::TriggerEnd),
            Event::CycleStart { ns, reason, free_bytes } => {
                (ns, HeapEvent::CycleStart { reason, free_bytes })
            }
            Event::CycleEnd(c) => (
                c.ns,
                HeapEvent::CycleEnd {
                    quanta: c.quanta,
                    collector_ns: c.collector_ns,
                    elapsed_ns: c.elapsed_ns,
                    allocated_bytes: c.allocated_bytes,
                    live_bytes: c.counts.live_bytes,
                    freed_bytes: c.counts.freed_bytes,
                    free_bytes: c.free_bytes,
                },
            ),
            Event::Quantum(ref q) => {
                let q = QuantumEvent::from(q);
                (q.end_ns, HeapEvent::Quantum(q))
            }
            Event::Synchronous { start_ns, end_ns, stop_ns, free_before, free_after, reason, .. } => (
                end_ns,
                HeapEvent::Synchronous {
                    reason,
                    start_ns,
                    stop_ns,
                    free_before_bytes: free_before,
                    free_after_bytes: free_after,
                },
            ),
            Event::StopCancelled { ns, waited_ns, budget_ns, running, record } => {
                let mutator = name(record);
                (ns, HeapEvent::StopCancelled { mutator, waited_ns, budget_ns, missing: running })
            }
            Event::SafepointOverdue { ns, since_ns, record } => {
                let waited_ns = ns.saturating_sub(since_ns);
                (ns, HeapEvent::SafepointOverdue { mutator: name(record), waited_ns })
            }
            Event::Departure { ns, reason, allowance_ns, enough } => {
                let enough_heap_bytes = enough.map(|e| e.heap_bytes);
                (ns, HeapEvent::Departure { reason, allowance_ns, enough_heap_bytes })
            }
            Event::HeadroomLow { free_bytes, heap_bytes } => {
                (now, HeapEvent::HeadroomLow { free_bytes, heap_bytes })
            }
            Event::Grown { ns, from_bytes, to_bytes } => {
                (ns, HeapEvent::Resized { from_bytes, to_bytes, reason: "headroom" })
            }
            Event::AllocationFailed { ns, count, total, .. } => {
                (ns, HeapEvent::AllocationFailed { count, total })
            }
            Event::ClockStep { ns } => (ns, HeapEvent::ClockStep),
        };
        Seen { ns, event }
    }
}
