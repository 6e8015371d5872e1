//! The oracles have teeth: a broken protection is reported by the oracle that guards it.

use super::sim::{BEGIN, Faults, Machine, Scenario, broken_window};
use crate::ledger::{Ledger, LedgerFault};
use crate::policy::{Policy, Spread};

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
