//! What a view shows and a recording holds: one record for each event, as JSON.

use metronome_gc::watch::{HeapEvent, Seen, Watched};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Version of the records, in [`Event::Begin`]. It rises when a field changes its meaning; new fields and kinds do not.
pub const VERSION: u32 = 1;

/// A word that is usually known when the program is built.
pub type Word = Cow<'static, str>;

/// An event and when it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Nanoseconds since the heap was built (or the log's run began); at the end of what took time.
    pub ns: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// The beginning of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Begin {
    /// [`VERSION`].
    pub version: u32,
    /// What wrote it: this collector and its version, or the log's.
    pub source: String,
    /// The program's process; 0 if unknown.
    pub pid: u32,
    /// Milliseconds since 1970 at time 0; `None` if unknown.
    pub unix_ms: Option<i64>,
    /// Size of the heap in bytes.
    pub heap_bytes: Option<u64>,
    /// The window of the utilization target.
    pub window_ns: Option<u64>,
    /// The utilization target in parts per million.
    pub target_ppm: Option<u32>,
    /// The longest quantum.
    pub quantum_ns: Option<u64>,
    /// Period of the alarm.
    pub beat_ns: Option<u64>,
}

/// A quantum; times as in [`QuantumEvent`](metronome_gc::watch::QuantumEvent), relative to the run's beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantum {
    /// The stop request.
    pub start_ns: u64,
    /// When the last mutator ran on.
    pub end_ns: u64,
    /// Time to stop.
    pub stop_ns: u64,
    /// How late the collector's thread came for it.
    pub wakeup_ns: u64,
    /// Its budget.
    pub planned_ns: u64,
    /// CPU time of its work.
    pub cpu_ns: u64,
    /// What is charged.
    pub charged_ns: u64,
    /// `precollect`, `mark`, `postcollect`, `sweep`.
    pub phase: Word,
    /// Steps of work.
    pub steps: u32,
    /// The longest step's name.
    pub longest_step: Word,
    /// The longest step.
    pub longest_step_ns: u64,
    /// Free heap afterwards.
    pub free_bytes: u64,
    /// It was a whole synchronous collection.
    pub synchronous: bool,
}

/// Quanta in sum: what verbose GC logs hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heartbeat {
    /// Number of quanta.
    pub quanta: u64,
    /// Their phase, where the log tells.
    pub phase: Word,
    /// The shortest.
    pub min_ns: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// From the first one's start to the last one's end, or since the event before, as far as the log tells.
    pub span_ns: Option<u64>,
    /// Longest time to stop.
    pub stop_max_ns: Option<u64>,
    /// Least free heap.
    pub free_min_bytes: Option<u64>,
    /// Most free heap.
    pub free_max_bytes: Option<u64>,
}

/// What happened; the words of the field `kind` are these names in lower case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A run begins; everything until the next one belongs to it.
    Begin(Begin),
    /// A quantum.
    Quantum(Quantum),
    /// Quanta in sum.
    Heartbeat(Heartbeat),
    /// Use of memory passed the trigger.
    TriggerStart,
    /// A cycle ended with use below the trigger.
    TriggerEnd,
    /// A cycle began.
    CycleStart {
        /// Why.
        reason: Word,
        /// Free bytes, if known.
        free_bytes: Option<u64>,
    },
    /// A cycle ended.
    CycleEnd {
        /// Its quanta.
        quanta: Option<u64>,
        /// Charged collector time.
        collector_ns: Option<u64>,
        /// From start to end.
        elapsed_ns: Option<u64>,
        /// Bytes allocated meanwhile.
        allocated_bytes: Option<u64>,
        /// Bytes kept.
        live_bytes: Option<u64>,
        /// Free bytes.
        free_bytes: Option<u64>,
    },
    /// A synchronous collection.
    Synchronous {
        /// Why.
        reason: Word,
        /// The stop request.
        start_ns: u64,
        /// Free bytes before.
        free_before_bytes: Option<u64>,
        /// Free bytes after.
        free_after_bytes: Option<u64>,
    },
    /// A stop was given up.
    StopCancelled {
        /// A mutator that did not arrive.
        mutator: String,
        /// How long the others waited.
        waited_ns: u64,
        /// How long a stop may take.
        budget_ns: u64,
        /// How many did not arrive.
        missing: u64,
    },
    /// A mutator comes by no safepoint.
    SafepointOverdue {
        /// Its thread's name.
        mutator: String,
        /// For how long.
        waited_ns: u64,
    },
    /// The collector left the target.
    Departure {
        /// Why.
        reason: Word,
        /// The heap that would have been enough, if known.
        enough_heap_bytes: Option<u64>,
    },
    /// Free memory is low.
    HeadroomLow {
        /// Free bytes.
        free_bytes: u64,
        /// Size of the heap.
        heap_bytes: u64,
    },
    /// The heap changed its size.
    Resized {
        /// Size before.
        from_bytes: u64,
        /// Size after.
        to_bytes: u64,
        /// Why.
        reason: Word,
    },
    /// Allocations failed.
    AllocationFailed {
        /// How many.
        count: u64,
    },
    /// The clock went back.
    ClockStep,
    /// Memory at this moment.
    Memory {
        /// Bytes in use.
        used_bytes: u64,
        /// Size of the heap.
        heap_bytes: u64,
        /// Use at which the next cycle is to start.
        trigger_bytes: Option<u64>,
        /// Bytes allocated so far.
        allocated_bytes: u64,
    },
    /// How a mutator answered stop requests since it was last told.
    MutatorStops {
        /// Its thread's name.
        mutator: String,
        /// How many.
        stops: u64,
        /// In sum.
        sum_ns: u64,
        /// The longest.
        max_ns: u64,
    },
    /// A bookmark of the program.
    Bookmark {
        /// Its text.
        text: String,
    },
    /// A line of text.
    Note {
        /// The line.
        text: String,
    },
    /// An interval of a foreign trace.
    Interval {
        /// Its name.
        name: String,
        /// Its beginning.
        start_ns: u64,
    },
    /// A value of a foreign trace.
    Point {
        /// Its curve's name.
        name: String,
        /// The value.
        value: f64,
    },
    /// Records are missing here.
    Lost {
        /// How many since this was last told.
        count: u64,
        /// Where: `collector`, `watch`, `history`, `client`, `recording`, `log`.
        place: Word,
    },
    /// The heap was closed: nothing follows.
    End,
    /// What is known of the run ends here, and not because the heap was closed.
    BreakOff,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

