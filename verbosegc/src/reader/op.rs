//! Gathers the elements that have children: heartbeats and synchronous collections of both generations.

use super::scan::{Place, Tag};
use crate::attrs::Attrs;
use crate::model::{
    AllocatorSweep, ByteStats, DurationStats, Event, Generation, Heartbeat, IMMORTAL, LongestAt,
    QuantaDetail, QuantumPhase, References, SyncDetail, SyncGc, SyncReason, Work,
};
use crate::time::LogTime;

/// Free memory before and after a synchronous collection, by generation.
const FREE_2007: [&str; 2] = ["freebytesbefore", "freebytesafter"];
const FREE_OPENJ9: [&str; 2] = ["bytesBefore", "bytesAfter"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Heartbeat,
    SyncGc,
}

/// A heartbeat or synchronous collection being read. A fragment may begin inside one, so its kind may have to
/// be told from its children.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) place: Place,
    pub(super) generation: Generation,
    pub(super) kind: Option<Kind>,
    /// Its start tag was not seen.
    pub(super) implicit: bool,
    pub(super) partial: bool,
    pub(super) clock_error: bool,
    pub(super) id: Option<u64>,
    pub(super) context_id: Option<u64>,
    pub(super) time: Option<LogTime>,
    pub(super) interval_ns: Option<u64>,
    pub(super) duration_ns: Option<u64>,
    heartbeat: Heartbeat,
    sync: SyncGc,
    work: Work,
    longest_at_ns: Option<u64>,
}

/// The generation that a child element belongs to (`None`: both), or no child at all.
pub(super) fn child_generation(name: &str) -> Option<Option<Generation>> {
    Some(match name {
        "summary"
        | "quantum"
        | "exclusiveaccess"
        | "classunloading"
        | "refs_cleared"
        | "heap"
        | "immortal"
        | "gcthreadpriority"
        | "nondeterministicsweep"
        | "details"
        | "duration"
        | "synchronousgcpriority" => Some(Generation::V2007),
        "quanta"
        | "exclusiveaccess-info"
        | "classunload-info"
        | "references"
        | "work-packet-overflow"
        | "nondeterministic-sweep"
        | "free-mem"
        | "thread-priority"
        | "syncgc-info"
        | "free-mem-delta"
        | IMMORTAL => Some(Generation::OpenJ9),
        "finalization" => None,
        QuantaDetail::ELEMENT | SyncDetail::ELEMENT | References::ELEMENT => None,
        _ => return None,
    })
}

impl Op {
    pub(super) fn new(place: Place, generation: Generation, kind: Option<Kind>) -> Self {
        Self {
            place,
            generation,
            kind,
            implicit: false,
            partial: false,
            clock_error: false,
            id: None,
            context_id: None,
            time: None,
            interval_ns: None,
            duration_ns: None,
            heartbeat: Heartbeat::default(),
            sync: SyncGc::default(),
            work: Work::default(),
            longest_at_ns: None,
        }
    }

    /// True if an element like this was there already: a second one can only belong to another op, whose start
    /// was lost.
    pub(super) fn has_already(&self, tag: &Tag) -> bool {
        let (h, s, a) = (&self.heartbeat, &self.sync, &tag.attrs);
        let part = |before: Option<u64>, after: Option<u64>, beat: bool| match () {
            () if a.has("freebytesbefore") || a.has("bytesBefore") => before.is_some(),
            () if a.has("freebytesafter") || a.has("bytesAfter") => after.is_some(),
            () => beat,
        };
        match tag.name.as_str() {
            "quanta" | "summary" => h.quantum_count.is_some() || h.phase.is_some(),
            "quantum" => h.quantum.is_some(),
            "exclusiveaccess-info" | "exclusiveaccess" => h.exclusive_access.is_some(),
            "free-mem" => h.heap_free.is_some(),
            "heap" => part(s.free_before_bytes, s.free_after_bytes, h.heap_free.is_some()),
            "immortal" | IMMORTAL => {
                part(s.immortal_before_bytes, s.immortal_after_bytes, h.immortal_free.is_some())
            }
            "thread-priority" | "gcthreadpriority" => h.priority_max.is_some(),
            "nondeterministic-sweep" | "nondeterministicsweep" => h.allocator_sweep.is_some(),
            "syncgc-info" | "details" => s.reason.is_some(),
            "free-mem-delta" => s.free_before_bytes.is_some(),
            "duration" => self.duration_ns.is_some(),
            "synchronousgcpriority" => s.priority.is_some(),
            QuantaDetail::ELEMENT => h.detail.is_some(),
            SyncDetail::ELEMENT => s.detail.is_some(),
            _ => self.work.has(tag),
        }
    }

