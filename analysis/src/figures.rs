//! The figures of logs and of their runs. Plain data: whoever shows them needs nothing else.
//!
//! Times are nanoseconds, places on the time axis (`…at_ns`) count from the run's first printed time, sizes are bytes,
//! shares parts per million. Every list is bounded; what did not fit is counted beside it, and the exact figures
//! (counts, sums, extremes) include it.

use crate::advice::Finding;
use crate::kept::Kept;
use crate::series::Series;
use crate::stat::{Distribution, Peak, Stat, Trend};
use metronome_verbosegc::LogTime;
use metronome_verbosegc::model::{Generation, Initialized, Mmu, QuantumPhase, Resize, Summary, Thread};
use metronome_verbosegc::reader::{Diagnostic, OtherPolicy};
use std::collections::BTreeMap;

/// Who wrote a run's log: decides which flags an advice may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Writer {
    /// IBM's WebSphere Real Time and others of the first generation (`<gc type="...">`).
    Ibm2007,
    /// J9 2.6 and later, OpenJ9, Semeru (`<gc-op type="...">`).
    OpenJ9,
    /// This project, in either form.
    MetronomeGc,
}

impl Writer {
    /// The word in JSON: `2007`, `openj9`, `metronome-gc`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ibm2007 => "2007",
            Self::OpenJ9 => "openj9",
            Self::MetronomeGc => "metronome-gc",
        }
    }

    /// Words for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ibm2007 => "Metronome of the 2007 generation (IBM WebSphere Real Time)",
            Self::OpenJ9 => "Metronome of OpenJ9 or a recent IBM SDK",
            Self::MetronomeGc => "metronome-gc",
        }
    }
}

/// Cycles within one trigger that make it a crowded one.
pub(crate) const CYCLES_PER_TRIGGER: u64 = 3;

/// The figures of a log.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// The writer of all runs; `None` if there are no runs, they differ, or none could be told.
    pub writer: Option<Writer>,
    /// There is a run, and every one has its end tag.
    pub complete: bool,
    /// What is not as it should be, the first ten thousand.
    pub diagnostics: Kept<Diagnostic>,
    /// The runs, the first thousand.
    pub runs: Kept<RunFigures>,
    /// What was found in the runs beyond the first thousand: they are judged one by one, and their figures are not kept.
    pub beyond: Beyond,
    /// The policies of other collectors' runs (also those of runs beyond the first thousand), the first hundred.
    pub refused: Kept<OtherPolicy>,
    /// Events of all runs.
    pub events: u64,
}

impl Analysis {
    /// True if runs were found and all of them are other collectors'.
    pub fn is_all_refused(&self) -> bool {
        self.events == 0 && self.refused.total() > 0 && self.refused.total() == self.runs.total()
    }
}

/// Findings of runs whose figures are not kept.
#[derive(Clone, Debug, Default)]
pub struct Beyond {
    /// Runs that were judged.
    pub judged: u64,
    /// Those with a finding.
    pub sick: u64,
    /// Their findings, the first thousand, and those of the last run.
    pub findings: Kept<Finding>,
    /// Findings of the last run.
    pub(crate) last: Vec<Finding>,
}

/// The figures of one run.
#[derive(Clone, Debug, Default)]
pub struct RunFigures {
    /// Line where it begins, from 1.
    pub line: u64,
    /// Who wrote it; `None` for a fragment that does not tell.
    pub writer: Option<Writer>,
    /// Form of the log; `None` for a fragment that does not tell.
    pub generation: Option<Generation>,
    /// Version in the root element.
    pub version: Option<String>,
    /// It has no root element.
    pub fragment: bool,
    /// It has its end tag.
    pub complete: bool,
    /// Set if it is another collector's; then nothing else is.
    pub refused: Option<OtherPolicy>,
    /// Its configuration, as far as the log has it.
    pub config: Option<Box<Initialized>>,
    /// First printed time.
    pub first_time: Option<LogTime>,
    /// Last printed time.
    pub last_time: Option<LogTime>,
    /// Length of the time axis: from the first to the last event, steps back of the clock taken out.
    pub span_ns: u64,
    /// Events.
    pub events: u64,
    /// Events of which the log has only a part.
    pub partial: u64,

