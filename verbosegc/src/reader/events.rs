//! The elements that are events.

use super::DiagnosticKind;
use super::Item;
use super::assemble::{Assembler, Open};
use super::op::{Kind, Op};
use super::policy::Policy;
use super::run::{Counter, Identity};
use super::scan::{Place, Tag};
use crate::attrs::{Attrs, excerpt};
use crate::model::{
    CycleEdge, CycleFacts, CycleReason, Departure, Event, Generation, LoggedEvent, LostRecords, Mmu,
    NonMonotonicTime, Note, OutOfMemory, OutputLost, Resize, StopCancelled, Summary, Thread, TrackerOverflow,
};

/// Intervals beyond this are a clock that went back: unsigned microseconds wrap near 1.8e13 ms, while the
/// longest idle interval of a sane run is a fraction of this (1e12 ms are 31 years).
const CLOCK_ERROR_NS: u64 = 1_000_000_000_000_000_000;

fn identity(tag: &mut Tag) -> Identity {
    let a = &mut tag.attrs;
    Identity {
        place: tag.place,
        id: a.u64("id"),
        context_id: a.u64("contextid"),
        time: a.time("timestamp"),
        partial: tag.torn,
        clock_error: false,
    }
}

fn out_of_memory(a: &mut Attrs, name: &str, address: &str) -> Event {
    Event::OutOfMemory(OutOfMemory { space: a.text(name), address: a.hex(address) })
}

fn tracker_overflow(a: &mut Attrs) -> Event {
    Event::TrackerOverflow(TrackerOverflow {
        tracker: a.hex("utilizationTrackerAddress"),
        array: a.hex("timeSliceDurationArrayAddress"),
        cursor: a.u64("timeSliceCursor"),
    })
}

fn non_monotonic(a: &mut Attrs, timer: &str) -> Event {
    Event::NonMonotonicTime(NonMonotonicTime {
        timer: a.text(timer),
        from_ns: a.u64("metronome-fromNs"),
        to_ns: a.u64("metronome-toNs"),
    })
}

/// Only a start has one.
fn cycle_reason(a: &mut Attrs, start: bool) -> Option<CycleReason> {
    // At an end it is left over, and so reported.
    if !start {
        return None;
    }
    a.text("metronome-reason").map(|text| CycleReason::parse(&text))
}

impl Assembler {
    pub(super) fn gc(&mut self, mut tag: Tag) {
        if self.refused_by_type(&tag) {
            return;
        }
        let generation = Some(Generation::V2007);
        let kind = tag.attrs.peek("type").unwrap_or_default().to_owned();
        let counter = match kind.as_str() {
            "heartbeat" => Counter::Heartbeat,
            "synchgc" => Counter::SyncGc,
            "trigger start" | "trigger end" => Counter::Trigger,
            "cycle start" | "cycle end" => Counter::Cycle,
            _ => {
                self.arrive(&tag, generation, Counter::Global);
                return self.odd_op(tag, Generation::V2007);
            }
        };
        self.arrive(&tag, generation, counter);
        self.run().policy = Policy::Metronome;
        tag.attrs.text("type");
        let who = identity(&mut tag);
        let interval_ns = tag.attrs.ms("intervalms");
        match counter {
            Counter::Heartbeat => return self.open_op(tag, who, Some(Kind::Heartbeat), interval_ns),
            Counter::SyncGc => return self.open_op(tag, who, Some(Kind::SyncGc), interval_ns),
            _ => {}
        }
        let start = kind == "cycle start";
        let mut edge = || CycleEdge {
            kind: None,
            interval_ns,
            heap_free_bytes: tag.attrs.u64("heapfreebytes"),
            reason: cycle_reason(&mut tag.attrs, start),
        };
        let event = match kind.as_str() {
            "trigger start" => Event::TriggerStart { interval_ns },
            "trigger end" => Event::TriggerEnd { interval_ns },
            "cycle start" => Event::CycleStart(edge()),
            _ => Event::CycleEnd(edge()),
        };
        self.flat_gc_open = !tag.empty && !tag.torn;
        self.done(tag);
        self.emit(who, event);
    }

