//! The oracles have teeth: a broken protection is reported by the oracle that guards it.

use super::check;
use super::ledger::naive_used;
use super::mmu::{Run, every_window};
use super::pacing::{degrades_well, measured};
use super::policy::{History, answers_exactly, gaps_are_kept, gets_its_share};
use super::sim::{BEGIN, Faults, Machine, Scenario, broken_window};
use crate::ledger::{Ledger, LedgerFault};
use crate::policy::{Decision, Policy, Spread};

fn scenario(spread: Spread, target_percent: u32) -> Scenario {
    let policy = Policy { window_ns: 400, target_percent, quantum_ns: 20, min_quantum_ns: 2, spread };
    Scenario { policy, tick_ns: 50, seed: 3, faults: Faults::default() }
}

/// Runs 30 windows; after the quantum number `forget` the ledger loses it.
fn first_broken_window(scenario: &Scenario, forget: Option<usize>) -> Option<u64> {
    let mut machine = Machine::new(scenario);
    let end = BEGIN + 30 * scenario.policy.window_ns;
    while machine.now < end {
        machine.event(|number, scheduler| {
            if Some(number) == forget {
                scheduler.ledger_mut().forget_newest();
            }
        });
    }
    broken_window(&machine.quanta, &scenario.policy, end)
}

#[test]
fn inv_window_target_oracle_catches_one_forgotten_interval() {
    for spread in [Spread::Eager, Spread::Even] {
        for target in [20, 50, 70, 90] {
            let scenario = scenario(spread, target);
            assert_eq!(first_broken_window(&scenario, None), None);
            for forget in [1, 2, 10, 25] {
                assert!(
                    first_broken_window(&scenario, Some(forget)).is_some(),
                    "{spread:?} at {target} %: quantum {forget} was forgotten and nobody noticed"
                );
            }
        }
    }
}

#[test]
fn inv_ledger_sum_verifier_reports_a_wrong_sum() {
    let mut ledger = Ledger::new(4, 1000, 1);
    ledger.record(10, 20);
    ledger.corrupt_sum();
    let fault = ledger.verify().expect_err("the sum is wrong");
    assert_eq!(fault, LedgerFault::Sum { kept_ns: 11, counted_ns: 10 });
    assert!(fault.to_string().contains("INV-LEDGER-SUM"));
}

#[test]
fn inv_ledger_order_verifier_reports_a_wrong_order() {
    let mut ledger = Ledger::new(4, 1000, 1);
    ledger.record(10, 20);
    ledger.record(30, 40);
    ledger.corrupt_order();
    let fault = ledger.verify().expect_err("the order is wrong");
    assert_eq!(fault, LedgerFault::Order { position: 1 });
    assert!(fault.to_string().contains("INV-LEDGER-ORDER"));
}

#[test]
fn inv_ledger_conservative_oracle_catches_a_lost_charge() {
    let mut ledger = Ledger::new(4, 1000, 1);
    let charges = [(10, 20), (30, 45)];
    charges.iter().for_each(|&(start, end)| _ = ledger.record(start, end));
    assert_eq!(ledger.used(50, 1000), naive_used(&charges, 50, 1000));
    ledger.forget_newest();
    assert!(ledger.used(50, 1000) < naive_used(&charges, 50, 1000));
}

#[test]
fn inv_until_exact_oracle_catches_each_wrong_answer() {
    type Wrong = fn(Decision) -> Decision;
    let wrong: [Wrong; 3] = [
        |d| match d {
            Decision::Run { budget_ns } => Decision::Run { budget_ns: budget_ns - 1 },
            wait => wait,
        },
        |d| match d {
            Decision::Run { budget_ns } => Decision::Run { budget_ns: budget_ns + 1 },
            wait => wait,
        },
        |d| match d {
            Decision::Wait { until_ns } => Decision::Wait { until_ns: until_ns + 1 },
            run => run,
        },
    ];
    for (number, wrong) in wrong.into_iter().enumerate() {
        check(50, |history: History| {
            let answer = |t| history.scheduler().decide(t);
            // A history whose answer is of the other kind has nothing to get wrong at its end, but where it waits the
            // grant after the wait is asked for as well.
            let concerned = number < 2 || matches!(answer(history.now), Decision::Wait { .. });
            answers_exactly(&history, |t| wrong(answer(t))) != concerned
        });
    }
}

