//! This project's own facts: what a quantum's wall time consisted of, and every departure from the contract.
//! A reader of the old forms skips them.

use crate::fields::{Word, own_element};

/// Element of the OpenJ9 form for immortal memory, which only the 2007 form has a place for: `minBytes`,
/// `meanBytes`, `maxBytes` free in a heartbeat, `bytesBefore` and `bytesAfter` in a synchronous collection.
pub(crate) const IMMORTAL: &str = "metronome-immortal";

own_element! {
    /// What the quanta of one heartbeat consisted of; child of the heartbeat.
    pub struct QuantaDetail = "metronome-quanta" {
        /// Monotonic start of the first quantum.
        first_start_ns: u64 = count "firstStartNs",
        /// Monotonic end of the last quantum.
        last_end_ns: u64 = count "lastEndNs",
        /// Shortest time from the beat to the running collector.
        wakeup_min_ns: u64 = ms "minWakeupMs",
        /// Mean of the same.
        wakeup_mean_ns: u64 = ms "meanWakeupMs",
        /// Longest of the same.
        wakeup_max_ns: u64 = ms "maxWakeupMs",
        /// Longest quantum that was planned.
        planned_max_ns: u64 = ms "maxPlannedMs",
        /// Quanta that took longer than planned, in wall time; until the collector's own end where that is told.
        over_plan: u64 = count "overPlan",
        /// The most by which one did.
        over_plan_max_ns: u64 = ms "maxOverPlanMs",
        /// Quanta whose CPU time was measured.
        cpu_quanta: u64 = count "cpuQuanta",
        /// CPU time of those, in sum.
        cpu_ns: u64 = ms "cpuMs",
        /// Wall time of those, in sum, from the stop request until the last mutator ran on: the excess over `cpu_ns` is
        /// what the operating system took, what mutators took to stop, and what they took to run on.
        cpu_wall_ns: u64 = ms "cpuWallMs",
        /// Of it, from the end of the stop until the collector let the mutators go, which is the stretch of `cpu_ns`: the
        /// excess over that was taken by the operating system. Absent, as the next five, where it was not told.
        work_wall_ns: Option<u64> = opt_ms "workMs",
        /// Shortest time from the stop request until the collector let the mutators go.
        collector_min_ns: Option<u64> = opt_ms "minCollectorMs",
        /// Mean of the same.
        collector_mean_ns: Option<u64> = opt_ms "meanCollectorMs",
        /// Longest of the same.
        collector_max_ns: Option<u64> = opt_ms "maxCollectorMs",
        /// Mean time from there until the last mutator ran on.
        resume_mean_ns: Option<u64> = opt_ms "meanResumeMs",
        /// Longest of the same.
        resume_max_ns: Option<u64> = opt_ms "maxResumeMs",
        /// Longest uninterruptible step.
        longest_step_ns: u64 = ms "longestStepMs",
        /// Its name.
        longest_step: String = text "longestStep",
    }
}

own_element! {
    /// Details of a synchronous collection; child of it.
    pub struct SyncDetail = "metronome-sync" {
        /// Monotonic start.
        start_ns: u64 = count "startNs",
        /// Monotonic end.
        end_ns: u64 = count "endNs",
        /// Time to stop the mutators (the 2007 generation has no place of its own for it).
        exclusive_access_ns: u64 = ms "exclusiveAccessMs",
        /// CPU time, where it was measured.
        cpu_ns: Option<u64> = opt_ms "cpuMs",
    }
}

own_element! {
    /// References and finalizers beyond what the old forms count; child of a heartbeat or synchronous collection.
    /// Absent if all are 0.
    pub struct References = "metronome-references" {
        /// Long weak references cleared (those that outlive finalization).
        weak_long_cleared: u64 = count "weakLongCleared",
        /// Ephemerons cleared.
        ephemerons_cleared: u64 = count "ephemeronsCleared",
        /// Finalizers that ran to their end.
        finalizers_run: u64 = count "finalizersRun",
        /// Finalizers that did not run because the program suppressed them.
        finalizers_suppressed: u64 = count "finalizersSuppressed",
        /// Finalizers that panicked; not among those that ran.
        finalizers_panicked: u64 = count "finalizersPanicked",
        /// Objects waiting for their finalizer; in a heartbeat the most.
        finalizer_backlog: u64 = count "finalizerBacklog",
    }
}

