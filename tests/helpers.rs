//! Marking by several threads, on heaps with threads of their own: mutators that move what they hold from object to object,
//! and arrays, while helpers mark; with every check of the verifier at the edges of phases, and the program's own account
//! of what must be there.
#![forbid(unsafe_code)]

use metronome_gc::{Collect, Ephemeron, Gc, GcArray, Global, Heap, Mutator, Payload, Slot, Trace};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[derive(Trace)]
struct Node {
    id: u64,
    left: Slot<Node>,
    right: Slot<Node>,
}

/// A complete tree of this depth; ids as in a binary heap.
fn tree<'m>(m: &'m Mutator<'_>, id: u64, depth: u32) -> Option<Gc<'m, Node>> {
    let child = |id| if depth == 0 { None } else { tree(m, id, depth - 1) };
    let (left, right) = (child(2 * id), child(2 * id + 1));
    m.alloc(NodeInit { id, left, right }).ok()
}

/// Number of objects and sum of ids, found by a walk that knows nothing of the collector.
fn account(m: &Mutator<'_>, node: Option<Gc<'_, Node>>) -> (u64, u64) {
    let mut stack = Vec::from_iter(node);
    let mut sum = (0, 0);
    while let Some(n) = stack.pop() {
        sum = (sum.0 + 1, sum.1 + n.id);
        stack.extend(n.left.load(m).into_iter().chain(n.right.load(m)));
    }
    sum
}

/// Swaps the children of the nodes on a random way down a complete tree; makes garbage, for the next cycle.
fn swap_down<'m>(m: &'m Mutator<'_>, mut at: Gc<'m, Node>, depth: u32, x: &mut u64) {
    for _ in 0..depth {
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        let right = at.right.swap(m, at.left.load(m));
        at.left.store(m, right);
        let _ = m.alloc(NodeInit { id: *x, left: right, right: None });
        let next = if *x & 1 == 0 { &at.left } else { &at.right };
        at = next.load(m).expect("the tree is complete");
    }
}

fn heap(threads: &str, verify: &str) -> Heap {
    let set = |b: metronome_gc::HeapBuilder| b.set("gc-threads", threads).set("verify", verify);
    set(Heap::builder().heap_bytes(48 << 20).target_utilization(50)).build().expect("a heap")
}

/// Two mutators swap the children of the nodes on random ways down, each in its own tree, while cycles run one after the other.
fn swapping(threads: &str) {
    const DEPTH: u32 = 12;
    let heap = heap(threads, "all,every=3");
    let expected = {
        let n = (1u64 << (DEPTH + 1)) - 1;
        (n, n * (n + 1) / 2)
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (heap, done) = (&heap, &done);
        for seed in 1..3u64 {
            scope.spawn(move || {
                heap.enter(|m| {
                    let top = Global::new(m, tree(m, 1, DEPTH).expect("room"));
                    let mut x = seed * 0x9E37_79B9;
                    while !done.load(Relaxed) {
                        for _ in 0..200 {
                            swap_down(m, top.get(m), DEPTH, &mut x);
                            m.poll();
                        }
                        m.safepoint();
                    }
                    assert_eq!(account(m, Some(top.get(m))), expected);
                });
            });
        }
        for _ in 0..20 {
            // A request that comes as another cycle ends may be refused for want of time; the others do.
            let _ = heap.collect(Collect::Cycle);
        }
        done.store(true, Relaxed);
    });
    assert!(heap.glance().cycles >= 10, "{:?}", heap.glance());
    heap.verify().expect("nothing is broken");
}

#[test]
fn one_thread_marks() {
    swapping("1");
}

#[test]
fn two_threads_mark() {
    swapping("2");
}

#[test]
fn more_threads_than_processors_mark() {
    swapping("7");
}

