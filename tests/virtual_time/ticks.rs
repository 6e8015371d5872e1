//! Late, lost, doubled and backward ticks, and a clock that goes back.

use crate::common::*;
use metronome_gc::Config;
use metronome_gc::testing::TimedHeap;
use quickcheck::QuickCheck;

/// The most charged time in any window against the allowance and what the window's last stop may have overrun.
fn keeps_target(heap: &TimedHeap, c: &Config, slack: impl Fn(u64) -> u64) {
    let stops = heap.stops();
    let budget = c.effective_stop_budget_ns();
    let (used, at) = most_used(&charged_intervals(&stops, budget), c.window_ns);
    let most = c.allowance_ns() + slack(stops[at].longest_ns);
    assert!(used <= most, "{used} ns in the window that ends with stop {at}: {:?}", stops[at]);
}

/// Some runs; `QUICKCHECK_TESTS` asks for more.
fn check<T: quickcheck::Testable>(property: T) {
    let tests = std::env::var("QUICKCHECK_TESTS").ok().and_then(|v| v.parse().ok()).unwrap_or(4);
    QuickCheck::new().tests(tests).quickcheck(property);
}

#[test]
fn every_window_keeps_the_target_under_all_tick_faults() {
    fn holds(seed: u64, target: u8, even: bool, most: u16) -> bool {
        let target = 50 + u32::from(target) % 41;
        let c = config("target-utilization", &target.to_string())
            .with("spread", if even { "even" } else { "eager" })
            .unwrap();
        // A step and the release fit into the margin, so there is no overrun at all.
        let most = 1_000 + u64::from(most) % (c.effective_resume_margin_ns() * 10 / 11 - 1_000);
        let heap = TimedHeap::new(c.clone(), costs(seed, most)).unwrap();
        run(&heap, seed, 150 * MS, |p| {
            (p.tick_faults, p.timer_late, p.arrives) = (50, 200_000, Some(20_000));
        });
        keeps_target(&heap, &c, |_| 0);
        let stops = heap.stops();
        // A quantum obeys its budget, which is at most the configured one.
        assert!(stops.iter().all(|s| s.end_ns - s.start_ns <= c.quantum_ns), "{stops:?}");
        assert!(heap.cycles() > 0, "no cycle has ended");
        assert_eq!(heap.stats().violations, 0);
        true
    }
    check(holds as fn(u64, u8, bool, u16) -> bool);
}

#[test]
fn steps_longer_than_the_margin_overrun_by_one_of_them_at_most() {
    fn holds(seed: u64) -> bool {
        let c = config("target-utilization", "70");
        let heap = TimedHeap::new(c.clone(), costs(seed, 120_000)).unwrap();
        run(&heap, seed, 300 * MS, |p| p.tick_faults = 50);
        keeps_target(&heap, &c, |longest| longest + 12_000);
        for s in heap.stops() {
            assert!(s.end_ns - s.start_ns <= c.quantum_ns + s.longest_ns + 12_000, "{s:?}");
        }
        heap.cycles() > 0
    }
    check(holds as fn(u64) -> bool);
}

#[test]
fn the_reporter_agrees_with_the_machine() {
    fn holds(seed: u64) -> bool {
        let c = config("target-utilization", "70");
        let heap = TimedHeap::new(c.clone(), costs(seed, 60_000)).unwrap();
        run(&heap, seed, 120 * MS, |p| (p.tick_faults, p.arrives) = (30, Some(30_000)));
        let (mut stops, stats) = (heap.stops(), heap.stats());
        assert_eq!(stats.quanta, stops.len() as u64);
        // The last one is told when its mutators have run on.
        if stats.quantum_cpu_ns.count < stats.quanta {
            stops.pop();
        }
        assert_eq!(stats.quantum_cpu_ns.count, stops.len() as u64);
        let charged = charged_intervals(&stops, c.effective_stop_budget_ns());
        for m in &stats.mmu {
            let (used, _) = most_used(&charged, m.window_ns);
            let ppm = u128::from(m.window_ns - used) * 1_000_000 / u128::from(m.window_ns);
            assert_eq!(m.charged_ppm.map(u128::from), Some(ppm), "window {}", m.window_ns);
        }
        assert_eq!(stats.steps, stops.iter().map(|s| s.steps).sum::<u64>());
        // The histogram keeps three digits.
        let longest = stops.iter().map(|s| s.end_ns - s.start_ns).max().unwrap();
        assert!(stats.pause_ns.max.abs_diff(longest) <= longest / 500, "{} {longest}", stats.pause_ns.max);
        true
    }
    check(holds as fn(u64) -> bool);
}

