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

use crate::boost::Boosted;
use crate::collector::{Collector, Progress, Stopped};
use crate::config::{Exhaustion, TriggerMode};
use crate::events::{CycleEnd, Enough, Event, Quantum, Recorder};
use crate::gate::Spin;
use crate::meter::{StepMeter, bucket};
use crate::reason::{CycleReason, DepartureReason, SyncReason};
use crate::shared::{MutatorState, Shared};
use crate::stats::ReferenceCounts;
use crate::sync::{futex_wait, futex_wake};
use metronome_alarm::thread_cpu_ns;
use metronome_barrier::Phase;
use metronome_scheduler::{CycleFacts, Decision, Pacer, PacerConfig, Policy, Scheduler, Trigger};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The idle collector thread looks at the allocation rate this often.
const IDLE_SAMPLE_NS: u64 = 10_000_000;
/// Failed allocations are told at most once in this time.
const FAILED_NS: u64 = 50_000_000;
/// A mutator that holds up a cycle this long without a safepoint is named.
const OVERDUE_NS: u64 = 250_000_000;

/// The break after a cancelled stop is a beat, doubled with each further one up to 2^6 beats.
const BACK_OFF_MAX: u32 = 6;
/// A stop that lasts longer than this helps those who have not arrived.
const PATIENCE_NS: u64 = 40_000;

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
    start_ns: u64,
    start_allocated: u64,
    used_at_start: u64,
    quanta: u64,
    collector_ns: u64,
    cpu_ns: u64,
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
    scheduler: Scheduler,
    pacer: Pacer,
    events: Recorder,
    spin: Spin,
    cycle: CycleSums,
    /// The mutator that the cycle waits for, since when, and whether that was reported.
    blocked: Option<(usize, u64, bool)>,
    triggered: bool,
    sample: (u64, u64),
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
    /// The last quantum, told when it is known when its last mutator has run on; and what is to be told after it.
    held: Option<Quantum>,
    held_after: [Option<Event>; 2],
    /// Collector time of the last cycle.
    last_collector_ns: u64,
    last_now_ns: u64,
}