/// One array of references to values, and one of values in leaves: both are shared slice by slice. All of it is there afterwards.
#[test]
fn arrays_are_shared_by_slices() {
    const LEN: usize = 200_000;
    let heap = heap("3", "heap");
    heap.enter(|m| {
        let (slots, values) = {
            let array = m.alloc_slots::<Payload<u64>>(LEN).expect("room");
            (Global::new(m, array), Global::new(m, m.alloc_array(LEN, |i| i as u64).expect("room")))
        };
        for i in 0..LEN {
            if i % 64 == 0 {
                m.safepoint();
            }
            let value = m.alloc(Payload(i as u64)).expect("room");
            slots.get(m).at(i).store(m, value);
        }
        for _ in 0..4 {
            m.collect(Collect::Cycle).expect("a cycle");
        }
        let (slots, values): (Gc<'_, GcArray<Slot<Payload<u64>>>>, _) = (slots.get(m), values.get(m));
        for i in 0..LEN {
            assert_eq!(slots.at(i).load(m).map(|p| p.0), Some(i as u64));
            assert_eq!(*values.at(i), i as u64);
        }
    });
    let stats = heap.stats();
    assert_eq!(stats.gc_threads, 3);
    heap.verify().expect("nothing is broken");
}

/// Where a CPU is idle, helpers mark beside a mutator that changes the graph all the time; every cycle is verified. The option
/// `concurrent` is what lets them.
#[test]
fn helpers_mark_beside_a_mutator() {
    let beside = |concurrent: &str| {
        let set = |b: metronome_gc::HeapBuilder| b.set("gc-threads", "2").set("concurrent", concurrent);
        let heap =
            set(Heap::builder().heap_bytes(16 << 20)).set("verify", "all,every=3").build().expect("a heap");
        let granted = heap.refusals().is_empty();
        heap.enter(|m| {
            const DEPTH: u32 = 13;
            let top = Global::new(m, tree(m, 1, DEPTH).expect("room"));
            let expected = account(m, Some(top.get(m)));
            let mut x = 0x9E37_79B9_u64;
            for _ in 0..40 {
                // A cycle comes and goes with the garbage.
                for _ in 0..2_000 {
                    swap_down(m, top.get(m), DEPTH, &mut x);
                    m.safepoint();
                }
                if heap.glance().cycles >= 20 && heap.stats().marked_beside > 0 {
                    break;
                }
            }
            assert_eq!(account(m, Some(top.get(m))), expected);
        });
        heap.verify().expect("nothing is broken");
        (granted, heap.stats())
    };
    let (_, stats) = beside("false");
    assert_eq!(stats.marked_beside, 0);
    let (granted, stats) = beside("true");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if !granted || cpus < 2 {
        println!("skipped in part: no right to real-time priority, or no CPU to spare");
    } else if stats.marked_beside == 0 {
        println!("no helper had a CPU between two quanta: the machine is busy");
    }
}

/// A chain of ephemerons: each key is an object without slots that only the value before it refers to, and keys that wait come
/// before those that are met. None may be cleared.
#[test]
fn keys_without_slots_are_met() {
    #[derive(Trace)]
    struct Link {
        next: Slot<Payload<usize>>,
    }
    const LINKS: usize = 100;
    for threads in ["1", "3"] {
        let heap = heap(threads, "all");
        heap.enter(|m| {
            let mut links = Vec::new();
            let first = {
                let mut key = m.alloc(Payload(LINKS)).expect("room");
                for i in (0..LINKS).rev() {
                    let value = m.alloc(LinkInit { next: Some(key) }).expect("room");
                    key = m.alloc(Payload(i)).expect("room");
                    links.push(Ephemeron::new(m, key, value));
                }
                Global::new(m, key)
            };
            for _ in 0..3 {
                m.collect(Collect::Cycle).expect("a cycle");
                assert!(links.iter().all(|link| !link.is_cleared()), "{threads} threads");
                let mut key = first.get(m);
                for (i, link) in links.iter().rev().enumerate() {
                    assert_eq!((key.0, link.key(m).map(|k| k.0)), (i, Some(i)));
                    key = link.value(m).expect("not cleared").next.load(m).expect("the next key");
                }
            }
        });
    }
}

/// Helpers do part of the work: their CPU time is told, apart from the collector's.
#[test]
fn the_time_of_helpers_is_told() {
    let heap = heap("2", "off");
    heap.enter(|m| {
        let top = Global::new(m, tree(m, 1, 16).expect("room"));
        // A helper that gets no CPU on a busy machine comes to nothing in a cycle; not in all of them.
        for _ in 0..200 {
            m.collect(Collect::Cycle).expect("a cycle");
            if heap.stats().helpers_cpu_ns > 0 {
                break;
            }
        }
        assert_eq!(account(m, Some(top.get(m))).0, (1 << 17) - 1);
    });
    let stats = heap.stats();
    assert!(stats.helpers_cpu_ns > 0, "{stats:?}");
}
