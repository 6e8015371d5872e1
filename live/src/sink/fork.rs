//! A trace for Tuning Fork, the viewer of the original Metronome.

use super::Sink;
use crate::model::{Event, Quantum, Record};
use metronome_tuningfork::{Attribute, Attributes, EventType, Writer};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Names of this project's own event types, by which [`crate::input`] knows its traces.
pub(crate) const QUANTUM: &str = "Metronome quantum";
pub(crate) const RECORD: &str = "Metronome record";

/// Feedlets.
const COLLECTOR: i32 = 0;
const CYCLES: i32 = 1;
const PROGRAM: i32 = 2;
const MEMORY: i32 = 3;
const FIRST_MUTATOR: i32 = 4;
/// Mutators that get a feedlet; the names of more threads than that say nothing in a picture.
const MUTATORS_MAX: usize = 256;

/// Phases that have an interval of their own; what is none of them counts as `quantum`.
const PHASES: [&str; 5] = ["precollect", "mark", "postcollect", "sweep", "quantum"];

/// Event types.
const T_QUANTUM: i32 = 1;
const T_RECORD: i32 = 2;
const T_CYCLE: i32 = 3;
const T_SYNCHRONOUS: i32 = 5;
const T_USED: i32 = 7;
const T_HEAP: i32 = 8;
const T_FREE: i32 = 9;
const T_ALLOCATED: i32 = 10;
const T_STOP: i32 = 11;
const T_BOOKMARK: i32 = 12;
const T_EVENT: i32 = 13;
const T_MUTATOR: i32 = 14;
/// Two for each of [`PHASES`].
const T_PHASES: i32 = 20;

/// Writes such a trace: intervals for quanta by phase, cycles and synchronous collections; points for memory and times to
/// stop; bookmarks. Beside them it holds each record whole, in event types of this project's own, so that nothing is lost
/// when [`crate::input::open`] reads it back. A log with several runs makes one trace; its later runs follow the first in
/// time.
#[derive(Debug)]
pub struct TuningFork<W: Write> {
    writer: Option<Writer<W>>,
    out: Option<W>,
    /// Added to all times: the end of the runs before.
    base_ns: u64,
    last_ns: u64,
    in_cycle: bool,
    mutators: BTreeMap<String, i32>,
    /// Number of the next record: the feedlets have no order among each other.
    number: i32,
}

fn point(value: u64) -> Attributes {
    #[expect(clippy::cast_precision_loss, reason = "for a picture")]
    Attributes { doubles: vec![value as f64], ..Attributes::default() }
}

fn text(text: &str) -> Attributes {
    Attributes { strings: vec![text.into()], ..Attributes::default() }
}

