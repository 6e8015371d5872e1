//! A verbose GC log of either generation. It holds sums of quanta, not quanta; times are those that it prints, in
//! milliseconds or seconds.

use super::InputError;
use crate::model::{Begin, Event, Heartbeat, Record, VERSION};
use metronome_gc::verbosegc::LogTime;
use metronome_gc::verbosegc::model::{self, Generation, LoggedEvent};
use metronome_gc::verbosegc::reader::{Item, Reader};
use std::collections::VecDeque;
use std::io::BufRead;

pub(super) struct Records<R> {
    reader: Reader<R>,
    ready: VecDeque<Record>,
    begin: Begin,
    /// A run's first record waits for its header, or for the first event without one.
    begun: bool,
    start: Option<LogTime>,
    ns: u64,
    events: u64,
    ended: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R) -> Records<R> {
        Records {
            reader: Reader::new(input),
            ready: VecDeque::new(),
            begin: Begin::default(),
            begun: true,
            start: None,
            ns: 0,
            events: 0,
            ended: false,
        }
    }

    fn put(&mut self, event: Event) {
        if !std::mem::replace(&mut self.begun, true) {
            let begin = Event::Begin(self.begin.clone());
            self.ready.push_back(Record { ns: 0, event: begin });
        }
        self.ready.push_back(Record { ns: self.ns, event });
    }

    /// Nanoseconds from the run's first time; a time that goes back counts as the one before.
    fn at(&mut self, time: Option<LogTime>) {
        let Some(time) = time else { return };
        let start = *self.start.get_or_insert(time);
        if self.begin.unix_ms.is_none() {
            self.begin.unix_ms = Some(start.civil_ms());
        }
        let ms = u64::try_from(time.ms_since(start)).unwrap_or(0);
        self.ns = self.ns.max(ms.saturating_mul(1_000_000));
    }

    fn run(&mut self, generation: Option<Generation>, version: Option<String>) {
        let form = match generation {
            Some(Generation::V2007) => "verbose GC log of 2007",
            Some(Generation::OpenJ9) => "OpenJ9 verbose GC log",
            None => "verbose GC log",
        };
        let source = version.map_or_else(|| form.to_owned(), |v| format!("{form}, {v}"));
        self.begin = Begin { version: VERSION, source, ..Begin::default() };
        (self.begun, self.start, self.ns) = (false, None, 0);
    }

    fn header(&mut self, h: &model::Initialized) {
        self.begin.heap_bytes = h.heap_max_bytes;
        self.begin.window_ns = h.window_ns;
        self.begin.target_ppm = h.target_ppm;
        self.begin.beat_ns = h.beat_ns;
    }

    fn event(&mut self, e: LoggedEvent) {
        self.events += 1;
        self.at(e.timestamp);
        let event = match e.event {
            model::Event::Initialized(h) => {
                self.header(&h);
                return;
            }
            model::Event::TriggerStart { .. } => Event::TriggerStart,
            model::Event::TriggerEnd { .. } => Event::TriggerEnd,
            model::Event::CycleStart(c) => Event::CycleStart {
                reason: c.reason.map_or_else(|| "unknown".into(), |r| r.to_string().into()),
                free_bytes: c.heap_free_bytes,
            },
            model::Event::CycleEnd(c) => Event::CycleEnd {
                quanta: None,
                collector_ns: None,
                elapsed_ns: c.interval_ns,
                allocated_bytes: None,
                live_bytes: None,
                free_bytes: c.heap_free_bytes,
            },
            model::Event::Heartbeat(h) => heartbeat(&h),
            model::Event::SyncGc(s) => {
                self.at(s.end);
                Event::Synchronous {
                    reason: s.reason.as_ref().map_or_else(|| "unknown".into(), |r| r.to_string().into()),
                    start_ns: self.ns.saturating_sub(s.duration_ns.unwrap_or(0)),
                    free_before_bytes: s.free_before_bytes,
                    free_after_bytes: s.free_after_bytes,
                }
            }
            model::Event::OutOfMemory(_) => Event::AllocationFailed { count: 1 },
            model::Event::NonMonotonicTime(_) => Event::ClockStep,
            model::Event::Warning { details } => Event::Note { text: details },
            model::Event::Note(n) => match n.text.strip_prefix("bookmark: ") {
                Some(text) => Event::Bookmark { text: text.into() },
                None => Event::Note { text: n.text },
            },
            model::Event::StopCancelled(s) => Event::StopCancelled {
                mutator: s.mutator,
                waited_ns: s.waited_ns,
                budget_ns: s.budget_ns,
                missing: s.missing_mutators,
            },
            model::Event::LostRecords(l) => Event::Lost { count: l.count, place: "collector".into() },
            model::Event::Departure(d) => {
                Event::Departure { reason: d.reason.into(), enough_heap_bytes: d.enough_heap_bytes }
            }
            model::Event::Resize(r) => {
                Event::Resized { from_bytes: r.from_bytes, to_bytes: r.to_bytes, reason: r.reason.into() }
            }
            model::Event::Cycle(c) => Event::Note {
                text: format!(
                    "cycle of {} quanta, {} us of collector time, {} bytes allocated meanwhile",
                    c.quanta,
                    c.collector_ns / 1000,
                    c.allocated_bytes
                ),
            },
            model::Event::OutputLost(_) => Event::Note { text: "output of the log was lost here".into() },
            // Threads, totals and other facts that are no events in time.
            _ => return,
        };
        self.put(event);
    }

    fn fill(&mut self) -> Result<bool, InputError> {
        match self.reader.read().map_err(InputError::Read)? {
            None if self.events == 0 => return Err(InputError::Unknown),
            None => return Ok(false),
            Some(Item::RunStart(start)) => self.run(start.generation, start.version),
            Some(Item::Event(e)) => self.event(e),
            Some(Item::Refused(policy)) => return Err(InputError::OtherPolicy(policy)),
            Some(Item::Diagnostic(d)) if self.events > 0 => {
                self.put(Event::Note { text: format!("log, {d}") })
            }
            Some(Item::RunEnd(end)) if self.events > 0 => {
                self.put(if end.complete { Event::End } else { Event::BreakOff });
            }
            Some(_) => {}
        }
        Ok(true)
    }
}

fn heartbeat(h: &model::Heartbeat) -> Event {
    let quantum = h.quantum.unwrap_or_default();
    let span = h.detail.as_ref().map(|d| d.last_end_ns.saturating_sub(d.first_start_ns));
    Event::Heartbeat(Heartbeat {
        quanta: h.quantum_count.unwrap_or(0),
        phase: h.phase.map_or("", model::QuantumPhase::name).into(),
        min_ns: quantum.min_ns,
        mean_ns: quantum.mean_ns,
        max_ns: quantum.max_ns,
        span_ns: span.or(h.interval_ns).or(h.derived_interval_ns),
        stop_max_ns: h.exclusive_access.map(|s| s.max_ns),
        free_min_bytes: h.heap_free.map(|f| f.min_bytes),
        free_max_bytes: h.heap_free.map(|f| f.max_bytes),
    })
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(r) = self.ready.pop_front() {
                return Some(Ok(r));
            }
            if self.ended {
                return None;
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => self.ended = true,
                Err(e) => {
                    self.ended = true;
                    return Some(Err(e));
                }
            }
        }
    }
}
