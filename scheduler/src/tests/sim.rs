//! A simulated machine: true time, a clock that may lie, a collector that always has work, and an oracle
//! that knows the truth and nothing of the scheduler's arithmetic.

use super::{Dice, within};
use crate::policy::{Decision, Policy, Scheduler, Spread};
use quickcheck::{Arbitrary, Gen};

/// True time at which a simulation begins; room for the clock to step back.
pub(super) const BEGIN: u64 = 1 << 50;

/// Chances in percent, per event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) overrun: u64,
    pub(super) early: u64,
    pub(super) late_start: u64,
    pub(super) step_back: u64,
    pub(super) stand_still: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) policy: Policy,
    pub(super) tick_ns: u64,
    pub(super) seed: u64,
    pub(super) faults: Faults,
}

impl Scenario {
    /// A feasible policy whose window lies in the given range.
    pub(super) fn arbitrary_with(g: &mut Gen, low: u64, high: u64, faults: Faults) -> Scenario {
        let target = within(g, 1, 99) as u32;
        // The allowance must be at least a nanosecond.
        let window_ns = within(g, low, high).max(100u64.div_ceil(u64::from(100 - target)));
        let allowance = window_ns * u64::from(100 - target) / 100;
        let quantum_ns = within(g, allowance.div_ceil(8), allowance);
        let min_quantum_ns = within(g, 1, quantum_ns.min((allowance * 3 / 100).max(1)));
        let spread = if bool::arbitrary(g) { Spread::Eager } else { Spread::Even };
        let policy = Policy { window_ns, target_percent: target, quantum_ns, min_quantum_ns, spread };
        Scenario { policy, tick_ns: within(g, 1, window_ns), seed: u64::arbitrary(g), faults }
    }
}

/// One quantum as it truly was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantum {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) granted: u64,
    /// What the scheduler was told it took.
    pub(super) charged: u64,
}

impl Quantum {
    /// Time the clock did not show.
    fn hidden(&self) -> u64 {
        (self.end - self.start).saturating_sub(self.charged)
    }
}

pub(super) struct Machine {
    pub(super) scheduler: Scheduler,
    pub(super) quanta: Vec<Quantum>,
    pub(super) now: u64,
    tick_ns: u64,
    next_tick: u64,
    until: Option<u64>,
    dice: Dice,
    faults: Faults,
    /// True time minus clock reading.
    lag: u64,
    frozen: Option<(u64, u64)>,
}

impl Machine {
    pub(super) fn new(scenario: &Scenario) -> Machine {
        Machine {
            scheduler: Scheduler::new(scenario.policy).expect("a feasible policy"),
            quanta: Vec::new(),
            now: BEGIN,
            tick_ns: scenario.tick_ns,
            next_tick: BEGIN,
            until: None,
            dice: Dice::new(scenario.seed),
            faults: scenario.faults,
            lag: 0,
            frozen: None,
        }
    }

    /// What the clock shows now.
    pub(super) fn read(&mut self) -> u64 {
        let window = self.scheduler.policy().window_ns;
        if let Some((thaw, reading)) = self.frozen {
            self.lag = self.now.min(thaw) - reading;
            if self.now >= thaw {
                self.frozen = None;
            }
        } else if self.dice.percent(self.faults.step_back) {
            self.lag += self.dice.within(1, 2 * window);
        } else if self.dice.percent(self.faults.stand_still) {
            self.frozen = Some((self.now + self.dice.within(1, window), self.now - self.lag));
        }
        self.now - self.lag
    }

    /// Goes on to the next tick or awaited time, asks, and runs what is granted. `after` sees the scheduler
    /// after each charge.
    pub(super) fn event(&mut self, mut after: impl FnMut(usize, &mut Scheduler)) {
        let tick = self.next_tick.max(self.now);
        self.now = self.until.map_or(tick, |until| (until + self.lag).clamp(self.now, tick));
        if self.now >= self.next_tick {
            self.next_tick = self.now + self.dice.within(1, self.tick_ns);
        }
        let reading = self.read();
        match self.scheduler.decide(reading) {
            Decision::Wait { until_ns } => self.until = Some(until_ns),
            Decision::Run { budget_ns } => {
                self.run(budget_ns);
                after(self.quanta.len(), &mut self.scheduler);
                self.until = Some(0); // Ask again at once.
            }
        }
    }

    fn run(&mut self, granted: u64) {
        let policy = *self.scheduler.policy();
        if self.dice.percent(self.faults.late_start) {
            self.now += self.dice.within(1, policy.quantum_ns);
        }
        let start_reading = self.read();
        let start = self.now;
        let mut length = granted;
        if self.dice.percent(self.faults.overrun) {
            length += self.dice.within(1, policy.window_ns);
        } else if self.dice.percent(self.faults.early) {
            length = self.dice.within(1, granted);
        }
        self.now += length;
        let end_reading = self.read();
        let charged = self.scheduler.record(start_reading, end_reading);
        self.quanta.push(Quantum { start, end: self.now, granted, charged });
    }
}

/// INV-WINDOW-TARGET in true time: the first nanosecond at which a window ends that holds more GC time than
/// the allowance and what the last quantum overran (plus what the clock hid).
pub(super) fn broken_window(quanta: &[Quantum], policy: &Policy, until: u64) -> Option<u64> {
    let window = policy.window_ns;
    let allowance = policy.window_ns * u64::from(100 - policy.target_percent) / 100;
    let length = usize::try_from(until - BEGIN).expect("a short run");
    // used[i] = GC time in [BEGIN, BEGIN + i], nanosecond by nanosecond.
    let mut collecting = vec![false; length];
    for q in quanta {
        for t in q.start..q.end.min(until) {
            collecting[(t - BEGIN) as usize] = true;
        }
    }
    let mut used = vec![0u64];
    for &gc in &collecting {
        used.push(used[used.len() - 1] + u64::from(gc));
    }
    (BEGIN + 1..=until).find(|&end| {
        let at = (end - BEGIN) as usize;
        let gc = used[at] - used[at.saturating_sub(window as usize)];
        if gc <= allowance {
            return false;
        }
        let mut inside = quanta.iter().filter(|q| q.start < end && q.end > end.saturating_sub(window));
        let hidden: u64 = inside.clone().map(Quantum::hidden).sum();
        let overran = inside.next_back().map_or(0, |q| q.end.min(end).saturating_sub(q.start + q.granted));
        gc > allowance + hidden + overran
    })
}
