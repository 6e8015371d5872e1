//! Adversarial programs in virtual time: what a step does is counted, not timed, and does not depend on the size of the heap, on
//! its age, or on how many threads there have been.
#![forbid(unsafe_code)]

use metronome_gc::testing::{Steps, TestHeap};
use metronome_gc::{Config, Ephemeron, Gc, GcArray, Global, Mutator, Root, Slot, Trace, Weak};
use std::collections::BTreeMap;

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

/// A cell of 1 KiB.
#[derive(Trace)]
struct Large {
    value: u64,
    rest: [u64; 126],
}

fn heap(mib: u64) -> TestHeap {
    // Work is counted here; a verifier at every edge would take most of the time.
    let config = Config { heap: mib << 20, ..Config::default() };
    TestHeap::new(config.with("verify", "heap,every=10").unwrap()).unwrap()
}

fn list(m: &Mutator<'_>, n: u64) -> Root<Node> {
    let mut head = m.alloc(NodeInit { value: 0, next: None }).unwrap();
    for value in 1..n {
        head = m.alloc(NodeInit { value, next: Some(head) }).unwrap();
    }
    Root::new(m, head)
}

fn whole(heap: &TestHeap) -> Steps {
    let steps = heap.steps(usize::MAX - 1);
    assert!(steps.done, "blocked after {} steps", steps.names.len());
    assert_eq!(heap.violations(), []);
    steps
}

/// The most units of a step, by name.
fn most(steps: &Steps) -> BTreeMap<&'static str, u32> {
    let mut most = BTreeMap::new();
    for (&name, &units) in steps.names.iter().zip(&steps.units) {
        let m = most.entry(name).or_insert(0);
        *m = units.max(*m);
    }
    most
}

/// Units that the table in `src/collector.rs` allows. What is longer than its units is an object with many slots, of which
/// there is none here; an array's slice of 64 slots and two leaves may be begun with one unit left.
fn allowed(name: &str) -> u32 {
    match name {
        "mark" => 127 + 1 + 64 + 2,
        "grey" => 64,
        "log" => 256,
        "roots" | "globals" | "softs" | "queued" | "revive" | "ephemerons" | "weak" | "finalizers"
        | "bury" => 32,
        "sweep" => 16,
        _ => 0,
    }
}

fn check(steps: &Steps) {
    for (name, units) in most(steps) {
        assert!(units <= allowed(name), "a step {name} of {units} units");
    }
}

/// Lists, an array, handles: all of a size that grows with `n`.
fn mixed(n: u64) -> Steps {
    let heap = heap(64);
    let globals = heap.enter(|m| {
        let array: Gc<'_, GcArray<Slot<Node>>> = m.alloc_slots(n as usize).unwrap();
        let all = list(m, n);
        let mut at = Some(all.get(m));
        let mut globals = Vec::new();
        for i in 0..n as usize {
            let node = at.expect("the list has n nodes");
            array.store(m, i, node);
            globals.push(Global::new(m, node));
            at = node.next.load(m);
        }
        globals.push(globals[0].clone());
        (globals, Global::new(m, array))
    });
    let steps = whole(&heap);
    drop(globals);
    steps
}

#[test]
fn a_step_is_as_long_in_a_heap_a_hundred_times_as_large() {
    let (small, large) = (mixed(1_000), mixed(100_000));
    check(&small);
    check(&large);
    // Counted, so that the bound is not kept by nothing being counted.
    assert!(most(&large)["sweep"] > 1);
    // How full a step of marks or of a sweep is depends on where it begins; the bounds are checked above.
    let others = |steps: &Steps| {
        most(steps).into_iter().filter(|&(name, _)| !["mark", "sweep"].contains(&name)).collect::<Vec<_>>()
    };
    assert_eq!(others(&small), others(&large));
    // The work grows with the heap and no faster.
    assert!(large.names.len() > 50 * small.names.len(), "{} and {}", small.names.len(), large.names.len());
    assert!(large.names.len() <= 101 * small.names.len(), "{} and {}", small.names.len(), large.names.len());
}

#[test]
fn a_step_is_as_long_in_the_hundredth_cycle() {
    let heap = heap(16);
    let mut cycles = Vec::new();
    for _ in 0..101 {
        let globals: Vec<_> = heap.enter(|m| {
            let keep = list(m, 5_000);
            list(m, 5_000);
            (0..500).map(|_| Global::new(m, keep.get(m))).collect()
        });
        cycles.push(whole(&heap));
        drop(globals);
    }
    check(&cycles[100]);
    assert_eq!(most(&cycles[1]), most(&cycles[100]));
    assert_eq!(cycles[1].names.len(), cycles[100].names.len());
}

