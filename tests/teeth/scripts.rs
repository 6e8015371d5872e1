//! Scripts: the shortest counter-examples of the protocol's model, replayed on the real collector.
//!
//! The verifier sees handles, not locals; so where the model ends with a lost object in a local, the script goes on
//! to put it where a handle reaches it.

use metronome_gc::config::Config;
use metronome_gc::testing::{Fault, Phase, TestHeap};
use metronome_gc::{Gc, GcArray, Global, Mutator, Root, Slot, Trace, Weak};

#[derive(Trace)]
struct Node {
    id: u64,
    next: Slot<Node>,
}

fn node<'m>(m: &'m Mutator<'_>, id: u64, next: Option<Gc<'m, Node>>) -> Gc<'m, Node> {
    m.alloc(NodeInit { id, next }).unwrap()
}

fn heap() -> TestHeap {
    TestHeap::new(Config { heap: 4 << 20, max_mutators: 8, ..Config::DEFAULT }).unwrap()
}

/// What a script leaves behind: a global from which all objects that must live are reached, as a list of these ids.
struct Left {
    global: Global<Node>,
    ids: Vec<u64>,
}

/// Runs a script with all rules on: nothing is found in its cycle and the next, and every object is there.
fn replay_good(script: fn(&TestHeap) -> Left) {
    let heap = heap();
    let left = script(&heap);
    assert_eq!(heap.violations(), []);
    heap.run_until(Phase::Idle);
    assert_eq!(heap.phase(), Phase::Idle);
    for _ in 0..2 {
        heap.cycle();
        assert_eq!(heap.violations(), []);
        heap.enter(|m| {
            let (mut at, mut ids) = (Some(left.global.get(m)), vec![]);
            while let Some(n) = at {
                ids.push(n.id);
                at = n.next.load(m);
            }
            assert_eq!(ids, left.ids);
        });
    }
    drop(left);
    heap.cycle();
    heap.cycle();
    assert_eq!(heap.used_bytes(), 0);
}

/// Runs a script with a rule off, to the end of its marking, then of its cycle: what was found in each.
fn replay_bad(fault: Fault, script: fn(&TestHeap) -> Left) -> (Vec<&'static str>, Vec<&'static str>) {
    let heap = heap();
    heap.fault(fault, true);
    // The objects must not be touched any more, so the list is not walked.
    let _left = script(&heap);
    let found = |heap: &TestHeap| heap.violations().iter().map(|v| v.invariant).collect::<Vec<_>>();
    heap.run_until(Phase::Weak);
    assert_eq!(heap.phase(), Phase::Weak);
    let marking = found(&heap);
    heap.run_until(Phase::Idle);
    (marking, found(&heap))
}

/// The rule off loses a reachable object: found when marking ends, and again, as a dangling reference, after the
/// sweep.
fn loses_an_object(fault: Fault, script: fn(&TestHeap) -> Left) {
    replay_good(script);
    let (marking, end) = replay_bad(fault, script);
    assert!(marking.contains(&"INV-MARK-COMPLETE"), "{fault:?}: {marking:?}");
    assert!(marking.contains(&"INV-NO-BLACK-TO-WHITE"), "{fault:?}: {marking:?}");
    assert!(end.contains(&"INV-NO-DANGLING"), "{fault:?}: {end:?}");
}

