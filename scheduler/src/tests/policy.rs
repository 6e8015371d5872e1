//! The quantum decision against brute force.

use super::sim::{BEGIN, Faults, Machine, Quantum, Scenario, broken_window};
use super::{Dice, check, within};
use crate::policy::{Decision, MAX_WINDOW_NS, Policy, PolicyError, Scheduler, Spread};
use quickcheck::{Arbitrary, Gen};

/// Any machine: overruns, early ends, late starts, clock steps.
#[derive(Debug, Clone)]
struct Rough(Scenario);

impl Arbitrary for Rough {
    fn arbitrary(g: &mut Gen) -> Self {
        let chance = |g: &mut Gen| if bool::arbitrary(g) { within(g, 0, 30) } else { 0 };
        let faults = Faults {
            overrun: chance(g),
            early: chance(g),
            late_start: chance(g),
            step_back: chance(g),
            stand_still: chance(g),
        };
        Rough(Scenario::arbitrary_with(g, 20, 400, faults))
    }
}

/// A machine without faults.
#[derive(Debug, Clone)]
struct Smooth(Scenario);

impl Arbitrary for Smooth {
    fn arbitrary(g: &mut Gen) -> Self {
        let mut scenario = Scenario::arbitrary_with(g, 10_000, 1_000_000, Faults::default());
        let allowance = scenario.policy.allowance_ns();
        let min = within(g, allowance.div_ceil(100), allowance * 3 / 100);
        scenario.policy.min_quantum_ns = min.min(scenario.policy.quantum_ns);
        Smooth(scenario)
    }
}

#[test]
fn inv_window_target_holds_on_rough_machines() {
    fn property(Rough(scenario): Rough) -> bool {
        let mut machine = Machine::new(&scenario);
        let end = BEGIN + 30 * scenario.policy.window_ns;
        while machine.now < end {
            machine.event(|_, _| ());
        }
        !machine.quanta.is_empty() && broken_window(&machine.quanta, &scenario.policy, end).is_none()
    }
    check(2000, property);
}

#[test]
fn inv_window_target_holds_when_the_ring_overflows() {
    fn property((Rough(mut scenario), capacity): (Rough, usize)) -> bool {
        scenario.faults = Faults { early: 60, ..scenario.faults };
        let mut machine = Machine::new(&scenario);
        machine.scheduler = Scheduler::with_capacity(scenario.policy, 2 + capacity % 4).expect("feasible");
        let end = BEGIN + 30 * scenario.policy.window_ns;
        while machine.now < end {
            machine.event(|_, _| ());
        }
        broken_window(&machine.quanta, &scenario.policy, end).is_none()
    }
    check(500, property);
}

/// INV-SHARE: a busy collector has got 97 % of what the target leaves, from the third window on; the first ones have a
/// whole allowance to spend at once. `prepare` sees the scheduler first.
pub(super) fn gets_its_share(scenario: &Scenario, prepare: impl Fn(&mut Scheduler)) -> bool {
    let mut machine = Machine::new(scenario);
    prepare(&mut machine.scheduler);
    let begin = BEGIN + 2 * scenario.policy.window_ns;
    let end = begin + 100 * scenario.policy.window_ns;
    while machine.now < end {
        machine.event(|_, _| ());
    }
    let got: u64 = machine.quanta.iter().map(|q| q.end.min(end).saturating_sub(q.start.max(begin))).sum();
    // Relative to the target itself, not to the allowance rounded down to a nanosecond.
    let left = u128::from(end - begin) * u128::from(100 - scenario.policy.target_percent);
    u128::from(got) * 100 * 100 >= 97 * left
}

#[test]
fn inv_share_a_busy_collector_gets_what_the_target_leaves() {
    check(200, |Smooth(scenario): Smooth| gets_its_share(&scenario, |_| ()));
}

/// A history of charges, and an allowance, as a list that brute force can walk.
#[derive(Debug, Clone)]
pub(super) struct History {
    policy: Policy,
    allowance: u64,
    charges: Vec<(u64, u64)>,
    pub(super) now: u64,
}

