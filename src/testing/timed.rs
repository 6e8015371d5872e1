//! A heap whose driver runs in virtual time: the real rounds, scheduler, pacer, collector, event ring and reporter, on the
//! test's thread, over a simulated machine that says what everything costs.
//!
//! # State
//! The machine keeps *true time*, which only grows, beside the clock that the heap reads, which a test may put back. What it
//! saw is in [`Stop`]s: an account of each stop that owes nothing to the collector's own.
//!
//! # Who may touch what
//! One thread is mutator, collector and alarm in turn. Other mutators are threads of the test that stand still: inside
//! and running (stragglers), or outside.

use crate::config::{Config, Exhaustion};
use crate::driver::{Driver, Round};
use crate::error::{BuildError, EnterError};
use crate::gate::Spin;
use crate::hooks::Machine;
use crate::mutator::Mutator;
use crate::report::Reporter;
use crate::shared::{MutatorState, Shared};
use crate::stats::Stats;
use metronome_alarm::{AlarmSummary, Clock, ManualClock, Ticker, Wake};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the clock begins: room for it to be put back.
const BEGIN_NS: u64 = 1_000_000_000_000;
/// What a look at the clock costs the collector while it waits for a mutator.
const LOOK_NS: u64 = 500;
/// The mutator runs this long between two looks at what else is to be done.
const SLICE_NS: u64 = 10_000;
/// More rounds than this without time going on are a live lock.
const ROUNDS_MAX: u32 = 10_000;

/// What a step costs, or the release (named `release`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The collector's own work.
    pub own_ns: u64,
    /// Taken from it by the system, which its CPU clock does not count: a preemption.
    pub stolen_ns: u64,
    /// Taken from it and counted by its CPU clock all the same: what the host of a virtual machine takes.
    pub hidden_ns: u64,
    /// The clock is put back by this in the middle of it.
    pub back_ns: u64,
}

impl Cost {
    /// Own work alone.
    #[must_use]
    pub const fn own(ns: u64) -> Cost {
        Cost { own_ns: ns, stolen_ns: 0, hidden_ns: 0, back_ns: 0 }
    }
}

/// What befalls a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickFault {
    /// Nothing.
    OnTime,
    /// It comes this much later.
    Late(u64),
    /// It does not come.
    Lost,
    /// It comes twice.
    Doubled,
    /// Its own reading of the time lies this far back.
    Backward(u64),
    /// The clock is put back by this as it comes.
    ClockBack(u64),
}

/// The program and the machine's whims.
pub trait World {
    /// What the program does in each slice of its time, after a safepoint.
    fn work(&mut self, m: &mut Mutator<'_>);
    /// How long after a stop was requested the program comes by a poll; `None`: not while the stop lasts.
    fn arrives(&mut self) -> Option<u64> {
        Some(0)
    }
    /// What befalls the next tick.
    fn tick(&mut self) -> TickFault {
        TickFault::OnTime
    }
    /// How late the collector's own timer is.
    fn timer_late(&mut self) -> u64 {
        0
    }
}

/// One stop, as the machine saw it, in true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// The request.
    pub start_ns: u64,
    /// The release, or the moment of giving up.
    pub end_ns: u64,
    /// From the request until nobody ran.
    pub stop_ns: u64,
    /// Own work since then.
    pub own_ns: u64,
    /// Longest step's own work, or the release's if that is longer.
    pub longest_ns: u64,
    /// What was taken by the system, visibly or not.
    pub taken_ns: u64,
    /// By how much the clock was put back.
    pub back_ns: u64,
    /// Steps taken.
    pub steps: u64,
    /// Given up.
    pub cancelled: bool,
}

type Costs = Box<dyn FnMut(&'static str) -> Cost + Send>;

struct Sim {
    costs: Costs,
    true_ns: u64,
    cpu_ns: u64,
    arrives: Option<u64>,
    /// The test's mutator, by its record, and whether it came to the stop that is under way.
    mutator: Option<usize>,
    arrived: bool,
    now: Stop,
    stops: Vec<Stop>,
}

struct Simulated {
    clock: ManualClock,
    sim: Mutex<Sim>,
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Simulated")
    }
}

impl Simulated {
    fn lock(&self) -> MutexGuard<'_, Sim> {
        self.sim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&self, sim: &mut Sim, ns: u64) {
        sim.true_ns += ns;
        self.clock.advance(ns);
    }

    fn spend(&self, name: &'static str) {
        let mut sim = self.lock();
        let c = (sim.costs)(name);
        self.advance(&mut sim, c.own_ns + c.stolen_ns + c.hidden_ns);
        self.clock.rewind(c.back_ns);
        sim.cpu_ns += c.own_ns + c.hidden_ns;
        let s = &mut sim.now;
        s.own_ns += c.own_ns;
        s.longest_ns = s.longest_ns.max(c.own_ns);
        s.taken_ns += c.stolen_ns + c.hidden_ns;
        s.back_ns += c.back_ns;
    }
}

