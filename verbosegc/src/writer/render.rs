//! The elements of both generations, one function for each. No state: identifiers, times and intervals come in.

use super::aggregate::Pending;
use super::facts::{Format, SyncGcFacts, WorkFacts};
use crate::fields::opt_count;
use crate::model::{
    ByteStats, CycleReason, DurationStats, IMMORTAL, NonMonotonicTime, OutOfMemory, QuantaDetail, References,
    SyncDetail, SyncReason, TrackerOverflow,
};
use crate::time::LogTime;
use crate::xml::Xml;

pub(super) const CLOCK_ERROR: &str = "clock error detected, following timing may be inaccurate";
const TIMER: &str = "CLOCK_MONOTONIC";

/// Identity and time of an element.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) id: u64,
    pub(super) context: u64,
    pub(super) time: LogTime,
}

/// Which edge of a cycle, and why it began.
#[derive(Clone, Copy)]
pub(super) enum Edge<'a> {
    Start(Option<&'a CycleReason>),
    End,
}

impl Xml {
    pub(super) fn time(&mut self, format: Format, name: &str, time: LogTime) -> &mut Self {
        self.start_attr(name);
        match format {
            Format::V2007 => time.push_2007(&mut self.text),
            Format::OpenJ9 => time.push_iso(&mut self.text),
        }
        self.text.push('"');
        self
    }

    fn gc(&mut self, kind: &str, h: Head, interval_ns: u64) -> &mut Self {
        self.elements += 1;
        self.open(0, "gc").attr("type", kind).num("id", h.id).time(Format::V2007, "timestamp", h.time);
        self.ms("intervalms", interval_ns)
    }

    /// The 2007 generation leaves a blank line after each event.
    fn gap(&mut self) {
        self.text.push('\n');
    }
}

pub(super) fn clock_warning(x: &mut Xml, depth: usize) {
    x.elements += u64::from(depth == 0);
    x.open(depth, "warning").attr("details", CLOCK_ERROR).empty();
}

pub(super) fn warning(x: &mut Xml, format: Format, details: &str) {
    x.elements += 1;
    x.open(0, "warning").attr("details", details).empty();
    if format == Format::V2007 {
        x.gap();
    }
}

pub(super) fn trigger(x: &mut Xml, format: Format, start: bool, h: Head, interval_ns: u64) {
    match format {
        Format::V2007 => {
            x.gc(if start { "trigger start" } else { "trigger end" }, h, interval_ns).empty();
            x.gap();
        }
        Format::OpenJ9 => {
            x.elements += 1;
            x.open(0, if start { "trigger-start" } else { "trigger-end" }).num("id", h.id);
            x.time(format, "timestamp", h.time).empty();
            if !start {
                x.gap();
            }
        }
    }
}

pub(super) fn cycle(x: &mut Xml, format: Format, h: Head, interval_ns: u64, free: u64, edge: Edge<'_>) {
    let start = matches!(edge, Edge::Start(_));
    match format {
        Format::V2007 => {
            x.gc(if start { "cycle start" } else { "cycle end" }, h, interval_ns);
            x.num("heapfreebytes", free);
        }
        Format::OpenJ9 => {
            x.elements += 1;
            x.open(0, if start { "cycle-start" } else { "cycle-end" }).num("id", h.id);
            x.attr("type", "global").num("contextid", h.context).time(format, "timestamp", h.time);
            if start {
                x.ms("intervalms", interval_ns);
            }
            x.num("metronome-heapFreeBytes", free);
        }
    }
    if let Edge::Start(Some(reason)) = edge {
        x.attr("metronome-reason", reason.text());
    }
    x.empty();
    if format == Format::V2007 {
        x.gap();
    }
}

fn durations(x: &mut Xml, depth: usize, name: &str, words: [&str; 3], d: DurationStats) {
    x.open(depth, name).ms(words[0], d.min_ns).ms(words[1], d.mean_ns).ms(words[2], d.max_ns).empty();
}

fn bytes(x: &mut Xml, words: [&str; 3], b: ByteStats) {
    x.num(words[0], b.min_bytes).num(words[1], b.mean_bytes).num(words[2], b.max_bytes).empty();
}