impl Arbitrary for History {
    fn arbitrary(g: &mut Gen) -> Self {
        let Scenario { mut policy, seed, .. } = Scenario::arbitrary_with(g, 20, 200, Faults::default());
        policy.min_quantum_ns = within(g, 1, policy.quantum_ns);
        let base = policy.allowance_ns();
        let allowance =
            if bool::arbitrary(g) { base } else { within(g, policy.min_quantum_ns, policy.window_ns) };
        let mut dice = Dice::new(seed);
        let mut at = BEGIN;
        let mut charges = Vec::new();
        for _ in 0..within(g, 0, 12) {
            let start = at + dice.within(0, policy.window_ns / 4);
            at = start + dice.within(1, policy.quantum_ns + policy.window_ns / 10);
            charges.push((start, at));
        }
        History { policy, allowance, charges, now: at + dice.within(0, policy.window_ns) }
    }
}

impl History {
    pub(super) fn scheduler(&self) -> Scheduler {
        let mut scheduler = Scheduler::new(self.policy).expect("a feasible policy");
        assert_eq!(scheduler.set_allowance(self.allowance), self.allowance);
        for &(start, end) in &self.charges {
            scheduler.record(start, end);
        }
        scheduler
    }

    fn used(&self, from: u64, to: u64) -> u64 {
        self.charges.iter().map(|&(s, e)| e.min(to).saturating_sub(s.max(from))).sum()
    }

    /// Every window that ends while a quantum of `b` that starts at `t` runs keeps the allowance.
    fn fits(&self, t: u64, b: u64) -> bool {
        let window = self.policy.window_ns;
        (t..=t + b).all(|end| self.used(end - window, t) + (end - t) <= self.allowance)
    }

    fn longest(&self, t: u64) -> Option<u64> {
        (self.policy.min_quantum_ns..=self.policy.quantum_ns).rev().find(|&b| self.fits(t, b))
    }

    /// The end of the gap rule, from its definition in the documentation.
    fn gap_end(&self) -> u64 {
        let Some(&(mut start, end)) = self.charges.last() else { return 0 };
        for &(s, e) in self.charges.iter().rev() {
            if e == start {
                start = s; // Pauses that touch are one pause.
            }
        }
        let b = (end - start).min(self.policy.quantum_ns);
        let even = b * (self.policy.window_ns - self.allowance) / self.allowance;
        end + match self.policy.spread {
            Spread::Even => even,
            Spread::Eager if self.policy.target_percent >= 50 => even.min(b),
            Spread::Eager => 0,
        }
    }
}

/// INV-UNTIL-EXACT: what `ask` answers at the end of a history is what brute force finds.
pub(super) fn answers_exactly(history: &History, ask: impl Fn(u64) -> Decision) -> bool {
    let allowed = |t: u64| if t < history.gap_end() { None } else { history.longest(t) };
    match ask(history.now) {
        Decision::Run { budget_ns } => allowed(history.now) == Some(budget_ns),
        Decision::Wait { until_ns } => {
            let first = (history.now..).find(|&t| allowed(t).is_some());
            first == Some(until_ns)
                && until_ns > history.now
                && ask(until_ns - 1) == Decision::Wait { until_ns }
                && ask(until_ns) == Decision::Run { budget_ns: allowed(until_ns).unwrap_or(0) }
        }
    }
}

#[test]
fn inv_until_exact_and_grants_are_the_longest() {
    check(1500, |history: History| answers_exactly(&history, |t| history.scheduler().decide(t)));
}

#[test]
fn window_utilization_is_the_naive_share() {
    fn property(history: History) -> bool {
        let window = history.policy.window_ns;
        let used = history.used(history.now - window, history.now);
        let naive = u128::from(window - used) * 1_000_000 / u128::from(window);
        u128::from(history.scheduler().window_utilization_ppm(history.now)) == naive
    }
    check(500, property);
}

