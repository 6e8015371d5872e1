//! Writes a log in either generation's form.
//!
//! A [`LogWriter`] is fed with facts by one thread of low priority, off the real-time path (it allocates and
//! does I/O). It numbers the elements, computes the intervals and sums quanta into heartbeats by the
//! generation's rules; [`crate::design`] states them.
//!
//! ```
//! use metronome_verbosegc::{WallClock, model::*, writer::*};
//!
//! let clock = WallClock { monotonic_ns: 0, unix_ns: 0, offset_seconds: 0 };
//! let mut log = LogWriter::new(Vec::new(), Format::OpenJ9, Options::new("1.0", clock));
//! log.initialized(0, &Initialized { heap_max_bytes: Some(64 << 20), ..Initialized::default() })?;
//! log.cycle_start(1_000_000, &CycleStartFacts { heap_free_bytes: 32 << 20, ..CycleStartFacts::default() })?;
//! log.quantum(&QuantumFacts { start_ns: 2_000_000, end_ns: 2_500_000, ..QuantumFacts::default() })?;
//! log.cycle_end(3_000_000, 60 << 20, &CycleFacts::default())?;
//! let text = String::from_utf8(log.finish()?).unwrap();
//! assert!(text.contains(r#"meanTimeMs="0.500""#));
//! # Ok::<(), std::io::Error>(())
//! ```

mod aggregate;
mod facts;
mod header;
mod own;
mod render;

pub use facts::{CycleStartFacts, Format, Options, QuantumFacts, SyncGcFacts, WorkFacts};

use crate::model::{CycleFacts, Initialized, NonMonotonicTime, OutOfMemory, OutputLost, TrackerOverflow};
use crate::xml::Xml;
use aggregate::Pending;
use render::{Edge, Head};
use std::io;

/// Next number of each kind; the OpenJ9 form uses one counter for all.
#[derive(Debug, Default)]
struct Ids {
    heartbeat: u64,
    sync_gc: u64,
    trigger: u64,
    cycle: u64,
    global: u64,
}

/// Times that intervals are counted from.
#[derive(Debug, Default)]
struct Marks {
    initialized: Option<u64>,
    trigger_start: Option<u64>,
    trigger_end: Option<u64>,
    cycle_start: Option<u64>,
    cycle_end: Option<u64>,
    sync_start: Option<u64>,
    /// Where the heartbeat interval counts from.
    heartbeat: Option<u64>,
}

/// Writer of one log.
///
/// Every method that takes facts returns the error of the output. The state has then already moved on: the
/// caller may go on with the next fact, nothing is written twice, and the next success is preceded by an
/// element that tells how many were lost. Whole calls are written with one `write` where the output takes it,
/// so lines of other writers to the same file fall between elements. There is no buffering to flush.
#[derive(Debug)]
pub struct LogWriter<W> {
    out: W,
    format: Format,
    options: Options,
    x: Xml,
    ids: Ids,
    marks: Marks,
    pending: Option<Pending>,
    /// Number of the current cycle's start, 0 outside a cycle.
    context: u64,
    header_written: bool,
    lost: u64,
    /// An element stopped in the middle.
    torn: bool,
}

impl<W: io::Write> LogWriter<W> {
    /// A writer; nothing is written until the first fact.
    pub fn new(out: W, format: Format, options: Options) -> Self {
        Self {
            out,
            format,
            options,
            x: Xml::default(),
            ids: Ids::default(),
            marks: Marks::default(),
            pending: None,
            context: 0,
            header_written: false,
            lost: 0,
            torn: false,
        }
    }

    /// The configuration; once, before everything else. The heartbeat interval counts from `ns`.
    ///
    /// # Errors
    /// Those of the output.
    pub fn initialized(&mut self, ns: u64, facts: &Initialized) -> io::Result<()> {
        self.begin();
        self.marks.initialized = Some(ns);
        self.marks.heartbeat = Some(ns);
        let id = (self.format == Format::OpenJ9).then(|| self.global());
        header::initialized(&mut self.x, self.format, id, self.options.wall_clock.at(ns), facts);
        self.send()
    }

    /// Use of memory passed the trigger.
    ///
    /// # Errors
    /// Those of the output.
    pub fn trigger_start(&mut self, ns: u64) -> io::Result<()> {
        self.begin();
        self.flush_pending();
        self.ids.trigger += 1;
        let since = self.marks.trigger_end.or(self.marks.initialized);
        let h = self.head(self.ids.trigger, ns);
        let interval = self.interval(ns, since, self.format == Format::V2007);
        render::trigger(&mut self.x, self.format, true, h, interval);
        self.marks.trigger_start = Some(ns);
        self.marks.heartbeat = Some(ns);
        self.send()
    }