#[test]
fn threads_that_come_and_go_leave_nothing_to_look_at() {
    let heap = heap(16);
    // Joined by its handle: a scope does not wait for the end of the thread's locals, with which its record goes.
    let thread = || {
        std::thread::scope(|s| {
            s.spawn(|| heap.enter(|m| assert_eq!(list(m, 3).get(m).value, 2))).join().unwrap();
        });
    };
    thread();
    whole(&heap);
    let before = whole(&heap).names;
    (0..2_000).for_each(|_| thread());
    whole(&heap);
    let after = whole(&heap).names;
    let others = |names: &[&'static str]| names.iter().copied().filter(|&n| n != "sweep").collect::<Vec<_>>();
    assert_eq!(others(&before), others(&after));
    // No cycle ran meanwhile, so all that the threads allocated, 32 bytes a node at most, lies side by side.
    let regions = (2_000 * 3 * 32_usize).div_ceil(64 << 10);
    assert!(after.len() - others(&after).len() <= regions, "{after:?}");
    assert_eq!(heap.used_bytes(), 0);
}

#[test]
fn a_long_list_needs_no_stack() {
    let heap = heap(128);
    let n = 1_000_000;
    let head = heap.enter(|m| {
        let root = list(m, n);
        Global::new(m, root.get(m))
    });
    let marked = std::thread::scope(|s| {
        let cycle = || {
            // Marking only: the verifier, which runs at its end, is allowed to take more.
            let steps = heap.steps(n as usize / 64);
            (steps.units.iter().map(|&u| u64::from(u)).sum::<u64>(), steps)
        };
        std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(s, cycle).unwrap().join().unwrap()
    });
    check(&marked.1);
    assert!(marked.0 > n / 2, "{} units", marked.0);
    whole(&heap);
    heap.enter(|m| {
        let (mut count, mut at) = (0, Some(head.get(m)));
        while let Some(node) = at {
            (count, at) = (count + 1, node.next.load(m));
        }
        assert_eq!(count, n);
    });
    drop(head);
    whole(&heap);
    assert_eq!(heap.used_bytes(), 0);
}

#[test]
fn one_survivor_in_each_region_costs_a_region_each_and_no_more() {
    const REGIONS: usize = 256;
    let heap = heap(REGIONS as u64 / 16);
    // Cells of 32 bytes; the region of an object is its address without the lower 16 bits.
    let survivors: Vec<Global<Node>> = heap.enter(|m| {
        let mut seen = std::collections::HashSet::new();
        let mut keep = Vec::new();
        while let Ok(node) = m.alloc(NodeInit { value: keep.len() as u64, next: None }) {
            if seen.insert(Gc::address(node) >> 16) && seen.len() % 2 == 0 {
                keep.push(Global::new(m, node));
            }
        }
        assert!(seen.len() > REGIONS * 9 / 10, "only {} regions could be filled", seen.len());
        keep
    });
    whole(&heap);
    assert_eq!(heap.used_bytes() % survivors.len() as u64, 0);
    assert!(heap.used_bytes() / survivors.len() as u64 <= 32, "{}", heap.used_bytes());
    // Another size class gets all regions without a survivor.
    let free = REGIONS - survivors.len();
    let got = heap.enter(|m| {
        let mut got = 0;
        while let Ok(large) = m.alloc(Large { value: got, rest: [got; 126] }) {
            assert_eq!((large.value, large.rest[125]), (got, got));
            got += 1;
        }
        got as usize
    });
    let size = size_of::<Large>() + 8;
    assert!(got * size > (free - 2) * 64 * 1024 * 15 / 16, "{got} objects in {free} regions");
    assert!(got * size <= free * 64 * 1024, "{got} objects in {free} regions: a survivor's region was used");
    heap.enter(|m| {
        for (i, s) in survivors.iter().enumerate() {
            assert_eq!(s.get(m).value, i as u64);
        }
    });
    drop(survivors);
    whole(&heap);
    assert_eq!(heap.used_bytes(), 0);
}

#[test]
fn a_storm_of_weak_references_clears_exactly_the_dead() {
    let heap = heap(64);
    let n = 100_000;
    let (roots, weaks): (Vec<_>, Vec<_>) = heap.enter(|m| {
        let pair = |i: u64| {
            let node = m.alloc(NodeInit { value: i, next: None }).unwrap();
            (i.is_multiple_of(3).then(|| Global::new(m, node)), Weak::new(m, node))
        };
        (0..n).map(pair).unzip()
    });
    let steps = whole(&heap);
    check(&steps);
    for (i, w) in weaks.iter().enumerate() {
        assert_eq!(w.is_cleared(), i % 3 != 0, "{i}");
    }
    let of_weak = steps.names.iter().filter(|&&s| s == "weak").count() as u64;
    assert_eq!(of_weak, n.div_ceil(32));
    drop(roots);
    whole(&heap);
    assert!(weaks.iter().all(Weak::is_cleared));
}

/// A chain in which the value of each ephemeron is the key of the next; the steps of a cycle that keeps it and how many are left
/// when the first key has gone.
fn ephemeron_chain(n: u64) -> (usize, usize) {
    let heap = heap(64);
    let (first, chain) = heap.enter(|m| {
        let mut key = m.alloc(NodeInit { value: 0, next: None }).unwrap();
        let first = Global::new(m, key);
        let mut chain = Vec::new();
        for value in 1..n {
            let next = m.alloc(NodeInit { value, next: None }).unwrap();
            chain.push(Ephemeron::new(m, key, next));
            key = next;
        }
        // The order in the table is the worst: the last comes first.
        chain.reverse();
        (first, chain)
    });
    let left = || heap.enter(|m| chain.iter().filter(|e| e.value(m).is_some()).count());
    let steps = whole(&heap);
    check(&steps);
    assert_eq!(left(), chain.len());
    drop(first);
    whole(&heap);
    (steps.names.len(), left())
}

#[test]
fn a_chain_of_ephemerons_takes_linear_work() {
    let (small, large) = (ephemeron_chain(1_000), ephemeron_chain(20_000));
    assert_eq!((small.1, large.1), (0, 0));
    assert!(large.0 <= 20 * small.0, "{} and {} steps", small.0, large.0);
}