impl Record {
    /// The first record of a watched heap.
    #[must_use]
    pub fn begin(w: &Watched) -> Record {
        let c = &w.config;
        let event = Event::Begin(Begin {
            version: VERSION,
            source: format!("metronome-gc {}", w.version),
            pid: std::process::id(),
            unix_ms: i64::try_from(w.start_unix_ns / 1_000_000).ok(),
            heap_bytes: Some(c.heap),
            window_ns: Some(c.window_ns),
            target_ppm: Some(c.target_utilization * 10_000),
            quantum_ns: Some(c.quantum_ns),
            beat_ns: Some(c.beat_ns),
        });
        Record { ns: 0, event }
    }

    /// What was seen, for a heap that was built at `start_ns`.
    #[must_use]
    pub fn of(seen: Seen, start_ns: u64) -> Record {
        let since = |ns: u64| ns.saturating_sub(start_ns);
        let event = match seen.event {
            HeapEvent::TriggerStart => Event::TriggerStart,
            HeapEvent::TriggerEnd => Event::TriggerEnd,
            HeapEvent::CycleStart { reason, free_bytes } => {
                Event::CycleStart { reason: reason.to_string().into(), free_bytes: Some(free_bytes) }
            }
            HeapEvent::CycleEnd {
                quanta,
                collector_ns,
                elapsed_ns,
                allocated_bytes,
                live_bytes,
                free_bytes,
                ..
            } => Event::CycleEnd {
                quanta: Some(quanta),
                collector_ns: Some(collector_ns),
                elapsed_ns: Some(elapsed_ns),
                allocated_bytes: Some(allocated_bytes),
                live_bytes: Some(live_bytes),
                free_bytes: Some(free_bytes),
            },
            HeapEvent::Quantum(q) => Event::Quantum(Quantum {
                start_ns: since(q.start_ns),
                end_ns: since(q.end_ns),
                stop_ns: q.stop_ns,
                wakeup_ns: q.wakeup_ns,
                planned_ns: q.planned_ns,
                cpu_ns: q.cpu_ns,
                charged_ns: q.charged_ns,
                phase: q.phase.name().into(),
                steps: q.steps,
                longest_step: q.longest_step.into(),
                longest_step_ns: q.longest_step_ns,
                free_bytes: q.free_bytes,
                synchronous: q.synchronous,
            }),
            HeapEvent::Synchronous { reason, start_ns, free_before_bytes, free_after_bytes, .. } => {
                Event::Synchronous {
                    reason: reason.to_string().into(),
                    start_ns: since(start_ns),
                    free_before_bytes: Some(free_before_bytes),
                    free_after_bytes: Some(free_after_bytes),
                }
            }
            HeapEvent::StopCancelled { mutator, waited_ns, budget_ns, missing } => {
                Event::StopCancelled { mutator, waited_ns, budget_ns, missing: missing.into() }
            }
            HeapEvent::SafepointOverdue { mutator, waited_ns } => {
                Event::SafepointOverdue { mutator, waited_ns }
            }
            HeapEvent::Departure { reason, enough_heap_bytes, .. } => {
                Event::Departure { reason: reason.text().into(), enough_heap_bytes }
            }
            HeapEvent::HeadroomLow { free_bytes, heap_bytes } => {
                Event::HeadroomLow { free_bytes, heap_bytes }
            }
            HeapEvent::Resized { from_bytes, to_bytes, reason } => {
                Event::Resized { from_bytes, to_bytes, reason: reason.into() }
            }
            HeapEvent::AllocationFailed { count, .. } => Event::AllocationFailed { count },
            HeapEvent::ClockStep => Event::ClockStep,
            HeapEvent::Memory { used_bytes, heap_bytes, trigger_bytes, allocated_bytes, .. } => {
                Event::Memory { used_bytes, heap_bytes, trigger_bytes, allocated_bytes }
            }
            HeapEvent::MutatorStops { mutator, stops, sum_ns, max_ns } => {
                Event::MutatorStops { mutator, stops, sum_ns, max_ns }
            }
            HeapEvent::Bookmark { text } => Event::Bookmark { text },
            HeapEvent::Note { text } => Event::Note { text },
            HeapEvent::Lost { count, .. } => Event::Lost { count, place: "collector".into() },
            _ => Event::Other,
        };
        Record { ns: since(seen.ns), event }
    }

    /// The record as one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        // Nothing in it can fail to be written: no maps, and numbers that are not finite become null.
        serde_json::to_string(self).unwrap_or_else(|_| String::from(r#"{"ns":0,"kind":"other"}"#))
    }
}
