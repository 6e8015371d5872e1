//! The figures of a collector.

use hdrhistogram::Histogram;
use metronome_alarm::AlarmSummary;

/// A distribution of times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Half of the values are at most this.
    pub p50: u64,
    /// 99 % of the values are at most this.
    pub p99: u64,
    /// 99.9 % of the values are at most this.
    pub p999: u64,
    /// The largest value.
    pub max: u64,
}

impl Distribution {
    pub(crate) fn of(h: &Histogram<u64>) -> Distribution {
        if h.is_empty() {
            return Distribution::default();
        }
        let at = |q| h.value_at_quantile(q).min(h.max());
        Distribution { count: h.len(), p50: at(0.5), p99: at(0.99), p999: at(0.999), max: h.max() }
    }
}

/// Minimum mutator utilization of one window length, in parts per million; `None` while the run is shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmu {
    /// Length of the window.
    pub window_ns: u64,
    /// Without what the system took from the collector's thread.
    pub charged_ppm: Option<u32>,
    /// With everything, up to the last mutator's resumption.
    pub wall_ppm: Option<u32>,
}

/// The longest steps of one kind of quantum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseSteps {
    /// The phase in which these quanta began: `precollect`, `mark`, `postcollect` or `sweep`, as in the verbose log.
    pub phase: &'static str,
    /// The longest step of each quantum: CPU time, at most [`Stats::STEP_CEILING_NS`] (what is above that is in
    /// [`Stats::interrupted_ns`]). Distributions over quanta, so that 99.9 % is stricter than 99.9 % of all steps.
    pub longest_ns: Distribution,
    /// The name of the longest of all.
    pub longest_step: &'static str,
    /// What it took before it was limited.
    pub unlimited_ns: u64,
}

/// The steps of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepKind {
    /// Its name, as in [`Stats::longest_step`].
    pub name: &'static str,
    /// CPU time of the collector's thread, as far as it is known: wall time up to 5 µs, above that what the thread's CPU clock
    /// has counted, in which interrupts and, on most virtual machines, the host's share are contained. Percentiles are at
    /// most 1/16 too high.
    pub cpu_ns: Distribution,
}

/// What became of references and registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReferenceCounts {
    /// Short weak references cleared.
    pub weak_cleared: u64,
    /// Soft references cleared.
    pub soft_cleared: u64,
    /// Long weak references cleared.
    pub long_cleared: u64,
    /// Ephemerons cleared.
    pub ephemerons_cleared: u64,
    /// Objects whose death was noted for a callback.
    pub deaths_noted: u64,
    /// Objects handed to the finalizer thread.
    pub finalizers_enqueued: u64,
}

impl ReferenceCounts {
    /// What has been added since `before`.
    pub(crate) fn since(self, before: ReferenceCounts) -> ReferenceCounts {
        ReferenceCounts {
            weak_cleared: self.weak_cleared - before.weak_cleared,
            soft_cleared: self.soft_cleared - before.soft_cleared,
            long_cleared: self.long_cleared - before.long_cleared,
            ephemerons_cleared: self.ephemerons_cleared - before.ephemerons_cleared,
            deaths_noted: self.deaths_noted - before.deaths_noted,
            finalizers_enqueued: self.finalizers_enqueued - before.finalizers_enqueued,
        }
    }

    /// Adds what happened in a quantum.
    pub(crate) fn add(&mut self, more: ReferenceCounts) {
        self.weak_cleared += more.weak_cleared;
        self.soft_cleared += more.soft_cleared;
        self.long_cleared += more.long_cleared;
        self.ephemerons_cleared += more.ephemerons_cleared;
        self.deaths_noted += more.deaths_noted;
        self.finalizers_enqueued += more.finalizers_enqueued;
    }
}

/// The finalizer thread's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinalizerCounts {
    /// Objects handed to it.
    pub enqueued: u64,
    /// Finalizers run, those that panicked included.
    pub run: u64,
    /// Registrations that were taken back before they ran.
    pub suppressed: u64,
    /// Finalizers, and callbacks about deaths, that panicked.
    pub panicked: u64,
    /// Objects that wait or whose finalizer runs.
    pub backlog: u64,
    /// Times a finalizer ran for longer than `finalizer-watchdog`.
    pub stuck: u64,
}