own_element! {
    /// Predicted against actual, after a cycle's end. Unknown values are absent.
    pub struct CycleFacts = "metronome-cycle" {
        /// Quanta of the cycle.
        quanta: u64 = count "quanta",
        /// Collector time as charged.
        collector_ns: u64 = ms "collectorMs",
        /// Collector time that had been predicted.
        predicted_collector_ns: Option<u64> = opt_ms "predictedCollectorMs",
        /// Collector CPU time.
        cpu_ns: Option<u64> = opt_ms "cpuMs",
        /// Of it, in steps over handles (roots, globals).
        handles_ns: Option<u64> = opt_ms "handlesMs",
        /// Bytes allocated by the mutators during the cycle.
        allocated_bytes: u64 = count "allocatedBytes",
        /// The same as predicted at the cycle's start.
        predicted_allocated_bytes: Option<u64> = opt_count "predictedAllocatedBytes",
        /// Bytes found live.
        live_bytes: Option<u64> = opt_count "liveBytes",
        /// Objects that were marked and not reachable when marking ended, if that was measured.
        floating_objects: Option<u64> = opt_count "floatingObjects",
        /// Their bytes.
        floating_bytes: Option<u64> = opt_count "floatingBytes",
    }
}

own_element! {
    /// A stop that was given up because a mutator did not arrive within the stop's budget.
    pub struct StopCancelled = "metronome-stop-cancelled" {
        /// The mutator that was waited for.
        mutator: String = text "mutator",
        /// How long the stop lasted before it was cancelled; charged to the collector.
        waited_ns: u64 = ms "waitedMs",
        /// The budget.
        budget_ns: u64 = ms "budgetMs",
        /// Mutators that had not arrived.
        missing_mutators: u64 = count "missingMutators",
    }
}

own_element! {
    /// Event records lost because a ring was full.
    pub struct LostRecords = "metronome-lost-records" {
        /// Lost since the last such element.
        count: u64 = count "count",
        /// Lost since the log began.
        total: u64 = count "total",
    }
}

own_element! {
    /// The utilization target was left: the contract was broken.
    pub struct Departure = "metronome-departure" {
        /// Why, in words.
        reason: String = text "reason",
        /// The window over which the target holds.
        window_ns: u64 = ms "windowMs",
        /// The target.
        target_ppm: u32 = ppm "targetPercent",
        /// What is left to the mutators of each window from then on, by the new plan; what they had may be more.
        achieved_ppm: u32 = ppm "achievedPercent",
        /// The heap that would have been enough by the contract: `(1 + f)(m + 2A)` with the three below (more where cycles start late
        /// by a static trigger).
        enough_heap_bytes: Option<u64> = opt_count "enoughHeapBytes",
        /// Live data *m*.
        live_bytes: Option<u64> = opt_count "liveBytes",
        /// Allocation *A* during one cycle.
        allocation_bytes: Option<u64> = opt_count "allocationBytes",
        /// Allowance for fragmentation *f*.
        fragmentation_ppm: Option<u32> = opt_ppm "fragmentationPercent",
    }
}

/// Which way the heap changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResizeDirection {
    /// Regions were added.
    Grow,
    /// Regions were taken away.
    Shrink,
    /// The heap is as large as before, but gave memory of empty regions back to the operating system.
    Trim,
    /// Not told.
    #[default]
    Unknown,
}

impl Word for ResizeDirection {
    const ALL: &[Self] = &[Self::Grow, Self::Shrink, Self::Trim, Self::Unknown];