    /// True if no child said anything.
    pub(super) fn is_empty(&self) -> bool {
        self.kind.is_none() && self.work == Work::default()
    }

    /// Takes a child element.
    pub(super) fn child(&mut self, tag: &mut Tag) {
        self.partial |= tag.torn;
        let a = &mut tag.attrs;
        let kind = match tag.name.as_str() {
            "summary" | "quanta" | "quantum" => {
                self.quanta(&tag.name, a);
                Some(Kind::Heartbeat)
            }
            "exclusiveaccess" => {
                self.heartbeat.exclusive_access = durations(a, ["minms", "meanms", "maxms"]);
                Some(Kind::Heartbeat)
            }
            "exclusiveaccess-info" => {
                self.heartbeat.exclusive_access = durations(a, ["minTimeMs", "meanTimeMs", "maxTimeMs"]);
                Some(Kind::Heartbeat)
            }
            "heap" if a.has("freebytesbefore") || a.has("freebytesafter") => {
                let (before, after) = (&mut self.sync.free_before_bytes, &mut self.sync.free_after_bytes);
                both(before, after, a, FREE_2007);
                Some(Kind::SyncGc)
            }
            "immortal" if a.has("freebytesbefore") || a.has("freebytesafter") => {
                self.immortal(a, FREE_2007);
                Some(Kind::SyncGc)
            }
            IMMORTAL if a.has("bytesBefore") || a.has("bytesAfter") => {
                self.immortal(a, FREE_OPENJ9);
                Some(Kind::SyncGc)
            }
            IMMORTAL => {
                self.heartbeat.immortal_free = bytes(a, ["minBytes", "meanBytes", "maxBytes"]);
                Some(Kind::Heartbeat)
            }
            "heap" => {
                self.heartbeat.heap_free = bytes(a, ["minfree", "meanfree", "maxfree"]);
                Some(Kind::Heartbeat)
            }
            "immortal" => {
                self.heartbeat.immortal_free = bytes(a, ["minfree", "meanfree", "maxfree"]);
                Some(Kind::Heartbeat)
            }
            "free-mem" => {
                heap_only(a);
                self.heartbeat.heap_free = bytes(a, ["minBytes", "meanBytes", "maxBytes"]);
                Some(Kind::Heartbeat)
            }
            "gcthreadpriority" => {
                (self.heartbeat.priority_max, self.heartbeat.priority_min) = (a.u64("max"), a.u64("min"));
                Some(Kind::Heartbeat)
            }
            "thread-priority" => {
                self.heartbeat.priority_max = a.u64("maxPriority");
                self.heartbeat.priority_min = a.u64("minPriority");
                Some(Kind::Heartbeat)
            }
            "nondeterministicsweep" => {
                self.sweep(a, ["maxms", "totalregions", "maxregions"]);
                Some(Kind::Heartbeat)
            }
            "nondeterministic-sweep" => {
                self.sweep(a, ["maxTimeMs", "totalRegions", "maxRegions"]);
                Some(Kind::Heartbeat)
            }
            QuantaDetail::ELEMENT => {
                self.heartbeat.detail = Some(Box::new(QuantaDetail::take(a)));
                Some(Kind::Heartbeat)
            }
            "details" => {
                self.reason(a, "requested_bytes");
                Some(Kind::SyncGc)
            }
            "syncgc-info" => {
                self.reason(a, "totalBytesRequested");
                self.sync.exclusive_access_ns = a.ms("exclusiveaccessTimeMs");
                self.sync.priority = a.u64("threadPriority");
                Some(Kind::SyncGc)
            }
            "duration" => {
                self.duration_ns = a.ms("timems");
                Some(Kind::SyncGc)
            }
            "free-mem-delta" => {
                heap_only(a);
                self.sync.free_before_bytes = a.u64("bytesBefore");
                self.sync.free_after_bytes = a.u64("bytesAfter");
                Some(Kind::SyncGc)
            }
            "synchronousgcpriority" => {
                self.sync.priority = a.u64("value");
                Some(Kind::SyncGc)
            }
            SyncDetail::ELEMENT => {
                self.sync.detail = Some(SyncDetail::take(a));
                Some(Kind::SyncGc)
            }
            name => {
                self.work.take(name, a);
                None
            }
        };
        if self.kind.is_none() {
            self.kind = kind;
        } else if kind.is_some() && kind != self.kind {
            self.partial = true;
            a.problem("does not belong into this element".into());
        }
    }