/// What a collector did so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Time since the heap was made.
    pub elapsed_ns: u64,
    /// Cycles completed.
    pub cycles: u64,
    /// Quanta run.
    pub quanta: u64,
    /// Wall time from a stop request to the last mutator's resumption; cancelled stops too.
    pub pause_ns: Distribution,
    /// CPU time of the collector's work in a quantum.
    pub quantum_cpu_ns: Distribution,
    /// Threads that mark: the collector's own and its helpers.
    pub gc_threads: u32,
    /// CPU time of the helpers, in quanta and between them: beside the collector's, not contained in any other figure.
    pub helpers_cpu_ns: u64,
    /// Objects that helpers have marked between quanta, beside running mutators.
    pub marked_beside: u64,
    /// Charged time of a quantum: time to stop (up to the stop budget) plus CPU time.
    pub quantum_charged_ns: Distribution,
    /// From a stop request until no mutator ran.
    pub time_to_stop_ns: Distribution,
    /// From the release until the last mutator ran on.
    pub resume_ns: Distribution,
    /// How late the collector thread came for a quantum.
    pub wakeup_ns: Distribution,
    /// Time that the system took from the collector's thread in quanta: wall time less CPU time of the work.
    pub system_took_ns: u64,
    /// Work steps.
    pub steps: u64,
    /// Steps that took longer, by the thread's CPU clock, than any step can by its own work (200 µs; a release of the
    /// mutators: and 20 µs more for each that slept): interrupted where that clock does not show it, as by the host of a
    /// virtual machine.
    pub interrupted_steps: u64,
    /// What they took above that; left out of charged figures, contained in all others.
    pub interrupted_ns: u64,
    /// Most that a quantum's charged time exceeded its budget by.
    pub over_budget_ns: u64,
    /// What the charged time of each quantum that was not synchronous exceeded its budget by; 0 for those that kept it.
    pub overshoot_ns: Distribution,
    /// Minimum mutator utilization at 1, 10 and 100 ms and at the configured window.
    pub mmu: Vec<Mmu>,
    /// The configured window.
    pub window_ns: u64,
    /// The configured target, in parts per million.
    pub target_ppm: u32,
    /// Windows (ending where a pause ends) in which the collector, charged, broke the target.
    pub violations: u64,
    /// The same in wall time, with what the system took.
    pub violations_wall: u64,
    /// Stops given up because a mutator did not arrive.
    pub stops_cancelled: u64,
    /// Mutators that did not arrive or held up a cycle: name and how often.
    pub stragglers: Vec<(String, u64)>,
    /// Mutators found asleep in the kernel, without [`Mutator::blocking`](crate::Mutator::blocking), when a stop had been
    /// cancelled: name and how often (at most once per second each).
    pub blocked_in_kernel: Vec<(String, u64)>,
    /// Synchronous collections.
    pub synchronous_collections: u64,
    /// Times the collector left its plan, and the last reason.
    pub departures: u64,
    /// The last departure's reason.
    pub last_departure: Option<&'static str>,
    /// Wall time of work steps, with whatever interrupted them.
    pub step_ns: Distribution,
    /// The step that took longest, by CPU time (in which most systems count interrupts too).
    pub longest_step: &'static str,
    /// Its CPU time.
    pub longest_step_ns: u64,
    /// The longest steps by kind of quantum, synchronous ones among them; kinds without a quantum are left out.
    pub phase_steps: Vec<PhaseSteps>,
    /// All steps by kind; kinds without a step are left out.
    pub step_kinds: Vec<StepKind>,
    /// Bytes allocated since the heap was made.
    pub allocated_bytes: u64,
    /// Bytes kept by the last cycle.
    pub live_bytes: u64,
    /// Cycles that the option `verify` has verified, by whichever checks it names.
    pub verified_cycles: u64,
    /// Cycles in which floating garbage was measured: those that the option `verify=remark` has verified.
    pub remarked_cycles: u64,
    /// Floating garbage of the last one of these.
    pub floating: crate::verify::Floating,
    /// Floating garbage of all of these together.
    pub floating_total: crate::verify::Floating,
    /// Bytes in use now.
    pub used_bytes: u64,
    /// Size of the heap now.
    pub heap_bytes: u64,
    /// Size up to which it may grow.
    pub max_heap_bytes: u64,
    /// What the heap's regions hold of the system's memory.
    pub resident_bytes: u64,
    /// Objects whose drop glue has run.
    pub reaped: u64,
    /// Drop glue that panicked.
    pub reaper_panics: u64,
    /// What became of references.
    pub references: ReferenceCounts,
    /// The finalizer thread.
    pub finalizers: FinalizerCounts,
    /// Size of the immortal area.
    pub immortal_bytes: u64,
    /// What is in use of it.
    pub immortal_used_bytes: u64,
    /// Memory outside the heap that the program has announced.
    pub external_bytes: u64,
    /// Listeners to notifications, and `tracing` subscribers, that panicked.
    pub listener_panics: u64,
    /// Notifications that were left out because more happened than listeners were told in time.
    pub notifications_lost: u64,
    /// Allocations that failed at first.
    pub failed_allocations: u64,
    /// Waits for memory that ended without it.
    pub out_of_memory: u64,
    /// Events lost because the ring was full.
    pub lost_events: u64,
    /// Collector time of all cycles (charged).
    pub collector_ns: u64,
    /// Predicted against actual of the last cycle: collector time, allocation.
    pub last_prediction: Option<Predicted>,
    /// How far the predicted collector time of a cycle was from what it took, in parts per million of the latter; over all
    /// cycles that had a prediction. (A [`Distribution`] of that, not of times.)
    pub collector_error_ppm: Distribution,
    /// The same for the allocation during a cycle.
    pub allocation_error_ppm: Distribution,
    /// Ticks of the alarm, grid points missed, and lateness.
    pub alarm_ticks: u64,
    /// Grid points that got no tick.
    pub alarm_missed: u64,
    /// Lateness of ticks.
    pub alarm_lateness_ns: Distribution,
    /// Output of the verbose log that was lost, in words, if any.
    pub log_error: Option<String>,
}

/// A cycle's prediction and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// Collector time predicted.
    pub collector_ns: u64,
    /// Collector time used.
    pub actual_collector_ns: u64,
    /// Allocation predicted.
    pub allocated_bytes: u64,
    /// Allocation that happened.
    pub actual_allocated_bytes: u64,
}

impl From<metronome_alarm::LatenessSnapshot> for Distribution {
    fn from(l: metronome_alarm::LatenessSnapshot) -> Distribution {
        Distribution { count: l.count, p50: l.p50, p99: l.p99, p999: l.p999, max: l.max }
    }
}

impl Stats {
    /// CPU time in nanoseconds above which a step counts as interrupted: more than its work can take.
    pub const STEP_CEILING_NS: u64 = crate::meter::STEP_CEILING_NS;

    pub(crate) fn alarm(&mut self, a: &AlarmSummary) {
        let l = a.lateness;
        self.alarm_ticks = a.ticks;
        self.alarm_missed = l.missed;
        self.alarm_lateness_ns = l.into();
    }
}
