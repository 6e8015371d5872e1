//! What a quantum takes, to its very end, and what of that is put on the account of its windows.

use crate::common::*;
use metronome_gc::testing::{Cost, TimedHeap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Every window keeps the target, by the machine's account.
fn keeps_target(heap: &TimedHeap, c: &metronome_gc::Config) {
    let stops = heap.stops();
    let (used, at) = most_used(&charged_intervals(&stops, c.effective_stop_budget_ns()), c.window_ns);
    assert!(used <= c.allowance_ns(), "{used} ns in the window that ends with stop {at}: {:?}", stops[at]);
    // Windows are full but for the margins, so that what is not put on the account would show.
    assert!(used > c.allowance_ns() / 10 * 9, "{used} ns at most");
}

/// Stops that are given up, among others that are not: both stand in the same windows.
#[test]
fn a_stop_that_is_given_up_is_on_the_account() {
    for seed in 1..5 {
        let c = config("target-utilization", "70");
        let heap = TimedHeap::new(c.clone(), costs(seed, 30_000)).unwrap();
        run(&heap, seed, 200 * MS, |p| (p.misses, p.rate) = (25, 2));
        let stops = heap.stops();
        let given_up = stops.iter().filter(|s| s.cancelled).count();
        assert!(given_up >= 10 && stops.len() - given_up >= 50, "{given_up} of {}", stops.len());
        keeps_target(&heap, &c);
    }
}

/// The release is a large part of each quantum here.
#[test]
fn the_release_is_on_the_account() {
    let c = config("target-utilization", "70");
    let heap = TimedHeap::new(c.clone(), |name| Cost::own(if name == "release" { 40_000 } else { 12_000 }));
    let heap = heap.unwrap();
    run(&heap, 11, 200 * MS, |_| ());
    assert!(heap.cycles() > 0);
    keeps_target(&heap, &c);
}

/// A quantum of steps that are all of one length, in a margin that just holds the last of them and the release.
#[test]
fn no_step_begins_beyond_the_plan() {
    const RELEASE: u64 = 5_000;
    for step in [3_000, 11_000, 17_000, 29_000, 47_000] {
        let margin = step + RELEASE;
        let c = config("target-utilization", "70").with("resume-margin", &format!("{margin}ns")).unwrap();
        assert_eq!(c.effective_resume_margin_ns(), margin);
        let heap =
            TimedHeap::new(c.clone(), move |name| Cost::own(if name == "release" { RELEASE } else { step }))
                .unwrap();
        run(&heap, 12, 100 * MS, |_| ());
        let lengths: Vec<_> = heap.stops().iter().map(|s| s.end_ns - s.start_ns).collect();
        let longest = *lengths.iter().max().unwrap();
        assert!(longest <= c.quantum_ns, "steps of {step} ns: {longest}");
        // Nor is a step that fits left out.
        assert!(longest > c.quantum_ns - margin, "steps of {step} ns: {longest}");
    }
}

/// The margin follows the release within bounds: up after one quantum, down by and by.
#[test]
fn the_margin_follows_the_release() {
    const STEP: u64 = 10_000;
    let c = config("target-utilization", "70");
    let base = c.effective_resume_margin_ns();
    let slow = base * 3 / 2;
    let release = Arc::new(AtomicU64::new(slow));
    let now = Arc::clone(&release);
    let heap = TimedHeap::new(c.clone(), move |name| {
        Cost::own(if name == "release" { now.load(Relaxed) } else { STEP })
    })
    .unwrap();
    let lengths =
        |from: usize| -> Vec<u64> { heap.stops()[from..].iter().map(|s| s.end_ns - s.start_ns).collect() };
    run(&heap, 13, 100 * MS, |_| ());
    // The first one could not know.
    let longest = lengths(1).into_iter().max().unwrap();
    assert!(longest <= c.quantum_ns, "{longest}: the margin did not grow");
    assert!(longest + base / 2 > c.quantum_ns, "{longest}: the margin grew too far");
    release.store(STEP, Relaxed);
    // The excess loses a 64th with each quantum.
    run(&heap, 14, 400 * MS, |_| ());
    let all = lengths(0);
    let longest = all[all.len() - 30..].iter().max().unwrap();
    assert!(longest + base + base / 10 > c.quantum_ns, "{longest}: the margin did not shrink");
    assert!(longest + base <= c.quantum_ns + 2 * STEP, "{longest}: the margin shrank too far");
}