impl Driver {
    /// `fifo`: the thread runs under SCHED_FIFO, where spinning would keep the mutators from running.
    pub(crate) fn new(shared: Arc<Shared>, events: Recorder, verify: bool, fifo: bool) -> Driver {
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
        let queue = (shared.space.max_regions() as usize * 16).clamp(1 << 10, 1 << 16);
        let mut collector = Collector::new(Arc::clone(&shared), queue);
        collector.verify = verify;
        let now = shared.clock.now();
        // Relaxed: nobody else looks yet.
        shared.last_cycle_ns.store(now, Relaxed);
        let mut d = Driver {
            spin: if fifo { Spin(0) } else { shared.spin },
            collector,
            scheduler,
            pacer,
            events,
            cycle: CycleSums::default(),
            blocked: None,
            triggered: false,
            sample: (now, 0),
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
            last_collector_ns: 0,
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
        self.tell_held();
        self.tell_failed(self.shared.clock.now());
        self
    }

    /// One round: see the module's documentation.
    pub(crate) fn round(&mut self) -> Round {
        let mut now = self.shared.clock.now();
        if let Some(at) = self.tell_at() {
            // Below 50 % a quantum may follow at once, and so it may when mutators wait for memory.
            // Relaxed: a hint.
            let hurry = self.shared.config.target_utilization < 50
                || self.shared.waiting_for_memory.load(Relaxed) > 0;
            if now < at && !hurry {
                self.due_ns = at;
                return Round::Sleep(Some(at));
            }
            self.tell_held();
            // What is told from here on is later than that.
            now = self.shared.clock.now();
        }
        if now < self.last_now_ns {
            self.events.emit(Event::ClockStep { ns: now });
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
            let Some(reason) = self.should_start(now, commanded.is_some()) else {
                // Relaxed: a hint for the alarm and for refills.
                self.shared.wants_ticks.store(false, Relaxed);
                self.suppress_ticks(true);
                return Round::Sleep(Some(now.saturating_add(IDLE_SAMPLE_NS)));
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
        match self.scheduler.decide(now) {
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

    /// The heap has grown or shrunk: paces for its new size.
    fn follow_size(&mut self, now: u64) {
        let to_bytes = self.shared.space.heap_bytes();
        let from_bytes = std::mem::replace(&mut self.heap_bytes, to_bytes);
        if from_bytes == to_bytes {
            return;
        }
        self.pacer.set_heap_bytes(to_bytes);
        self.publish_trigger();
        // Who made it shrink tells that too.
        if to_bytes > from_bytes {
            self.events.emit(Event::Grown { ns: now, from_bytes, to_bytes });
        }
    }

    /// Mutators wait for memory, or soon will: a heap that may grow does so before the target is left. Whether the memory
    /// thread is about to make it larger.
    fn grow_when_short(&self) -> bool {
        let s = &self.shared;
        // Relaxed: a hint. Where memory is touched first, ahead of need.
        let wanted = s.backs_memory() || s.waiting_for_memory.load(Relaxed) > 0;
        if wanted && s.grow_on_demand() {
            s.announce_memory();
        }
        s.grow_soon()
    }

    /// A heap that may grow becomes as large as the contract asks for, and a quarter more. Not in a quantum; O(1).
    fn grow_to_contract(&mut self) {
        let s = &self.shared;
        let needed = self.pacer.heap_needed();
        let wanted = needed.saturating_add(needed / 4);
        // Relaxed: a hint for the memory thread.
        s.needed_bytes.store(wanted, Relaxed);
        if wanted > s.space.heap_bytes() && s.space.limit_regions() < s.space.max_regions() {
            let regions = u32::try_from(wanted / metronome_arraylet::REGION_BYTES as u64).unwrap_or(u32::MAX);
            s.grow_regions(regions.saturating_add(1).min(s.space.max_regions()));
        }
    }

    fn sample_allocation(&mut self, now: u64) {
        let allocated = self.shared.space.allocated_bytes();
        let (at, before) = self.sample;
        self.pacer.allocation_sample(now.saturating_sub(at), allocated.saturating_sub(before));
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

    fn publish_trigger(&mut self) {
        // Relaxed: a hint for the alarm and for refills.
        self.shared.trigger_bytes.store(self.pacer.prediction().trigger_used_bytes, Relaxed);
    }

    /// Why a cycle has to start now, if it has to.
    fn should_start(&mut self, now: u64, commanded: bool) -> Option<CycleReason> {
        let s = &self.shared;
        // Acquire: pairs with the AcqRel in `request_cycle`.
        let requested = s.requested.load(Acquire) > s.cycles_done.load(Relaxed);
        let used = s.space.used_bytes();
        let full = self.pacer.should_start(used);
        if full != self.triggered {
            self.triggered = full;
            self.events.emit(if full {
                Event::TriggerStart { ns: now }
            } else {
                Event::TriggerEnd { ns: now }
            });
        }
        // Relaxed, here and below: hints and this thread's own notes.
        let since = now.saturating_sub(s.last_cycle_ns.load(Relaxed));
        let overdue = s.config.cycle_interval_ns.is_some_and(|i| since >= i);
        // Regions can run out before bytes do: by size classes, and by threads that each hold some. Not at once after a
        // cycle that could not help.
        let scarce = s.space.free_regions() <= s.low_regions()
            && s.allocated_since_cycle() >= s.space.heap_bytes() / 16;
        let external = s.external.load(Relaxed).saturating_sub(self.external_at_end);
        let by_size = match s.config.trigger {
            TriggerMode::Paced => CycleReason::Headroom,
            TriggerMode::Static { .. } => CycleReason::Threshold,
        };
        let failed = || s.space.free_regions() == 0 && used > 0 && self.failed_now();
        // Relaxed, here and below: hints.
        let reasons = [
            (s.low_memory.load(Relaxed), CycleReason::LowMemory),
            (requested || commanded, CycleReason::Explicit),
            (full, by_size),
            (scarce, CycleReason::Regions),
            (overdue, CycleReason::Interval),
            (external > s.config.effective_external_memory(), CycleReason::ExternalMemory),
            (failed(), CycleReason::OutOfMemory),
        ];
        let reason = reasons.into_iter().find_map(|(is, reason)| is.then_some(reason))?;
        // Relaxed: a hint. Those who wait for memory ask for cycles too.
        let waited = s.waiting_for_memory.load(Relaxed) > 0;
        Some(if reason == CycleReason::Explicit && waited { CycleReason::OutOfMemory } else { reason })
    }

    /// With `suppress-idle-ticks` the alarm sleeps while no cycle is active; refills then look at the trigger.
    fn suppress_ticks(&self, idle: bool) {
        if self.shared.config.suppress_idle_ticks
            && let Some(alarm) = self.shared.alarm.get()
        {
            if idle {
                alarm.pause();
            } else {
                alarm.resume();
            }
        }
    }

    /// An allocation has failed since the last cycle ended.
    fn failed_now(&self) -> bool {
        // Relaxed: a hint for pacing; each mutator waits by its own note.
        self.shared.records().any(|r| r.starved.load(Relaxed))
    }

    fn start_cycle(&mut self, now: u64, reason: CycleReason) {
        let s = &self.shared;
        // Relaxed: a hint.
        s.low_memory.store(false, Relaxed);
        let share = u128::from(s.config.soft_age) * u128::from(self.free_at_end);
        let age = share.div_ceil(u128::from(s.space.heap_bytes()));
        // At most the configured age, which fits.
        self.collector.soft_age = if reason == CycleReason::LowMemory { 0 } else { age as u64 };
        self.pacer.cycle_started();
        self.cycle = CycleSums {
            open: true,
            start_ns: now,
            start_allocated: s.space.allocated_bytes(),
            used_at_start: s.space.used_bytes(),
            ..CycleSums::default()
        };
        // Relaxed: a hint for the alarm and for refills.
        s.wants_ticks.store(true, Relaxed);
        self.suppress_ticks(false);
        let free_bytes = s.space.free_bytes();
        self.events.emit(Event::CycleStart { ns: now, reason, free_bytes });
    }

    /// The cycle is about to be armed: the last moment to hear that soft references are to be cleared in it.
    fn note_clearing(&mut self) {
        let s = &self.shared;
        // Relaxed: the number is this thread's own.
        let next = s.cycle.load(Relaxed) + 1;
        // Relaxed: published by the request that comes after it.
        if s.clear_softs_through.load(Relaxed) >= next {
            self.collector.soft_age = 0;
        }
        if self.collector.soft_age == 0 {
            // Release: pairs with the Acquire of those who wait for this cycle's end.
            s.softs_cleared.store(next, Release);
        }
    }

    /// With `exhaustion = degrade`, utilization sinks as the headroom falls behind the predicted need.
    fn set_allowance(&mut self, now: u64, hurry: Option<DepartureReason>) {
        let s = &self.shared;
        // The plan stays a margin below the allowance, so that what a quantum's end takes longer breaks no window.
        let full = self.scheduler.base_allowance();
        let base = full - self.margin_ns.min(full / 20);
        let window = s.config.window_ns;
        let allowance = match s.config.exhaustion {
            _ if hurry == Some(DepartureReason::SystemGc) => window,
            Exhaustion::Fail => base,
            _ if hurry.is_some() => window,
            Exhaustion::Synchronous => base,
            Exhaustion::Degrade => {
                // What the heap may still grow by is room too.
                let heap = s.space.max_bytes();
                let headroom = heap.saturating_sub(s.space.used_bytes());
                let predicted = self.pacer.prediction().collector_ns.min(self.last_collector_ns);
                // A prediction that was passed is worth a tenth of itself.
                let remaining = predicted.saturating_sub(self.cycle.collector_ns).max(predicted / 10);
                // The promise is broken only if this cycle's own rate says that memory will not last, or when little
                // is left; a burst remembered by the pacer is no reason yet.
                if headroom > heap / 4
                    || headroom > heap / 16 && self.need_at_target(now, remaining) <= headroom
                {
                    base
                } else {
                    self.pacer.degrade_allowance(headroom, remaining.max(1), window, base)
                }
            }
        };
        let set = self.scheduler.set_allowance(allowance);
        if set > full && !self.cycle.departed {
            self.cycle.departed = true;
            let reason = hurry.unwrap_or(DepartureReason::HeadroomLow);
            let enough = (reason != DepartureReason::SystemGc).then(|| self.enough()).flatten();
            // Relaxed, as all of these counts: reports.
            s.counts.departures.fetch_add(1, Relaxed);
            self.events.emit(Event::Departure { ns: now, reason, allowance_ns: set, enough });
        }
    }

    /// The heap that would have been enough, as far as it is known: (1+f)(m+2A).
    fn enough(&self) -> Option<Enough> {
        let p = self.pacer.prediction();
        // The target is left because this cycle is going to allocate all that is free, whatever was predicted.
        let space = &self.shared.space;
        let so_far = space.allocated_bytes().saturating_sub(self.cycle.start_allocated);
        // A static trigger is seen some allocation late.
        let late = match self.shared.config.trigger {
            TriggerMode::Paced => 0,
            TriggerMode::Static { .. } => self.cycle.used_at_start.saturating_sub(p.trigger_used_bytes),
        };
        let free = space.max_bytes().saturating_sub(space.used_bytes());
        let expected = so_far.saturating_add(free).saturating_add(late);
        (p.allocation_bytes > 0).then(|| Enough {
            heap_bytes: self.pacer.heap_needed_with(expected),
            live_bytes: p.live_bytes,
            allocation_bytes: p.allocation_bytes.max(expected),
        })
    }

    /// Waking takes a system call and an interrupt for each sleeping CPU, so what it costs depends on the host and on
    /// the number of mutators. With `resume-margin = auto` the margin follows the longest recent one, up to twice its
    /// starting value.
    fn learn_margin(&mut self, release_ns: u64) {
        let base = self.shared.config.effective_resume_margin_ns();
        if self.shared.config.resume_margin_ns.is_some() {
            return;
        }
        let wanted = (release_ns + base / 4).min(base * 2);
        self.margin_ns =
            wanted.max(self.margin_ns - (self.margin_ns - base.min(self.margin_ns)) / 64).max(base);
    }

    /// Allocation to come if the cycle needs `remaining` more collector time and the target is kept, at the rate of
    /// this cycle so far.
    fn need_at_target(&self, now: u64, remaining: u64) -> u64 {
        let s = &self.shared;
        let mutator = now.saturating_sub(self.cycle.start_ns).saturating_sub(self.cycle.collector_ns);
        if mutator < s.config.window_ns / 2 {
            return 0;
        }
        let allocated = s.space.allocated_bytes().saturating_sub(self.cycle.start_allocated);
        let u = u128::from(s.config.target_utilization);
        let mutator_to_come = u128::from(remaining) * u / (100 - u).max(1);
        u64::try_from(u128::from(allocated) * mutator_to_come / u128::from(mutator)).unwrap_or(u64::MAX)
    }

    fn report_overdue(&mut self, now: u64, record: usize, since: u64, reported: bool) {
        if !reported && now.saturating_sub(since) >= OVERDUE_NS {
            self.blocked = Some((record, since, true));
            self.events.emit(Event::SafepointOverdue { ns: now, since_ns: since, record: record as u32 });
        }
    }

    /// One quantum of at most `budget_ns` (all of the cycle when `synchronous`).
    fn quantum(&mut self, budget_ns: u64, wakeup_ns: u64, synchronous: Option<SyncReason>) {
        let shared = Arc::clone(&self.shared);
        let s = &*shared;
        // What mutators say from here on is about this stop.
        // Relaxed: a report.
        s.resumed_ns.store(0, Relaxed);
        let free_before = s.space.free_bytes();
        let start_ns = s.clock.now();
        // A stop may use up the quantum, but not more.
        let work_budget = budget_ns.saturating_sub(self.margin_ns);
        let stop_budget = s.config.effective_stop_budget_ns().min(work_budget);
        let mut boosted = self.boosted.take();
        let running = || {
            s.records()
                .take(crate::boost::LOOK_AT)
                .find(|r| r.state() == MutatorState::Running)
                .map(|r| r.index)
        };
        let mut suspect = None;
        let mut help = || {
            suspect = running();
            if let Some(b) = &mut boosted {
                b.boost(s);
            }
        };
        let patience = PATIENCE_NS.min(stop_budget / 2);
        let nudge: Option<(u64, &mut dyn FnMut())> = Some((start_ns.saturating_add(patience), &mut help));
        let stopped = Stopped::try_new(s, Some(start_ns.saturating_add(stop_budget)), self.spin, nudge);
        if let Some(b) = &mut boosted {
            b.restore();
        }
        self.boosted = boosted;
        let stopped = match stopped {
            Ok(stopped) => stopped,
            Err(cancelled) => {
                // Relaxed: a counter.
                s.stops_cancelled.fetch_add(1, Relaxed);
                s.announce_memory();
                let end_ns = s.clock.now();
                let charged = self.scheduler.record(start_ns, end_ns);
                self.cycle.collector_ns += charged;
                self.cycle.other_ns += charged;
                // Relaxed: a report.
                s.counts.collector_ns.fetch_add(charged, Relaxed);
                // Ever longer breaks, so that a mutator that does not poll costs the others next to nothing.
                self.cancelled += 1;
                let pause = s.config.beat_ns << (self.cancelled - 1).min(BACK_OFF_MAX);
                self.not_before_ns = end_ns.saturating_add(pause);
                self.events.emit(Event::StopCancelled {
                    ns: end_ns,
                    waited_ns: end_ns.saturating_sub(start_ns),
                    budget_ns: stop_budget,
                    running: cancelled.running,
                    // It may have arrived in the meantime; then it is the one that was late before.
                    record: running().or(suspect).unwrap_or(u32::MAX),
                });
                return;
            }
        };
        self.cancelled = 0;
        let cpu_start = thread_cpu_ns();
        let work_start = s.clock.now();
        let deadline = start_ns.saturating_add(work_budget);
        let phase = s.phase.get();
        if phase == Phase::Idle {
            self.note_clearing();
        }
        let mut meter = StepMeter::new(cpu_start, work_start);
        let mut progress = Progress::More;
        let mut spent = [0u64; 3];
        let mut now = work_start;
        // At least one step, so that a cycle always comes forward.
        while progress == Progress::More {
            let before = s.phase.get();
            let (name, p) = self.collector.step(&stopped);
            progress = p;
            let after = s.clock.now();
            meter.step(name, now, after);
            s.step_times.record(after.saturating_sub(now), 0);
            spent[bucket(before)] += after.saturating_sub(now);
            now = after;
            if now >= deadline && synchronous.is_none() {
                break;
            }
        }
        drop(stopped);
        let end_ns = s.clock.now();
        self.learn_margin(end_ns.saturating_sub(now));
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu_start);
        self.scheduler.record(start_ns, end_ns);
        let stop_ns = work_start.saturating_sub(start_ns);
        // The CPU clock is read just outside the wall clock's stretch; a quantum is never charged more than it took.
        let own_ns = cpu_ns.saturating_sub(meter.interrupted_ns);
        let charged_ns = (stop_ns.min(stop_budget) + own_ns).min(end_ns.saturating_sub(start_ns));
        self.cycle.quanta += 1;
        self.cycle.cpu_ns += cpu_ns;
        self.cycle.collector_ns += charged_ns;
        // What the system took is left out of the rates that pacing learns.
        let work_ns = end_ns.saturating_sub(work_start).max(1);
        let cpu_share =
            |ns: u64| (u128::from(ns) * u128::from(cpu_ns.min(work_ns)) / u128::from(work_ns)) as u64;
        self.cycle.mark_ns += cpu_share(spent[0]);
        self.cycle.sweep_ns += cpu_share(spent[1]);
        self.cycle.other_ns += cpu_share(spent[2]) + stop_ns.min(stop_budget);
        let counts = self.collector.counts;
        let references = counts.references.since(self.cycle.references_reported);
        self.cycle.references_reported = counts.references;
        let free_bytes = s.space.free_bytes();
        // A synchronous quantum that had to let a mutator run to its safepoint is an ordinary one.
        let synchronous = synchronous.filter(|_| progress == Progress::Done);
        // Relaxed: reports.
        s.counts.quanta.fetch_add(1, Relaxed);
        s.counts.collector_ns.fetch_add(charged_ns, Relaxed);
        self.held = Some(Quantum {
            start_ns,
            end_ns,
            stop_ns,
            wakeup_ns,
            planned_ns: budget_ns,
            cpu_ns,
            work_ns,
            charged_ns,
            resumed_ns: 0,
            phase: if phase == Phase::Idle { Phase::Snapshot } else { phase },
            steps: meter.steps,
            interrupted: meter.interrupted,
            interrupted_ns: meter.interrupted_ns,
            longest_step: meter.longest,
            longest_step_ns: meter.longest_ns,
            free_bytes,
            references,
            soft_age: self.collector.soft_age,
            synchronous: synchronous.is_some(),
        });
        if let Some(reason) = synchronous {
            // Relaxed: a report.
            s.counts.synchronous.fetch_add(1, Relaxed);
            self.held_after[0] = Some(Event::Synchronous {
                start_ns,
                end_ns,
                stop_ns,
                cpu_ns,
                free_before,
                free_after: free_bytes,
                references,
                soft_age: self.collector.soft_age,
                reason,
                // Relaxed: a report.
                requested_bytes: s.failed_bytes.load(Relaxed),
            });
        }
        match progress {
            Progress::More => {}
            Progress::Blocked { record } => self.blocked = Some((record, end_ns, false)),
            Progress::Done => self.end_cycle(end_ns),
        }
        self.check_violations();
        s.announce_memory();
        if references.finalizers_enqueued + references.deaths_noted > 0 {
            s.finalizers.wake();
        }
        if !s.space.reap_is_empty() {
            // Release: pairs with the Acquire of the reaper's wait.
            s.reap_seq.fetch_add(1, Release);
            futex_wake(&s.reap_seq, 1);
        }
    }

    fn end_cycle(&mut self, now: u64) {
        let shared = Arc::clone(&self.shared);
        let s = &*shared;
        let c = self.cycle;
        let counts = self.collector.counts;
        let allocated = s.space.allocated_bytes().saturating_sub(c.start_allocated);
        let elapsed_ns = now.saturating_sub(c.start_ns);
        self.pacer.cycle_finished(CycleFacts {
            mark_ns: c.mark_ns,
            sweep_ns: c.sweep_ns,
            other_ns: c.other_ns,
            elapsed_ns,
            allocated_bytes: allocated,
            // Objects allocated black during the cycle are counted as live by the sweep, but were not marked.
            live_bytes: counts.live_bytes.saturating_sub(allocated),
            heap_bytes_swept: counts.regions_swept << 16,
            used_at_start: c.used_at_start,
        });
        // What was predicted when the cycle began; samples have changed the prediction since.
        let predicted = self.pacer.last_cycle().and_then(|report| report.predicted);
        self.cycle.open = false;
        self.grow_to_contract();
        self.publish_trigger();
        self.free_at_end = s.space.free_bytes();
        // Relaxed, here and below: reports, hints.
        self.external_at_end = s.external.load(Relaxed);
        s.allocated_at_end.store(s.space.allocated_bytes(), Relaxed);
        s.counts.live_bytes.store(counts.live_bytes, Relaxed);
        s.last_cycle_ns.store(now, Relaxed);
        self.last_collector_ns = c.collector_ns;
        self.held_after[1] = Some(Event::CycleEnd(CycleEnd {
            ns: now,
            free_bytes: s.space.free_bytes(),
            quanta: c.quanta,
            collector_ns: c.collector_ns,
            cpu_ns: c.cpu_ns,
            elapsed_ns,
            allocated_bytes: allocated,
            predicted_collector_ns: predicted.map(|p| p.collector_ns),
            predicted_allocated_bytes: predicted.map(|p| p.allocation_bytes),
            counts,
        }));
    }

    /// A violation means that the heap cannot be trusted: the process ends.
    fn check_violations(&mut self) {
        if self.collector.violations.is_empty() {
            return;
        }
        for v in &self.collector.violations {
            eprintln!("metronome: the heap verifier found: {v}");
        }
        std::process::abort();
    }
}