    pub(super) fn gc_op(&mut self, mut tag: Tag) {
        if self.refused_by_type(&tag) {
            return;
        }
        self.arrive(&tag, Some(Generation::OpenJ9), Counter::Global);
        let kind = match tag.attrs.peek("type") {
            Some("heartbeat") => Kind::Heartbeat,
            Some("syncgc") => Kind::SyncGc,
            _ => return self.odd_op(tag, Generation::OpenJ9),
        };
        self.run().policy = Policy::Metronome;
        tag.attrs.text("type");
        let who = identity(&mut tag);
        self.open_op(tag, who, Some(kind), None);
    }

    /// A type that is torn or unknown: its children may still tell what it is.
    fn odd_op(&mut self, mut tag: Tag, generation: Generation) {
        match tag.attrs.text("type") {
            Some(kind) => tag.attrs.problem(format!("type \"{}\" unknown", excerpt(&kind))),
            None => tag.attrs.missing("type"),
        }
        let mut who = identity(&mut tag);
        who.partial = true;
        let interval_ns = if generation == Generation::V2007 { tag.attrs.ms("intervalms") } else { None };
        self.open_op(tag, who, None, interval_ns);
    }

    fn open_op(&mut self, mut tag: Tag, who: Identity, kind: Option<Kind>, interval_ns: Option<u64>) {
        let generation = if tag.name == "gc" { Generation::V2007 } else { Generation::OpenJ9 };
        let mut op = Op::new(tag.place, generation, kind);
        (op.id, op.context_id, op.time, op.partial) = (who.id, who.context_id, who.time, who.partial);
        op.interval_ns = interval_ns;
        if generation == Generation::OpenJ9 {
            op.duration_ns = tag.attrs.ms("timems");
        }
        self.open = Some(Open::Op(Box::new(op)));
        let empty = tag.empty;
        self.done(tag);
        if empty {
            self.emit_open(false);
        }
    }

    /// A child of a heartbeat or collection; begins one if there is none.
    pub(super) fn child(&mut self, mut tag: Tag, generation: Option<Generation>) {
        let mut op = match self.open.take() {
            Some(Open::Op(op)) if !op.has_already(&tag) && generation.is_none_or(|g| g == op.generation) => {
                op
            }
            other => {
                self.open = other;
                self.close_open(tag.place);
                self.ensure_run(tag.place, generation);
                let place = tag.place;
                let text = format!("<{}> without the element it belongs into", tag.name);
                self.say(place, DiagnosticKind::Structure, text);
                let generation = generation.or(self.run().generation).unwrap_or(Generation::OpenJ9);
                let mut op = Box::new(Op::new(place, generation, None));
                (op.implicit, op.partial) = (true, true);
                op
            }
        };
        op.child(&mut tag);
        self.open = Some(Open::Op(op));
        self.done(tag);
    }

    pub(super) fn warning(&mut self, mut tag: Tag) {
        let details = tag.attrs.text("details").unwrap_or_default();
        let overflow = tag.attrs.has("packetCount");
        let clock = details.starts_with("clock error");
        match &mut self.open {
            Some(Open::Op(op)) if overflow => op.overflow(&mut tag.attrs),
            Some(Open::Op(op)) if clock => op.clock_error = true,
            _ => {
                self.close_open(tag.place);
                self.ensure_run(tag.place, None);
                let who = identity(&mut tag);
                if overflow {
                    tag.attrs.problem("overflow outside of an element".into());
                }
                self.done(tag);
                self.emit(who, Event::Warning { details });
                self.run().clock_error |= clock;
                return;
            }
        }
        self.done(tag);
    }