#[test]
fn inv_gap_oracle_catches_a_forgotten_quantum() {
    for spread in [Spread::Eager, Spread::Even] {
        for forget in [false, true] {
            let scenario = scenario(spread, 70);
            let mut machine = Machine::new(&scenario);
            while machine.now < BEGIN + 30 * scenario.policy.window_ns {
                machine.event(|_, scheduler| {
                    if forget {
                        scheduler.ledger_mut().forget_newest();
                    }
                });
            }
            assert_eq!(gaps_are_kept(&machine.quanta, &scenario.policy), !forget, "{spread:?}");
        }
    }
}

#[test]
fn inv_share_oracle_catches_an_allowance_that_is_a_tenth_short() {
    for spread in [Spread::Eager, Spread::Even] {
        let policy = Policy { spread, ..Policy::DEFAULT };
        let scenario = Scenario { policy, tick_ns: policy.window_ns, ..scenario(spread, 70) };
        assert!(gets_its_share(&scenario, |_| ()));
        let short = scenario.policy.allowance_ns() / 10 * 9;
        assert!(!gets_its_share(&scenario, |s| _ = s.set_allowance(short)), "{spread:?}");
    }
}

/// The most GC time in the windows that end at a pause's end, and in the first one, if these are looked at.
fn at_edges(run: &Run, ends: bool, first: bool) -> Option<u64> {
    let used = |from: u64| {
        let until = from + run.window;
        run.pauses.iter().map(|p| p.end_ns.min(until).saturating_sub(p.start_ns.max(from))).sum::<u64>()
    };
    let ends = run.pauses.iter().filter(|_| ends).filter_map(|p| p.end_ns.checked_sub(run.window));
    let first = first.then_some(run.run.start_ns);
    let fits = |&from: &u64| from >= run.run.start_ns && from + run.window <= run.run.end_ns;
    ends.chain(first).filter(fits).map(used).max()
}

#[test]
fn inv_mmu_edges_brute_force_catches_a_missing_edge() {
    let differs = |run: &Run, ends, first| {
        at_edges(run, ends, first) != every_window(run, run.window, run.run.end_ns).into_iter().max()
    };
    let mut wrong = [0, 0];
    let seen = std::cell::RefCell::new(&mut wrong);
    check(1000, |run: Run| {
        let mut seen = seen.borrow_mut();
        seen[0] += u32::from(differs(&run, false, true));
        seen[1] += u32::from(differs(&run, true, false));
        !differs(&run, true, true)
    });
    assert!(
        wrong.iter().all(|&n| n > 0),
        "without the ends, without the first window: {wrong:?} runs differ"
    );
}

#[test]
fn inv_degrade_oracle_catches_an_allowance_that_stays_or_jumps() {
    let pacer = measured();
    type Allowance<'a> = &'a dyn Fn(u64, u64, u64, u64) -> u64;
    let right: Allowance<'_> = &|h, r, w, b| pacer.degrade_allowance(h, r, w, b);
    let stays: Allowance<'_> = &|_, _, _, base| base;
    let jumps: Allowance<'_> = &|h, r, w, b| if pacer.degrade_allowance(h, r, w, b) > b { w } else { b };
    // A cycle that needs a second more, and headrooms from nothing up to more than it allocates.
    let need = pacer.allocation_rate();
    let headrooms = || (0..=20).map(|i| need / 20 * i);
    let holds = |allowance: Allowance<'_>| {
        headrooms().all(|h| degrades_well(&pacer, allowance, (h, 999_999_999, 2_999_999)))
    };
    assert!(holds(right) && !holds(stays));
    // The jump is one byte wide: where the right answer first leaves the base.
    let (mut low, mut high) = (0, 4_000_000_000u64);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let above = right(middle, 1_000_000_000, 10_000_000, 3_000_000) > 3_000_000;
        (low, high) = if above { (middle, high) } else { (low, middle) };
    }
    assert!(high < 2_000_000_000, "within what the oracle looks at");
    assert!(degrades_well(&pacer, right, (high, 999_999_999, 2_999_999)));
    assert!(!degrades_well(&pacer, jumps, (high, 999_999_999, 2_999_999)));
}