/// A global list head that has been scanned while the mutator, still in the snapshot, holds a white object.
fn snapshot_with_a_white_local(heap: &TestHeap, go_on: fn(&Mutator<'_>, Gc<'_, Node>, Gc<'_, Node>)) -> Left {
    let global = heap.enter(|m| {
        let head = node(m, 1, None);
        let global = Global::new(m, head);
        let white = node(m, 2, None);
        let steps = heap.at_pause(m, |h| h.run_until(Phase::Mark));
        assert!(steps.blocked && steps.names.contains(&"globals"), "{steps:?}");
        assert_eq!(heap.phase(), Phase::Snapshot);
        assert!(heap.is_marked(head) && !heap.is_marked(white));
        go_on(m, head, white);
        global
    });
    Left { global, ids: vec![1, 2] }
}

#[test]
fn insertion_on_store() {
    loses_an_object(Fault::NoInsertionBarrier, |heap| {
        snapshot_with_a_white_local(heap, |m, head, white| head.next.store(m, white))
    });
}

#[test]
fn insertion_on_swap() {
    loses_an_object(Fault::NoInsertionBarrier, |heap| {
        snapshot_with_a_white_local(heap, |m, head, white| {
            assert!(head.next.swap(m, white).is_none());
        })
    });
}

#[test]
fn insertion_on_compare_exchange() {
    loses_an_object(Fault::NoInsertionBarrier, |heap| {
        snapshot_with_a_white_local(heap, |m, head, white| {
            assert!(head.next.compare_exchange(m, Some(white), Some(white)).is_err());
            assert!(head.next.compare_exchange(m, None, Some(white)).is_ok());
        })
    });
}

#[test]
fn insertion_on_initialiser() {
    fn script(heap: &TestHeap) -> Left {
        let mut left = snapshot_with_a_white_local(heap, |m, head, white| {
            let black = node(m, 3, Some(white));
            head.next.store(m, black);
        });
        left.ids = vec![1, 3, 2];
        left
    }
    loses_an_object(Fault::NoInitialiserBarrier, script);
}

/// A global list head in the snapshot: marking has passed its safepoint, taken the roots, and not yet scanned it.
fn marked_but_not_scanned(heap: &TestHeap, remove: fn(&Mutator<'_>, Gc<'_, Node>)) -> Left {
    let (head, keep) = heap.enter(|m| {
        let second = node(m, 2, None);
        (Root::new(m, node(m, 1, Some(second))), Global::new(m, node(m, 3, None)))
    });
    let steps = heap.run_through("roots");
    assert_eq!(steps.names.last(), Some(&"roots"), "{steps:?}");
    assert_eq!(heap.phase(), Phase::Mark);
    heap.enter(|m| {
        let first = head.get(m);
        let second = first.next.load(m).unwrap();
        assert!(!heap.is_marked(second), "the script is out of step with the collector");
        // The table of globals was taken: from here on only the removal tells the collector of the object.
        remove(m, first);
        let list = keep.get(m);
        list.next.store(m, second);
    });
    Left { global: keep, ids: vec![3, 2] }
}

#[test]
fn deletion_on_store() {
    loses_an_object(Fault::NoDeletionBarrier, |heap| {
        marked_but_not_scanned(heap, |m, first| first.next.store(m, None))
    });
}

#[test]
fn deletion_on_swap() {
    loses_an_object(Fault::NoDeletionBarrier, |heap| {
        marked_but_not_scanned(heap, |m, first| assert!(first.next.swap(m, None).is_some()))
    });
}

#[test]
fn deletion_on_compare_exchange() {
    loses_an_object(Fault::NoDeletionBarrier, |heap| {
        marked_but_not_scanned(heap, |m, first| {
            let second = first.next.load(m);
            assert!(first.next.compare_exchange(m, second, None).is_ok());
        })
    });
}

#[test]
fn logs_are_drained() {
    fn script(heap: &TestHeap) -> Left {
        let mut left = marked_but_not_scanned(heap, |m, first| {
            // The second object is logged; what hangs on it is known by way of the log only.
            first.next.store(m, None);
        });
        left.ids = vec![3, 2];
        left
    }
    replay_good(script);
    let (marking, _) = replay_bad(Fault::NoLogFlush, script);
    assert!(marking.contains(&"INV-LOG-DRAINED"), "{marking:?}");
}

/// An object that only a handle knows, in Mark, when all else has been scanned.
fn yielded_by_a_handle(heap: &TestHeap) -> Left {
    let global = heap.enter(|m| {
        let lone = Root::new(m, node(m, 2, None));
        let global = Global::new(m, node(m, 1, None));
        heap.at_safepoint(m, |h| h.run_through("globals"));
        heap.at_pause(m, |h| h.run_through("mark"));
        assert_eq!(heap.phase(), Phase::Mark);
        let head = global.get(m);
        assert!(heap.is_marked(head));
        let object = lone.get(m);
        // Dropping a handle has no barrier: `get` had one.
        drop(lone);
        head.next.store(m, object);
        global
    });
    Left { global, ids: vec![1, 2] }
}

#[test]
fn handles_shade_what_they_yield() {
    loses_an_object(Fault::NoHandleBarrier, yielded_by_a_handle);
}

#[test]
fn globals_shade_what_they_yield() {
    loses_an_object(Fault::NoHandleBarrier, |heap| {
        let global = heap.enter(|m| {
            // The globals are taken 32 or 64 at a time: the last of many waits.
            let mut many: Vec<_> = (0..1000).map(|i| Global::new(m, node(m, 1000 + i, None))).collect();
            let global = Global::new(m, node(m, 1, None));
            let first = many[0].clone();
            heap.at_safepoint(m, |h| h.run_through("globals"));
            heap.at_pause(m, |h| h.run_through("mark"));
            let head = first.get(m);
            assert!(heap.is_marked(head));
            head.next.store(m, global.get(m));
            drop(global);
            many.clear();
            first
        });
        Left { global, ids: vec![1000, 1] }
    });
}

#[test]
fn upgrades_shade_what_they_yield() {
    loses_an_object(Fault::NoUpgradeBarrier, |heap| {
        let global = heap.enter(|m| {
            let weak = Weak::new(m, node(m, 2, None));
            let global = Global::new(m, node(m, 1, None));
            heap.at_safepoint(m, |h| h.run_through("globals"));
            heap.at_pause(m, |h| h.run_through("mark"));
            let head = global.get(m);
            assert!(heap.is_marked(head));
            head.next.store(m, weak.upgrade(m));
            global
        });
        Left { global, ids: vec![1, 2] }
    });
}

#[test]
fn new_objects_are_black() {
    loses_an_object(Fault::AllocateWhite, |heap| {
        let global = heap.enter(|m| {
            let global = Global::new(m, node(m, 1, None));
            heap.at_safepoint(m, |h| h.run_through("globals"));
            heap.at_pause(m, |h| h.run_through("mark"));
            let head = global.get(m);
            assert!(heap.is_marked(head));
            head.next.store(m, node(m, 2, None));
            global
        });
        Left { global, ids: vec![1, 2] }
    });
}

#[test]
fn globals_are_scanned() {
    fn script(heap: &TestHeap) -> Left {
        let global = heap.enter(|m| Global::new(m, node(m, 1, None)));
        Left { global, ids: vec![1] }
    }
    replay_good(script);
    let (marking, _) = replay_bad(Fault::NoGlobalScan, script);
    assert!(marking.contains(&"INV-MARK-COMPLETE"), "{marking:?}");
}

#[test]
fn new_globals_are_shaded() {
    fn script(heap: &TestHeap) -> Left {
        let global = heap.enter(|m| {
            let white = node(m, 1, None);
            let steps = heap.at_pause(m, |h| h.run_until(Phase::Mark));
            assert!(steps.blocked, "{steps:?}");
            assert!(!heap.is_marked(white));
            Global::new(m, white)
        });
        Left { global, ids: vec![1] }
    }
    replay_good(script);
    let (marking, _) = replay_bad(Fault::NoGlobalCreateBarrier, script);
    assert!(marking.contains(&"INV-MARK-COMPLETE"), "{marking:?}");
}

#[test]
fn weak_references_are_cleared() {
    for on in [false, true] {
        let heap = heap();
        heap.fault(Fault::NoWeakClearing, on);
        let weak = heap.enter(|m| Weak::new(m, node(m, 1, None)));
        heap.cycle();
        // At the edge before the sweep, and when the cell has been freed.
        let found: Vec<_> = heap.violations().iter().map(|v| (v.edge, v.invariant)).collect();
        let wanted = [("sweep", "INV-WEAK-CLEARED"), ("end", "INV-WEAK-CLEARED")];
        assert_eq!(found, if on { wanted.to_vec() } else { vec![] });
        if !on {
            heap.enter(|m| assert!(weak.upgrade(m).is_none()));
        }
    }
}

/// Marks taken away when marking is done: what the verifier says of an object, and of a leaf of an array.
#[test]
fn lost_marks_are_found() {
    for leaf in [false, true] {
        let heap = heap();
        let (list, array, other) = heap.enter(|m| {
            let list = node(m, 1, Some(node(m, 2, None)));
            let other = node(m, 3, Some(node(m, 4, None)));
            (
                Global::new(m, list),
                Global::new(m, m.alloc_array(20_000, |i| i).unwrap()),
                Global::new(m, other),
            )
        });
        heap.run_through("pass");
        // Something to flush, which comes after all that handles reach has been marked.
        heap.enter(|m| other.get(m).next.store(m, None));
        let steps = heap.run_through("flush");
        assert_eq!(steps.names.last(), Some(&"flush"));
        heap.enter(|m| {
            if leaf {
                heap.unmark_payload(array.get(m).at(10_000));
            } else {
                heap.unmark(list.get(m).next.load(m).unwrap());
            }
        });
        heap.run_until(Phase::Weak);
        let found: Vec<_> = heap.violations().iter().map(|v| v.invariant).collect();
        let wanted =
            if leaf { &["INV-LEAF-MARKED"][..] } else { &["INV-MARK-COMPLETE", "INV-NO-BLACK-TO-WHITE"] };
        assert_eq!(found, wanted);
    }
}

/// The heap's own invariants are checked too, at every edge.
#[test]
fn the_space_is_verified() {
    let heap = heap();
    let _kept = heap.enter(|m| Global::new(m, node(m, 1, None)));
    heap.corrupt_used();
    heap.cycle();
    let found = heap.violations();
    assert!(found.iter().all(|v| v.invariant == "INV-HEAP-USED" && v.cycle == 1), "{found:?}");
    let edges: Vec<_> = found.iter().map(|v| v.edge).collect();
    assert_eq!(edges, ["arm", "mark", "weak", "finalize", "phantom", "sweep", "end"]);
}

/// A weak reference, looked at in every phase: it yields its object until the object has been found dead, and never
/// from then on; one that was yielded while marking goes on lives.
#[test]
fn upgrade_in_every_phase() {
    for phase in Phase::ALL {
        let heap = heap();
        // More than one chunk of weak references, so that Weak and Sweep are stopped in the middle.
        let weaks: Vec<_> = heap.enter(|m| (0..500).map(|i| Weak::new(m, node(m, i, None))).collect());
        let steps = heap.steps(1);
        assert_eq!((steps.names, heap.phase()), (vec!["arm"], Phase::Snapshot));
        heap.run_until(phase);
        let alive = matches!(phase, Phase::Snapshot | Phase::Mark);
        let kept: Vec<_> = heap.enter(|m| {
            let kept = weaks.iter().map(|w| w.upgrade(m).map(|n| (n.id, Global::new(m, n))));
            kept.collect()
        });
        assert_eq!(kept.iter().flatten().count(), if alive { 500 } else { 0 }, "{phase:?}");
        heap.run_until(Phase::Idle);
        heap.cycle();
        assert_eq!(heap.violations(), []);
        heap.enter(|m| {
            for (i, (weak, kept)) in weaks.iter().zip(&kept).enumerate() {
                assert_eq!(weak.upgrade(m).map(|n| n.id), alive.then_some(i as u64));
                assert_eq!(kept.as_ref().map(|(_, g)| g.get(m).id), alive.then_some(i as u64));
            }
        });
    }
}

/// An array under construction when a cycle begins, ends and begins again: the references of its builder stay good.
#[test]
fn a_cycle_begins_while_an_array_is_built() {
    let heap = heap();
    let global = heap.enter(|m| {
        let mut steps = 0;
        let array: Gc<'_, GcArray<u64>> = m
            .alloc_array(20_000, |i| {
                if i % 700 == 0 {
                    let done = heap.at_pause(m, |h| h.steps(3));
                    steps += done.names.len();
                    assert_ne!(heap.phase(), Phase::Mark, "the builder has not come by a safepoint");
                }
                i as u64
            })
            .unwrap();
        assert!(steps > 0);
        Global::new(m, array)
    });
    heap.run_until(Phase::Idle);
    heap.cycle();
    assert_eq!(heap.violations(), []);
    heap.enter(|m| assert!(global.get(m).iter().enumerate().all(|(i, &x)| x == i as u64)));
}

/// Rule 5: a mutator at a pause point holds up the end of the snapshot; one at a safepoint, or outside, does not.
#[test]
fn a_table_is_not_started_at_a_pause_point() {
    let heap = heap();
    heap.enter(|m| {
        let steps = heap.at_pause(m, |h| h.run_until(Phase::Mark));
        assert!(steps.blocked);
        // However often it is asked.
        assert!(heap.at_pause(m, |h| h.run_until(Phase::Mark)).blocked);
        let steps = heap.at_safepoint(m, |h| h.run_until(Phase::Mark));
        assert!(!steps.blocked && heap.phase() == Phase::Mark);
    });
    heap.run_until(Phase::Idle);
    assert_eq!(heap.violations(), []);
}

/// A full queue spills to grey bits, and nothing is lost.
#[test]
fn a_full_mark_queue_loses_nothing() {
    let heap = heap();
    let root = heap.enter(|m| {
        let slots = m.alloc_slots(5000).unwrap();
        for i in 0..5000 {
            // Two levels below the array: the queue of 16 entries cannot hold them.
            let below = node(m, 2 * i, None);
            slots.store(m, i as usize, node(m, 2 * i + 1, Some(below)));
        }
        Global::new(m, slots)
    });
    let steps = heap.steps(usize::MAX - 1);
    assert!(steps.done && steps.names.contains(&"grey"), "no spill: {:?}", steps.names);
    assert_eq!(heap.violations(), []);
    heap.enter(|m| {
        let slots = root.get(m);
        for i in 0..5000 {
            let n = slots.load(m, i as usize).unwrap();
            assert_eq!((n.id, n.next.load(m).unwrap().id), (2 * i + 1, 2 * i));
        }
    });
    drop(root);
    heap.cycle();
    assert_eq!(heap.used_bytes(), 0);
}

/// A mutator whose log finds no buffer left remembers by grey bits.
#[test]
fn logs_without_buffers_lose_nothing() {
    let heap =
        TestHeap::new(Config { heap: 4 << 20, max_mutators: 8, log_buffers: 4, ..Config::DEFAULT }).unwrap();
    let (left, right) = heap.enter(|m| {
        let list = |m: &Mutator<'_>| {
            let slots = m.alloc_slots(2000).unwrap();
            for i in 0..2000 {
                let below = node(m, i, None);
                slots.store(m, i as usize, node(m, i, Some(below)));
            }
            Global::new(m, slots)
        };
        (list(m), Global::new(m, m.alloc_slots::<Node>(2000).unwrap()))
    });
    heap.run_through("arm");
    heap.run_until(Phase::Mark);
    heap.enter(|m| {
        // Everything moves from one array to the other before the collector sees either.
        for i in 0..2000 {
            let n = left.get(m).at(i).swap(m, None);
            right.get(m).store(m, i, n);
        }
    });
    let steps = heap.run_until(Phase::Idle);
    assert!(steps.names.contains(&"grey"), "no spill: {steps:?}");
    heap.cycle();
    assert_eq!(heap.violations(), []);
    heap.enter(|m| {
        for i in 0..2000 {
            let n = right.get(m).load(m, i).unwrap();
            assert_eq!((n.id, n.next.load(m).unwrap().id), (i as u64, i as u64));
        }
    });
}

#[test]
fn a_refill_that_fails_is_an_error_and_no_more() {
    let heap = heap();
    heap.enter(|m| {
        heap.fail_refill(1);
        assert!(m.alloc(NodeInit { id: 1, next: None }).is_err());
        assert!(m.alloc(NodeInit { id: 1, next: None }).is_ok());
        // In the middle of an array: what was built is garbage.
        for n in 2..40 {
            heap.fail_refill(n);
            let failed = m.alloc_slots::<Node>(100_000).is_err();
            heap.fail_refill(0);
            m.safepoint();
            heap.at_safepoint(m, |h| h.steps(usize::MAX - 1));
            assert!(failed, "refill {n}");
        }
    });
    heap.cycle();
    assert_eq!(heap.violations(), []);
    assert_eq!(heap.used_bytes(), 0);
}
