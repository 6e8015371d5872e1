//! The collector thread: when to run a quantum, how long, and what it cost.
//!
//! # State
//! Owns the collector, the scheduler with its ledger, and the pacer by value; shares only hints with the alarm.
//!
//! # One round
//! Sleep until a tick, a request or the scheduler's own time; if no cycle is active, ask the pacer whether to start
//! one; ask the scheduler for a budget; run a quantum; charge it.
//!
//! # What is charged
//! The ledger gets wall time from the stop request to the release, so that what the system took is paid back by
//! later quanta. For reports, *charged* leaves out what the system took from this thread: the stop counts up to its
//! budget, the work by thread CPU time, less what a step took above [`STEP_CEILING_NS`](crate::meter::STEP_CEILING_NS),
//! which no step can take by its own work.

mod decide;
mod quantum;
mod stress;
#[cfg(test)]
mod stress_tests;
mod verify;

use crate::beside::Beside;
use crate::boost::{Boosted, Help};
use crate::collector::Collector;
use crate::config::{Exhaustion, TriggerMode};
use crate::events::{CycleEnd, Event, Quantum, Recorder};
use crate::gate::Spin;
use crate::placement::Placement;
use crate::reason::{DepartureReason, SyncReason};
use crate::shared::Shared;
use crate::stats::ReferenceCounts;
use crate::stress::StepPlan;
use crate::sync::futex_wait;
use crate::verify::Verifier;
use metronome_scheduler::{Decision, Pacer, PacerConfig, Policy, Scheduler, Trigger};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The idle collector thread looks at the allocation rate this often.
const IDLE_SAMPLE_NS: u64 = 10_000_000;
/// While nobody allocates it looks ever more seldom, down to this; the first refill wakes it.
const DOZE_NS: u64 = 500_000_000;
/// The alarm of an idle heap ticks this often.
const IDLE_TICK_NS: u64 = 50_000_000;
/// Failed allocations are told at most once in this time.
const FAILED_NS: u64 = 50_000_000;
/// A mutator that holds up a cycle this long without a safepoint is named.
const OVERDUE_NS: u64 = 250_000_000;

/// The break after a cancelled stop is a beat, doubled with each further one up to 2^6 beats.
const BACK_OFF_MAX: u32 = 6;
/// A stop that lasts longer than this helps those who have not arrived.
const PATIENCE_NS: u64 = 30_000;
/// The same for some stops after many that needed help: the machine is busy, and a timer comes late by more than all this.
const NO_PATIENCE_NS: u64 = 2_000;
/// Turns of a collector under SCHED_FIFO that waits for so short a time: about as long.
const NO_PATIENCE: Spin = Spin(40);
/// Mutators are woken this long before the end of a quantum, if that is not more than a third of it: longer than it takes
/// to wake a sleeping CPU.
const WAKE_AHEAD_NS: u64 = 30_000;

/// What the driver did in one round; for tests in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Nothing to do until this time, or until woken.
    Sleep(Option<u64>),
    /// Ran a quantum, or tried to.
    Ran,
}

/// Sums over the current cycle.
#[derive(Clone, Copy, Debug, Default)]
struct CycleSums {
    /// From the decision to start until the cycle has ended.
    open: bool,
    /// It began because memory was running short.
    for_room: bool,
    start_ns: u64,
    start_allocated: u64,
    used_at_start: u64,
    quanta: u64,
    collector_ns: u64,
    cpu_ns: u64,
    /// CPU time of steps over roots and globals.
    handles_ns: u64,
    mark_ns: u64,
    sweep_ns: u64,
    other_ns: u64,
    references_reported: ReferenceCounts,
    departed: bool,
}

