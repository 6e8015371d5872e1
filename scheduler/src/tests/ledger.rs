//! The ledger against a plain list.

use super::{Dice, check, within};
use crate::ledger::{Interval, Ledger};
use quickcheck::{Arbitrary, Gen};

#[derive(Debug, Clone)]
struct Charges {
    capacity: usize,
    retain: u64,
    list: Vec<(u64, u64)>,
}

impl Arbitrary for Charges {
    fn arbitrary(g: &mut Gen) -> Self {
        let retain = within(g, 10, 500);
        let mut dice = Dice::new(u64::arbitrary(g));
        let mut at = within(g, 0, 1000);
        let mut list = Vec::new();
        for _ in 0..within(g, 0, 80) {
            let start = at + dice.within(0, retain / 4);
            at = start + dice.within(1, retain / 3);
            list.push((start, at));
        }
        Charges { capacity: within(g, 2, 8) as usize, retain, list }
    }
}

pub(super) fn naive_used(list: &[(u64, u64)], now: u64, window: u64) -> u64 {
    let from = now.saturating_sub(window);
    // Nanosecond by nanosecond: no shared arithmetic with the ledger.
    (from..now).filter(|&t| list.iter().any(|&(s, e)| s <= t && t < e)).count() as u64
}

#[test]
fn inv_ledger_sum_equals_the_naive_sum() {
    fn property((charges, later, window): (Charges, u64, u64)) -> bool {
        let mut ledger = Ledger::new(200, charges.retain, 1);
        for (i, &(start, end)) in charges.list.iter().enumerate() {
            ledger.record(start, end);
            let now = end + later % (charges.retain + 5);
            let window = window % (charges.retain + 1);
            if ledger.used(now, window) != naive_used(&charges.list[..=i], now, window) {
                return false;
            }
        }
        ledger.verify().is_ok() && ledger.merges() == 0
    }
    check(300, property);
}

#[test]
fn inv_ledger_conservative_when_the_ring_overflows() {
    fn property((charges, later, window): (Charges, u64, u64)) -> bool {
        let mut ledger = Ledger::new(charges.capacity, charges.retain, 1);
        for (i, &(start, end)) in charges.list.iter().enumerate() {
            ledger.record(start, end);
            let now = end + later % (charges.retain + 5);
            let window = window % (charges.retain + 1);
            let exact = naive_used(&charges.list[..=i], now, window);
            let used = ledger.used(now, window);
            // Never less than the truth, never more than the gaps that were closed.
            if used < exact || used > exact + ledger.merged_gap_ns() || used > window {
                return false;
            }
            if ledger.len() > charges.capacity || ledger.verify().is_err() {
                return false;
            }
        }
        true
    }
    check(500, property);
}

#[test]
fn overflow_closes_the_smallest_gap() {
    let mut ledger = Ledger::new(3, 1000, 1);
    for (start, end) in [(0, 10), (50, 60), (65, 70), (100, 110)] {
        ledger.record(start, end);
    }
    assert_eq!((ledger.merges(), ledger.merged_gap_ns(), ledger.len()), (1, 5, 3));
    assert_eq!(ledger.used(110, 1000), 35 + 5);
    // The gap before the new interval may be the smallest.
    ledger.record(112, 120);
    assert_eq!((ledger.merges(), ledger.merged_gap_ns(), ledger.len()), (2, 7, 3));
    assert_eq!(ledger.used(120, 1000), 35 + 5 + 8 + 2);
    assert_eq!(ledger.used(120, 20), 20, "100..120 is one interval now");
}

#[test]
fn inv_ledger_order_survives_any_clock() {
    // Readings in no order at all. After each charge the window that ends "now" must hold at least the
    // charges of the calls whose lengths fit into it, newest first.
    fn property((readings, retain): (Vec<(u16, u16)>, u16)) -> bool {
        let (retain, unmeasured) = (u64::from(retain) + 10, 7);
        let mut ledger = Ledger::new(4, retain, unmeasured);
        for (start, end) in readings {
            let (start, end) = (u64::from(start), u64::from(end));
            let charged = ledger.record(start, end);
            let expected = if end > start { end - start } else { unmeasured };
            // Read at the moment of the charge's end, its whole length is in the window, whatever the clock.
            if charged != expected || ledger.used(end, expected.min(retain)) != expected.min(retain) {
                return false;
            }
            if ledger.verify().is_err() {
                return false;
            }
        }
        true
    }
    check(500, property);
}

#[test]
fn overlapping_charges_keep_their_full_length() {
    let mut ledger = Ledger::new(8, 1000, 1);
    ledger.record(100, 200);
    ledger.record(150, 250);
    // 200 ns of charges in what the clock calls 150 ns: the base moved by the 50 ns that were lost.
    assert_eq!(ledger.used(250, 1000), 200);
    assert_eq!(ledger.used(350, 150), 50);
    assert_eq!(ledger.clock_steps(), 1);
}

#[test]
fn intervals_overlap_by_definition() {
    fn property((a, b): ((u8, u8), (u8, u8))) -> bool {
        let interval = Interval::new(a.0.into(), a.1.into());
        let naive = (0..256u64).filter(|&t| {
            u64::from(a.0) <= t && t < u64::from(a.1) && u64::from(b.0) <= t && t < u64::from(b.1)
        });
        interval.overlap_ns(b.0.into(), b.1.into()) == naive.count() as u64
    }
    check(500, property);
}