/// Runs a busy collector for some windows and returns the quanta.
fn busy(policy: Policy, windows: u64) -> Vec<(u64, u64)> {
    let scenario = Scenario { policy, tick_ns: policy.window_ns, seed: 1, faults: Faults::default() };
    let mut machine = Machine::new(&scenario);
    while machine.now < BEGIN + windows * policy.window_ns {
        machine.event(|_, _| ());
    }
    machine.quanta.iter().map(|q| (q.start, q.end)).collect()
}

#[test]
fn inv_gap_eager_quanta_alternate_at_half_and_above() {
    for target_percent in [50, 70, 93] {
        let policy = Policy { target_percent, spread: Spread::Eager, ..Policy::DEFAULT };
        let quanta = busy(policy, 20);
        assert_eq!(quanta[0].0, BEGIN, "front-loaded");
        let alternates = |w: &[(u64, u64)]| w[1].0 - w[0].1 >= w[0].1 - w[0].0;
        assert!(quanta.windows(2).all(alternates), "target {target_percent}");
        let first_gap = quanta[1].0 - quanta[0].1;
        assert_eq!(first_gap, 500_000, "and no more than that while the allowance lasts");
    }
}

/// INV-GAP in true time: the gaps that the rule asks for lie between all quanta.
pub(super) fn gaps_are_kept(quanta: &[Quantum], policy: &Policy) -> bool {
    let (gc, mutator) = (policy.allowance_ns(), policy.window_ns - policy.allowance_ns());
    quanta.windows(2).all(|pair| {
        let planned = (pair[0].end - pair[0].start).max(pair[0].granted).min(policy.quantum_ns);
        let gap = match policy.spread {
            Spread::Even => planned * mutator / gc,
            Spread::Eager if policy.target_percent >= 50 => planned,
            Spread::Eager => 0,
        };
        pair[1].start - pair[0].end >= gap
    })
}

#[test]
fn inv_gap_holds_when_quanta_end_early_or_late() {
    fn property(Rough(mut scenario): Rough) -> bool {
        // No clock faults: gaps are compared in true time.
        scenario.faults = Faults { step_back: 0, stand_still: 0, ..scenario.faults };
        let mut machine = Machine::new(&scenario);
        while machine.now < BEGIN + 30 * scenario.policy.window_ns {
            machine.event(|_, _| ());
        }
        gaps_are_kept(&machine.quanta, &scenario.policy)
    }
    check(1000, property);
}

#[test]
fn quanta_that_end_early_do_not_make_the_next_ones_short() {
    let faults = Faults { early: 10, ..Faults::default() };
    let scenario = Scenario { policy: Policy::DEFAULT, tick_ns: 500_000, seed: 9, faults };
    let mut machine = Machine::new(&scenario);
    while machine.now < BEGIN + 300 * Policy::DEFAULT.window_ns {
        machine.event(|_, _| ());
    }
    let granted: u64 = machine.quanta.iter().map(|q| q.granted).sum();
    let mean = granted / machine.quanta.len() as u64;
    assert!(mean > Policy::DEFAULT.quantum_ns * 8 / 10, "mean grant {mean} ns");
}

#[test]
fn asking_twice_gives_the_same_answer() {
    for spread in [Spread::Eager, Spread::Even] {
        let mut scheduler = Scheduler::new(Policy { spread, ..Policy::DEFAULT }).expect("feasible");
        assert_eq!(scheduler.decide(BEGIN), Decision::Run { budget_ns: 500_000 });
        scheduler.record(BEGIN, BEGIN + 60_000);
        let gap = if spread == Spread::Eager { 500_000 } else { 1_166_666 };
        let until_ns = BEGIN + 60_000 + gap;
        assert_eq!(scheduler.decide(BEGIN + 60_000), Decision::Wait { until_ns });
        // Grants that nobody uses change nothing.
        for _ in 0..3 {
            assert_eq!(scheduler.decide(until_ns), Decision::Run { budget_ns: 500_000 });
        }
    }
}