/// Owns everything that decides about quanta.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    pub(crate) collector: Collector,
    /// Steps of a quantum under stress.
    step_plan: StepPlan,
    /// What only stress modes use.
    stressed: stress::Stressed,
    scheduler: Scheduler,
    pacer: Pacer,
    events: Recorder,
    pub(crate) spin: Spin,
    cycle: CycleSums,
    /// The mutator that the cycle waits for, since when, and whether that was reported.
    blocked: Option<(usize, u64, bool)>,
    triggered: bool,
    /// Samples one after the other without any allocation.
    quiet: u32,
    sample: (u64, u64),
    /// Collector time until then.
    sample_collector_ns: u64,
    failed_seen: u64,
    /// When failed allocations were last told.
    failed_told_ns: Option<u64>,
    /// Stops cancelled one after the other.
    cancelled: u32,
    /// No stop is tried before this time.
    not_before_ns: u64,
    /// Announced external memory when the last cycle ended.
    external_at_end: u64,
    /// Free bytes when the last cycle ended, for the soft references' age.
    free_at_end: u64,
    headroom_told: bool,
    /// Size of the heap that the pacer knows.
    heap_bytes: u64,
    due_ns: u64,
    /// Part of a quantum kept for its last step and for waking the mutators, learned within bounds.
    margin_ns: u64,
    boosted: Option<Boosted>,
    placement: Placement,
    beside: Beside,
    help: Help,
    /// The largest recent overshoot of a budget, for the plan's distance from the allowance.
    overshoot_ns: u64,
    /// The last quantum, told when it is known when its last mutator has run on; and what is to be told after it.
    held: Option<Quantum>,
    held_after: [Option<Event>; 2],
    /// Collector time of the last cycle, that of its sweep, and the objects that it scanned.
    last_collector_ns: u64,
    last_sweep_ns: u64,
    last_scanned: u64,
    last_now_ns: u64,
}

impl Driver {
    /// `fifo`: the thread runs under SCHED_FIFO, where spinning would keep the mutators from running.
    pub(crate) fn new(shared: Arc<Shared>, events: Recorder, fifo: bool) -> Driver {
        let c = &shared.config;
        let margin = shared.config.effective_resume_margin_ns();
        let allowance = c.allowance_ns();
        let policy = Policy {
            window_ns: c.window_ns,
            target_percent: c.target_utilization,
            quantum_ns: c.quantum_ns,
            // A quantum is worth stopping for only if some work fits beside the stop and the margin.
            min_quantum_ns: (allowance * 3 / 100).max(margin * 4).min(c.quantum_ns),
            spread: c.spread,
        };
        let trigger = match c.trigger {
            TriggerMode::Paced => Trigger::Paced,
            TriggerMode::Static { percent } => Trigger::Static { percent },
        };
        let pacing = PacerConfig {
            heap_bytes: shared.space.heap_bytes(),
            fragmentation_percent: c.fragmentation_percent,
            target_percent: c.target_utilization,
            trigger,
        };
        let scheduler = Scheduler::new(policy).expect("Config::validate checked the policy");
        let pacer = Pacer::new(pacing).expect("Config::validate checked the pacing");
        let queue = crate::shared::queue_entries(shared.space.max_regions());
        let mut collector = Collector::new(Arc::clone(&shared), queue);
        collector.verifier = Verifier::new(c.verify.unwrap_or_default(), true);
        let now = shared.clock.now();
        // Relaxed: nobody else looks yet.
        shared.last_cycle_ns.store(now, Relaxed);
        let mut d = Driver {
            spin: if fifo { Spin(0) } else { shared.spin },
            collector,
            step_plan: StepPlan::new(shared.config.stress),
            stressed: stress::Stressed::default(),
            scheduler,
            pacer,
            events,
            cycle: CycleSums::default(),
            blocked: None,
            triggered: false,
            quiet: 0,
            sample: (now, 0),
            sample_collector_ns: 0,
            failed_seen: 0,
            failed_told_ns: None,
            cancelled: 0,
            not_before_ns: 0,
            external_at_end: 0,
            free_at_end: shared.space.free_bytes(),
            headroom_told: false,
            heap_bytes: shared.space.heap_bytes(),
            due_ns: now,
            margin_ns: margin,
            held: None,
            held_after: [None; 2],
            boosted: (fifo && shared.config.boost).then(|| Boosted::new(shared.config.gc_priority)).flatten(),
            placement: Placement::default(),
            beside: Beside::default(),
            help: Help::default(),
            overshoot_ns: 0,
            last_collector_ns: 0,
            last_sweep_ns: 0,
            last_scanned: 0,
            last_now_ns: now,
            shared,
        };
        d.publish_trigger();
        d
    }

    /// The thread's body: rounds until shutdown.
    pub(crate) fn run(mut self) -> Driver {
        loop {
            // Acquire: pairs with the Release in `wake_collector`; taken before the round looks at anything.
            let seen = self.shared.wake.load(Acquire);
            // Relaxed: stored before the wake-up that the Acquire above has seen, or will see in the next round.
            if self.shared.shutdown.load(Relaxed) {
                break;
            }
            if let Round::Sleep(until) = self.round() {
                futex_wait(&self.shared.wake, seen, until);
            }
        }
        self.beside.come_back(&Arc::clone(&self.shared));
        self.tell_held();
        self.tell_failed(self.shared.clock.now());
        self
    }

