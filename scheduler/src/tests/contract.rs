//! The contract functions against exact rational search, each other, and worked numbers.

use super::{check, within};
use crate::contract::{
    Contract, ContractError, average_utilization, heap_for_utilization, usable_bytes, utilization_for_heap,
};
use quickcheck::{Arbitrary, Gen};

impl Arbitrary for Contract {
    fn arbitrary(g: &mut Gen) -> Self {
        Contract {
            live_bytes: within(g, 1 << 16, 1 << 36),
            allocation_rate: within(g, 1 << 16, 1 << 32),
            trace_rate: within(g, 1 << 26, 1 << 33),
            sweep_rate: within(g, 1 << 30, 1 << 37),
            fragmentation_ppm: within(g, 0, 300_000) as u32,
        }
    }
}

/// `H >= (1+f)(m + 2 a u/(1-u) (m/R + H/S))` with everything multiplied out, in floating point with a
/// relative tolerance: an oracle that shares no arithmetic with the crate.
fn suffices(c: &Contract, heap: f64, u: f64) -> bool {
    let time = c.live_bytes as f64 / c.trace_rate as f64 + heap / c.sweep_rate as f64;
    let allocation = c.allocation_rate as f64 * time * u / (1.0 - u);
    heap >= (1.0 + f64::from(c.fragmentation_ppm) / 1e6) * (c.live_bytes as f64 + 2.0 * allocation)
}

#[test]
fn the_heap_suffices_and_is_the_least() {
    fn property((c, u): (Contract, u32)) -> bool {
        let ppm = u % 1_000_000;
        let u = f64::from(ppm) / 1e6;
        match heap_for_utilization(&c, ppm) {
            // Roundings up: one byte of at least 65 536 live ones, which scales with the heap, and three more.
            Ok(heap) => {
                suffices(&c, heap as f64 * 1.000_001, u) && !suffices(&c, heap as f64 * 0.999_9 - 3.0, u)
            }
            Err(ContractError::NoHeapSuffices) => {
                let k = c.allocation_rate as f64 * u / (1.0 - u);
                2.0 * k * (1.0 + f64::from(c.fragmentation_ppm) / 1e6) > c.sweep_rate as f64 * 0.999_999
            }
            Err(_) => false,
        }
    }
    check(3000, property);
}

#[test]
fn heap_and_utilization_are_inverse() {
    // Exact but for roundings: a few bytes in the heap, one part per million in the utilization.
    const BYTES: u64 = 8;
    check(3000, |(c, u, extra): (Contract, u32, u32)| {
        let ppm = u % 1_000_000;
        let Ok(heap) = heap_for_utilization(&c, ppm) else { return true };
        let utilization = |heap| utilization_for_heap(&c, heap).unwrap_or(0);
        let there = utilization(heap - BYTES) <= ppm + 1 && ppm <= utilization(heap + BYTES) + 1;

        let heap = heap.saturating_add(u64::from(extra));
        let u = utilization(heap);
        let needs_less =
            heap_for_utilization(&c, u.saturating_sub(1)).is_ok_and(|least| least <= heap + BYTES);
        let more = heap_for_utilization(&c, (u + 2).min(999_999));
        let needs_more = u + 2 > 999_999 || more.is_err() || more.is_ok_and(|least| least + BYTES >= heap);
        there && needs_less && needs_more
    });
}

#[test]
fn worked_numbers() {
    let c = |trace_rate| Contract {
        live_bytes: 100_000_000,
        allocation_rate: 100_000_000,
        trace_rate,
        sweep_rate: 1 << 50,
        fragmentation_ppm: 0,
    };
    for (u, factor) in [(500_000, 140), (700_000, 193), (850_000, 326)] {
        let heap = heap_for_utilization(&c(500_000_000), u).expect("feasible");
        assert_eq!(heap / 1_000_000, factor, "u = {u} ppm, in percent of the live data");
    }
    assert_eq!(utilization_for_heap(&c(500_000_000), 200_000_000), Ok(714_285));
    assert_eq!(utilization_for_heap(&c(1_800_000_000), 200_000_000), Ok(899_999));
    let still = Contract { allocation_rate: 0, ..c(500_000_000) };
    assert_eq!(utilization_for_heap(&still, 200_000_000), Ok(1_000_000));
    assert_eq!(heap_for_utilization(&still, 999_999), Ok(100_000_000));
}

#[test]
fn trigger_cycle_and_average() {
    let c = Contract {
        live_bytes: 100_000_000,
        allocation_rate: 100_000_000,
        trace_rate: 500_000_000,
        sweep_rate: 10_000_000_000,
        fragmentation_ppm: 250_000,
    };
    // T = 0.2 s + 0.05 s; at u = 1/2 as much mutator time, in which 25 MB are allocated.
    assert_eq!(c.cycle_ns(500_000_000), 250_000_000);
    assert_eq!(c.cycle_allocation(500_000_000, 500_000), Ok(25_000_000));
    assert_eq!(c.trigger_bytes(500_000_000, 500_000), Ok(375_000_000));
    // From 100 MB to 375 MB takes 2.75 s of mutator time per 0.25 s of collector time.
    assert_eq!(average_utilization(&c, 500_000_000, 500_000), Ok(Some(916_666)));
    assert_eq!(average_utilization(&c, 180_000_000, 900_000), Ok(None));
    assert_eq!(usable_bytes(500_000_000, 250_000), 400_000_000);
}

#[test]
fn bad_input_is_a_typed_error() {
    let c = Contract {
        live_bytes: 1000,
        allocation_rate: 1000,
        trace_rate: 1000,
        sweep_rate: 1000,
        fragmentation_ppm: 100_000,
    };
    assert_eq!(heap_for_utilization(&Contract { trace_rate: 0, ..c }, 1), Err(ContractError::RateZero));
    assert_eq!(utilization_for_heap(&Contract { sweep_rate: 0, ..c }, 9999), Err(ContractError::RateZero));
    let whole = ContractError::Utilization { utilization_ppm: 1_000_000 };
    assert_eq!(heap_for_utilization(&c, 1_000_000), Err(whole));
    assert_eq!(heap_for_utilization(&c, 500_000), Err(ContractError::NoHeapSuffices));
    let Err(ContractError::HeapBelowLive { least_heap_bytes }) = utilization_for_heap(&c, 1000) else {
        panic!("the heap does not hold the live data")
    };
    assert!(utilization_for_heap(&c, least_heap_bytes).is_ok());
    assert!(utilization_for_heap(&c, least_heap_bytes - 1).is_err());
    let huge = Contract { live_bytes: u64::MAX, allocation_rate: u64::MAX, trace_rate: 1, ..c };
    assert_eq!(heap_for_utilization(&huge, 999_999), Err(ContractError::TooLarge));
    assert!(utilization_for_heap(&Contract { live_bytes: 5, ..huge }, u64::MAX).is_ok());
}