#[test]
fn inv_gap_eager_quanta_may_be_consecutive_below_half() {
    let policy = Policy { target_percent: 30, spread: Spread::Eager, ..Policy::DEFAULT };
    let quanta = busy(policy, 1);
    assert!(quanta[..14].windows(2).all(|w| w[0].1 == w[1].0));
    assert_eq!(quanta[13].1, BEGIN + policy.allowance_ns());
    assert_eq!(quanta[14].0, BEGIN + policy.window_ns);
}

#[test]
fn inv_gap_even_spread_is_best_in_short_windows() {
    let (even, eager) = (Policy::DEFAULT, Policy { spread: Spread::Eager, ..Policy::DEFAULT });
    let worst = |policy: Policy, window: u64| {
        let mut tracker = crate::MmuTracker::new(window);
        tracker.start_at(BEGIN);
        for (start, end) in busy(policy, 50) {
            tracker.record(start, end);
        }
        tracker.mmu_ppm().expect("a run longer than the window")
    };
    // Strict alternation of b and b*u/(1-u) gives this by arithmetic; eager bunches to one half.
    assert_eq!(worst(even, 1_000_000), 500_000);
    // Period 1 666 666 ns: a window of 2 ms has one quantum whole and 333 334 ns of the next.
    assert_eq!(worst(even, 2_000_000), (2_000_000 - 500_000 - 333_334) / 2);
    assert_eq!(worst(eager, 2_000_000), 500_000);
    assert_eq!((worst(even, 10_000_000), worst(eager, 10_000_000)), (700_000, 700_000));
}

#[test]
fn allowance_can_rise_to_the_whole_window_and_come_back() {
    for spread in [Spread::Eager, Spread::Even] {
        let policy = Policy { spread, ..Policy::DEFAULT };
        let mut scheduler = Scheduler::new(policy).expect("feasible");
        assert_eq!((scheduler.allowance(), scheduler.base_allowance()), (3_000_000, 3_000_000));
        assert_eq!(scheduler.set_allowance(u64::MAX), policy.window_ns);
        for i in 0..100 {
            let now = BEGIN + i * policy.quantum_ns;
            assert_eq!(scheduler.decide(now), Decision::Run { budget_ns: policy.quantum_ns });
            scheduler.record(now, now + policy.quantum_ns);
        }
        let now = BEGIN + 100 * policy.quantum_ns;
        assert_eq!(scheduler.window_utilization_ppm(now), 0);
        scheduler.reset_allowance();
        // A whole window of GC must sink to the allowance less a minimum quantum.
        let until_ns = now + 7_000_000;
        assert_eq!(scheduler.decide(now), Decision::Wait { until_ns });
        assert_eq!(scheduler.set_allowance(0), policy.min_quantum_ns);
    }
}

#[test]
fn a_raised_allowance_is_used_smoothly() {
    // The collector's share of the time follows the allowance in every step, without a jump at half.
    for spread in [Spread::Eager, Spread::Even] {
        for percent in (30..=100).step_by(5) {
            let policy = Policy { spread, ..Policy::DEFAULT };
            let mut scheduler = Scheduler::new(policy).expect("feasible");
            let allowance = scheduler.set_allowance(policy.window_ns / 100 * percent);
            let (mut now, mut used) = (BEGIN, 0);
            while now < BEGIN + 50 * policy.window_ns {
                match scheduler.decide(now) {
                    Decision::Run { budget_ns } => {
                        scheduler.record(now, now + budget_ns);
                        now += budget_ns;
                        used += budget_ns;
                    }
                    Decision::Wait { until_ns } => now = until_ns,
                }
            }
            let share = used * policy.window_ns / (now - BEGIN);
            assert!(share * 100 >= allowance * 97, "{spread:?} {percent} %: {share} of {allowance}");
            assert!(share * 100 <= allowance * 103, "{spread:?} {percent} %: {share} of {allowance}");
        }
    }
}