    /// One round: see the module's documentation.
    pub(crate) fn round(&mut self) -> Round {
        if self.shared.gate.polls_always() { self.polled_round() } else { self.round_once() }
    }

    fn round_once(&mut self) -> Round {
        let mut now = self.shared.clock.now();
        if now < self.last_now_ns {
            self.clock_went_back(now);
        }
        if let Some(at) = self.tell_at() {
            // Below 50 % a quantum may follow at once, and so it may when mutators wait for memory.
            // Relaxed: a hint.
            let hurry = self.shared.config.target_utilization < 50
                || self.shared.config.stress.unpaced()
                || self.shared.waiting_for_memory.load(Relaxed) > 0;
            if now < at && !hurry {
                self.due_ns = at;
                return Round::Sleep(Some(at));
            }
            self.tell_held();
            // What is told from here on is later than that.
            now = self.shared.clock.now();
        }
        if self.shared.verify.is_asked() {
            self.verify_on_demand();
            now = self.shared.clock.now();
        }
        if now < self.last_now_ns {
            self.clock_went_back(now);
        }
        self.last_now_ns = now;
        self.follow_size(now);
        self.sample_allocation(now);
        // Relaxed: a hint; whoever waits has woken, or will wake, this thread.
        // Those who have not yet noticed that there is memory again are no reason to hurry.
        let is_short = |s: &Shared| s.space.free_regions() <= s.low_regions();
        // Nor are those who wait for a heap that may still grow.
        let short = is_short(&self.shared) && !self.grow_when_short() && is_short(&self.shared);
        let waiting = short && self.shared.waiting_for_memory.load(Relaxed) > 0;
        let commanded = self.shared.commanded();
        if !self.cycle.open {
            let reason = self.should_start(now, commanded.is_some());
            let Some(reason) = self.or_polled(reason) else {
                // Relaxed: a hint for the alarm and for refills.
                self.shared.wants_ticks.store(false, Relaxed);
                self.suppress_ticks(true);
                return Round::Sleep(Some(now.saturating_add(self.idle_sleep())));
            };
            self.start_cycle(now, reason);
            self.due_ns = now;
        }
        if let Some((record, since, reported)) = self.blocked {
            if !self.collector.may_go_on(record) {
                self.report_overdue(now, record, since, reported);
                return Round::Sleep(Some(now.saturating_add(self.shared.config.beat_ns)));
            }
            self.blocked = None;
            self.due_ns = now;
        }
        if self.must_not_step(commanded.is_some()) {
            self.due_ns = now.saturating_add(stress::LOOK_NS);
            return Round::Sleep(Some(self.due_ns));
        }
        if now < self.not_before_ns {
            self.due_ns = self.not_before_ns;
            // Relaxed: a hint for the alarm.
            self.shared.next_start_ns.store(self.not_before_ns, Relaxed);
            return Round::Sleep(Some(self.not_before_ns));
        }
        let hurry = match commanded {
            Some(_) => Some(DepartureReason::SystemGc),
            None => waiting.then_some(DepartureReason::OutOfMemory),
        };
        self.set_allowance(now, hurry);
        match self.decide(now) {
            Decision::Run { budget_ns }
                if hurry.is_none() && !self.cycle.departed && self.beside.earns(&self.shared, now) =>
            {
                self.due_ns = now.saturating_add(budget_ns);
                // Relaxed: a hint for the alarm.
                self.shared.next_start_ns.store(self.due_ns, Relaxed);
                Round::Sleep(Some(self.due_ns))
            }
            Decision::Run { budget_ns } => {
                let wakeup = now.saturating_sub(self.due_ns);
                let starved = waiting && self.shared.config.exhaustion == Exhaustion::Synchronous;
                let synchronous = commanded.or(starved.then_some(SyncReason::OutOfMemory));
                self.quantum(budget_ns, wakeup, synchronous);
                self.due_ns = self.shared.clock.now();
                Round::Ran
            }
            Decision::Wait { until_ns } => {
                self.due_ns = until_ns;
                // Relaxed: a hint for the alarm.
                self.shared.next_start_ns.store(until_ns, Relaxed);
                Round::Sleep(Some(until_ns))
            }
        }
    }

    /// When the last quantum is to be told: nothing else can start before its gap is over, and by then its mutators
    /// have had that time to run on.
    fn tell_at(&self) -> Option<u64> {
        self.held.as_ref().map(|q| q.end_ns.saturating_add(q.planned_ns))
    }

