//! The figures of one run, event by event.

mod beat;
mod edges;
mod own;
mod rows;
mod single;

use crate::axis::Axis;
use crate::clock::{Clock, Timing};
use crate::figures::{
    CycleRow, Low, Mark, PhaseFigures, Range, RunFigures, ShareFigures, SyncRow, Trouble, Writer,
};
use crate::series::Amount;
use crate::stat::{Peak, Sketch, Trend};
use metronome_verbosegc::model::{
    Event, Generation, LoggedEvent, QuantumPhase, Section, SyncGc, SyncReason, Work,
};
use metronome_verbosegc::reader::{Diagnostic, DiagnosticKind, OtherPolicy, RunStart};
use single::Singles;
use std::collections::BTreeMap;

/// Heartbeats kept.
pub(crate) const MAX_HEARTBEATS: usize = 200_000;
/// Rows kept of the other lists.
pub(crate) const MAX_ROWS: usize = 10_000;
/// Rows kept of a list where there is no room any more.
const FEW_ROWS: usize = 64;
/// Names kept of stragglers, reasons and the like; the rest is summed as "other".
const MAX_NAMES: usize = 64;
/// Collections for want of memory that are further apart do not follow one another.
const IN_A_ROW_NS: u64 = 1_500_000_000;
/// How this project names itself in the root element.
const OWN_VERSION: &str = "metronome-gc";

/// Where an event stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) line: u64,
    pub(crate) at_ns: u64,
    /// The clock went wrong here: intervals and lengths are not to be taken.
    pub(crate) clock_error: bool,
    /// Only a part of the event is in the log.
    pub(crate) partial: bool,
    /// Its time is printed with milliseconds.
    pub(crate) fine: bool,
}

/// Where heartbeats' intervals count from, where the log does not tell them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    pub(crate) at_ns: u64,
    /// On the monotonic clock of this project's logs; `None` at a cycle's start, whose first quantum tells it.
    pub(crate) mono_ns: Option<u64>,
}

/// Objections kept until they are taken.
const MAX_OBJECTIONS: usize = 1_000;

/// Quanta of one phase, growing.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhaseSketch {
    pub(crate) quantum: Sketch,
    pub(crate) peak: Peak,
    pub(crate) longest_is_first: u64,
    pub(crate) growth: Trend,
}

/// A cycle that has not ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCycle {
    pub(crate) row: CycleRow,
    /// Free memory when marking began, and how far it fell since.
    pub(crate) mark_free: Option<(u64, u64)>,
    pub(crate) last_free_max: Option<u64>,
    /// Least free heap of the heartbeat before.
    pub(crate) last_free_min: Option<u64>,
    /// Number of its start, which its end repeats.
    pub(crate) id: Option<u64>,
    /// Monotonic start of its first quantum and end of its last, in this project's logs.
    pub(crate) mono: Option<(u64, u64)>,
    /// Events are missing in it, or the clock was set.
    pub(crate) torn: bool,
    /// From the last cycle's end, by printed times: until the first quantum tells it exactly.
    pub(crate) gap_ns: Option<u64>,
    pub(crate) unloads: bool,
}

/// Worst shares kept until they are proved.
const MAX_UNPROVED: usize = 4_096;

/// Figures by printed times, as they were at the last cycle start: its interval showed that the clock had not been set.
/// What came since is left out if the next one shows that it was set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proved {
    share: ShareFigures,
    line: u64,
    triggers: (usize, u64),
    /// Shares for the picture since then, with their places.
    pub(crate) worst: Vec<(u64, u32)>,
}