    fn word(self) -> &'static str {
        match self {
            Self::Grow => "grow",
            Self::Shrink => "shrink",
            Self::Trim => "trim",
            Self::Unknown => "unknown",
        }
    }
}

own_element! {
    /// The heap changed its size, or gave memory back.
    pub struct Resize = "metronome-resize" {
        /// Which way.
        direction: ResizeDirection = word "direction",
        /// Size of the heap before.
        from_bytes: u64 = count "fromBytes",
        /// Size of the heap after.
        to_bytes: u64 = count "toBytes",
        /// Memory given back to the operating system.
        returned_bytes: u64 = count "returnedBytes",
        /// Why, in words.
        reason: String = text "reason",
        /// What the heap holds of the system's memory afterwards; absent if not known.
        total_bytes: Option<u64> = opt_count "totalBytes",
        /// Size up to which the heap may grow; absent if not known.
        limit_bytes: Option<u64> = opt_count "limitBytes",
    }
}

/// What a thread was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ThreadKind {
    /// A mutator with real-time priority below the collector's.
    Realtime,
    /// A thread that reaches immortal memory only and is never stopped.
    NoHeap,
    /// Not told.
    #[default]
    Unknown,
}

impl Word for ThreadKind {
    const ALL: &[Self] = &[Self::Realtime, Self::NoHeap, Self::Unknown];

    fn word(self) -> &'static str {
        match self {
            Self::Realtime => "realtime",
            Self::NoHeap => "no-heap",
            Self::Unknown => "unknown",
        }
    }
}

own_element! {
    /// What a real-time or no-heap thread asked for, and what the operating system gave it.
    pub struct Thread = "metronome-thread" {
        /// Its name.
        name: String = text "name",
        /// What it was promised.
        kind: ThreadKind = word "kind",
        /// `SCHED_FIFO` priority asked for; 0 asks for none.
        priority_asked: u64 = count "priorityAsked",
        /// The one it has; 0 is not real-time, absent if not known.
        priority_had: Option<u64> = opt_count "priorityHad",
        /// CPU it is pinned to, if it is.
        cpu: Option<u64> = opt_count "cpu",
        /// What the system refused, in words; absent if nothing.
        refused: Option<String> = opt_text "refused",
    }
}

own_element! {
    /// Minimum mutator utilization over every window of one length.
    pub struct Mmu = "metronome-mmu" {
        /// Length of the window.
        window_ns: u64 = ms "windowMs",
        /// As charged to the collector.
        charged_ppm: u32 = ppm "chargedPercent",
        /// In wall time, with what the operating system took; absent if not measured.
        wall_ppm: Option<u32> = opt_ppm "wallPercent",
    }
}

own_element! {
    /// Totals of the run so far.
    pub struct Summary = "metronome-summary" {
        /// Cycles completed.
        cycles: u64 = count "cycles",
        /// Quanta.
        quanta: u64 = count "quanta",
        /// Longest quantum, stop request to resumption.
        longest_quantum_ns: u64 = ms "longestQuantumMs",
        /// Longest time to stop.
        longest_stop_ns: u64 = ms "longestStopMs",
        /// Collector time as charged.
        collector_ns: u64 = ms "collectorMs",
        /// Length of the run.
        run_ns: u64 = ms "runMs",
        /// Synchronous collections.
        sync_gcs: u64 = count "syncGcs",
        /// Stops cancelled.
        stops_cancelled: u64 = count "stopsCancelled",
        /// Departures from the target.
        departures: u64 = count "departures",
        /// Event records lost.
        lost_records: u64 = count "lostRecords",
    }
}

own_element! {
    /// Anything else worth saying.
    pub struct Note = "metronome-note" {
        /// The text.
        text: String = text "text",
    }
}

own_element! {
    /// The log's own output failed earlier, and elements were lost.
    pub struct OutputLost = "metronome-output-lost" {
        /// Top-level elements that did not reach the output, or only in part.
        elements: u64 = count "elements",
    }
}