    /// Quanta: counted, and their lengths. The mean is weighted by the heartbeats' counts.
    pub quantum: Distribution,
    /// Quanta of heartbeats, also of those whose lengths are lost.
    pub quanta: u64,
    /// Longest quantum.
    pub quantum_peak: Peak,
    /// Quanta whose place is known, and what follows for windows.
    pub single: SingleFigures,
    /// Quanta by phase; only phases that occur, `Unknown` in logs of the 2007 generation.
    pub phases: Vec<PhaseFigures>,
    /// Time to stop the mutators, by quantum.
    pub stop: Distribution,
    /// Longest time to stop, in quanta.
    pub stop_peak: Peak,
    /// Heartbeats, at most two hundred thousand: evenly over all of them, with those of the longest quanta.
    pub heartbeats: Kept<HeartbeatRow>,
    /// Collector's share of heartbeats' intervals in sum: utilization is what is left. `None` without intervals.
    pub share: ShareFigures,

    /// Cycles that ended.
    pub cycles: u64,
    /// Cycles whose end is not in the log.
    pub cycles_incomplete: u64,
    /// Cycles, at most ten thousand: evenly over all of them, with the longest.
    pub cycle_rows: Kept<CycleRow>,
    /// Sums over all cycles, also those that are not among the rows.
    pub cycle_sums: CycleSums,
    /// Lengths of cycles, from start to end in wall time.
    pub cycle_length: Distribution,
    /// Some of them are known by printed times only, to a millisecond.
    pub lengths_rough: bool,
    /// From a cycle's end to the next one's start.
    pub cycle_gap: Distribution,
    /// Some of them are known by printed times only, to a millisecond.
    pub gaps_rough: bool,
    /// Most cycles between a trigger start and its end.
    pub cycles_per_trigger: Peak,
    /// Triggers in which three cycles or more began, and the cycles of these.
    pub crowded_triggers: u64,
    /// Cycles in crowded triggers.
    pub crowded_cycles: u64,
    /// Cycles that began in a trigger after another one, where the log tells the free memory at that one's end and at the
    /// trigger's first cycle.
    pub followers: u64,
    /// Of these, those before which no more was free than at the trigger's first cycle.
    pub followers_above: u64,
    /// Triggers that have an end: their lengths in the log's order.
    pub triggers_ns: Kept<u64>,
    /// The last trigger has no end.
    pub trigger_open: bool,
    /// The last cycle has no end.
    pub cycle_open: bool,

    /// Synchronous collections, at most ten thousand: evenly over all of them, with the longest.
    pub synchronous: Kept<SyncRow>,
    /// Their lengths, by reason in the log's words; the first 64 reasons, others as "other".
    pub synchronous_by_reason: BTreeMap<String, Stat>,
    /// Most collections for want of memory one right after the other.
    pub synchronous_in_a_row: Peak,

    /// Free heap in heartbeats; in a log without heartbeats before and after synchronous collections.
    pub free: Option<Range>,
    /// Where the heap had least free.
    pub free_low: Option<Low>,
    /// Free heap at the end of cycles.
    pub free_after_cycle: Stat,
    /// Free immortal memory.
    pub immortal_free: Option<Range>,
    /// Size of the heap: the largest the log tells.
    pub heap_bytes: Option<u64>,
    /// Changes of its size.
    pub resizes: Kept<(u64, Resize)>,
    /// Priority of the collector's thread.
    pub priority: Option<Range>,

    /// References, finalizers, classes, overflows.
    pub work: WorkFigures,
    /// Trouble: clock, overflow, loss.
    pub trouble: Trouble,
    /// What only this project's logs tell.
    pub own: OwnFigures,

    /// What is worth a mark on a time axis, the first ten thousand.
    pub marks: Kept<Mark>,
    /// Utilization, free heap, longest quanta and stops over time.
    pub series: Series,
}

/// Least and most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Least.
    pub min: u64,
    /// Most.
    pub max: u64,
}

impl Range {
    pub(crate) fn add(slot: &mut Option<Self>, min: u64, max: u64) {
        let r = slot.get_or_insert(Self { min, max });
        *r = Self { min: r.min.min(min), max: r.max.max(max) };
    }
}

/// A minimum and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Low {
    /// The least.
    pub value: u64,
    /// Line of its event, from 1.
    pub line: u64,
    /// Place on the time axis.
    pub at_ns: u64,
}

/// Quanta that the log tells one by one: heartbeats of a single quantum. What they say of windows is worth nothing where
/// most quanta are not among them: [`RunFigures::windows`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SingleFigures {
    /// How many quanta.
    pub quanta: u64,
    /// The least utilization of windows that hold no other quanta, the shortest first. Synchronous collections count as
    /// collector time, but for one at shutdown.
    pub windows: Vec<Window>,
}

