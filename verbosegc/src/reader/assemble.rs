//! Puts tags together to events.

use super::init::OpenHeader;
use super::op::{Op, child_generation};
use super::policy::{self, Policy};
use super::run::{Counter, Order, Run};
use super::scan::{Place, Tag, Token};
use super::{Diagnostic, DiagnosticKind, Item, OtherPolicy, RunEnd, RunStart};
use crate::attrs::excerpt;
use crate::model::{Generation, Section};
use std::collections::VecDeque;

/// An element that waits for its end tag.
#[derive(Debug)]
pub(super) enum Open {
    Op(Box<Op>),
    Header(Box<OpenHeader>),
}

/// Elements that are whole with their start tag; an end tag of theirs needs no attention.
const FLAT: [&str; 8] = [
    "trigger-start",
    "trigger-end",
    "cycle-start",
    "cycle-end",
    "heap-fixup",
    "out-of-memory",
    "utilization-tracker-overflow",
    "non-monotonic-time",
];

#[derive(Debug)]
pub(super) struct Assembler {
    pub(super) queue: VecDeque<Item>,
    pub(super) run: Option<Run>,
    pub(super) open: Option<Open>,
    /// A `gc` that was an event by itself although its tag was not empty.
    pub(super) flat_gc_open: bool,
    /// A run has begun.
    begun: bool,
    /// A line that names another collector, until it is seen whether a Metronome log follows.
    named: Option<Named>,
}

/// Text that names a collector.
#[derive(Debug)]
struct Named {
    place: Place,
    policy: &'static str,
    evidence: &'static str,
    told: String,
}

impl Assembler {
    pub(super) const fn new() -> Self {
        Self { queue: VecDeque::new(), run: None, open: None, flat_gc_open: false, begun: false, named: None }
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        self.queue.pop_front()
    }

    pub(super) fn take(&mut self, token: Token) {
        match token {
            Token::Tag(tag) => self.tag(tag),
            Token::End { place, name, clean } => self.end_tag(place, &name, clean),
            Token::Declaration { place } => {
                self.close_open(place);
                self.end_run(place, false);
            }
            Token::Markup { place, text } => {
                self.say(place, DiagnosticKind::UnknownElement, format!("markup <{text}> passed over"));
            }
            Token::Text { place, text, bytes, head } => {
                // Only before anything of a Metronome log: later it is another program's output.
                let other = if self.begun { None } else { policy::of_text(&head) };
                let told = format!("{bytes} bytes of other text: {text}");
                if let Some((policy, evidence)) = other.filter(|o| o.1 == policy::A_LINE)
                    && self.named.is_none()
                {
                    self.named = Some(Named { place, policy, evidence, told });
                } else if let Some((policy, evidence)) = other {
                    self.named = None;
                    self.refuse(place, policy.into(), evidence.into());
                } else if !self.run.as_mut().is_some_and(Run::skip) {
                    self.say(place, DiagnosticKind::ForeignText, told);
                }
            }
            Token::Unreadable { place, why } => self.say(place, DiagnosticKind::Unreadable, why.into()),
        }
    }

    /// The end of the input, or what the input failed with.
    pub(super) fn end(&mut self, place: Place, error: Option<&std::io::Error>) {
        if let Some(e) = error {
            self.say(place, DiagnosticKind::Truncated, format!("the input failed here: {e}"));
        }
        self.judge_named(false);
        self.close_open(place);
        self.end_run(place, false);
    }

    /// A line named another collector: in front of a Metronome log it is some program's output, else it tells whose log this
    /// is.
    fn judge_named(&mut self, metronome: bool) {
        let Some(n) = self.named.take() else { return };
        if metronome {
            self.say(n.place, DiagnosticKind::ForeignText, n.told);
        } else {
            self.refuse(n.place, n.policy.into(), n.evidence.into());
        }
    }

    pub(super) fn say(&mut self, place: Place, kind: DiagnosticKind, text: String) {
        self.queue.push_back(Item::Diagnostic(Diagnostic {
            line: place.line,
            column: place.column,
            kind,
            text,
        }));
    }