pub(super) fn heartbeat(x: &mut Xml, format: Format, p: &Pending, h: Head, interval_ns: u64) {
    let detail = p.detail();
    match format {
        Format::V2007 => {
            x.gc("heartbeat", h, interval_ns).body();
            if p.clock_error {
                clock_warning(x, 1);
            }
            x.open(1, "summary").num("quantumcount", p.count).body();
            durations(x, 2, "quantum", ["minms", "meanms", "maxms"], p.quantum());
            durations(x, 2, "exclusiveaccess", ["minms", "meanms", "maxms"], p.exclusive());
            work_2007(x, 2, &p.work);
            if p.overflow_packets > 0 || p.overflow_objects > 0 {
                x.open(2, "warning").attr("details", "overflow occured");
                x.num("packetCount", p.overflow_packets).num("directObjectCount", p.overflow_objects).empty();
            }
            bytes(x.open(2, "heap"), ["minfree", "meanfree", "maxfree"], p.free());
            if let Some(immortal) = p.immortal() {
                bytes(x.open(2, "immortal"), ["minfree", "meanfree", "maxfree"], immortal);
            }
            x.open(2, "gcthreadpriority").num("max", p.priority_max).num("min", p.priority_min).empty();
            references(x, 2, &p.work.references);
            own_child(x, 2, QuantaDetail::ELEMENT, |x| detail.put(x));
            x.close(1, "summary");
            x.close(0, "gc");
            x.gap();
        }
        Format::OpenJ9 => {
            if p.clock_error {
                clock_warning(x, 0);
            }
            x.elements += 1;
            x.open(0, "gc-op").num("id", h.id).attr("type", "heartbeat").num("contextid", h.context);
            x.time(format, "timestamp", h.time).body();
            let q = p.quantum();
            x.open(1, "quanta").num("quantumCount", p.count).attr("quantumType", p.phase.name());
            x.ms("minTimeMs", q.min_ns).ms("meanTimeMs", q.mean_ns).ms("maxTimeMs", q.max_ns);
            x.ms("maxTimestampMs", p.longest_after_ns()).empty();
            let words = ["minTimeMs", "meanTimeMs", "maxTimeMs"];
            durations(x, 1, "exclusiveaccess-info", words, p.exclusive());
            work_openj9(x, &p.work);
            if p.overflow_packets > 0 || p.overflow_objects > 0 {
                x.open(1, "work-packet-overflow");
                x.num("packetCount", p.overflow_packets).num("directObjectCount", p.overflow_objects).empty();
            }
            bytes(
                x.open(1, "free-mem").attr("type", "heap"),
                ["minBytes", "meanBytes", "maxBytes"],
                p.free(),
            );
            x.open(1, "thread-priority").num("maxPriority", p.priority_max);
            x.num("minPriority", p.priority_min).empty();
            references(x, 1, &p.work.references);
            if let Some(immortal) = p.immortal() {
                bytes(x.open(1, IMMORTAL), ["minBytes", "meanBytes", "maxBytes"], immortal);
            }
            own_child(x, 1, QuantaDetail::ELEMENT, |x| detail.put(x));
            x.close(0, "gc-op");
        }
    }
}

fn work_2007(x: &mut Xml, depth: usize, w: &WorkFacts) {
    if w.soft_cleared > 0 || w.weak_cleared > 0 || w.phantom_cleared > 0 {
        x.open(depth, "refs_cleared").num("soft", w.soft_cleared).num("threshold", w.soft_threshold);
        x.num("maxThreshold", w.soft_threshold_max).num("weak", w.weak_cleared);
        x.num("phantom", w.phantom_cleared).empty();
    }
    if w.finalizer_enqueued > 0 {
        x.open(depth, "finalization").num("objectsqueued", w.finalizer_enqueued).empty();
    }
}

fn work_openj9(x: &mut Xml, w: &WorkFacts) {
    if w.soft_cleared > 0 {
        x.open(1, "references").attr("type", "soft").num("cleared", w.soft_cleared);
        x.num("dynamicThreshold", w.soft_threshold).num("maxThreshold", w.soft_threshold_max).empty();
    }
    for (kind, cleared) in [("weak", w.weak_cleared), ("phantom", w.phantom_cleared)] {
        if cleared > 0 {
            x.open(1, "references").attr("type", kind).num("cleared", cleared).empty();
        }
    }
    if w.finalizer_enqueued > 0 {
        x.open(1, "finalization").num("enqueued", w.finalizer_enqueued).empty();
    }
}

fn references(x: &mut Xml, depth: usize, r: &References) {
    if *r != References::default() {
        own_child(x, depth, References::ELEMENT, |x| r.put(x));
    }
}