/// The least that the mutators had of any window of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window's length.
    pub window_ns: u64,
    /// The least utilization, in parts per million.
    pub least_ppm: u32,
}

/// Single quanta from which on windows are judged.
const MANY_SINGLES: u64 = 20;
/// Of this many quanta one may be without its place.
const SINGLES_PARTS: u64 = 10;

impl RunFigures {
    /// The least utilization of windows as the log's single quanta tell it; none if too many quanta have no place.
    pub fn windows(&self) -> &[Window] {
        let unknown = self.quanta.saturating_sub(self.single.quanta);
        let enough = self.single.quanta >= MANY_SINGLES && unknown <= self.quanta / SINGLES_PARTS;
        if enough { &self.single.windows } else { &[] }
    }

    /// The least utilization of windows of a length: as the run measured it, else by its single quanta.
    pub fn least_ppm(&self, window_ns: u64) -> Option<u32> {
        let measured = self.own.mmu.iter().find(|m| m.window_ns == window_ns).map(|m| m.charged_ppm);
        let single = || self.windows().iter().find(|w| w.window_ns == window_ns).map(|w| w.least_ppm);
        measured.or_else(single)
    }

    /// Utilization over the whole run, in parts per million, as the run itself counted it.
    pub fn run_utilization_ppm(&self) -> Option<u32> {
        let s = self.own.summary.as_ref().filter(|s| s.collector_ns <= s.run_ns)?;
        let left = (u128::from(s.run_ns - s.collector_ns) * 1_000_000).checked_div(u128::from(s.run_ns))?;
        u32::try_from(left).ok()
    }

    /// The window of the target: told, or the default of IBM's and OpenJ9's collectors.
    pub fn window_ns(&self) -> Option<u64> {
        let told = self.config.as_deref().and_then(|c| c.window_ns);
        told.or((self.writer != Some(Writer::MetronomeGc)).then_some(JAVA_WINDOW_NS))
    }
}

/// Default window of IBM's and OpenJ9's collectors.
const JAVA_WINDOW_NS: u64 = 60_000_000;

/// Quanta of one phase.
#[derive(Clone, Debug)]
pub struct PhaseFigures {
    /// The phase.
    pub phase: QuantumPhase,
    /// Lengths of the quanta.
    pub quantum: Distribution,
    /// The longest one.
    pub peak: Peak,
    /// The longest one was the first of its heartbeat, as often as the log tells.
    pub longest_is_first: u64,
    /// Longest quantum of each of its heartbeats over time in seconds: whether quanta grow with age.
    pub growth: Trend,
}

/// Collector's share of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareFigures {
    /// Heartbeats with a known interval.
    pub heartbeats: u64,
    /// Collector time in them (count times mean).
    pub collector_ns: u64,
    /// Their intervals.
    pub interval_ns: u64,
    /// Some of the intervals come from printed times, which are cut to milliseconds.
    pub rough: bool,
    /// The highest share of one heartbeat, in parts per million, whose interval spans ten windows (or 0.2 s) at least.
    pub peak_ppm: Peak,
    /// The highest share of any heartbeat, however short.
    pub peak_of_all_ppm: u32,
    /// The lowest share of such a long heartbeat.
    pub low_ppm: Option<Low>,
    /// Such heartbeats.
    pub long_heartbeats: u64,
    /// Among them those above what the target leaves, by more than three points.
    pub above_target: u64,
    /// Among them, of cycles in which free memory fell, those below half of what the target leaves.
    pub starved: u64,
    /// Line of the first starved one; 0 if there is none.
    pub starved_line: u64,
    /// The lowest share of the starved ones.
    pub starved_low: Option<Low>,
}

impl ShareFigures {
    /// The share over all heartbeats, in parts per million.
    pub fn ppm(&self) -> Option<u32> {
        let share = (u128::from(self.collector_ns) * 1_000_000).checked_div(u128::from(self.interval_ns))?;
        u32::try_from(share).ok()
    }
}

/// One heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatRow {
    /// Line in the log.
    pub line: u64,
    /// Place on the time axis: the end of its last quantum.
    pub at_ns: u64,
    /// Quanta.
    pub quanta: Option<u64>,
    /// Their phase; `None` in the 2007 generation or if it is lost.
    pub phase: Option<QuantumPhase>,
    /// Their mean length.
    pub mean_ns: Option<u64>,
    /// The longest one.
    pub max_ns: Option<u64>,
    /// Longest time to stop.
    pub stop_max_ns: Option<u64>,
    /// Least free heap.
    pub free_min_bytes: Option<u64>,
    /// Collector's share of its interval, in parts per million; `None` without an interval.
    pub share_ppm: Option<u32>,
}

