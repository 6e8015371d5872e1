//! References and finalization on a heap that is driven by hand, with the verifier on: what is cleared when, what comes
//! back, what runs once. The oracle is the order that ARCHITECTURE.md states, written out in each test.

use metronome_gc::testing::{Phase, TestHeap};
use metronome_gc::{
    Config, Ephemeron, Finalize, Gc, Global, Mutator, ReferenceQueue, Root, Slot, Soft, Trace, Weak,
    WeakLong, WeakMap,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[derive(Trace)]
struct Node {
    id: u32,
    next: Slot<Node>,
}

fn node<'m>(m: &'m Mutator<'_>, id: u32, next: Option<Gc<'m, Node>>) -> Gc<'m, Node> {
    m.alloc(NodeInit { id, next }).expect("the heap is large enough")
}

fn heap() -> TestHeap {
    TestHeap::new(Config { heap: 32 << 20, ..Config::default() }).expect("the configuration is valid")
}

fn clean(heap: &TestHeap) {
    assert_eq!(heap.violations(), []);
}

static RAN: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static SERIAL: Mutex<()> = Mutex::new(());

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let mut ids = vec![this.get(m).id];
        m.safepoint();
        // What the object refers to is complete.
        let mut at = this.get(m).next.load(m);
        while let Some(n) = at {
            ids.push(n.id);
            at = n.next.load(m);
        }
        RAN.lock().unwrap().extend(ids);
    }
}

fn ran() -> Vec<u32> {
    std::mem::take(&mut *RAN.lock().unwrap())
}

#[test]
fn a_finalizer_sees_a_complete_object_once_and_long_references_outlive_it() {
    let _one = SERIAL.lock().unwrap_or_else(|e| e.into_inner());
    let heap = heap();
    let (short, long) = heap.enter(|m| {
        let tail = node(m, 2, None);
        let head = node(m, 1, Some(tail));
        assert!(m.register_finalizer(head));
        assert!(!m.register_finalizer(head));
        (Weak::new(m, head), WeakLong::new(m, head))
    });
    heap.cycle();
    assert!(short.is_cleared() && !long.is_cleared());
    assert_eq!(ran(), []);
    // Queued, it is a root of the next cycle too.
    heap.cycle();
    assert!(!long.is_cleared());
    heap.finalize();
    assert_eq!(ran(), [1, 2]);
    heap.cycle();
    assert!(long.is_cleared());
    heap.finalize();
    assert_eq!(ran(), []);
    assert_eq!(heap.used_bytes(), 0);
    clean(&heap);
}

#[test]
fn suppressed_does_not_run_and_registered_again_runs_again() {
    let _one = SERIAL.lock().unwrap_or_else(|e| e.into_inner());
    let heap = heap();
    let global = heap.enter(|m| {
        let (a, b) = (node(m, 1, None), node(m, 2, None));
        m.register_finalizer(a);
        m.register_finalizer(b);
        assert!(m.suppress_finalizer(a));
        assert!(!m.suppress_finalizer(a));
        assert!(m.suppress_finalizer(b));
        assert!(m.register_finalizer(b));
        Global::new(m, node(m, 3, None))
    });
    heap.cycle();
    heap.finalize();
    assert_eq!(ran(), [2]);
    for _ in 0..2 {
        let long = heap.enter(|m| {
            let c = global.get(m);
            assert!(m.register_finalizer(c));
            WeakLong::new(m, c)
        });
        heap.cycle();
        heap.finalize();
        assert_eq!(ran(), []);
        assert!(!long.is_cleared());
        heap.enter(|m| m.suppress_finalizer(global.get(m)));
        heap.enter(|m| m.register_finalizer(global.get(m)));
        heap.enter(|m| m.suppress_finalizer(global.get(m)));
    }
    heap.enter(|m| assert!(m.register_finalizer(global.get(m))));
    drop(global);
    heap.cycle();
    heap.finalize();
    assert_eq!(ran(), [3]);
    clean(&heap);
}