/// Builds [`RunFigures`].
#[derive(Clone, Debug)]
pub(crate) struct RunBuilder {
    pub(crate) f: Box<RunFigures>,
    clock: Clock,
    pub(crate) axis: Axis,
    /// What is wrong with the log's times, for the list of diagnostics.
    objections: Vec<Diagnostic>,
    /// Nothing of the log is missing so far.
    whole: bool,
    pub(crate) since: Option<Since>,
    /// Rows that all lists may take together.
    room: usize,
    pub(crate) quantum: Sketch,
    pub(crate) stop: Sketch,
    pub(crate) singles: Singles,
    pub(crate) phases: [PhaseSketch; QuantumPhase::ALL.len()],
    pub(crate) cycle_length: Sketch,
    pub(crate) cycle_gap: Sketch,
    pub(crate) cycle: Option<OpenCycle>,
    pub(crate) last_cycle_end_ns: Option<u64>,
    /// The same on the monotonic clock.
    pub(crate) last_cycle_mono_ns: Option<u64>,
    /// A cycle's length by printed times: until the next start shows that the clock was not set in it.
    pub(crate) rough_length: Option<u64>,
    pub(crate) trigger_start_ns: Option<u64>,
    pub(crate) trigger_end_ns: u64,
    /// The clock was set in the trigger under way, nobody knows where.
    pub(crate) trigger_torn: bool,
    /// What was known at the last cycle start.
    pub(crate) proved: Proved,
    sync_start_ns: Option<u64>,
    pub(crate) cycles_in_trigger: u64,
    /// Free memory when the trigger's first cycle began, and when the last cycle ended.
    pub(crate) trigger_free: Option<u64>,
    pub(crate) free_after_cycle: Option<u64>,
    /// Where heartbeat intervals of the 2007 form count from.
    pub(crate) mark_ns: Option<u64>,
    /// Collections for want of memory one after the other, and the end of the last.
    pub(crate) in_a_row: u64,
    sync_end_ns: Option<u64>,
    sync_free: Option<(u64, u64)>,
    pub(crate) own: bool,
    /// The last warning was one of the clock, of which the next event is told, too.
    clock_warned: bool,
    /// The cycle that ended last, until its facts are known.
    pub(crate) ended_cycle: Option<CycleRow>,
}

impl RunBuilder {
    pub(crate) fn new(start: &RunStart, room: usize) -> Self {
        let own = start.version.as_deref().is_some_and(|v| v.starts_with(OWN_VERSION));
        let f = RunFigures {
            line: start.line,
            generation: start.generation,
            version: start.version.clone(),
            fragment: start.fragment,
            ..RunFigures::default()
        };
        Self {
            f: Box::new(f),
            clock: Clock::default(),
            axis: Axis::default(),
            objections: Vec::new(),
            whole: true,
            since: None,
            room,
            quantum: Sketch::default(),
            stop: Sketch::default(),
            singles: Singles::default(),
            phases: Default::default(),
            cycle_length: Sketch::default(),
            cycle_gap: Sketch::default(),
            cycle: None,
            last_cycle_end_ns: None,
            last_cycle_mono_ns: None,
            rough_length: None,
            trigger_start_ns: None,
            trigger_end_ns: 0,
            trigger_torn: false,
            proved: Proved::default(),
            sync_start_ns: None,
            cycles_in_trigger: 0,
            trigger_free: None,
            free_after_cycle: None,
            mark_ns: None,
            in_a_row: 0,
            sync_end_ns: None,
            sync_free: None,
            own,
            clock_warned: false,
            ended_cycle: None,
        }
    }

    /// The generation became known.
    pub(crate) fn learn(&mut self, generation: Option<Generation>) {
        self.f.generation = self.f.generation.or(generation);
    }

    pub(crate) fn refuse(&mut self, policy: &OtherPolicy) {
        self.f.refused.get_or_insert_with(|| policy.clone());
    }

    /// How many rows a list may have that may have `most` if there is room.
    pub(crate) fn most(&self, most: usize) -> usize {
        let f = &self.f;
        let used = f.heartbeats.rows.len() + f.cycle_rows.rows.len() + f.marks.rows.len();
        // A run among very many still has the extremes of its lists.
        if used < self.room { most } else { most.min(FEW_ROWS) }
    }

    pub(crate) fn mark(&mut self, spot: Spot, kind: &'static str, text: impl FnOnce() -> String) {
        if self.f.marks.rows.len() < self.most(MAX_ROWS) {
            self.f.marks.rows.push(Mark { line: spot.line, at_ns: spot.at_ns, kind, text: text() });
        } else {
            self.f.marks.omitted += 1;
        }
    }