/// One cycle that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleRow {
    /// Line of its end.
    pub line: u64,
    /// Start on the time axis; `None` if the log lost it.
    pub start_ns: Option<u64>,
    /// End on the time axis.
    pub end_ns: u64,
    /// From start to end: exact where the log has exact times, else by printed ones; `None` if events are missing or the
    /// clock was set in between.
    pub length_ns: Option<u64>,
    /// Quanta.
    pub quanta: u64,
    /// Collector time.
    pub collector_ns: u64,
    /// Of it, marking (quanta of the phase `mark`).
    pub mark_ns: u64,
    /// Of it, sweeping.
    pub sweep_ns: u64,
    /// Longest quantum.
    pub quantum_max_ns: u64,
    /// Least free heap during it.
    pub free_min_bytes: Option<u64>,
    /// Free heap at its start.
    pub free_start_bytes: Option<u64>,
    /// Free heap at its end: told, or the most in its last heartbeat.
    pub free_end_bytes: Option<u64>,
    /// Bytes allocated during it: told, or by how much free memory fell while it marked.
    pub allocated_bytes: Option<u64>,
    /// Bytes found live; this project's logs only.
    pub live_bytes: Option<u64>,
    /// Why it began; this project's logs only.
    pub reason: Option<String>,
    /// A synchronous collection ended or interrupted it.
    pub synchronous: bool,
    /// Events are missing in it, or the clock was set: its sums are not whole.
    pub torn: bool,
}

impl CycleRow {
    /// Which of two rows is kept: that of the longer cycle.
    pub(crate) fn weight(row: &Self) -> u64 {
        row.length_ns.unwrap_or(0)
    }
}

/// What all cycles of a run tell together of the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleSums {
    /// Cycles that no synchronous collection ended and that are in the log as a whole.
    pub cycles: u64,
    /// Their collector time.
    pub collector_ns: u128,
    /// Of it, marking.
    pub mark_ns: u128,
    /// Of it, sweeping.
    pub sweep_ns: u128,
    /// Among them, those that tell live data, allocation and collector time.
    pub measured: u64,
    /// Live data of the measured ones, in sum.
    pub live_bytes: u128,
    /// The most of them, and of what synchronous collections left.
    pub live_max_bytes: u64,
    /// Their highest rate of allocation in mutator time, in bytes per second.
    pub rate_max: u64,
    /// Line of the end of the cycle that has it; 0 if there is none.
    pub rate_line: u64,
    /// The second highest.
    pub rate_next: u64,
    /// Bytes that the log tells to have been allocated in cycles.
    pub allocated_bytes: u64,
    /// The wall time in which they were.
    pub allocated_ns: u64,
}

/// One synchronous collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncRow {
    /// Line in the log.
    pub line: u64,
    /// Place of its start on the time axis.
    pub at_ns: u64,
    /// Printed time of its start.
    pub time: Option<LogTime>,
    /// Why, in the log's words.
    pub reason: String,
    /// How long the mutators stood still; `None` if that is lost.
    pub ns: Option<u64>,
    /// The request that failed.
    pub requested_bytes: Option<u64>,
    /// Free heap before.
    pub free_before_bytes: Option<u64>,
    /// Free heap after.
    pub free_after_bytes: Option<u64>,
}

/// References, finalizers, classes, overflows, in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkFigures {
    /// Objects handed to finalization.
    pub finalizer_enqueued: u64,
    /// The most that one heartbeat or collection handed over.
    pub finalizer_peak: Peak,
    /// Most objects waiting for their finalizer; this project's logs only.
    pub finalizer_backlog: Peak,
    /// Finalizers run; this project's logs only.
    pub finalizers_run: u64,
    /// Soft references cleared, where the log can be believed.
    pub soft_cleared: u64,
    /// Weak references cleared.
    pub weak_cleared: u64,
    /// Phantom references cleared.
    pub phantom_cleared: u64,
    /// Long weak references and ephemerons cleared; this project's logs only.
    pub other_cleared: u64,
    /// Classes unloaded.
    pub classes_unloaded: u64,
    /// Cycles that unloaded classes, and heartbeats and collections outside of cycles that did.
    pub class_unload_cycles: u64,
    /// Heartbeats and collections that unloaded classes.
    pub class_unloads: u64,
    /// Line of the first of them; 0 if there is none.
    pub class_unload_line: u64,
    /// Heartbeats and collections in which the mark queue overflowed.
    pub overflows: u64,
    /// Line of the first of them; 0 if there is none.
    pub overflow_line: u64,
    /// Longest sweep that an allocation had to do itself.
    pub allocator_sweep: Peak,
}