impl Machine for Simulated {
    fn cpu_ns(&self) -> u64 {
        self.lock().cpu_ns
    }

    fn stop_begins(&self) {
        let mut sim = self.lock();
        sim.now = Stop { start_ns: sim.true_ns, ..Stop::default() };
    }

    fn looked(&self, s: &Shared) {
        let mut sim = self.lock();
        let waited = sim.true_ns - sim.now.start_ns;
        let due = sim.arrives.is_some_and(|after| waited >= after);
        if let Some(r) = sim.mutator.and_then(|i| s.record(i))
            && due
            && !sim.arrived
        {
            // As a poll that finds the stop requested.
            sim.arrived = true;
            r.set_state(MutatorState::Paused);
            // Relaxed: for reports only.
            s.paused.fetch_add(1, Relaxed);
            s.gate.leave_running();
        } else {
            self.advance(&mut sim, LOOK_NS);
        }
    }

    fn stop_ends(&self, came_about: bool) {
        let mut sim = self.lock();
        sim.now.stop_ns = sim.true_ns - sim.now.start_ns;
        if !came_about {
            sim.now.cancelled = true;
            sim.now.end_ns = sim.true_ns;
            let stop = sim.now;
            sim.stops.push(stop);
        }
    }

    fn stepped(&self, name: &'static str) {
        self.lock().now.steps += 1;
        self.spend(name);
    }

    fn released(&self) {
        self.spend("release");
        let mut sim = self.lock();
        sim.now.end_ns = sim.true_ns;
        let stop = sim.now;
        sim.stops.push(stop);
    }
}

/// What the collector's thread and the alarm's sleep for.
struct Sleepers {
    until: Option<u64>,
    seen: u32,
    ticker: Ticker,
    fault: TickFault,
}

/// A heap in virtual time.
pub struct TimedHeap {
    pub(super) shared: Arc<Shared>,
    machine: Arc<Simulated>,
    driver: Mutex<Driver>,
    reporter: Arc<Reporter>,
    sleepers: Mutex<Sleepers>,
}