    fn tag(&mut self, mut tag: Tag) {
        let kind = tag.attrs.peek("type").unwrap_or_default();
        let is_root = tag.name == "verbosegc" && !tag.name_torn;
        self.judge_named(is_root || policy::is_metronome(&tag.name, kind));
        if is_root {
            return self.root(tag);
        }
        if policy::is_metronome(&tag.name, kind)
            && self.run.as_ref().is_some_and(|r| r.policy == Policy::Other)
        {
            // Another run follows whose header is lost.
            self.end_run(tag.place, false);
        }
        if self.run.as_mut().is_some_and(Run::skip) {
            return;
        }
        if tag.name_torn {
            return self.unknown(tag);
        }
        match tag.name.as_str() {
            "initialized" => {
                let generation = match (tag.attrs.has("id"), tag.attrs.has("timestamp")) {
                    (true, _) => Some(Generation::OpenJ9),
                    (false, true) => Some(Generation::V2007),
                    (false, false) => None,
                };
                self.arrive(&tag, generation, Counter::Global);
                let mut header = OpenHeader::new(tag.place, tag.torn);
                (header.id, header.time) = (tag.attrs.u64("id"), tag.attrs.time("timestamp"));
                self.open = Some(Open::Header(Box::new(header)));
                let empty = tag.empty;
                self.done(tag);
                if empty {
                    self.emit_open(false);
                }
            }
            "attribute" | "vmarg" => self.header_entry(tag),
            "gc" => self.gc(tag),
            "gc-op" => self.gc_op(tag),
            "warning" => self.warning(tag),
            "event" => self.named_event(tag),
            "trigger-start"
            | "trigger-end"
            | "cycle-start"
            | "cycle-end"
            | "heap-fixup"
            | "out-of-memory"
            | "utilization-tracker-overflow"
            | "non-monotonic-time" => self.flat(tag),
            name => {
                if let Some(section) = section_of(name) {
                    self.section(tag, section);
                } else if let Some(generation) = child_generation(name) {
                    self.child(tag, generation);
                } else if name.starts_with("metronome-") {
                    self.own(tag);
                } else {
                    self.unknown(tag);
                }
            }
        }
    }

    fn end_tag(&mut self, place: Place, name: &str, clean: bool) {
        if name == "verbosegc" {
            self.close_open(place);
            if !clean {
                self.say(place, DiagnosticKind::Structure, "torn end tag </verbosegc".into());
            }
            return match &self.run {
                Some(_) => self.end_run(place, clean),
                None => self.say(place, DiagnosticKind::Structure, "</verbosegc> without its start".into()),
            };
        }
        if self.run.as_mut().is_some_and(Run::skip) {
            return;
        }
        let open_name = match &self.open {
            Some(Open::Op(op)) if op.generation == Generation::V2007 => "gc",
            Some(Open::Op(_)) => "gc-op",
            Some(Open::Header(_)) => "initialized",
            None => "",
        };
        let mut torn = !clean;
        if name == open_name || (torn && !name.is_empty() && open_name.starts_with(name)) {
            self.emit_open(torn);
        } else if name == "gc" && self.flat_gc_open {
            self.flat_gc_open = false;
        } else if section_of(name).is_some() {
            if let Some(Open::Header(header)) = &mut self.open {
                header.section = Section::Main;
            }
        } else if ["gc", "gc-op", "initialized"].contains(&name) {
            self.say(place, DiagnosticKind::Structure, format!("</{name}> without its start"));
        } else {
            let known = FLAT.contains(&name)
                || ["warning", "event", "attribute", "vmarg"].contains(&name)
                || name.starts_with("metronome-")
                || child_generation(name).is_some();
            if !known {
                torn = false;
                let text = format!("end tag </{}> of an unknown element", excerpt(name));
                self.say(place, DiagnosticKind::UnknownElement, text);
            }
        }
        if torn {
            self.say(place, DiagnosticKind::Structure, format!("torn end tag </{}", excerpt(name)));
        }
    }

    fn root(&mut self, mut tag: Tag) {
        self.close_open(tag.place);
        self.end_run(tag.place, false);
        let generation = match tag.attrs.text("xmlns") {
            Some(_) => Some(Generation::OpenJ9),
            None if tag.torn => None,
            None => Some(Generation::V2007),
        };
        let version = tag.attrs.text("version");
        let named = version.as_ref().is_some_and(|v| v.ends_with("-Metronome"));
        self.start_run(tag.place, generation, version, false);
        if named {
            self.run().policy = Policy::Metronome;
        }
        if tag.empty {
            self.end_run(tag.place, true);
        }
        self.done(tag);
    }

    fn start_run(
        &mut self,
        place: Place,
        generation: Option<Generation>,
        version: Option<String>,
        fragment: bool,
    ) {
        self.run = Some(Run::new(generation));
        self.begun = true;
        self.queue.push_back(Item::RunStart(RunStart { line: place.line, generation, version, fragment }));
    }

    fn end_run(&mut self, place: Place, complete: bool) {
        let Some(run) = self.run.take() else { return };
        self.flat_gc_open = false;
        if run.skipped > 0 {
            let text = format!("{} pieces of another policy's log passed over", run.skipped);
            self.say(place, DiagnosticKind::OtherPolicy, text);
        }
        if !complete {
            let inside = if run.cycle_open { ", inside a cycle" } else { "" };
            let text = format!("the run ends without </verbosegc>{inside}: live, killed, or a fragment");
            self.say(place, DiagnosticKind::Truncated, text);
        } else if run.cycle_open {
            self.say(place, DiagnosticKind::Order, "the run ends inside a cycle".into());
        }
        self.queue.push_back(Item::RunEnd(RunEnd { line: place.line, generation: run.generation, complete }));
    }

    pub(super) fn run(&mut self) -> &mut Run {
        self.run.get_or_insert_default()
    }