/// `clock_error` covers the length; the head's time is the start in 2007 form and the end in OpenJ9 form.
pub(super) fn sync_gc(
    x: &mut Xml,
    format: Format,
    f: &SyncGcFacts,
    h: Head,
    interval_ns: u64,
    clock_error: bool,
) {
    let length = f.end_ns.saturating_sub(f.start_ns);
    let detail = SyncDetail {
        start_ns: f.start_ns,
        end_ns: f.end_ns,
        exclusive_access_ns: f.exclusive_access_ns,
        cpu_ns: f.cpu_ns,
    };
    let out_of_memory = f.reason == SyncReason::OutOfMemory;
    match format {
        Format::V2007 => {
            x.gc("synchgc", h, interval_ns).body();
            x.open(1, "details").attr("reason", f.reason.text_in(format));
            if out_of_memory {
                x.num("requested_bytes", f.requested_bytes);
            }
            x.empty();
            if clock_error {
                clock_warning(x, 1);
            }
            x.open(1, "duration").ms("timems", length).empty();
            work_2007(x, 1, &f.work);
            x.open(1, "heap").num("freebytesbefore", f.free_before_bytes).empty();
            x.open(1, "heap").num("freebytesafter", f.free_after_bytes).empty();
            let immortal =
                [("freebytesbefore", f.immortal_before_bytes), ("freebytesafter", f.immortal_after_bytes)];
            for (name, free) in immortal {
                if let Some(free) = free {
                    x.open(1, "immortal").num(name, free).empty();
                }
            }
            x.open(1, "synchronousgcpriority").num("value", f.priority).empty();
            references(x, 1, &f.work.references);
            own_child(x, 1, SyncDetail::ELEMENT, |x| detail.put(x));
            x.close(0, "gc");
            x.gap();
        }
        Format::OpenJ9 => {
            if clock_error {
                clock_warning(x, 0);
            }
            x.elements += 1;
            x.open(0, "gc-op").num("id", h.id).attr("type", "syncgc").ms("timems", length);
            x.num("contextid", h.context).time(format, "timestamp", h.time).body();
            x.open(1, "syncgc-info").attr("reason", f.reason.text_in(format));
            if out_of_memory {
                x.num("totalBytesRequested", f.requested_bytes);
            }
            x.ms("exclusiveaccessTimeMs", f.exclusive_access_ns).num("threadPriority", f.priority).empty();
            x.open(1, "free-mem-delta").attr("type", "heap").num("bytesBefore", f.free_before_bytes);
            x.num("bytesAfter", f.free_after_bytes).empty();
            work_openj9(x, &f.work);
            references(x, 1, &f.work.references);
            if f.immortal_before_bytes.is_some() || f.immortal_after_bytes.is_some() {
                x.open(1, IMMORTAL);
                opt_count::put(x, "bytesBefore", &f.immortal_before_bytes);
                opt_count::put(x, "bytesAfter", &f.immortal_after_bytes);
                x.empty();
            }
            own_child(x, 1, SyncDetail::ELEMENT, |x| detail.put(x));
            x.close(0, "gc-op");
        }
    }
}

fn own_child(x: &mut Xml, depth: usize, element: &str, put: impl FnOnce(&mut Xml)) {
    x.open(depth, element);
    put(x);
    x.empty();
}

/// An own element at top level: it takes no number, so that a reader of the old forms sees none missing.
pub(super) fn own(
    x: &mut Xml,
    format: Format,
    element: &str,
    context: u64,
    time: LogTime,
    put: impl FnOnce(&mut Xml),
) {
    x.elements += 1;
    x.open(0, element).time(format, "timestamp", time);
    if context != 0 {
        x.num("contextid", context);
    }
    put(x);
    x.empty();
    if format == Format::V2007 {
        x.gap();
    }
}

pub(super) fn out_of_memory(x: &mut Xml, format: Format, o: &OutOfMemory, h: Head) {
    x.elements += 1;
    let space = o.space.as_deref().unwrap_or("heap");
    let address = o.address.unwrap_or(0);
    match format {
        Format::V2007 => {
            x.open(0, "event").attr("details", "out of memory").time(format, "timestamp", h.time);
            x.attr("memoryspace", space).hex("J9MemorySpace", address).empty();
            x.gap();
        }
        Format::OpenJ9 => {
            x.open(0, "out-of-memory").num("id", h.id).time(format, "timestamp", h.time);
            x.attr("memorySpaceName", space);
            x.num("memorySpaceAddress", format_args!("{address:x}")).empty();
        }
    }
}

pub(super) fn tracker_overflow(x: &mut Xml, format: Format, t: &TrackerOverflow, h: Head) {
    x.elements += 1;
    match format {
        Format::V2007 => {
            x.open(0, "event").attr("details", "utilization tracker overflow");
        }
        Format::OpenJ9 => {
            x.open(0, "utilization-tracker-overflow").num("id", h.id);
        }
    }
    x.time(format, "timestamp", h.time).hex("utilizationTrackerAddress", t.tracker.unwrap_or(0));
    x.hex("timeSliceDurationArrayAddress", t.array.unwrap_or(0));
    x.num("timeSliceCursor", t.cursor.unwrap_or(0)).empty();
    if format == Format::V2007 {
        x.gap();
    }
}

pub(super) fn non_monotonic(x: &mut Xml, format: Format, n: &NonMonotonicTime, h: Head) {
    x.elements += 1;
    let timer = n.timer.as_deref().unwrap_or(TIMER);
    match format {
        Format::V2007 => {
            x.open(0, "event").attr("details", "non-monotonic time acknowledged").attr("timerDesc", timer);
        }
        Format::OpenJ9 => {
            x.open(0, "non-monotonic-time").attr("timerDescription", timer).num("id", h.id);
        }
    }
    x.time(format, "timestamp", h.time);
    if let Some(from) = n.from_ns {
        x.num("metronome-fromNs", from);
    }
    if let Some(to) = n.to_ns {
        x.num("metronome-toNs", to);
    }
    x.empty();
    if format == Format::V2007 {
        x.gap();
    }
}
