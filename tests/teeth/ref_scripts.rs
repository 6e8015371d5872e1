//! Scripts for references and finalizers, as `scripts.rs` has them for slots: each with all rules on, where nothing may be
//! found, and with one off, which the verifier or the program itself must notice.

use metronome_gc::config::Config;
use metronome_gc::testing::{Fault, Phase, TestHeap};
use metronome_gc::{Ephemeron, Finalize, Gc, Global, Mutator, Root, Slot, Soft, Trace, Weak, WeakLong};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;

#[derive(Trace)]
struct Node {
    id: u64,
    next: Slot<Node>,
}

thread_local! {
    static RAN: AtomicU64 = const { AtomicU64::new(0) };
    /// Whether this thread's finalizers keep what they are given, and the last of it.
    static KEEPS: Cell<bool> = const { Cell::new(false) };
    static KEPT: RefCell<Option<Root<Node>>> = const { RefCell::new(None) };
}

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        if KEEPS.get() {
            // Not looked at: `get` would shade it.
            KEPT.set(Some(this));
            return;
        }
        let id = this.get(m).id;
        RAN.with(|r| r.fetch_add(id, Relaxed));
    }
}

/// Runs what is queued; the sum of the ids of the objects whose finalizers ran.
fn finalized(heap: &TestHeap) -> u64 {
    heap.finalize();
    RAN.with(|r| r.swap(0, Relaxed))
}

fn node<'m>(m: &'m Mutator<'_>, id: u64, next: Option<Gc<'m, Node>>) -> Gc<'m, Node> {
    m.alloc(NodeInit { id, next }).unwrap()
}

fn heap() -> TestHeap {
    TestHeap::new(Config { heap: 4 << 20, max_mutators: 8, ..Config::DEFAULT }).unwrap()
}