    /// `event` of the 2007 form.
    pub(super) fn named_event(&mut self, mut tag: Tag) {
        self.close_open(tag.place);
        self.ensure_run(tag.place, Some(Generation::V2007));
        let details = tag.attrs.text("details").unwrap_or_default();
        let who = identity(&mut tag);
        let event = match details.as_str() {
            "out of memory" => out_of_memory(&mut tag.attrs, "memoryspace", "J9MemorySpace"),
            "utilization tracker overflow" => tracker_overflow(&mut tag.attrs),
            "non-monotonic time acknowledged" => non_monotonic(&mut tag.attrs, "timerDesc"),
            _ => {
                tag.attrs.problem("event not known, taken for a warning".into());
                Event::Warning { details }
            }
        };
        self.done(tag);
        self.emit(who, event);
    }

    /// Elements of the OpenJ9 form that are whole with one tag.
    pub(super) fn flat(&mut self, mut tag: Tag) {
        if tag.name == "cycle-start" && self.refused_by_type_of_cycle(&tag) {
            return;
        }
        self.arrive(&tag, Some(Generation::OpenJ9), Counter::Global);
        let who = identity(&mut tag);
        let a = &mut tag.attrs;
        let event = match tag.name.as_str() {
            "trigger-start" => {
                self.run().policy = Policy::Metronome;
                Event::TriggerStart { interval_ns: None }
            }
            "trigger-end" => {
                self.run().policy = Policy::Metronome;
                Event::TriggerEnd { interval_ns: None }
            }
            "cycle-start" | "cycle-end" => {
                let start = tag.name == "cycle-start";
                let edge = CycleEdge {
                    kind: a.text("type"),
                    interval_ns: a.ms("intervalms"),
                    heap_free_bytes: a.u64("metronome-heapFreeBytes"),
                    reason: cycle_reason(a, start),
                };
                if start { Event::CycleStart(edge) } else { Event::CycleEnd(edge) }
            }
            "heap-fixup" => Event::HeapFixup { duration_ns: a.ms("timems"), reason: a.text("reason") },
            "out-of-memory" => out_of_memory(a, "memorySpaceName", "memorySpaceAddress"),
            "utilization-tracker-overflow" => tracker_overflow(a),
            _ => non_monotonic(a, "timerDescription"),
        };
        self.done(tag);
        self.emit(who, event);
    }

    /// `global` is the type of Metronome's cycles too, so it is no evidence there.
    fn refused_by_type_of_cycle(&mut self, tag: &Tag) -> bool {
        tag.attrs.peek("type") != Some("global") && self.refused_by_type(tag)
    }

    /// This project's own elements at top level.
    pub(super) fn own(&mut self, mut tag: Tag) {
        // Only the form of the date tells the generation.
        let generation = tag.attrs.peek("timestamp").map(|t| match t.as_bytes().first() {
            Some(b'0'..=b'9') => Generation::OpenJ9,
            _ => Generation::V2007,
        });
        let a = &mut tag.attrs;
        let take: fn(&mut Attrs) -> Event = match tag.name.as_str() {
            CycleFacts::ELEMENT => |a| Event::Cycle(CycleFacts::take(a)),
            StopCancelled::ELEMENT => |a| Event::StopCancelled(StopCancelled::take(a)),
            LostRecords::ELEMENT => |a| Event::LostRecords(LostRecords::take(a)),
            Departure::ELEMENT => |a| Event::Departure(Departure::take(a)),
            Resize::ELEMENT => |a| Event::Resize(Resize::take(a)),
            Thread::ELEMENT => |a| Event::Thread(Thread::take(a)),
            Mmu::ELEMENT => |a| Event::Mmu(Mmu::take(a)),
            Summary::ELEMENT => |a| Event::Summary(Summary::take(a)),
            Note::ELEMENT => |a| Event::Note(Note::take(a)),
            OutputLost::ELEMENT => |a| Event::OutputLost(OutputLost::take(a)),
            _ => return self.unknown(tag),
        };
        let event = take(a);
        self.close_open(tag.place);
        self.ensure_run(tag.place, generation);
        let who = identity(&mut tag);
        self.done(tag);
        self.emit(who, event);
    }