#[test]
fn long_upgrades_in_every_phase_keep_what_they_yield() {
    for finalizable in [false, true] {
        for phase in [
            Phase::Idle,
            Phase::Snapshot,
            Phase::Mark,
            Phase::Weak,
            Phase::Finalize,
            Phase::Phantom,
            Phase::Sweep,
        ] {
            let _one = SERIAL.lock().unwrap_or_else(|e| e.into_inner());
            let heap = heap();
            let (short, long) = heap.enter(|m| {
                let tail = node(m, 2, None);
                let head = node(m, 1, Some(tail));
                if finalizable {
                    m.register_finalizer(head);
                }
                (Weak::new(m, head), WeakLong::new(m, head))
            });
            heap.run_until(phase);
            let kept = heap.enter(|m| {
                let head = long.upgrade(m)?;
                // Take the tail out, and keep it under a new, black object.
                let tail = head.next.swap(m, None).expect("complete");
                Some(Root::new(m, node(m, 0, Some(tail))))
            });
            let dead_for_good = matches!(phase, Phase::Phantom | Phase::Sweep) && !finalizable;
            assert_eq!(kept.is_none(), dead_for_good, "{phase:?} {finalizable}");
            if matches!(phase, Phase::Weak) {
                heap.enter(|m| assert!(short.upgrade(m).is_none()));
            }
            if heap.phase() != Phase::Idle {
                heap.steps(usize::MAX - 1);
            }
            heap.cycle();
            if let Some(kept) = kept {
                heap.enter(|m| assert_eq!(kept.get(m).next.load(m).expect("kept").id, 2));
            }
            heap.finalize();
            ran();
            heap.cycle();
            heap.cycle();
            assert_eq!(heap.used_bytes(), 0, "{phase:?}");
            clean(&heap);
        }
    }
}

#[test]
fn a_chain_of_ephemerons_is_kept_in_linear_work() {
    let steps_of = |n: u32| {
        let heap =
            TestHeap::new(Config { heap: 256 << 20, ..Config::default() }).expect("a valid configuration");
        let (first, all) = heap.enter(|m| {
            // Each value is the key of the next; made in an order that a naive pass would be slow with.
            let first = Global::new(m, node(m, 0, None));
            let mut nodes = vec![first.clone()];
            for i in 1..=n {
                nodes.push(Global::new(m, node(m, i, None)));
            }
            let mut all: Vec<_> = (0..n as usize)
                .rev()
                .map(|i| Ephemeron::new(m, nodes[i].get(m), nodes[i + 1].get(m)))
                .collect();
            all.reverse();
            (first, all)
        });
        let steps = heap.steps(usize::MAX - 1);
        assert!(steps.done);
        heap.enter(|m| {
            for (i, e) in all.iter().enumerate() {
                assert_eq!(e.key(m).expect("kept").id, i as u32);
                assert_eq!(e.value(m).expect("kept").id, i as u32 + 1);
            }
        });
        drop(first);
        heap.cycle();
        assert!(all.iter().all(Ephemeron::is_cleared));
        assert_eq!(heap.used_bytes(), 0);
        clean(&heap);
        steps.names.len()
    };
    // A million where the verifier's own walks do not take minutes.
    let n = if cfg!(debug_assertions) { 2_000 } else { 100_000 };
    let (small, large) = (steps_of(n), steps_of(10 * n));
    assert!(large < small * 12, "{small} steps for {n} ephemerons, {large} for {}", 10 * n);
}