/// Runs a script and the rest of its cycle, first with all rules on, when nothing may be found, then with one off: what
/// was found then, each invariant once.
fn replay<R>(fault: Fault, script: impl Fn(&TestHeap) -> R) -> Vec<&'static str> {
    let mut found = vec![];
    for on in [false, true] {
        let heap = heap();
        heap.fault(fault, on);
        let _left = script(&heap);
        heap.run_until(Phase::Idle);
        found = heap.violations().iter().map(|v| v.invariant).collect();
        assert!(on || found.is_empty(), "{fault:?} is off: {found:?}");
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn what_long_references_yield_while_marks_stand_still_is_shaded() {
    let found = replay(Fault::NoDeferredShading, |heap| {
        let (long, global) = heap.enter(|m| {
            let lone = node(m, 2, Some(node(m, 3, None)));
            (WeakLong::new(m, lone), Global::new(m, node(m, 1, None)))
        });
        heap.run_until(Phase::Weak);
        heap.enter(|m| {
            let lone = long.upgrade(m).expect("not dead yet");
            assert!(!heap.is_marked(lone));
            global.get(m).next.store(m, lone);
        });
        (long, global)
    });
    assert!(found.contains(&"INV-MARK-COMPLETE") && found.contains(&"INV-NO-DANGLING"), "{found:?}");
}

/// An object whose finalizer is queued, by the cycle before.
fn queued(heap: &TestHeap) {
    heap.enter(|m| assert!(m.register_finalizer(node(m, 1, Some(node(m, 2, None))))));
    heap.cycle();
    heap.run_until(Phase::Weak);
}

#[test]
fn queued_objects_are_roots() {
    // Marked they are all the same, by the phase Finalize, but after short references to what they reach have been cleared.
    assert_eq!(replay(Fault::NoQueuedScan, queued), ["INV-MARK-COMPLETE"]);
    let heap = heap();
    queued(&heap);
    assert_eq!(finalized(&heap), 1);
}

#[test]
fn what_due_finalizers_reach_is_marked() {
    let found = replay(Fault::NoFinalizeMarking, |heap| {
        heap.enter(|m| assert!(m.register_finalizer(node(m, 1, Some(node(m, 2, None))))));
        heap.run_until(Phase::Phantom);
    });
    assert!(found.contains(&"INV-MARK-COMPLETE") && found.contains(&"INV-REGISTRATION"), "{found:?}");
}

/// A key that only an ephemeron's value leads to, whichever comes first.
fn chain(heap: &TestHeap) -> (Global<Node>, [Ephemeron<Node, Node>; 3]) {
    let out = heap.enter(|m| {
        let (a, b, c) = (node(m, 1, None), node(m, 2, None), node(m, 3, None));
        let all = [Ephemeron::new(m, b, c), Ephemeron::new(m, a, b), Ephemeron::new(m, c, node(m, 4, None))];
        (Global::new(m, a), all)
    });
    heap.run_until(Phase::Weak);
    out
}

#[test]
fn values_of_ephemerons_are_visited() {
    let found = replay(Fault::NoEphemeronPass, chain);
    assert!(found.contains(&"INV-EPHEMERON") && found.contains(&"INV-MARK-COMPLETE"), "{found:?}");
}

#[test]
fn scanned_objects_are_looked_up_as_keys() {
    let found = replay(Fault::NoEphemeronLookup, chain);
    assert!(found.contains(&"INV-EPHEMERON") && found.contains(&"INV-MARK-COMPLETE"), "{found:?}");
    // With the rule on, all is there in the end.
    let heap = heap();
    let (global, all) = chain(&heap);
    heap.run_until(Phase::Idle);
    heap.enter(|m| {
        let ids = |e: &Ephemeron<Node, Node>| (e.key(m).unwrap().id, e.value(m).unwrap().id);
        assert_eq!(all.each_ref().map(ids), [(2, 3), (1, 2), (3, 4)]);
    });
    drop(global);
}

#[test]
fn suppressed_registrations_go_with_their_objects() {
    let script = |heap: &TestHeap| {
        heap.enter(|m| {
            let n = node(m, 1, None);
            assert!(m.register_finalizer(n) && m.suppress_finalizer(n));
        });
        heap.run_until(Phase::Weak);
    };
    assert_eq!(replay(Fault::NoSuppressedRelease, script), ["INV-REGISTRATION"]);
}

#[test]
fn what_refers_to_the_dead_is_cleared() {
    for on in [false, true] {
        let heap = heap();
        heap.fault(Fault::NoBurying, on);
        let (_long, _ephemeron, _death) = heap.enter(|m| {
            let n = node(m, 1, None);
            (WeakLong::new(m, n), Ephemeron::new(m, n, n), m.on_death(n, || ()))
        });
        heap.cycle();
        let found = heap.violations();
        assert!(found.iter().all(|v| v.invariant == "INV-WEAK-CLEARED"), "{found:?}");
        let said = |what: &str| found.iter().any(|v| v.detail.starts_with(what));
        for what in ["long weak reference", "ephemeron", "notice of death"] {
            assert_eq!(said(what), on, "{what}: {found:?}");
        }
        heap.fault(Fault::NoWeakClearing, on);
        heap.soft_age(0);
        let _soft = heap.enter(|m| Soft::new(m, node(m, 2, None)));
        heap.cycle();
        assert_eq!(heap.violations().iter().any(|v| v.detail.starts_with("soft reference")), on);
    }
}

#[test]
fn what_is_made_after_marking_is_passed_over() {
    for on in [false, true] {
        let heap = heap();
        heap.fault(Fault::NoStamps, on);
        heap.soft_age(0);
        // Entries to be used again, so that the new ones lie within what the cycle looks at.
        heap.enter(|m| {
            let spare = node(m, 9, None);
            drop((Weak::new(m, spare), Soft::new(m, spare)));
            assert!(m.register_finalizer(spare) && m.suppress_finalizer(spare));
        });
        heap.cycle();
        let long = heap.enter(|m| WeakLong::new(m, node(m, 1, None)));
        heap.run_until(Phase::Weak);
        let (global, weak, soft) = heap.enter(|m| {
            let n = long.upgrade(m).expect("not dead yet");
            assert!(!heap.is_marked(n));
            let (weak, soft) = (Weak::new(m, n), Soft::new(m, n));
            assert!(m.register_finalizer(n));
            assert_eq!(weak.upgrade(m).is_some() && soft.get(m).is_some(), !on);
            (Global::new(m, n), weak, soft)
        });
        heap.run_until(Phase::Idle);
        assert_eq!((weak.is_cleared(), soft.is_cleared(), finalized(&heap)), (on, on, u64::from(on)));
        assert_eq!(heap.violations(), []);
        heap.enter(|m| assert_eq!(global.get(m).id, 1));
        // Afterwards they are as all others.
        drop(global);
        heap.cycle();
        assert!(weak.is_cleared() && soft.is_cleared());
        assert_eq!(finalized(&heap), u64::from(!on));
        heap.cycle();
        assert!(long.is_cleared());
        assert_eq!(heap.used_bytes(), 0);
    }
}

/// A suppressed registration that is taken up again by a mutator that has got at the object after marking.
#[test]
fn a_renewed_registration_is_passed_over() {
    for on in [false, true] {
        for dropped in [false, true] {
            let heap = heap();
            heap.fault(Fault::NoRenewal, on);
            let long = heap.enter(|m| {
                let n = node(m, 1, Some(node(m, 2, None)));
                assert!(m.register_finalizer(n) && m.suppress_finalizer(n));
                WeakLong::new(m, n)
            });
            heap.run_until(Phase::Weak);
            let global = heap.enter(|m| {
                let n = long.upgrade(m).expect("not dead yet");
                assert!(m.register_finalizer(n) && !m.register_finalizer(n));
                (!dropped).then(|| Global::new(m, n))
            });
            heap.run_until(Phase::Idle);
            assert_eq!(finalized(&heap), u64::from(on));
            if let Some(global) = &global {
                heap.cycle();
                heap.enter(|m| assert_eq!(global.get(m).next.load(m).expect("kept").id, 2));
                assert_eq!(finalized(&heap), 0);
            }
            drop(global);
            heap.cycle();
            assert_eq!(finalized(&heap), u64::from(!on));
            heap.cycle();
            assert_eq!((heap.violations(), heap.used_bytes()), (vec![], 0));
        }
    }
}

#[test]
fn new_soft_references_are_shaded() {
    for on in [false, true] {
        let heap = heap();
        heap.fault(Fault::NoSoftBarrier, on);
        heap.soft_age(1);
        let soft = heap.enter(|m| {
            let white = node(m, 1, None);
            let steps = heap.at_pause(m, |h| h.run_until(Phase::Mark));
            assert!(steps.blocked && !heap.is_marked(white));
            Soft::new(m, white)
        });
        heap.run_until(Phase::Idle);
        assert_eq!(soft.is_cleared(), on);
        if !on {
            heap.enter(|m| assert_eq!(soft.get(m).expect("young").id, 1));
        }
        heap.cycle();
        heap.cycle();
        assert!(soft.is_cleared());
        assert_eq!((heap.violations(), heap.used_bytes()), (vec![], 0));
    }
}

/// In Mark, when a global's object has been scanned and nothing else: `look_up` gets that object, stores into it what it has
/// from an ephemeron, and drops that.
fn looked_up(
    heap: &TestHeap,
    make: impl Fn(&Mutator<'_>, Gc<'_, Node>) -> Ephemeron<Node, Node>,
    look_up: impl Fn(&Mutator<'_>, Gc<'_, Node>, Ephemeron<Node, Node>),
) -> Global<Node> {
    heap.enter(|m| {
        let global = Global::new(m, node(m, 1, None));
        let ephemeron = make(m, global.get(m));
        heap.at_safepoint(m, |h| h.run_through("globals"));
        heap.at_pause(m, |h| h.run_through("mark"));
        assert_eq!(heap.phase(), Phase::Mark);
        let head = global.get(m);
        assert!(heap.is_marked(head));
        look_up(m, head, ephemeron);
        global
    })
}

#[test]
fn what_ephemerons_yield_is_shaded() {
    let value = |heap: &TestHeap| {
        let make = |m: &Mutator<'_>, head: Gc<'_, Node>| Ephemeron::new(m, head, node(m, 2, None));
        looked_up(heap, make, |m, head, e| {
            let value = e.value(m).expect("its key is alive");
            // Dropping an ephemeron has no barrier: `value` had one.
            drop(e);
            head.next.store(m, value);
        })
    };
    let key = |heap: &TestHeap| {
        let make = |m: &Mutator<'_>, head: Gc<'_, Node>| Ephemeron::new(m, node(m, 2, None), head);
        looked_up(heap, make, |m, head, e| {
            let key = e.key(m).expect("not found dead");
            drop(e);
            head.next.store(m, key);
        })
    };
    for script in [&value as &dyn Fn(&TestHeap) -> Global<Node>, &key] {
        let found = replay(Fault::NoHandleBarrier, script);
        assert!(found.contains(&"INV-MARK-COMPLETE") && found.contains(&"INV-NO-DANGLING"), "{found:?}");
    }
}

/// Making an ephemeron has no barrier (rule 8): whenever it is made, of whatever a mutator holds then, its value is kept.
#[test]
fn an_ephemeron_may_be_made_between_any_two_steps() {
    let mut phases = vec![];
    for n in 0.. {
        let heap = heap();
        let (key, value, held, older) = heap.enter(|m| {
            let [key, value, held] = [1, 2, 3].map(|id| node(m, id, None));
            // More than a chunk, the first of them free again: the new ones take their places.
            let all: Vec<_> = (0..100).map(|_| Ephemeron::new(m, key, key)).collect();
            (Global::new(m, key), Root::new(m, value), Root::new(m, held), all)
        });
        let mut older = older.into_iter();
        drop(older.by_ref().take(3).collect::<Vec<_>>());
        heap.steps(n);
        phases.push(heap.phase());
        let made = heap.enter(|m| {
            let made =
                [Ephemeron::new(m, key.get(m), value.get(m)), Ephemeron::new(m, held.get(m), value.get(m))];
            key.get(m).next.store(m, held.get(m));
            drop((value, held));
            made
        });
        heap.run_until(Phase::Idle);
        assert_eq!(heap.violations(), [], "after step {n}");
        heap.cycle();
        assert_eq!(heap.violations(), [], "after step {n}");
        heap.enter(|m| {
            let ids = made.each_ref().map(|e| (e.key(m).map(|k| k.id), e.value(m).map(|v| v.id)));
            assert_eq!(ids, [(Some(1), Some(2)), (Some(3), Some(2))], "after step {n}");
        });
        if n > 0 && phases[n] == Phase::Idle {
            break;
        }
    }
    assert!(Phase::ALL.iter().all(|p| phases.contains(p)), "{phases:?}");
}

/// The same for a value that is white, and held by a local only.
#[test]
fn an_ephemeron_of_a_white_local_keeps_it() {
    let heap = heap();
    let (global, made) = heap.enter(|m| {
        let (key, value) = (node(m, 1, None), node(m, 2, None));
        let global = Global::new(m, key);
        let steps = heap.at_pause(m, |h| h.run_until(Phase::Mark));
        assert!(steps.blocked && heap.is_marked(key) && !heap.is_marked(value), "{steps:?}");
        (global, Ephemeron::new(m, key, value))
    });
    heap.run_until(Phase::Idle);
    assert_eq!(heap.violations(), []);
    heap.enter(|m| {
        assert_eq!(made.value(m).expect("its key is alive").id, 2);
        assert_eq!(global.get(m).id, 1);
    });
}

/// A thread that attaches while the collector marks has a table that is not taken in this cycle.
#[test]
fn what_a_finalizer_is_given_is_shaded() {
    for on in [false, true] {
        let heap = heap();
        heap.enter(|m| assert!(m.register_finalizer(node(m, 2, None))));
        heap.cycle();
        assert_eq!(heap.violations(), []);
        heap.fault(Fault::NoHandleBarrier, on);
        let steps = heap.run_until(Phase::Mark);
        assert!(!steps.names.contains(&"queued"), "the script is out of step with the collector: {steps:?}");
        let (taken, told) = channel();
        let (go, gone) = channel();
        std::thread::scope(|s| {
            let heap = &heap;
            s.spawn(move || {
                KEEPS.set(true);
                heap.finalize();
                let kept = KEPT.take();
                taken.send(kept.is_some()).unwrap();
                gone.recv().unwrap();
                if let Some(root) = kept.as_ref().filter(|_| !on) {
                    heap.enter(|m| assert_eq!(root.get(m).id, 2));
                }
            });
            assert!(told.recv().unwrap(), "the finalizer ran");
            heap.run_until(Phase::Idle);
            let found: Vec<_> = heap.violations().iter().map(|v| v.invariant).collect();
            go.send(()).unwrap();
            assert_eq!(found.contains(&"INV-MARK-COMPLETE"), on, "{found:?}");
            assert!(on || found.is_empty(), "{found:?}");
        });
    }
}