#[test]
fn a_clock_that_goes_back_costs_the_collector_and_wraps_nothing() {
    fn holds(seed: u64) -> bool {
        let c = config("target-utilization", "70");
        let heap = TimedHeap::new(c.clone(), costs(seed, 30_000)).unwrap();
        run(&heap, seed, 150 * MS, |p| (p.tick_faults, p.clock_back) = (20, true));
        keeps_target(&heap, &c, |_| 0);
        let stats = heap.stats();
        // Nothing is longer than the run.
        assert!(stats.pause_ns.max < 250 * MS && stats.collector_ns < 250 * MS, "{stats:?}");
        // (Violations are by the readings of this clock, in which pauses overlap: more of them may be told, never fewer.)
        stats.cycles > 0
    }
    check(holds as fn(u64) -> bool);
}

/// A step back in the middle of a quantum makes it look shorter: what the clock hides is beyond the plan, no more.
#[test]
fn a_clock_that_goes_back_inside_a_quantum_hides_what_it_goes_back() {
    let c = config("target-utilization", "70");
    let mut steps = 0;
    let mut cost = costs(5, 30_000);
    let heap = TimedHeap::new(c.clone(), move |name| {
        steps += 1;
        let back_ns = if steps % 97 == 0 { 700_000 } else { 0 };
        metronome_gc::testing::Cost { back_ns, ..cost(name) }
    })
    .unwrap();
    run(&heap, 5, 300 * MS, |_| ());
    let stops = heap.stops();
    assert!(stops.iter().any(|s| s.back_ns > 0));
    let hidden_in = |end: u64| {
        let inside = stops.iter().filter(|s| s.end_ns > end - c.window_ns && s.start_ns <= end);
        inside.map(|s| s.back_ns).sum::<u64>()
    };
    let all = charged_intervals(&stops, c.effective_stop_budget_ns());
    for &(_, end) in all.iter().filter(|(_, end)| *end >= BEGIN + c.window_ns) {
        let used: u64 = all.iter().map(|&(a, b)| b.min(end).saturating_sub(a.max(end - c.window_ns))).sum();
        assert!(used <= c.allowance_ns() + hidden_in(end), "{used} ns in the window that ends at {end}");
    }
    let stats = heap.stats();
    assert!(stats.cycles > 0 && stats.pause_ns.max < 10 * MS && stats.collector_ns < 400 * MS, "{stats:?}");
}

#[test]
fn a_clock_that_goes_back_is_an_event_and_cycles_go_on() {
    let log = std::env::temp_dir().join(format!("metronome-back-{}", std::process::id()));
    let heap = TimedHeap::new(config("verbose-gc", log.to_str().unwrap()), costs(8, 30_000)).unwrap();
    run(&heap, 8, 30 * MS, |_| ());
    let before = heap.cycles();
    heap.clock().rewind(200 * MS);
    heap.request_cycle();
    run(&heap, 8, 100 * MS, |_| ());
    assert!(heap.cycles() > before);
    let stats = heap.stats();
    assert_eq!(stats.violations, 0);
    drop(heap);
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert_eq!(text.matches("CLOCK_MONOTONIC").count(), 1, "{text}");
}

#[test]
fn without_any_tick_the_collectors_own_timer_keeps_cycles_going() {
    let c = config("target-utilization", "70");
    let heap = TimedHeap::new(c.clone(), costs(1, 30_000)).unwrap();
    let failed = run(&heap, 1, 500 * MS, |p| p.lost = true);
    assert!(heap.cycles() >= 3, "{} cycles", heap.cycles());
    assert_eq!(failed, 0, "the program ran out of memory");
    keeps_target(&heap, &c, |_| 0);
}

/// The oracle has teeth: one stop that is moved next to the one before breaks a window.
#[test]
fn the_oracle_notices_a_stop_that_came_too_early() {
    let c = config("target-utilization", "70");
    let heap = TimedHeap::new(c.clone(), costs(2, 30_000)).unwrap();
    run(&heap, 2, 100 * MS, |_| ());
    let mut all = charged_intervals(&heap.stops(), c.effective_stop_budget_ns());
    // The windows are full: the plan stays a margin below the allowance.
    let (used, at) = most_used(&all, c.window_ns);
    assert!(used <= c.allowance_ns() && used > c.allowance_ns() / 10 * 9, "{used}");
    // The fullest window, with a stop more in a gap.
    let (start, end) = all[at];
    all.insert(at, (start - (end - start).max(300_000), start));
    assert!(most_used(&all, c.window_ns).0 > c.allowance_ns());
}