    /// Ends what is open although its end tag did not come.
    pub(super) fn close_open(&mut self, place: Place) {
        let (name, implicit, begun) = match &self.open {
            None => return,
            Some(Open::Op(op)) => ("heartbeat or collection", op.implicit, op.place),
            Some(Open::Header(h)) => ("header", false, h.place),
        };
        if !implicit {
            let text = format!("the {name} begun at line {} has no end", begun.line);
            self.say(place, DiagnosticKind::Structure, text);
        }
        self.emit_open(true);
    }

    /// Emits what is open.
    pub(super) fn emit_open(&mut self, torn: bool) {
        match self.open.take() {
            None => {}
            Some(Open::Header(h)) => {
                let who = Identity {
                    place: h.place,
                    id: h.id,
                    context_id: None,
                    time: h.time,
                    partial: h.partial || torn,
                    clock_error: false,
                };
                self.emit(who, Event::Initialized(Box::new(h.facts)));
            }
            Some(Open::Op(mut op)) => {
                let who = Identity {
                    place: op.place,
                    id: op.id,
                    context_id: op.context_id,
                    time: op.time,
                    partial: op.partial || torn,
                    clock_error: op.clock_error,
                };
                let mut derived = self.run().derived_interval_ns(op.time);
                if op.overfull(&mut derived) {
                    let text =
                        "the quanta take longer than the time since the event before: that time is left out";
                    self.say(op.place, DiagnosticKind::Clock, text.into());
                }
                if op.kind.is_none() {
                    let nothing = op.is_empty();
                    let what = if nothing { "passed over" } else { "taken for a heartbeat" };
                    let id = op.id.map_or(String::new(), |id| format!(" of id {id}"));
                    let text =
                        format!("neither type nor content of the element{id} tells what it is: {what}");
                    self.say(op.place, DiagnosticKind::Structure, text);
                    if nothing {
                        return;
                    }
                }
                let event = op.finish(derived);
                self.emit(who, event);
            }
        }
    }

    fn emit(&mut self, who: Identity, event: Event) {
        let run = self.run();
        let mut clock_error = who.clock_error || wrapped(&event);
        if !matches!(event, Event::Warning { .. }) {
            clock_error |= std::mem::take(&mut run.clock_error);
        }
        for text in run.follow(&event, who.time) {
            let clock = text.starts_with("the printed time");
            let kind = if clock { DiagnosticKind::Clock } else { DiagnosticKind::Order };
            self.say(who.place, kind, text);
        }
        if wrapped(&event) {
            let text = "an interval of over 31 years: the clock went back, times here are not to be trusted";
            self.say(who.place, DiagnosticKind::Clock, text.into());
        }
        self.queue.push_back(Item::Event(LoggedEvent {
            line: who.place.line,
            column: who.place.column,
            id: who.id,
            context_id: who.context_id,
            timestamp: who.time,
            partial: who.partial,
            clock_error,
            event,
        }));
    }
}

/// A duration that can only come from a clock that went back.
fn wrapped(event: &Event) -> bool {
    let over = |ns: Option<u64>| ns.is_some_and(|ns| ns > CLOCK_ERROR_NS);
    match event {
        Event::TriggerStart { interval_ns } | Event::TriggerEnd { interval_ns } => over(*interval_ns),
        Event::CycleStart(edge) | Event::CycleEnd(edge) => over(edge.interval_ns),
        Event::HeapFixup { duration_ns, .. } => over(*duration_ns),
        Event::Heartbeat(h) => {
            over(h.interval_ns)
                || [h.quantum, h.exclusive_access].iter().flatten().any(|d| over(Some(d.max_ns)))
        }
        Event::SyncGc(gc) => over(gc.interval_ns) || over(gc.duration_ns) || over(gc.exclusive_access_ns),
        _ => false,
    }
}
