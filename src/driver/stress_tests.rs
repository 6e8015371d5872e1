//! Stress modes in a driver without threads, whose clock stands still: only the mode can end a quantum early.

use super::Driver;
use crate::config::Config;
use crate::reason::{CycleReason, SyncReason};
use metronome_alarm::Clock;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Steps of each quantum of one cycle.
fn cycle(stress: &str, synchronous: Option<SyncReason>) -> Vec<u64> {
    let config = Config { heap: 16 << 20, ..Config::default() }.with("stress", stress).unwrap();
    let clock = Clock::manual();
    let shared = Arc::new(crate::heap::build_shared(config, clock.clock()).unwrap().0);
    let (recorder, _drain) = crate::events::ring(64);
    let mut driver = Driver::new(Arc::clone(&shared), recorder, false, false);
    driver.start_cycle(0, CycleReason::Explicit);
    let mut quanta = Vec::new();
    let mut before = 0;
    while driver.cycle.open {
        driver.quantum(500_000, 0, synchronous);
        let steps = shared.step_times.snapshot().count;
        quanta.push(steps - before);
        before = steps;
        // Relaxed: one thread.
        assert_eq!(shared.counts.quanta.load(Relaxed), quanta.len() as u64);
    }
    quanta
}

#[test]
fn a_quantum_takes_exactly_as_many_steps_as_the_mode_says() {
    let whole = cycle("none", None);
    assert_eq!(whole.len(), 1, "{whole:?}");
    assert!(whole[0] > 4, "{whole:?}");
    for n in [1, 3] {
        let quanta = cycle(&format!("steps={n}"), None);
        let (last, full) = quanta.split_last().unwrap();
        assert!(full.iter().all(|steps| *steps == n) && (1..=n).contains(last), "{quanta:?}");
        assert_eq!(quanta.iter().sum::<u64>(), whole[0]);
    }
}

#[test]
fn random_steps_are_repeated_by_their_seed_and_synchronous_quanta_are_left_alone() {
    let random = cycle("steps=random,seed=5", None);
    assert_eq!(random, cycle("steps=random,seed=5", None));
    assert_eq!(cycle("steps=1", Some(SyncReason::OutOfMemory)).len(), 1);
}