    /// A cycle ended with use below the trigger.
    ///
    /// # Errors
    /// Those of the output.
    pub fn trigger_end(&mut self, ns: u64) -> io::Result<()> {
        self.begin();
        self.flush_pending();
        // Start and end of one trigger have the same number, as in the logs of 2007.
        let h = self.head(self.ids.trigger.max(1), ns);
        let interval = self.interval(ns, self.marks.trigger_start, self.format == Format::V2007);
        render::trigger(&mut self.x, self.format, false, h, interval);
        self.marks.trigger_end = Some(ns);
        self.marks.heartbeat = Some(ns);
        self.send()
    }

    /// A cycle begins.
    ///
    /// # Errors
    /// Those of the output.
    pub fn cycle_start(&mut self, ns: u64, facts: &CycleStartFacts) -> io::Result<()> {
        self.begin();
        self.flush_pending();
        self.ids.cycle += 1;
        let since = match self.format {
            Format::V2007 => self.marks.cycle_end,
            Format::OpenJ9 => self.marks.cycle_start,
        };
        let interval = self.interval(ns, since.or(self.marks.initialized), true);
        // A cycle start belongs to no cycle; the elements until its end belong to it.
        self.context = 0;
        let h = self.head(self.ids.cycle, ns);
        let edge = Edge::Start(facts.reason.as_ref());
        render::cycle(&mut self.x, self.format, h, interval, facts.heap_free_bytes, edge);
        if self.format == Format::OpenJ9 {
            self.context = h.id;
            self.marks.heartbeat = Some(ns);
        }
        self.marks.cycle_start = Some(ns);
        self.send()
    }

    /// A cycle has ended.
    ///
    /// # Errors
    /// Those of the output.
    pub fn cycle_end(&mut self, ns: u64, heap_free_bytes: u64, facts: &CycleFacts) -> io::Result<()> {
        self.begin();
        self.flush_pending();
        let h = self.head(self.ids.cycle.max(1), ns);
        let interval = self.interval(ns, self.marks.cycle_start, self.format == Format::V2007);
        render::cycle(&mut self.x, self.format, h, interval, heap_free_bytes, Edge::End);
        self.own_in(ns, CycleFacts::ELEMENT, |x| facts.put(x));
        self.marks.cycle_end = Some(ns);
        self.context = 0;
        self.send()
    }

    /// A quantum has ended. Writes a heartbeat if one is due; cost O(1) otherwise.
    ///
    /// # Errors
    /// Those of the output.
    pub fn quantum(&mut self, facts: &QuantumFacts) -> io::Result<()> {
        self.begin();
        if self.format == Format::OpenJ9 && self.pending.as_ref().is_some_and(|p| p.phase != facts.phase) {
            self.flush_pending();
        }
        match &mut self.pending {
            Some(pending) => pending.add(facts),
            None => self.pending = Some(Pending::new(facts)),
        }
        let since = *self.marks.heartbeat.get_or_insert(facts.start_ns);
        match facts.end_ns.checked_sub(since) {
            Some(elapsed) if elapsed < self.options.heartbeat_interval_ns => {}
            // Also when the clock went back: waiting for it to catch up could take for ever.
            _ => self.flush_pending(),
        }
        self.send()
    }

    /// A stop-the-world collection has ended.
    ///
    /// # Errors
    /// Those of the output.
    pub fn sync_gc(&mut self, facts: &SyncGcFacts) -> io::Result<()> {
        self.begin();
        self.flush_pending();
        self.ids.sync_gc += 1;
        let interval = self.marks.sync_start.map_or(Some(0), |since| facts.start_ns.checked_sub(since));
        let clock_error = facts.end_ns < facts.start_ns || interval.is_none();
        let printed = match self.format {
            Format::V2007 => facts.start_ns,
            Format::OpenJ9 => facts.end_ns,
        };
        let h = self.head(self.ids.sync_gc, printed);
        render::sync_gc(&mut self.x, self.format, facts, h, interval.unwrap_or(0), clock_error);
        self.marks.sync_start = Some(facts.start_ns);
        self.marks.heartbeat = Some(facts.end_ns);
        self.send()
    }

    /// An allocation failed for good.
    ///
    /// # Errors
    /// Those of the output.
    pub fn out_of_memory(&mut self, ns: u64, facts: &OutOfMemory) -> io::Result<()> {
        self.begin();
        let h = self.event_head(ns);
        render::out_of_memory(&mut self.x, self.format, facts, h);
        self.send()
    }