fn time(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// The typed form of a quantum.
fn attributes(q: &Quantum, number: i32) -> Attributes {
    let longs = [
        q.start_ns,
        q.end_ns,
        q.stop_ns,
        q.wakeup_ns,
        q.planned_ns,
        q.cpu_ns,
        q.charged_ns,
        q.longest_step_ns,
        q.free_bytes,
    ];
    Attributes {
        ints: vec![number, q.steps.cast_signed(), q.synchronous.into()],
        longs: longs.map(u64::cast_signed).to_vec(),
        doubles: Vec::new(),
        strings: vec![q.phase.to_string(), q.longest_step.to_string()],
    }
}

/// The quantum of its typed form; `None` if it has another shape.
pub(crate) fn quantum(a: &Attributes) -> Option<Quantum> {
    let longs: Vec<u64> = a.longs.iter().map(|n| n.cast_unsigned()).collect();
    let [start_ns, end_ns, stop_ns, wakeup_ns, planned_ns, cpu_ns, charged_ns, longest_step_ns, free_bytes] =
        longs[..]
    else {
        return None;
    };
    let ([_, steps, synchronous], [phase, longest_step]) = (&a.ints[..], &a.strings[..]) else { return None };
    Some(Quantum {
        start_ns,
        end_ns,
        stop_ns,
        wakeup_ns,
        planned_ns,
        cpu_ns,
        charged_ns,
        phase: phase.clone().into(),
        steps: steps.cast_unsigned(),
        longest_step: longest_step.clone().into(),
        longest_step_ns,
        free_bytes,
        synchronous: *synchronous != 0,
    })
}

fn types() -> Vec<EventType> {
    let named = |names: &[&str]| -> Vec<Attribute> {
        names.iter().map(|n| Attribute { name: (*n).into(), description: String::new() }).collect()
    };
    let mut all = vec![
        EventType {
            id: T_QUANTUM,
            name: QUANTUM.into(),
            description: "a quantum with all its figures".into(),
            ints: named(&["number", "steps", "synchronous"]),
            longs: named(&[
                "start ns",
                "end ns",
                "stop ns",
                "wakeup ns",
                "planned ns",
                "cpu ns",
                "charged ns",
                "longest step ns",
                "free bytes",
            ]),
            doubles: Vec::new(),
            strings: named(&["phase", "longest step"]),
        },
        EventType {
            id: T_RECORD,
            name: RECORD.into(),
            description: "another record, as JSON".into(),
            ints: named(&["number"]),
            strings: named(&["json"]),
            ..EventType::default()
        },
        EventType::interval_start(T_CYCLE, "cycle"),
        EventType::interval_stop(T_CYCLE + 1, "cycle"),
        EventType::interval_start(T_SYNCHRONOUS, "synchronous collection"),
        EventType::interval_stop(T_SYNCHRONOUS + 1, "synchronous collection"),
        EventType::point(T_USED, "used bytes"),
        EventType::point(T_HEAP, "heap bytes"),
        EventType::point(T_FREE, "free bytes"),
        EventType::point(T_ALLOCATED, "allocated bytes"),
        EventType::point(T_STOP, "time to stop ns"),
        EventType::bookmark(T_BOOKMARK, "program"),
        EventType::bookmark(T_EVENT, "collector"),
        EventType::point(T_MUTATOR, "longest time to stop ns"),
    ];
    for (id, phase) in (T_PHASES..).step_by(2).zip(PHASES) {
        all.push(EventType::interval_start(id, phase));
        all.push(EventType::interval_stop(id + 1, phase));
    }
    all
}

impl<W: Write> TuningFork<W> {
    /// A trace that goes to `out`; it is begun by the first record.
    pub fn new(out: W) -> TuningFork<W> {
        TuningFork {
            writer: None,
            out: Some(out),
            base_ns: 0,
            last_ns: 0,
            in_cycle: false,
            mutators: BTreeMap::new(),
            number: 0,
        }
    }

    /// The writer; begun when it is first needed.
    fn writer(&mut self) -> io::Result<&mut Writer<W>> {
        if let Some(out) = self.out.take() {
            let mut w = Writer::new(out)?;
            w.properties(&[
                ("Tick Frequency", "1000000000"),
                ("Figure Time Series:Memory", "used bytes,heap bytes"),
                ("Figure Histogram:Quanta", "precollect,mark,postcollect,sweep"),
                ("Figure Oscilloscope:Beats", "precollect,mark,postcollect,sweep"),
            ])?;
            for (index, name, about) in [
                (COLLECTOR, "collector", "quanta by phase"),
                (CYCLES, "cycles", "cycles and synchronous collections"),
                (PROGRAM, "program", "bookmarks and notes"),
                (MEMORY, "memory", "use of the heap"),
            ] {
                w.add_feedlet(index, &[("name", name), ("description", about)])?;
            }
            w.event_types(&types())?;
            self.writer = Some(w);
        }
        self.writer.as_mut().ok_or_else(|| io::Error::other("the trace could not be begun"))
    }

    fn put(&mut self, feedlet: i32, ns: u64, kind: i32, a: &Attributes) -> io::Result<()> {
        let at = time(self.base_ns.saturating_add(ns));
        self.writer()?.event(feedlet, at, kind, a)
    }

    fn interval(&mut self, feedlet: i32, kind: i32, start: u64, end: u64) -> io::Result<()> {
        self.put(feedlet, start, kind, &Attributes::default())?;
        self.put(feedlet, end, kind + 1, &Attributes::default())
    }

    /// The feedlet of a mutator, if it can have one.
    fn mutator(&mut self, name: &str) -> io::Result<Option<i32>> {
        if let Some(feedlet) = self.mutators.get(name) {
            return Ok(Some(*feedlet));
        }
        if self.mutators.len() >= MUTATORS_MAX {
            return Ok(None);
        }
        let feedlet = FIRST_MUTATOR + i32::try_from(self.mutators.len()).unwrap_or(0);
        self.writer()?.add_feedlet(feedlet, &[("name", name), ("description", "a mutator")])?;
        self.mutators.insert(name.into(), feedlet);
        Ok(Some(feedlet))
    }

    fn cycle(&mut self, ns: u64, begins: bool) -> io::Result<()> {
        // Starts and stops take turns, whatever was lost.
        if std::mem::replace(&mut self.in_cycle, begins) == begins {
            return Ok(());
        }
        let kind = if begins { T_CYCLE } else { T_CYCLE + 1 };
        self.put(CYCLES, ns, kind, &Attributes::default())
    }
}

impl<W: Write> Sink for TuningFork<W> {
    fn take(&mut self, r: &Record) -> io::Result<()> {
        let ns = r.ns;
        if let Event::Begin(b) = &r.event {
            if self.in_cycle {
                self.cycle(self.last_ns, false)?;
            }
            self.base_ns = self.base_ns.saturating_add(self.last_ns);
            self.last_ns = 0;
            let created = b.unix_ms.map_or(String::new(), |ms| ms.to_string());
            self.writer()?.properties(&[("Trace Created", &created), ("Source", &b.source)])?;
        }
        self.last_ns = self.last_ns.max(ns);
        let number = self.number;
        self.number = number.wrapping_add(1);
        match &r.event {
            Event::Quantum(q) => {
                let phase = PHASES.iter().position(|p| *p == q.phase).unwrap_or(PHASES.len() - 1);
                let kind = T_PHASES + 2 * i32::try_from(phase).unwrap_or(0);
                self.interval(COLLECTOR, kind, q.start_ns, q.end_ns)?;
                self.put(COLLECTOR, q.end_ns, T_STOP, &point(q.stop_ns))?;
                self.put(MEMORY, q.end_ns, T_FREE, &point(q.free_bytes))?;
                return self.put(COLLECTOR, ns, T_QUANTUM, &attributes(q, number));
            }
            Event::CycleStart { .. } => self.cycle(ns, true)?,
            Event::CycleEnd { .. } => self.cycle(ns, false)?,
            Event::Synchronous { start_ns, .. } => self.interval(CYCLES, T_SYNCHRONOUS, *start_ns, ns)?,
            Event::Memory { used_bytes, heap_bytes, allocated_bytes, .. } => {
                self.put(MEMORY, ns, T_USED, &point(*used_bytes))?;
                self.put(MEMORY, ns, T_HEAP, &point(*heap_bytes))?;
                self.put(MEMORY, ns, T_ALLOCATED, &point(*allocated_bytes))?;
            }
            Event::MutatorStops { mutator, max_ns, .. } => {
                if let Some(feedlet) = self.mutator(mutator)? {
                    self.put(feedlet, ns, T_MUTATOR, &point(*max_ns))?;
                }
            }
            Event::Bookmark { text: t } => self.put(PROGRAM, ns, T_BOOKMARK, &text(t))?,
            Event::Note { text: t } => self.put(PROGRAM, ns, T_EVENT, &text(t))?,
            Event::Departure { reason, .. } => {
                self.put(CYCLES, ns, T_EVENT, &text(&format!("departure from the target: {reason}")))?;
            }
            Event::StopCancelled { mutator, .. } => {
                self.put(CYCLES, ns, T_EVENT, &text(&format!("stop cancelled: {mutator} did not arrive")))?;
            }
            _ => {}
        }
        self.put(PROGRAM, ns, T_RECORD, &Attributes { ints: vec![number], ..text(&r.json()) })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer()?.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        if self.in_cycle {
            self.cycle(self.last_ns, false)?;
        }
        self.writer()?.flush()
    }
}