    /// Makes sure that there is a run of this generation.
    pub(super) fn ensure_run(&mut self, place: Place, generation: Option<Generation>) {
        match (&mut self.run, generation) {
            (None, _) => self.start_run(place, generation, None, true),
            (Some(run), Some(g)) => match run.generation {
                None => run.generation = Some(g),
                Some(old) if old != g => {
                    let text = format!("{g:?} element in a {old:?} run: another run without a header");
                    self.say(place, DiagnosticKind::Structure, text);
                    self.end_run(place, false);
                    self.start_run(place, generation, None, true);
                }
                Some(_) => {}
            },
            (Some(_), None) => {}
        }
    }

    /// A top-level element begins: whatever is open ends, and its number is checked.
    pub(super) fn arrive(&mut self, tag: &Tag, generation: Option<Generation>, counter: Counter) {
        self.close_open(tag.place);
        self.ensure_run(tag.place, generation);
        let Some(id) = tag.attrs.peek("id").and_then(|t| t.parse::<u64>().ok()) else { return };
        match self.run().order(counter, id) {
            Order::Fine => {}
            Order::Missing { from, to } if from == to => {
                self.say(tag.place, DiagnosticKind::Order, format!("the element with id {from} is missing"));
            }
            Order::Missing { from, to } => {
                let text = format!("elements with ids {from} to {to} are missing");
                self.say(tag.place, DiagnosticKind::Order, text);
            }
            Order::Repeated => {
                self.say(tag.place, DiagnosticKind::Order, format!("the id {id} is used again"));
            }
            Order::Restarted => {
                let text = format!("the ids start again at {id}: another run without a header");
                self.say(tag.place, DiagnosticKind::Order, text);
                self.end_run(tag.place, false);
                self.start_run(tag.place, generation, None, true);
            }
        }
        self.run().take_id(counter, id);
    }

    /// Reports what is left of a tag.
    pub(super) fn done(&mut self, tag: Tag) {
        if let Some(text) = tag.attrs.verdict() {
            self.say(tag.place, DiagnosticKind::Attributes, format!("<{}>: {text}", excerpt(&tag.name)));
        }
    }

    fn refuse(&mut self, place: Place, policy: String, evidence: String) {
        self.open = None;
        self.ensure_run(place, None);
        self.run().policy = Policy::Other;
        self.queue.push_back(Item::Refused(OtherPolicy { line: place.line, policy, evidence }));
    }

    /// Refuses the run if it is not known to be Metronome's and this type is not either.
    pub(super) fn refused_by_type(&mut self, tag: &Tag) -> bool {
        let Some(kind) = tag.attrs.peek("type") else { return false };
        let known = self.run.as_ref().is_some_and(|r| r.policy == Policy::Metronome);
        let Some(policy) = policy::of_type(kind).filter(|_| !known) else { return false };
        let evidence = format!("<{} type=\"{}\">", tag.name, excerpt(kind));
        self.refuse(tag.place, policy.into(), evidence);
        true
    }

    pub(super) fn unknown(&mut self, tag: Tag) {
        let known = self.run.as_ref().is_some_and(|r| r.policy == Policy::Metronome);
        if let Some(policy) = policy::of_element(&tag.name).filter(|_| !known && !tag.torn) {
            let evidence = format!("<{}>", tag.name);
            return self.refuse(tag.place, policy.into(), evidence);
        }
        if let (true, Some(Open::Op(op))) = (tag.torn, &mut self.open) {
            op.partial = true;
        }
        let torn = if tag.torn { ", torn" } else { "" };
        let text = format!("unknown element <{}>{torn}, passed over", excerpt(&tag.name));
        self.say(tag.place, DiagnosticKind::UnknownElement, text);
    }

    /// Takes the header being read out of `open`, or begins one whose start was lost.
    fn take_header(&mut self, place: Place) -> Box<OpenHeader> {
        match self.open.take() {
            Some(Open::Header(header)) => header,
            other => {
                self.open = other;
                self.close_open(place);
                self.ensure_run(place, None);
                self.say(place, DiagnosticKind::Structure, "header lines without <initialized>".into());
                Box::new(OpenHeader::new(place, true))
            }
        }
    }

    fn section(&mut self, tag: Tag, section: Section) {
        let mut header = self.take_header(tag.place);
        header.section = if tag.empty { Section::Main } else { section };
        header.partial |= tag.torn;
        self.open = Some(Open::Header(header));
        self.done(tag);
    }

    fn header_entry(&mut self, mut tag: Tag) {
        let mut header = self.take_header(tag.place);
        header.partial |= tag.torn;
        let policy = if tag.name == "vmarg" {
            header.vmarg(&mut tag.attrs);
            None
        } else {
            header.attribute(&mut tag.attrs)
        };
        self.open = Some(Open::Header(header));
        if let Some(policy) = policy {
            match policy::of_attribute(&policy) {
                // A torn name proves nothing.
                Some(_) if tag.torn => {}
                Some(other) => {
                    self.refuse(tag.place, excerpt(&other), format!("gcPolicy={}", excerpt(&policy)))
                }
                None => self.run().policy = Policy::Metronome,
            }
        }
        self.done(tag);
    }
}

fn section_of(name: &str) -> Option<Section> {
    Section::NESTED.into_iter().find(|s| s.element() == Some(name))
}
