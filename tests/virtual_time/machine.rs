//! A preempted collector, a host that takes CPUs away, mutators that come late or never, a full event ring.

use crate::common::*;
use metronome_gc::testing::{Cost, TimedHeap};
use std::sync::mpsc::channel;

#[test]
fn a_preemption_of_50_ms_breaks_wall_windows_keeps_charged_ones_and_is_paid_back() {
    let c = config("target-utilization", "70");
    let (mut steps, mut cost) = (0, costs(3, 30_000));
    let heap = TimedHeap::new(c.clone(), move |name| {
        steps += 1;
        Cost { stolen_ns: if steps == 40 { 50 * MS } else { 0 }, ..cost(name) }
    })
    .unwrap();
    run(&heap, 3, 400 * MS, |_| ());
    let (stops, stats) = (heap.stops(), heap.stats());
    let hit = stops.iter().position(|s| s.taken_ns > 0).unwrap();
    let budget = c.effective_stop_budget_ns();
    assert!(most_used(&charged_intervals(&stops, budget), c.window_ns).0 <= c.allowance_ns());
    let wall: Vec<_> = stops.iter().map(|s| (s.start_ns, s.end_ns)).collect();
    assert_eq!(most_used(&wall, c.window_ns).0, c.window_ns, "a window without any mutator");
    assert_eq!(stats.violations, 0);
    // One window ends with that quantum; the debt is paid back before another one does.
    assert_eq!(stats.violations_wall, 1);
    assert_eq!(stats.system_took_ns, 50 * MS);
    // The window is full of it: nothing until the mutators have had their share of one.
    let pause = stops[hit + 1].start_ns - stops[hit].end_ns;
    assert!(pause >= c.window_ns - c.allowance_ns(), "{pause} ns after it");
    assert!(stats.cycles > 0);
}

/// In a step, or while the mutators are woken.
#[test]
fn what_the_cpu_clock_shows_and_no_step_can_take_is_told_apart() {
    for in_release in [false, true] {
        told_apart(in_release);
    }
}

fn told_apart(in_release: bool) {
    let c = config("target-utilization", "70");
    let (mut calls, mut cost) = (0, costs(3, 30_000));
    let heap = TimedHeap::new(c.clone(), move |name| {
        let here = (name == "release") == in_release;
        calls += u32::from(here);
        let hidden_ns = if here && calls == 5 { 5 * MS } else { 0 };
        Cost { hidden_ns, ..cost(name) }
    })
    .unwrap();
    run(&heap, 3, 300 * MS, |_| ());
    let (stops, stats) = (heap.stops(), heap.stats());
    let taken: u64 = stops.iter().map(|s| s.taken_ns).sum();
    assert_eq!((taken, stats.interrupted_steps), (5 * MS, 1));
    // The ceiling of a step is 200 µs: what is above it is left out, and the rest is the collector's.
    assert!(stats.interrupted_ns <= 5 * MS && stats.interrupted_ns >= 5 * MS - 200_000, "{stats:?}");
    let own: u64 = stops.iter().map(|s| s.stop_ns + s.own_ns).sum();
    assert_eq!(stats.collector_ns, own + 5 * MS - stats.interrupted_ns);
}

#[test]
fn one_that_never_polls_is_named_charged_and_costs_ever_less() {
    let c = config("target-utilization", "70");
    let heap = TimedHeap::new(c.clone(), costs(4, 30_000)).unwrap();
    let name = std::thread::current().name().unwrap().to_owned();
    heap.enter(|m| {
        let mut p = Program::new(m, 4);
        // Few enough that the heap does not run full.
        (p.rate, p.arrives) = (1, None);
        heap.request_cycle();
        heap.run(m, 400 * MS, &mut p);
        let (stops, stats) = (heap.stops(), heap.stats());
        assert!(stops.len() >= 8 && stops.iter().all(|s| s.cancelled && s.steps == 0), "{stops:?}");
        assert_eq!(stats.stops_cancelled, stops.len() as u64);
        assert_eq!(stats.stragglers, [(name.clone(), stops.len() as u64)]);
        assert_eq!((stats.cycles, stats.quanta), (0, 0));
        let waited: u64 = stops.iter().map(|s| s.stop_ns).sum();
        assert_eq!(stats.collector_ns, waited);
        // One look at the clock beyond its budget at most.
        assert!(stops.iter().all(|s| s.stop_ns <= c.effective_stop_budget_ns() + 1_000), "{stops:?}");
        for (k, two) in stops.windows(2).enumerate() {
            let pause = two[1].start_ns - two[0].end_ns;
            assert!(pause >= c.beat_ns << k.min(6), "{pause} ns after cancelled stop {k}");
        }
        assert!(
            most_used(&charged_intervals(&stops, c.effective_stop_budget_ns()), c.window_ns).0
                <= c.allowance_ns()
        );
        // It polls again: the cycle ends.
        p.arrives = Some(0);
        heap.run(m, 200 * MS, &mut p);
        assert!(heap.cycles() > 0);
        p.check(m);
    });
}

#[test]
fn a_thread_that_stands_still_inside_holds_up_the_cycle_and_is_named() {
    let heap = TimedHeap::new(config("target-utilization", "70"), costs(6, 30_000)).unwrap();
    let (inside, told) = channel();
    let (go, gone) = channel::<()>();
    std::thread::scope(|s| {
        let heap = &heap;
        let stands = move || {
            heap.enter(|_m| {
                inside.send(()).unwrap();
                gone.recv().unwrap();
            });
        };
        let t = std::thread::Builder::new().name("statue".into()).spawn_scoped(s, stands).unwrap();
        told.recv().unwrap();
        heap.enter(|m| {
            let mut p = Program::new(m, 6);
            p.rate = 1;
            heap.request_cycle();
            heap.run(m, 50 * MS, &mut p);
            let stats = heap.stats();
            assert!(stats.stops_cancelled > 0 && stats.cycles == 0);
            assert!(stats.stragglers.iter().any(|(name, _)| name == "statue"), "{:?}", stats.stragglers);
            go.send(()).unwrap();
        });
        t.join().unwrap();
        run(heap, 6, 100 * MS, |p| p.rate = 1);
    });
    assert!(heap.cycles() > 0);
}

#[test]
fn a_full_event_ring_loses_events_says_how_many_and_the_figures_stay_exact() {
    let c = config("event-ring", "64");
    let heap = TimedHeap::new(c.clone(), costs(7, 30_000)).unwrap();
    run(&heap, 7, 300 * MS, |p| p.arrives = Some(30_000));
    let (stops, stats) = (heap.stops(), heap.stats());
    assert!(stops.len() > 64, "{} stops", stops.len());
    // Each quantum is an event, and so is each cycle's start and end.
    assert!(stats.lost_events >= stops.len() as u64 - 64, "{}", stats.lost_events);
    let charged = charged_intervals(&stops, c.effective_stop_budget_ns());
    assert_eq!(stats.quanta, stops.len() as u64);
    assert_eq!(stats.cycles, heap.cycles());
    assert_eq!(stats.collector_ns, charged.iter().map(|(a, b)| b - a).sum::<u64>());
}