    /// More time slices in a window than a tracker holds.
    ///
    /// # Errors
    /// Those of the output.
    pub fn tracker_overflow(&mut self, ns: u64, facts: &TrackerOverflow) -> io::Result<()> {
        self.begin();
        let h = self.event_head(ns);
        render::tracker_overflow(&mut self.x, self.format, facts, h);
        self.send()
    }

    /// The clock went back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn clock_error(&mut self, ns: u64, facts: &NonMonotonicTime) -> io::Result<()> {
        self.begin();
        let h = self.event_head(ns);
        render::non_monotonic(&mut self.x, self.format, facts, h);
        self.send()
    }

    /// A warning in words, in the form that both generations know.
    ///
    /// # Errors
    /// Those of the output.
    pub fn warning(&mut self, details: &str) -> io::Result<()> {
        self.begin();
        render::warning(&mut self.x, self.format, details);
        self.send()
    }

    /// Writes the quanta not yet in a heartbeat and the end tag, flushes, and gives the output back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin();
        self.flush_pending();
        self.x.close(0, "verbosegc");
        self.send()?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// The output.
    pub const fn get_ref(&self) -> &W {
        &self.out
    }

    /// The output, to be flushed for instance; what is written to it must be whole elements or nothing.
    pub const fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Gives the output back without an end tag; quanta not yet in a heartbeat are dropped.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn own_in(&mut self, ns: u64, element: &str, put: impl FnOnce(&mut Xml)) {
        let time = self.options.wall_clock.at(ns);
        render::own(&mut self.x, self.format, element, self.context, time, put);
    }

    fn global(&mut self) -> u64 {
        self.ids.global += 1;
        self.ids.global
    }

    fn head(&mut self, own_id: u64, ns: u64) -> Head {
        let id = match self.format {
            Format::V2007 => own_id,
            Format::OpenJ9 => self.global(),
        };
        Head { id, context: self.context, time: self.options.wall_clock.at(ns) }
    }

    /// Head of an `event`, which has no number in the form of 2007.
    fn event_head(&mut self, ns: u64) -> Head {
        self.head(0, ns)
    }

    /// Interval to `ns`; a clock that went back gives 0 and, where the interval is printed, a warning before it.
    fn interval(&mut self, ns: u64, since: Option<u64>, printed: bool) -> u64 {
        match since.map(|since| ns.checked_sub(since)) {
            None => 0,
            Some(Some(interval)) => interval,
            Some(None) => {
                if printed {
                    render::clock_warning(&mut self.x, 0);
                }
                0
            }
        }
    }

    fn flush_pending(&mut self) {
        let Some(mut pending) = self.pending.take() else { return };
        let end = pending.last_end_ns();
        let interval = self.marks.heartbeat.map_or(Some(0), |since| end.checked_sub(since));
        pending.clock_error |= interval.is_none();
        self.ids.heartbeat += 1;
        let h = self.head(self.ids.heartbeat, end);
        render::heartbeat(&mut self.x, self.format, &pending, h, interval.unwrap_or(0));
        self.marks.heartbeat = Some(end);
    }

    /// Starts a call's text: what must come before anything new.
    fn begin(&mut self) {
        self.x.text.clear();
        self.x.elements = 0;
    }

    /// Writes the call's text in one piece.
    fn send(&mut self) -> io::Result<()> {
        if self.x.text.is_empty() {
            return Ok(());
        }
        let mut before = Xml::default();
        if self.torn {
            before.text.push('\n');
        }
        if !self.header_written {
            header::root(&mut before, self.format, &self.options.version);
        }
        if self.lost > 0 {
            before.open(0, OutputLost::ELEMENT);
            OutputLost { elements: self.lost }.put(&mut before);
            before.empty();
        }
        if !before.text.is_empty() {
            self.x.text.insert_str(0, &before.text);
        }
        let mut rest = self.x.text.as_bytes();
        while !rest.is_empty() {
            let error = match self.out.write(rest) {
                Ok(0) => io::Error::from(io::ErrorKind::WriteZero),
                Ok(n) => {
                    self.header_written = true;
                    rest = rest.get(n..).unwrap_or_default();
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => e,
            };
            self.torn |= rest.len() < self.x.text.len();
            self.lost += self.x.elements;
            return Err(error);
        }
        self.torn = false;
        self.lost = 0;
        Ok(())
    }
}