impl std::fmt::Debug for TimedHeap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TimedHeap")
    }
}

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TimedHeap {
    /// A heap with this configuration, but `exhaustion = fail`: nobody would wake one who waits for memory.
    /// `costs` says what each step costs, by its name.
    ///
    /// # Errors
    /// As [`HeapBuilder::build`](crate::HeapBuilder::build).
    pub fn new(
        config: Config,
        costs: impl FnMut(&'static str) -> Cost + Send + 'static,
    ) -> Result<TimedHeap, BuildError> {
        let config = Config { exhaustion: Exhaustion::Fail, ..config };
        config.validate()?;
        let clock = Clock::manual();
        clock.set(BEGIN_NS);
        let threads = super::threads_by_hand(&config);
        let (mut shared, _) = crate::heap::build_shared(config, clock.clock())?;
        let entries = crate::shared::queue_entries(shared.space.max_regions());
        shared.crew = crate::crew::Crew::new(threads, || crate::mark::MarkQueue::new(entries));
        shared.crew.set_by_hand(true);
        let shared = Arc::new(shared);
        let sim = Sim {
            costs: Box::new(costs),
            true_ns: BEGIN_NS,
            cpu_ns: 1,
            arrives: None,
            mutator: None,
            arrived: false,
            now: Stop::default(),
            stops: Vec::new(),
        };
        let machine = Arc::new(Simulated { clock, sim: Mutex::new(sim) });
        shared.hooks.set_machine(machine.clone());
        let (recorder, drain) = crate::events::ring(shared.config.event_ring);
        let reporter = Reporter::new(Arc::clone(&shared), drain)?;
        reporter.started(&[]);
        let ticker = Ticker::new(BEGIN_NS, shared.config.beat_ns);
        let mut driver = Driver::new(Arc::clone(&shared), recorder, false);
        // Waits by looking at the virtual clock: the system's would never reach such a deadline, or be long past it.
        driver.spin = Spin(u32::MAX);
        let sleepers = Sleepers { until: Some(BEGIN_NS), seen: 0, ticker, fault: TickFault::OnTime };
        Ok(TimedHeap {
            shared,
            machine,
            driver: Mutex::new(driver),
            reporter,
            sleepers: Mutex::new(sleepers),
        })
    }

    /// Runs `f` as a mutator.
    ///
    /// # Errors
    /// As [`Heap::try_enter`](crate::Heap::try_enter).
    pub fn try_enter<R>(&self, f: impl FnOnce(&mut Mutator<'_>) -> R) -> Result<R, EnterError> {
        crate::heap::enter_shared(&self.shared, f)
    }

    /// Runs `f` as a mutator.
    ///
    /// # Panics
    /// If the thread cannot enter.
    #[track_caller]
    pub fn enter<R>(&self, f: impl FnOnce(&mut Mutator<'_>) -> R) -> R {
        self.try_enter(f).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The clock that the heap reads.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.machine.clock
    }

    /// True time since the heap was made plus where it began.
    #[must_use]
    pub fn true_ns(&self) -> u64 {
        self.machine.lock().true_ns
    }

    /// All stops so far, as the machine saw them.
    #[must_use]
    pub fn stops(&self) -> Vec<Stop> {
        self.machine.lock().stops.clone()
    }

    /// Asks for a cycle.
    pub fn request_cycle(&self) {
        self.shared.request_cycle();
    }

    /// Cycles that have ended.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        // Acquire: pairs with the Release at a cycle's end.
        self.shared.cycles_done.load(Acquire)
    }

    /// What the reporter says, when the driver has told its last quantum.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.reporter.stats(&AlarmSummary::default())
    }

    /// Runs program, collector and alarm for `for_ns` of true time. The mutator is the calling thread's.
    ///
    /// # Panics
    /// If the collector makes rounds without end while time stands still.
    pub fn run(&self, m: &mut Mutator<'_>, for_ns: u64, world: &mut impl World) {
        assert!(std::ptr::eq(m.shared(), &*self.shared), "the mutator belongs to another heap");
        let s = &*self.shared;
        let clock = self.clock().clone();
        let end = self.true_ns().saturating_add(for_ns);
        self.machine.lock().mutator = Some(m.record().index as usize);
        let mut sleepers = locked(&self.sleepers);
        let p = &mut *sleepers;
        let mut timer = p.until.map(|t| t.saturating_add(world.timer_late()));
        while self.true_ns() < end {
            let now = clock.now();
            // Acquire: pairs with the Release in `wake_collector`.
            if s.wake.load(Acquire) != p.seen || timer.is_some_and(|t| now >= t) {
                self.rounds(m, p, world);
                timer = p.until.map(|t| t.saturating_add(world.timer_late()));
                continue;
            }
            let late = if let TickFault::Late(ns) = p.fault { ns } else { 0 };
            let tick_at = p.ticker.deadline_ns().saturating_add(late);
            if now >= tick_at {
                self.tick(p);
                p.fault = world.tick();
                continue;
            }
            // A clock that was put back: the grid's next deadline is nearer than the one kept.
            if p.ticker.deadline_ns().saturating_sub(now) > s.config.beat_ns {
                let _ = p.ticker.wake(now);
            }
            let next = timer.unwrap_or(u64::MAX).min(tick_at);
            let ns = SLICE_NS.min(next - now);
            self.machine.advance(&mut self.machine.lock(), ns);
            m.safepoint();
            world.work(m);
        }
        self.machine.lock().mutator = None;
    }

    fn tick(&self, p: &mut Sleepers) {
        let s = &*self.shared;
        if let TickFault::ClockBack(ns) = p.fault {
            self.clock().rewind(ns);
        }
        if let Wake::Due(tick) = p.ticker.wake(self.clock().now()) {
            match p.fault {
                TickFault::Lost => {}
                TickFault::Doubled => {
                    s.tick(tick.now_ns);
                    s.tick(tick.now_ns);
                }
                TickFault::Backward(ns) => s.tick(tick.now_ns.saturating_sub(ns)),
                TickFault::OnTime | TickFault::Late(_) | TickFault::ClockBack(_) => s.tick(tick.now_ns),
            }
        }
    }

    /// The collector thread's loop until it sleeps.
    fn rounds(&self, m: &mut Mutator<'_>, p: &mut Sleepers, world: &mut impl World) {
        let s = &*self.shared;
        let (mut at, mut rounds) = (self.true_ns(), 0);
        loop {
            // Acquire: as in the driver's loop.
            p.seen = s.wake.load(Acquire);
            {
                let mut sim = self.machine.lock();
                (sim.arrives, sim.arrived) = (world.arrives(), false);
            }
            let round = locked(&self.driver).round();
            if std::mem::take(&mut self.machine.lock().arrived) {
                s.gate.enter_running(s.spin, || s.clock.now());
                m.record().set_state(MutatorState::Running);
                m.after_stop(true);
                // Relaxed: for reports only.
                s.paused.fetch_sub(1, Relaxed);
            }
            // A program that came by a poll goes on to its next safepoint.
            m.safepoint();
            match round {
                Round::Sleep(until) => {
                    p.until = until;
                    return;
                }
                Round::Ran => {}
            }
            let now = self.true_ns();
            rounds = if now == at { rounds + 1 } else { 0 };
            at = now;
            assert!(rounds < ROUNDS_MAX, "the collector makes rounds without end");
        }
    }
}

impl Drop for TimedHeap {
    fn drop(&mut self) {
        locked(&self.driver).collector.abandon();
        self.shared.deaths.abandon();
        super::close(&self.shared);
        // SAFETY: `enter` borrows the heap, so nobody is inside; the collector steps by this value only.
        unsafe { crate::reaper::teardown(&self.shared) };
    }
}
