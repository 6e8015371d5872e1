//! Stress modes in a driver without threads, whose clock stands still: only the mode can end a quantum early.

use super::{Driver, Round};
use crate::config::Config;
use crate::reason::{CycleReason, SyncReason};
use metronome_alarm::{Clock, ManualClock};
use metronome_barrier::Phase;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A driver whose cycle has begun, and its clock. Nobody listens to its events.
fn begun(stress: &str) -> (Driver, ManualClock) {
    let config = Config { heap: 16 << 20, ..Config::default() }.with("stress", stress).unwrap();
    let clock = Clock::manual();
    let shared = Arc::new(crate::heap::build_shared(config, clock.clock()).unwrap().0);
    let (recorder, _drain) = crate::events::ring(64);
    let mut driver = Driver::new(shared, recorder, false);
    driver.start_cycle(0, CycleReason::Explicit);
    (driver, clock)
}

/// Steps of each quantum of one cycle.
fn cycle(stress: &str, synchronous: Option<SyncReason>) -> Vec<u64> {
    let (mut driver, _clock) = begun(stress);
    let shared = Arc::clone(&driver.shared);
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

/// Phases at the beginning of each quantum of one cycle, and at its end.
fn phases(stress: &str) -> Vec<(Phase, Phase)> {
    let (mut driver, _clock) = begun(stress);
    let shared = Arc::clone(&driver.shared);
    let mut out = Vec::new();
    while driver.cycle.open {
        let before = shared.phase.get();
        driver.quantum(500_000, 0, None);
        out.push((before, shared.phase.get()));
    }
    out
}

#[test]
fn under_yield_each_quantum_has_one_switch_of_the_phase_and_it_is_its_first_step() {
    let all: Vec<Phase> = (0..7).filter_map(Phase::from_u8).collect();
    let each: Vec<_> = all.iter().map(|p| (*p, p.next())).collect();
    assert_eq!(phases("yield"), each);
    assert_eq!(phases("yield=sweep"), [(Phase::Idle, Phase::Phantom), (Phase::Phantom, Phase::Idle)]);
    assert_eq!(phases("none"), [(Phase::Idle, Phase::Idle)]);
    // Each step is the first one of a quantum: none is put off, and there are as many as without the mode.
    assert_eq!(cycle("steps=1,yield", None), cycle("steps=1", None));
    // One is put off before each switch but the first, and then taken.
    let (yields, whole) = (cycle("yield", None), cycle("none", None));
    assert_eq!(yields.iter().sum::<u64>(), whole[0] + 6);
}

#[test]
fn under_yield_the_next_quantum_waits_until_all_who_were_stopped_have_run_on() {
    let (mut driver, clock) = begun("yield");
    let shared = Arc::clone(&driver.shared);
    driver.quantum(500_000, 0, None);
    // One that was stopped has not run on.
    // Relaxed, here and below: one thread.
    shared.paused.fetch_add(1, Relaxed);
    for _ in 0..100 {
        clock.advance(10_000_000);
        assert!(matches!(driver.round(), Round::Sleep(Some(_))));
    }
    assert_eq!(shared.counts.quanta.load(Relaxed), 1);
    shared.paused.fetch_sub(1, Relaxed);
    assert_eq!(driver.round(), Round::Ran);
    assert_eq!(shared.counts.quanta.load(Relaxed), 2);
}