    /// Takes one event; where its time is doubtful, once the next ones have told what it is.
    pub(crate) fn event(&mut self, e: &LoggedEvent) {
        self.f.events += 1;
        self.f.partial += u64::from(e.partial);
        let mut clock = std::mem::take(&mut self.clock);
        clock.push(e, &mut |e, timing| self.timed(e, timing));
        self.clock = clock;
    }

    /// What was found to be wrong with the times since the last call.
    pub(crate) fn objections(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.objections)
    }

    fn timed(&mut self, e: &LoggedEvent, timing: Timing) {
        let refined = self.refined(e);
        self.whole &= !(timing.missing || e.partial);
        let (at_ns, step) = self.axis.advance(timing.time, refined, self.whole);
        let step = timing.step_ms.map(i128::from).or(step.map(|ns| ns / 1_000_000));
        let fine = timing.time.is_some_and(|t| t.has_millis());
        let spot = Spot { line: e.line, at_ns, clock_error: e.clock_error, partial: e.partial, fine };
        // A warning before an event is told of that event, too, and counts once.
        if e.clock_error && step.is_none() && !std::mem::take(&mut self.clock_warned) {
            self.clock(spot);
        }
        if let Some(ms) = step {
            self.clock_set(spot, e.column, ms);
        }
        if timing.missing || timing.unsure || e.clock_error {
            self.break_off();
        }
        self.trigger_torn |= timing.unsure;
        if timing.unplaced {
            self.leave_out();
        }
        match &e.event {
            Event::Initialized(i) => {
                self.own |= i.attributes.iter().any(|a| a.section == Section::Own);
                if let Some(bytes) = i.heap_max_bytes.or(i.heap_initial_bytes) {
                    self.f.heap_bytes = Some(self.f.heap_bytes.unwrap_or(0).max(bytes));
                }
                self.f.config.get_or_insert_with(|| i.clone());
            }
            Event::TriggerStart { .. } => self.trigger_start(spot),
            Event::TriggerEnd { interval_ns } => self.trigger_end(spot, *interval_ns),
            Event::CycleStart(edge) => self.cycle_start(spot, edge, e.id),
            Event::CycleEnd(edge) => self.cycle_end(spot, edge, e.context_id),
            Event::HeapFixup { .. } => {}
            Event::Heartbeat(h) => self.heartbeat(spot, h),
            Event::SyncGc(gc) => self.sync_gc(spot, gc, refined),
            Event::OutOfMemory(o) => {
                first(&mut self.f.trouble.out_of_memory, &mut self.f.trouble.out_of_memory_line, spot.line);
                let space = o.space.clone().unwrap_or_else(|| "heap".into());
                self.mark(spot, "out-of-memory", || format!("an allocation failed for good in {space}"));
            }
            Event::TrackerOverflow(_) => {
                self.f.trouble.tracker_overflows += 1;
                self.mark(spot, "tracker-overflow", || "more time slices than the tracker holds".into());
            }
            Event::NonMonotonicTime(t) => {
                if !e.clock_error {
                    self.clock(spot);
                }
                let timer = t.timer.clone().unwrap_or_else(|| "the clock".into());
                self.mark(spot, "clock", || format!("{timer} went back"));
            }
            Event::Warning { details } => {
                let clock = details.starts_with("clock error");
                if clock && !e.clock_error {
                    self.clock(spot);
                    self.clock_warned = true;
                }
                self.mark(spot, if clock { "clock" } else { "warning" }, || details.clone());
            }
            other => self.own_event(spot, other),
        }
    }

    /// Where intervals put an event whose time is printed in whole seconds.
    fn refined(&self, e: &LoggedEvent) -> Option<u64> {
        match &e.event {
            Event::Heartbeat(h) => self.mark_ns?.checked_add(h.interval_ns?),
            // The first ones count from `initialized`, which is where the axis begins.
            Event::TriggerStart { interval_ns } => self.trigger_end_ns.checked_add((*interval_ns)?),
            Event::TriggerEnd { interval_ns } => self.trigger_start_ns?.checked_add((*interval_ns)?),
            Event::CycleStart(edge) => self.last_cycle_end_ns.unwrap_or(0).checked_add(edge.interval_ns?),
            Event::CycleEnd(edge) => self.cycle.as_ref()?.row.start_ns?.checked_add(edge.interval_ns?),
            Event::SyncGc(gc) => self.sync_start_ns?.checked_add(gc.interval_ns?),
            _ => None,
        }
    }

    /// Nothing is to be compared with what was before: events are missing, or times are wrong.
    fn break_off(&mut self) {
        self.since = None;
        self.last_cycle_end_ns = None;
        self.last_cycle_mono_ns = None;
        if let Some(cycle) = &mut self.cycle {
            cycle.torn = true;
        }
        self.gap();
    }

    /// The clock was set somewhere since the last cycle start.
    fn leave_out(&mut self) {
        if self.rough_length.take().is_some()
            && let Some(row) = &mut self.ended_cycle
        {
            row.length_ns = None;
            row.torn = true;
        }
        let (rows, omitted) = self.proved.triggers;
        self.f.triggers_ns.rows.truncate(rows);
        self.f.triggers_ns.omitted = omitted;
        // This project's heartbeats have times on a clock that is not set.
        if self.own {
            return;
        }
        self.proved.worst.clear();
        self.f.share = self.proved.share;
        let line = self.proved.line;
        self.f.heartbeats.undo(|row| row.line > line, |row| row.share_ppm = None);
    }

    /// What printed times told so far is right, as far as the log can show.
    pub(crate) fn prove(&mut self, line: u64) {
        for (at_ns, ppm) in std::mem::take(&mut self.proved.worst) {
            let b = self.f.series.at(at_ns);
            b.share_max_ppm = b.share_max_ppm.max(Some(ppm));
        }
        self.proved.share = self.f.share;
        self.proved.line = line;
        self.proved.triggers = (self.f.triggers_ns.rows.len(), self.f.triggers_ns.omitted);
    }

    pub(crate) fn worst(&mut self, at_ns: u64, ppm: u32) {
        if self.proved.worst.len() >= MAX_UNPROVED {
            self.prove(self.proved.line);
        }
        self.proved.worst.push((at_ns, ppm));
    }

    fn clock_set(&mut self, spot: Spot, column: u64, ms: i128) {
        self.clock(spot);
        self.gap();
        let (way, by) = (if ms > 0 { "forward" } else { "back" }, ms.unsigned_abs() as f64 / 1e3);
        let text = format!("the clock was set {way} by {by:.3} s before this event");
        self.mark(spot, "clock", || text.clone());
        if self.objections.len() < MAX_OBJECTIONS {
            let kind = DiagnosticKind::Clock;
            self.objections.push(Diagnostic { line: spot.line, column, kind, text });
        }
    }

    fn clock(&mut self, spot: Spot) {
        let Trouble { clock_errors, clock_line, .. } = &mut self.f.trouble;
        first(clock_errors, clock_line, spot.line);
    }

    fn sync_gc(&mut self, spot: Spot, gc: &SyncGc, refined: Option<u64>) {
        let generation = self.f.generation.unwrap_or(Generation::OpenJ9);
        let reason = gc.reason.as_ref().map_or("unknown", |r| r.text_in(generation)).to_owned();
        let ns = gc.duration_ns.filter(|_| !spot.clock_error);
        // The 2007 form prints the start, the OpenJ9 form the end.
        let (start, end) = match generation {
            Generation::V2007 => (spot.at_ns, spot.at_ns.saturating_add(ns.unwrap_or(0))),
            Generation::OpenJ9 => (spot.at_ns.saturating_sub(ns.unwrap_or(0)), spot.at_ns),
        };
        self.mark_ns = Some(end);
        self.since =
            Some(Since { at_ns: end, mono_ns: gc.detail.as_ref().map(|d| d.end_ns).filter(|ns| *ns > 0) });
        self.sync_start_ns = Some(start);
        match ns {
            // The process was ending: nobody waited for it.
            _ if gc.reason == Some(SyncReason::Shutdown) => {}
            Some(ns) => {
                if generation == Generation::V2007 && refined != Some(spot.at_ns) {
                    self.gap();
                }
                self.single(end, ns, false);
            }
            None => self.singles.unknown(end),
        }
        if let Some(ns) = ns {
            named(&mut self.f.synchronous_by_reason, &reason).add(ns);
            // An hour of standing still is no picture's matter: bounds the work for a forged length.
            self.f.series.spread(start, end, ns.min(end - start), Amount::Synchronous);
        }
        // A collection of the whole heap leaves what is live, and garbage of none.
        if let (Some(heap), Some(free), false) = (self.f.heap_bytes, gc.free_after_bytes, self.own) {
            let live = &mut self.f.cycle_sums.live_max_bytes;
            *live = (*live).max(heap.saturating_sub(free));
        }
        if gc.reason == Some(SyncReason::OutOfMemory) {
            let apart = start.saturating_sub(self.sync_end_ns.unwrap_or(start)) > IN_A_ROW_NS;
            self.in_a_row = if apart { 1 } else { self.in_a_row + 1 };
            self.sync_end_ns = Some(end);
            self.f.synchronous_in_a_row.add(self.in_a_row, spot.line, spot.at_ns);
        } else {
            self.in_a_row = 0;
        }
        self.f.series.free(start, gc.free_before_bytes);
        self.f.series.free(end, gc.free_after_bytes);
        for bytes in [gc.free_before_bytes, gc.free_after_bytes].into_iter().flatten() {
            let (min, max) = self.sync_free.get_or_insert((bytes, bytes));
            (*min, *max) = ((*min).min(bytes), (*max).max(bytes));
            self.free_low(bytes, spot);
        }
        for (at, bytes) in [(start, gc.immortal_before_bytes), (end, gc.immortal_after_bytes)] {
            if let Some(bytes) = bytes {
                self.immortal(at, bytes, bytes);
            }
        }
        if let Some(p) = gc.priority {
            self.priority(end, p, p);
        }
        self.work(spot, &gc.work, gc.work.soft.and_then(|s| s.cleared));
        if let Some(cycle) = &mut self.cycle {
            cycle.row.synchronous = true;
            if let Some(d) = gc.detail.as_ref().filter(|d| d.start_ns <= d.end_ns && d.end_ns > 0) {
                cycle.mono = Some((cycle.mono.map_or(d.start_ns, |m| m.0), d.end_ns));
            }
        }
        let row = SyncRow {
            line: spot.line,
            at_ns: start,
            time: gc.start.or(gc.end),
            reason: reason.clone(),
            ns,
            requested_bytes: gc.requested_bytes,
            free_before_bytes: gc.free_before_bytes,
            free_after_bytes: gc.free_after_bytes,
        };
        self.keep_collection(row);
        let at = Spot { at_ns: start, ..spot };
        self.mark(at, "synchronous", || {
            let ms = ns.map_or("of unknown length".into(), |ns| format!("of {:.3} ms", ns as f64 / 1e6));
            format!("synchronous collection {ms}: {reason}")
        });
    }

    pub(crate) fn priority(&mut self, at_ns: u64, min: u64, max: u64) {
        Range::add(&mut self.f.priority, min, max);
        Range::add(&mut self.f.series.at(at_ns).priority, min, max);
    }

    pub(crate) fn immortal(&mut self, at_ns: u64, min: u64, max: u64) {
        Range::add(&mut self.f.immortal_free, min, max);
        Range::add(&mut self.f.series.at(at_ns).immortal_free, min, max);
    }

    /// Collector time whose place is known.
    pub(crate) fn single(&mut self, end_ns: u64, ns: u64, is_quantum: bool) {
        let window = self.f.config.as_deref().and_then(|c| c.window_ns);
        self.singles.add(end_ns, ns, window, is_quantum);
    }

    /// Something of the log is missing here.
    pub(crate) fn gap(&mut self) {
        self.singles.unknown(self.axis.now_ns());
    }

    pub(crate) fn work(&mut self, spot: Spot, w: &Work, soft_cleared: Option<u64>) {
        let sum = |a: &mut u64, b: Option<u64>| *a = a.saturating_add(b.unwrap_or(0));
        let others =
            w.references.as_ref().and_then(|r| r.weak_long_cleared.checked_add(r.ephemerons_cleared));
        let cleared = [soft_cleared, w.weak_cleared, w.phantom_cleared, others];
        if w.finalizer_enqueued.is_some() || cleared.iter().any(Option::is_some) {
            let b = self.f.series.at(spot.at_ns);
            sum(&mut b.finalizer_enqueued, w.finalizer_enqueued);
            cleared.into_iter().for_each(|n| sum(&mut b.references_cleared, n));
        }
        let f = &mut self.f.work;
        sum(&mut f.finalizer_enqueued, w.finalizer_enqueued);
        if let Some(n) = w.finalizer_enqueued {
            f.finalizer_peak.add(n, spot.line, spot.at_ns);
        }
        sum(&mut f.soft_cleared, soft_cleared);
        sum(&mut f.weak_cleared, w.weak_cleared);
        sum(&mut f.phantom_cleared, w.phantom_cleared);
        if let Some(c) = &w.class_unload {
            let classes = c.classes.unwrap_or(0);
            sum(&mut f.classes_unloaded, Some(classes));
            if classes > 0 || c.loaders.unwrap_or(0) > 0 {
                first(&mut f.class_unloads, &mut f.class_unload_line, spot.line);
                let known = self.cycle.as_mut().map(|c| std::mem::replace(&mut c.unloads, true));
                f.class_unload_cycles += u64::from(known != Some(true));
            }
        }
        if w.overflow.is_some() {
            first(&mut f.overflows, &mut f.overflow_line, spot.line);
        }
        if let Some(r) = &w.references {
            sum(&mut f.other_cleared, others);
            sum(&mut f.finalizers_run, Some(r.finalizers_run));
            f.finalizer_backlog.add(r.finalizer_backlog, spot.line, spot.at_ns);
            self.own = true;
        }
    }

    pub(crate) fn free_low(&mut self, bytes: u64, spot: Spot) {
        if self.f.free_low.is_none_or(|low| bytes < low.value) {
            self.f.free_low = Some(Low { value: bytes, line: spot.line, at_ns: spot.at_ns });
        }
    }

    /// Takes what the clock holds still: no more events come.
    pub(crate) fn end(&mut self) {
        let mut clock = std::mem::take(&mut self.clock);
        clock.finish(&mut |e, timing| self.timed(e, timing));
        self.flush_cycle();
        self.flush_length();
        self.prove(0);
    }

    /// The figures; [`end`](Self::end) comes before.
    pub(crate) fn finish(mut self, complete: bool) -> RunFigures {
        self.f.complete = complete;
        self.f.trigger_open = self.trigger_start_ns.is_some();
        self.f.cycle_open = self.cycle.is_some();
        self.close_cycle_at_end();
        let own = self.own;
        let f = &mut self.f;
        f.writer = match f.generation {
            _ if f.refused.is_some() => None,
            _ if own => Some(Writer::MetronomeGc),
            Some(Generation::V2007) => Some(Writer::Ibm2007),
            Some(Generation::OpenJ9) => Some(Writer::OpenJ9),
            None => None,
        };
        if f.free.is_none() {
            f.free = self.sync_free.map(|(min, max)| Range { min, max });
        }
        (f.first_time, f.last_time) = self.axis.bounds();
        f.span_ns = self.axis.now_ns();
        f.quantum = self.quantum.done();
        f.stop = self.stop.done();
        f.single = self.singles.done();
        f.cycle_length = self.cycle_length.done();
        f.cycle_gap = self.cycle_gap.done();
        f.cycle_rows.seal();
        f.synchronous.seal();
        f.heartbeats.seal();
        let phases = QuantumPhase::ALL.into_iter().zip(&self.phases);
        f.phases = phases
            .filter(|(_, p)| p.peak.line > 0)
            .map(|(phase, p)| PhaseFigures {
                phase,
                quantum: p.quantum.done(),
                peak: p.peak,
                longest_is_first: p.longest_is_first,
                growth: p.growth,
            })
            .collect();
        *self.f
    }
}

/// Counts one, and keeps the first line.
pub(crate) fn first(count: &mut u64, first_line: &mut u64, line: u64) {
    if *count == 0 {
        *first_line = line;
    }
    *count += 1;
}

/// The entry of a name in a table of bounded size.
pub(crate) fn named<'a, T: Default>(table: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let name = if table.contains_key(name) || table.len() < MAX_NAMES { name } else { "other" };
    table.entry(name.to_owned()).or_default()
}