    /// Tells the last quantum. A mutator that has still not run on makes its pause last until now.
    fn tell_held(&mut self) {
        let Some(mut q) = self.held.take() else { return };
        let s = &self.shared;
        // Relaxed: reports.
        q.resumed_ns = s.resumed_ns.swap(0, Relaxed);
        if s.paused.load(Relaxed) > 0 {
            q.resumed_ns = s.clock.now();
        }
        self.events.emit(Event::Quantum(q));
        for mut e in std::mem::take(&mut self.held_after).into_iter().flatten() {
            if let Event::Synchronous { end_ns: ns, .. } | Event::CycleEnd(CycleEnd { ns, .. }) = &mut e {
                *ns = (*ns).max(q.resumed_ns);
            }
            self.events.emit(e);
        }
    }

    /// Times that are kept go back with the clock: none of them shuts the collector out until it has caught up.
    /// (The ledger has a base of its own.)
    fn clock_went_back(&mut self, now: u64) {
        let by = self.last_now_ns - now;
        self.last_now_ns = now;
        self.tell_held();
        self.events.emit(Event::ClockStep { ns: now });
        let s = &self.shared;
        // Relaxed: a hint for the alarm; this thread's own note.
        s.next_start_ns.store(0, Relaxed);
        s.last_cycle_ns.fetch_min(now, Relaxed);
        self.not_before_ns = self.not_before_ns.saturating_sub(by);
        self.due_ns = self.due_ns.min(now);
        self.sample.0 = self.sample.0.min(now);
        self.cycle.start_ns = self.cycle.start_ns.min(now);
        self.failed_told_ns = self.failed_told_ns.map(|t| t.min(now));
        if let Some((_, since, _)) = &mut self.blocked {
            *since = now.min(*since);
        }
    }

    fn sample_allocation(&mut self, now: u64) {
        let allocated = self.shared.space.allocated_bytes();
        let (at, before) = self.sample;
        // Relaxed: this thread's own.
        let collector_ns = self.shared.counts.collector_ns.load(Relaxed);
        let taken = collector_ns - std::mem::replace(&mut self.sample_collector_ns, collector_ns);
        let mut elapsed = now.saturating_sub(at).saturating_sub(taken);
        // A long time without allocation is that many samples, not a long distance between looks.
        for _ in 0..DOZE_NS / IDLE_SAMPLE_NS {
            if elapsed < 2 * IDLE_SAMPLE_NS || self.cycle.open {
                break;
            }
            self.pacer.allocation_sample(IDLE_SAMPLE_NS, 0);
            elapsed -= IDLE_SAMPLE_NS;
        }
        let bytes = allocated.saturating_sub(before);
        self.quiet = if bytes > 0 { 0 } else { self.quiet.saturating_add(1) };
        self.pacer.allocation_sample(elapsed, bytes);
        self.sample = (now, allocated.max(before));
        self.publish_trigger();
        let (free, heap) = (self.shared.space.free_bytes(), self.shared.space.heap_bytes());
        let low = heap / 100 * u64::from(self.shared.config.headroom_low_percent);
        // What the heap may still grow by is room too.
        let room = free.saturating_add(self.shared.space.max_bytes().saturating_sub(heap));
        if self.headroom_told {
            self.headroom_told = room <= low.saturating_mul(2);
        } else if room < low {
            self.headroom_told = true;
            self.events.emit(Event::HeadroomLow { free_bytes: free, heap_bytes: heap });
        }
        // A program that goes on all the same wakes this thread with every failure.
        if self.failed_told_ns.is_none_or(|told| now.saturating_sub(told) >= FAILED_NS) {
            self.tell_failed(now);
        }
    }

    fn tell_failed(&mut self, now: u64) {
        // Relaxed, both: counters for reports.
        let failed = self.shared.failed_allocations.load(Relaxed);
        let before = std::mem::replace(&mut self.failed_seen, failed);
        if failed != before {
            self.failed_told_ns = Some(now);
            let (count, enough) = (failed - before, self.enough());
            self.events.emit(Event::AllocationFailed { ns: now, count, total: failed, enough });
        }
    }

    fn report_overdue(&mut self, now: u64, record: usize, since: u64, reported: bool) {
        if !reported && now.saturating_sub(since) >= OVERDUE_NS {
            self.blocked = Some((record, since, true));
            self.events.emit(Event::SafepointOverdue { ns: now, since_ns: since, record: record as u32 });
        }
    }
}