    /// Overflow of the mark queue, which the 2007 form writes as a warning.
    pub(super) fn overflow(&mut self, a: &mut Attrs) {
        self.work.take_overflow(a);
    }

    fn immortal(&mut self, a: &mut Attrs, names: [&str; 2]) {
        both(&mut self.sync.immortal_before_bytes, &mut self.sync.immortal_after_bytes, a, names);
    }

    fn quanta(&mut self, name: &str, a: &mut Attrs) {
        let h = &mut self.heartbeat;
        match name {
            "summary" => h.quantum_count = a.u64("quantumcount"),
            "quantum" => {
                h.quantum = durations(a, ["minms", "meanms", "maxms"]);
                summed(h, a, "quantumcount");
            }
            _ => {
                h.quantum_count = a.u64("quantumCount");
                if let Some(word) = a.text("quantumType") {
                    h.phase = QuantumPhase::parse(&word);
                    if h.phase.is_none() {
                        a.problem(format!("quantumType \"{}\" unknown", crate::attrs::excerpt(&word)));
                    }
                }
                h.quantum = durations(a, ["minTimeMs", "meanTimeMs", "maxTimeMs"]);
                summed(h, a, "quantumCount");
                self.longest_at_ns = a.ms("maxTimestampMs");
            }
        }
    }

    fn sweep(&mut self, a: &mut Attrs, words: [&str; 3]) {
        self.heartbeat.allocator_sweep = Some(AllocatorSweep {
            max_ns: a.ms(words[0]),
            total_regions: a.u64(words[1]),
            max_regions: a.u64(words[2]),
        });
    }

    fn reason(&mut self, a: &mut Attrs, requested: &str) {
        match a.text("reason") {
            Some(text) => self.sync.reason = Some(SyncReason::parse(&text)),
            None => a.missing("reason"),
        }
        self.sync.requested_bytes = a.u64(requested);
    }

    /// Leaves out an interval that is shorter than the quanta in it; true if it is so.
    pub(super) fn overfull(&mut self, derived_ns: &mut Option<u64>) -> bool {
        let (h, interval) = (&self.heartbeat, self.interval_ns.or(*derived_ns));
        let (Some(n), Some(q), Some(interval)) = (h.quantum_count, h.quantum, interval) else { return false };
        // Dates are printed to the millisecond, means to the microsecond; at least all but one are shorter than they seem.
        let sum = u128::from(n) * u128::from(q.mean_ns.saturating_sub(1000));
        let over =
            self.kind != Some(Kind::SyncGc) && h.detail.is_none() && sum > u128::from(interval) + 2_000_000;
        if over {
            (self.interval_ns, *derived_ns) = (None, None);
        }
        over
    }

    /// The event; `derived_ns` is the time since the preceding heartbeat, collection or cycle start.
    pub(super) fn finish(self, derived_ns: Option<u64>) -> Event {
        if self.kind == Some(Kind::SyncGc) {
            let (start, end) = match (self.generation, self.time, self.duration_ns) {
                (Generation::V2007, t, Some(ns)) => (t, t.map(|t| t.offset_ns(i128::from(ns)))),
                (Generation::V2007, t, None) => (t, None),
                (Generation::OpenJ9, t, Some(ns)) => (t.map(|t| t.offset_ns(-i128::from(ns))), t),
                (Generation::OpenJ9, t, None) => (None, t),
            };
            return Event::SyncGc(Box::new(SyncGc {
                start,
                end,
                duration_ns: self.duration_ns,
                interval_ns: self.interval_ns,
                work: self.work,
                ..self.sync
            }));
        }
        let own = self.heartbeat.detail.is_some();
        Event::Heartbeat(Box::new(Heartbeat {
            interval_ns: self.interval_ns,
            derived_interval_ns: if self.interval_ns.is_some() { None } else { derived_ns },
            longest_at: self.longest_at_ns.map(|ns| longest_at(ns, derived_ns, own)),
            work: self.work,
            ..self.heartbeat
        }))
    }
}

