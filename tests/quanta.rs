//! What short quanta rest on, by counts: the sweep costs by regions and not by objects, an idle heap is left alone, a cycle
//! starts without the alarm's help, and every kind of step and every quantum is accounted for.
#![forbid(unsafe_code)]

use metronome_gc::testing::TestHeap;
use metronome_gc::{AllocError, Config, Gc, Heap, Mutator, Root, Slot, Trace};
use std::time::Duration;

#[derive(Trace)]
struct Small {
    next: Slot<Small>,
}

/// A cell of 4 KiB or so.
#[derive(Trace)]
struct Large {
    words: [u64; 500],
    next: Slot<Large>,
}

const REGION: usize = 64 << 10;

fn small<'m>(m: &'m Mutator<'_>, regions: usize) -> Gc<'m, Small> {
    let mut head = m.alloc(SmallInit { next: None }).unwrap();
    for _ in 0..regions * REGION / 16 {
        head = m.alloc(SmallInit { next: Some(head) }).unwrap();
    }
    head
}

fn large<'m>(m: &'m Mutator<'_>, regions: usize) -> Gc<'m, Large> {
    let mut head = m.alloc(LargeInit { words: [0; 500], next: None }).unwrap();
    for _ in 0..regions * REGION / 4096 {
        head = m.alloc(LargeInit { words: [1; 500], next: Some(head) }).unwrap();
        assert!(head.words[0] == 1);
    }
    head
}

/// Steps of the sweep of one cycle.
fn sweep_steps(heap: &TestHeap) -> usize {
    let steps = heap.steps(usize::MAX - 1);
    assert!(steps.done);
    steps.names.iter().filter(|&&name| name == "sweep").count()
}

fn heap() -> TestHeap {
    TestHeap::new(Config { heap: 64 << 20, ..Config::default() }.with("verify", "off").unwrap()).unwrap()
}

#[test]
fn a_sweep_costs_by_regions_not_by_objects() {
    const REGIONS: usize = 256;
    // The same memory full of small objects, some 250 times as many as large ones.
    let many = heap();
    let kept = many.enter(|m| Root::new(m, small(m, REGIONS)));
    let few = heap();
    let also = few.enter(|m| Root::new(m, large(m, REGIONS)));
    let (many_live, few_live) = (sweep_steps(&many), sweep_steps(&few));
    // A step for each region at most, and a handful for what else there is.
    assert!((REGIONS..=REGIONS + 16).contains(&many_live), "{many_live} steps for {REGIONS} regions");
    // Regions with few cells are swept sixteen at a time.
    assert!((REGIONS / 16..=REGIONS / 16 + 16).contains(&few_live), "{few_live} steps for {REGIONS} regions");
    // What is dead costs what is alive costs: no object is touched. All regions are given back by the same steps.
    drop((kept, also));
    let (many_dead, few_dead) = (sweep_steps(&many), sweep_steps(&few));
    assert!(many_dead <= many_live && few_dead <= few_live, "{many_dead} and {few_dead} steps");
    for heap in [&many, &few] {
        assert!(heap.used_bytes() < 4 * REGION as u64, "{} bytes are in use", heap.used_bytes());
    }
    // Regions that are free are passed over, sixteen at a time.
    let (many_empty, few_empty) = (sweep_steps(&many), sweep_steps(&few));
    let most = REGIONS / 16 + 16;
    assert!(many_empty <= most && few_empty <= most, "{many_empty} and {few_empty} steps");
}

#[test]
fn an_idle_heap_ticks_seldom_or_not_at_all() {
    for (suppress, every_ns) in [("false", Some(50_000_000)), ("true", None)] {
        let heap = Heap::builder()
            .set("suppress-idle-ticks", suppress)
            .set("memory-watch", "false")
            .build()
            .unwrap();
        std::thread::sleep(Duration::from_millis(600));
        let before = heap.stats();
        std::thread::sleep(Duration::from_millis(600));
        let after = heap.stats();
        assert_eq!(after.cycles, 0);
        let ticks = after.alarm_ticks - before.alarm_ticks;
        // By the time that has passed, not by the time that was asked for.
        let most = every_ns.map_or(0, |every: u64| (after.elapsed_ns - before.elapsed_ns) / every + 2);
        assert!(ticks <= most, "{ticks} ticks, at most {most} with suppress-idle-ticks={suppress}");
    }
}

#[test]
fn a_cycle_starts_in_time_though_nothing_ticks() {
    // More than the heap holds, after a silence; an alarm with the longest beat that the window allows.
    for suppress in ["false", "true"] {
        let heap = Heap::builder()
            .heap_bytes(8 << 20)
            .set("beat", "10ms")
            .set("suppress-idle-ticks", suppress)
            .build()
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let failed = heap.enter(|m| -> Result<u64, AllocError> {
            let mut failed = 0;
            for i in 0..40_000u64 {
                match m.alloc(LargeInit { words: [i; 500], next: None }) {
                    Ok(_) => {}
                    Err(AllocError::Exhausted { .. }) => failed += 1,
                    Err(e) => return Err(e),
                }
                m.safepoint();
            }
            Ok(failed)
        });
        // Some 160 MB through 8 MiB: at least that many cycles, and none of them because an allocation had failed is asked
        // for here, as the machine may take the collector's CPU away; but the program comes to its end.
        let failed = failed.unwrap();
        let stats = heap.stats();
        assert!(stats.cycles >= 18, "{} cycles, {failed} failed allocations", stats.cycles);
    }
}

#[test]
fn steps_and_quanta_are_all_accounted_for() {
    // Steps in which the heap is verified are not measured.
    let settings = [("quantum", "100us"), ("window", "1ms"), ("verify", "off")];
    let builder = Heap::builder().heap_bytes(16 << 20);
    let heap = settings.into_iter().fold(builder, |b, (name, value)| b.set(name, value)).build().unwrap();
    heap.enter(|m| {
        let kept = Root::new(m, small(m, 32));
        for _ in 0..3 {
            m.collect(metronome_gc::Collect::Cycle).unwrap();
        }
        assert!(!kept.get(m).next.is_null());
    });
    let counted =
        |stats: &metronome_gc::Stats| -> u64 { stats.step_kinds.iter().map(|k| k.cpu_ns.count).sum() };
    // A quantum is told some time after its release, when its last mutator has run on; its steps at once.
    let mut stats = heap.stats();
    for _ in 0..10_000 {
        if counted(&stats) == stats.steps {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        stats = heap.stats();
    }
    assert!(stats.cycles >= 3);
    assert_eq!(counted(&stats), stats.steps, "{:?}", stats.step_kinds);
    for kind in ["arm", "mark", "sweep", "end"] {
        assert!(stats.step_kinds.iter().any(|k| k.name == kind), "no step {kind}: {:?}", stats.step_kinds);
    }
    assert_eq!(stats.overshoot_ns.count + stats.synchronous_collections, stats.quanta);
    // The histogram's maximum is the one that is kept beside it, to three digits.
    assert!(stats.overshoot_ns.max.abs_diff(stats.over_budget_ns) <= stats.over_budget_ns / 500 + 1);
    assert_eq!(stats.collector_error_ppm.count, stats.cycles - 1, "the first cycle has no prediction");
}