#[test]
fn a_clock_that_stands_still_gives_the_collector_nothing_for_free() {
    let policy = Policy { target_percent: 30, spread: Spread::Eager, ..Policy::DEFAULT };
    let mut scheduler = Scheduler::new(policy).expect("feasible");
    let mut granted = 0;
    for _ in 0..1000 {
        if let Decision::Run { budget_ns } = scheduler.decide(BEGIN) {
            assert_eq!(scheduler.record(BEGIN, BEGIN), policy.quantum_ns);
            granted += budget_ns;
        }
    }
    assert_eq!(granted, policy.allowance_ns());
    assert!(scheduler.ledger().clock_steps() > 0);
}

#[test]
fn a_clock_that_jumps_back_does_not_shut_the_collector_out() {
    let mut scheduler = Scheduler::new(Policy::DEFAULT).expect("feasible");
    scheduler.record(BEGIN, BEGIN + 500_000);
    let back = BEGIN - 3_600_000_000_000;
    let Decision::Wait { until_ns } = scheduler.decide(back) else { panic!("no mutator time has passed") };
    // 500 µs * 7/3 after the jump, not an hour.
    assert_eq!(until_ns, back + 1_166_666);
    assert!(matches!(scheduler.decide(until_ns), Decision::Run { .. }));
}

#[test]
fn the_end_of_time_is_no_panic() {
    let mut scheduler = Scheduler::new(Policy::DEFAULT).expect("feasible");
    for now in [0, 1, u64::MAX - 1, u64::MAX, 0, u64::MAX] {
        let _ = scheduler.decide(now);
        scheduler.record(now, now.saturating_add(7));
        let _ = scheduler.window_utilization_ppm(now);
        assert_eq!(scheduler.ledger().verify(), Ok(()));
    }
}

#[test]
fn refusals_name_the_nearest_value_and_it_works() {
    fn property((window_ns, target_percent, quantum_ns, min_quantum_ns): (u64, u32, u64, u64)) -> bool {
        let mut policy = Policy {
            window_ns: window_ns % (2 * MAX_WINDOW_NS),
            target_percent: target_percent % 110,
            quantum_ns: quantum_ns % 10_000_000,
            min_quantum_ns: min_quantum_ns % 10_000_000,
            spread: Spread::Eager,
        };
        for _ in 0..8 {
            let Err(error) = Scheduler::new(policy) else { return true };
            let text = error.to_string();
            let named = match error {
                PolicyError::Target { target_percent } => {
                    policy.target_percent = target_percent.clamp(1, 99);
                    u64::from(policy.target_percent)
                }
                PolicyError::WindowTooLong { .. } => {
                    policy.window_ns = MAX_WINDOW_NS;
                    MAX_WINDOW_NS
                }
                PolicyError::WindowTooShort { nearest_window_ns, .. } => {
                    let shorter = Policy { window_ns: nearest_window_ns - 1, ..policy };
                    if shorter.allowance_ns() != 0 {
                        return false;
                    }
                    policy.window_ns = nearest_window_ns;
                    nearest_window_ns
                }
                PolicyError::MinQuantumZero => {
                    policy.min_quantum_ns = 1;
                    1
                }
                PolicyError::MinAboveQuantum { quantum_ns, .. } => {
                    policy.min_quantum_ns = quantum_ns;
                    // A quantum of 0 is itself below the least minimum.
                    policy.quantum_ns = quantum_ns.max(1);
                    quantum_ns
                }
                PolicyError::QuantumAboveAllowance { allowance_ns, nearest_window_ns, .. } => {
                    let wider = Policy { window_ns: nearest_window_ns, ..policy };
                    let narrower = Policy { window_ns: nearest_window_ns - 1, ..policy };
                    if wider.allowance_ns() < policy.quantum_ns
                        || narrower.allowance_ns() >= policy.quantum_ns
                    {
                        return false;
                    }
                    policy.quantum_ns = allowance_ns;
                    allowance_ns
                }
            };
            if !text.contains(&named.to_string()) {
                return false;
            }
        }
        false
    }
    check(2000, property);
}