#[test]
fn many_ephemerons_of_one_key_and_values_that_hold_their_key() {
    let heap = heap();
    let (key, all) = heap.enter(|m| {
        let key = Global::new(m, node(m, 7, None));
        let all: Vec<_> = (0..1000)
            .map(|i| {
                let value = node(m, i, Some(key.get(m)));
                Ephemeron::new(m, key.get(m), value)
            })
            .collect();
        (key, all)
    });
    heap.cycle();
    heap.enter(|m| {
        assert!(all.iter().enumerate().all(|(i, e)| e.value(m).is_some_and(|v| v.id == i as u32)))
    });
    drop(key);
    heap.cycle();
    assert!(all.iter().all(Ephemeron::is_cleared));
    assert_eq!(heap.used_bytes(), 0);
    clean(&heap);
}

#[test]
fn a_weak_map_keeps_values_as_long_as_their_keys() {
    let heap = heap();
    let map = WeakMap::<Node, Node>::new();
    let keys: Vec<Global<Node>> = heap.enter(|m| {
        (0..200)
            .map(|i| {
                let key = node(m, i, None);
                assert!(map.insert(m, key, node(m, i + 1000, Some(key))).is_none());
                Global::new(m, key)
            })
            .collect()
    });
    let kept: Vec<_> = keys.into_iter().step_by(2).collect();
    heap.cycle();
    heap.enter(|m| {
        for k in &kept {
            let k = k.get(m);
            assert_eq!(map.get(m, k).expect("kept").id, k.id + 1000);
        }
        let mut seen = 0;
        map.for_each(m, |k, v| {
            assert_eq!(k.id + 1000, v.id);
            seen += 1;
        });
        assert_eq!(seen, 100);
        let k = kept[0].get(m);
        assert_eq!(map.insert(m, k, node(m, 5, None)).expect("old").id, k.id + 1000);
        assert_eq!(map.remove(m, k).expect("new").id, 5);
        assert!(map.get(m, k).is_none());
    });
    map.prune();
    assert_eq!(map.len(), 99);
    drop(kept);
    heap.cycle();
    map.prune();
    assert!(map.is_empty());
    clean(&heap);
}

#[test]
fn soft_references_age_by_cycles_and_use() {
    let heap = heap();
    heap.soft_age(3);
    let (used, idle) = heap.enter(|m| (Soft::new(m, node(m, 1, None)), Soft::new(m, node(m, 2, None))));
    for cycle in 0..6 {
        heap.cycle();
        heap.enter(|m| assert!(used.get(m).is_some()));
        // Made after 0 cycles, kept by the cycles that begin after 0, 1 and 2.
        assert_eq!(idle.is_cleared(), cycle >= 3, "{cycle}");
    }
    heap.soft_age(0);
    heap.cycle();
    assert!(used.is_cleared());
    clean(&heap);
}

#[test]
fn deaths_are_noted_after_finalization_and_can_be_cancelled() {
    let _one = SERIAL.lock().unwrap_or_else(|e| e.into_inner());
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let heap = heap();
    let queue = ReferenceQueue::new();
    let (global, cancelled) = heap.enter(|m| {
        let (a, b, c) = (node(m, 1, None), node(m, 2, None), node(m, 3, None));
        m.register_finalizer(b);
        drop(queue.register(m, a, "a"));
        drop(queue.register(m, b, "b"));
        drop(queue.register(m, c, "c"));
        drop(m.on_death(a, || {
            CALLS.fetch_add(1, Relaxed);
        }));
        drop(m.on_death(a, || panic!("a callback that panics")));
        let cancelled = m.on_death(a, || unreachable!("cancelled"));
        (Global::new(m, c), cancelled)
    });
    assert!(cancelled.cancel());
    heap.cycle();
    assert_eq!(queue.poll(), None);
    heap.finalize();
    assert_eq!((queue.poll(), queue.poll()), (Some("a"), None));
    assert_eq!(CALLS.load(Relaxed), 1);
    assert_eq!(ran(), [2]);
    heap.cycle();
    heap.finalize();
    assert_eq!((queue.poll(), queue.poll()), (Some("b"), None));
    drop(global);
    heap.cycle();
    heap.finalize();
    assert_eq!((queue.poll(), queue.poll()), (Some("c"), None));
    clean(&heap);
}