/// What makes the rest of a log less believable, or went wrong in the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Events in which the clock went wrong.
    pub clock_errors: u64,
    /// Line of the first of them; 0 if there is none.
    pub clock_line: u64,
    /// Allocations that failed for good, as events.
    pub out_of_memory: u64,
    /// Line of the first of them; 0 if there is none.
    pub out_of_memory_line: u64,
    /// Overflows of the utilization tracker.
    pub tracker_overflows: u64,
    /// Event records that the collector lost.
    pub lost_records: u64,
    /// Elements that the log's output lost.
    pub output_lost: u64,
}

/// What only this project's logs tell.
#[derive(Clone, Debug, Default)]
pub struct OwnFigures {
    /// Stops given up, by the mutator that was waited for: how often, and the longest wait. The first 64 names, the
    /// others as "other".
    pub stragglers: BTreeMap<String, Straggler>,
    /// Mutators that polled without a safepoint while a cycle waited for them: how long in ms, and where. The first 64
    /// names, the others as "other".
    pub overdue: BTreeMap<String, Peak>,
    /// Stops given up.
    pub stops_cancelled: u64,
    /// Departures from the target by reason; the first 64 reasons, the others as "other".
    pub departures: BTreeMap<String, u64>,
    /// The lowest utilization that a departure was left with, in parts per million, and its line.
    pub departure_low: Option<Low>,
    /// The largest heap that a departure or a note named as enough.
    pub enough_heap: Peak,
    /// Utilization over sliding windows, as the run measured it.
    pub mmu: Vec<Mmu>,
    /// The run's own totals, the last ones.
    pub summary: Option<Summary>,
    /// Real-time and no-heap threads with their lines.
    pub threads: Kept<(u64, Thread)>,
    /// Quanta whose CPU time was measured.
    pub cpu_quanta: u64,
    /// CPU time of those.
    pub cpu_ns: u64,
    /// Wall time of those; the excess was taken by the system.
    pub cpu_wall_ns: u64,
    /// CPU time of the quanta of heartbeats that tell the next.
    pub work_cpu_ns: u64,
    /// Wall time from the end of the stop to the collector's own end; the excess was taken by the system.
    pub work_wall_ns: u64,
    /// Quanta whose own end the log tells: from the stop request to that, in ns.
    pub collector: Stat,
    /// The longest of these.
    pub collector_peak: Peak,
    /// From the collector's own end until the last mutator ran on, of these quanta, in ns.
    pub resume: Stat,
    /// The longest of these.
    pub resume_peak: Peak,
    /// The heartbeat that lost most wall time to the system, per quantum.
    pub preempted: Peak,
    /// Quanta longer than planned.
    pub over_plan: u64,
    /// The most by which one was.
    pub over_plan_peak: Peak,
    /// Longest time from the beat to the running collector.
    pub wakeup_peak: Peak,
    /// Longest step.
    pub step_peak: Peak,
    /// Its name.
    pub step_name: String,
    /// Collector time of the cycles that tell the next.
    pub stepped_ns: u128,
    /// Time of steps over handles (roots, globals) in those cycles.
    pub handles_ns: u128,
    /// Failed allocations that notes tell, in sum, and the line of the first note.
    pub failed: u64,
    /// Line of the first of these notes; 0 if there is none.
    pub failed_line: u64,
    /// Bytes live after cycles.
    pub live: Stat,
    /// Bytes allocated during cycles.
    pub allocated: Stat,
    /// Why cycles began; the first 64 reasons, the others as "other".
    pub cycle_reasons: BTreeMap<String, u64>,
    /// Allocations that failed, as the log's notes tell.
    pub notes: Kept<(u64, String)>,
}

/// A mutator that was waited for in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Straggler {
    /// Stops given up for it.
    pub cancelled: u64,
    /// The longest wait, and where.
    pub wait: Peak,
}

/// A mark on the time axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Line in the log.
    pub line: u64,
    /// Place on the time axis.
    pub at_ns: u64,
    /// What it is: `synchronous`, `trigger-start`, `trigger-end`, `stop-cancelled`, `departure`, `resize`, `thread`,
    /// `out-of-memory`, `tracker-overflow`, `clock`, `lost`, `note`, `warning`.
    pub kind: &'static str,
    /// A sentence for people.
    pub text: String,
}