/// Tells the two meanings of `maxTimestampMs` apart: an offset in the heartbeat cannot exceed its span (two
/// seconds are for a printed clock that was set); a run's age of nothing cannot be.
fn longest_at(ns: u64, span_ns: Option<u64>, own: bool) -> LongestAt {
    const SLACK_NS: u64 = 2_000_000_000;
    const SURELY_ABSOLUTE_NS: u64 = 60_000_000_000;
    match span_ns {
        _ if own || ns == 0 => LongestAt::InHeartbeat(ns),
        Some(span) if ns > span.saturating_add(SLACK_NS) => LongestAt::InRun(ns),
        Some(_) => LongestAt::InHeartbeat(ns),
        None if ns > SURELY_ABSOLUTE_NS => LongestAt::InRun(ns),
        None => LongestAt::Unclear(ns),
    }
}

fn durations(a: &mut Attrs, [min, mean, max]: [&str; 3]) -> Option<DurationStats> {
    let (min_ns, mean_ns, max_ns) =
        (need(a, min, Attrs::ms), need(a, mean, Attrs::ms), need(a, max, Attrs::ms));
    let times = DurationStats { min_ns: min_ns?, mean_ns: mean_ns?, max_ns: max_ns? };
    // Printed to the microsecond, each by itself.
    let about = |less: u64, more: u64| less <= more.saturating_add(1000);
    if times.min_ns > times.max_ns
        || !about(times.min_ns, times.mean_ns)
        || !about(times.mean_ns, times.max_ns)
    {
        contradiction(a, &[min, mean, max]);
        return None;
    }
    Some(times)
}

fn bytes(a: &mut Attrs, [min, mean, max]: [&str; 3]) -> Option<ByteStats> {
    let (min_bytes, mean_bytes, max_bytes) =
        (need(a, min, Attrs::u64), need(a, mean, Attrs::u64), need(a, max, Attrs::u64));
    let sizes = ByteStats { min_bytes: min_bytes?, mean_bytes: mean_bytes?, max_bytes: max_bytes? };
    if sizes.min_bytes > sizes.max_bytes {
        contradiction(a, &[min, max]);
        return None;
    }
    // The mean is used for nothing; some machines round it to 24 bits and less.
    let about = sizes.max_bytes / 64;
    let (low, high) = (sizes.min_bytes.saturating_sub(about), sizes.max_bytes.saturating_add(about));
    if !(low..=high).contains(&sizes.mean_bytes) {
        a.problem(format!("{mean} is not between {min} and {max}"));
    }
    Some(sizes)
}

/// Tells of times that so many quanta cannot have, and leaves those of none out. A longest one that is too long stays: the
/// mean may be what is wrong, and an extreme is not to be lost.
fn summed(h: &mut Heartbeat, a: &mut Attrs, count: &str) {
    let (Some(n), Some(q)) = (h.quantum_count, h.quantum) else { return };
    // The mean is printed to the microsecond.
    let sum = u128::from(n) * (u128::from(q.mean_ns) + 1000);
    if n == 0 && q.max_ns > 0 {
        contradiction(a, &[count, "the times of quanta"]);
        h.quantum = None;
    } else if n > 0 && sum < u128::from(q.max_ns) {
        a.problem("the longest quantum is longer than all together".into());
    }
}

/// Figures that cannot all be true are not used.
#[cold]
fn contradiction(a: &mut Attrs, names: &[&str]) {
    a.problem(format!("{} contradict each other: left out", names.join(" and ")));
}

fn need(a: &mut Attrs, name: &str, take: fn(&mut Attrs, &str) -> Option<u64>) -> Option<u64> {
    if !a.has(name) {
        a.missing(name);
    }
    take(a, name)
}

/// Takes what is there of a pair, which may be spread over two elements.
fn both(before: &mut Option<u64>, after: &mut Option<u64>, a: &mut Attrs, names: [&str; 2]) {
    for (field, name) in [before, after].into_iter().zip(names) {
        if a.has(name) {
            *field = a.u64(name);
        }
    }
}

fn heap_only(a: &mut Attrs) {
    if let Some(kind) = a.text("type").filter(|t| t != "heap") {
        a.problem(format!("memory of type \"{}\" taken for the heap", crate::attrs::excerpt(&kind)));
    }
}
