//! Scripts for the bulk operations on arrays of slots, as `scripts.rs` has them for single slots: each overwrites and
//! writes references, so each owes what a store owes.

use metronome_gc::config::Config;
use metronome_gc::testing::{Fault, Phase, TestHeap};
use metronome_gc::{Gc, GcArray, Global, Mutator, Payload, Root, Slot};

type Node = Payload<u64>;

type Array<'m> = Gc<'m, GcArray<Slot<Node>>>;

/// Long enough for leaves and a tail.
const LEN: usize = 1200;
/// Slots that the scripts use: both sides of the edge of two leaves.
const FIRST: usize = 510;

fn node<'m>(m: &'m Mutator<'_>, id: u64) -> Gc<'m, Node> {
    m.alloc(Payload(id)).unwrap()
}

/// What a script leaves: an array, and which of its slots hold which ids; all others are null.
struct Left {
    array: Global<GcArray<Slot<Node>>>,
    ids: Vec<(usize, u64)>,
}

fn replay(fault: Option<Fault>, script: &dyn Fn(&TestHeap) -> Left) -> (TestHeap, Left, Vec<&'static str>) {
    let heap = TestHeap::new(Config { heap: 4 << 20, max_mutators: 8, ..Config::DEFAULT }).unwrap();
    if let Some(fault) = fault {
        heap.fault(fault, true);
    }
    let left = script(&heap);
    heap.run_until(Phase::Idle);
    assert_eq!(heap.phase(), Phase::Idle);
    let found = heap.violations().iter().map(|v| v.invariant).collect();
    (heap, left, found)
}

/// With all rules on nothing is found, and every object is there after another cycle; with this one off, an object
/// is lost.
fn loses_an_object(fault: Fault, script: &dyn Fn(&TestHeap) -> Left) {
    let (heap, left, found) = replay(None, script);
    assert!(found.is_empty(), "all rules are on: {found:?}");
    heap.cycle();
    assert_eq!(heap.violations(), []);
    heap.enter(|m| {
        let array = left.array.get(m);
        let ids: Vec<_> = (0..LEN).filter_map(|i| Some((i, array.load(m, i)?.0))).collect();
        assert_eq!(ids, left.ids);
    });
    drop(left);
    heap.cycle();
    heap.cycle();
    assert_eq!(heap.used_bytes(), 0);
    let (_heap, _left, found) = replay(Some(fault), script);
    for invariant in ["INV-MARK-COMPLETE", "INV-NO-BLACK-TO-WHITE", "INV-NO-DANGLING"] {
        assert!(found.contains(&invariant), "{fault:?}: {found:?}");
    }
}

/// An array that has been scanned, while the mutator, still in the snapshot, holds a white one, with a white object in
/// its last slot.
fn written(
    ids: &'static [(usize, u64)],
    write: impl Fn(&Mutator<'_>, Array<'_>, Array<'_>),
) -> impl Fn(&TestHeap) -> Left {
    move |heap| {
        let array = heap.enter(|m| {
            let array: Array<'_> = m.alloc_slots(LEN).unwrap();
            let global = Global::new(m, array);
            let source: Array<'_> = m.alloc_slots(4).unwrap();
            let white = node(m, 2);
            source.store(m, 3, white);
            let steps = heap.at_pause(m, |h| h.run_until(Phase::Mark));
            assert!(steps.blocked && steps.names.contains(&"globals"), "{steps:?}");
            assert_eq!(heap.phase(), Phase::Snapshot);
            assert!(heap.is_marked(array) && !heap.is_marked(white));
            write(m, array, source);
            global
        });
        Left { array, ids: ids.to_vec() }
    }
}

/// An array in the snapshot that has not been scanned, and one that is known to the collector: what is removed from the
/// first goes to the other.
fn removed(remove: impl Fn(&Mutator<'_>, Array<'_>)) -> impl Fn(&TestHeap) -> Left {
    move |heap| {
        let (from, to) = heap.enter(|m| {
            let from: Array<'_> = m.alloc_slots(LEN).unwrap();
            from.store(m, FIRST + 2, node(m, 2));
            (Root::new(m, from), Global::new(m, m.alloc_slots(LEN).unwrap()))
        });
        let steps = heap.run_through("roots");
        assert_eq!(steps.names.last(), Some(&"roots"), "{steps:?}");
        assert_eq!(heap.phase(), Phase::Mark);
        heap.enter(|m| {
            let array = from.get(m);
            let object = array.load(m, FIRST + 2).unwrap();
            assert!(!heap.is_marked(object), "the script is out of step with the collector");
            remove(m, array);
            assert!(array.at(FIRST + 2).is_null(), "the script removes it");
            to.get(m).store(m, 0, object);
        });
        Left { array: to, ids: vec![(0, 2)] }
    }
}

#[test]
fn insertion_on_fill() {
    let ids = &[(FIRST, 2), (FIRST + 1, 2), (FIRST + 2, 2), (FIRST + 3, 2)];
    let script = written(ids, |m, array, source| {
        array.fill(m, FIRST..FIRST + 4, source.load(m, 3));
    });
    loses_an_object(Fault::NoInsertionBarrier, &script);
}

#[test]
fn insertion_on_copy() {
    let script = written(&[(FIRST + 2, 2)], |m, array, source| array.copy_from(m, FIRST, source, 1, 3));
    loses_an_object(Fault::NoInsertionBarrier, &script);
}

#[test]
fn deletion_on_fill() {
    loses_an_object(Fault::NoDeletionBarrier, &removed(|m, array| array.fill(m, FIRST..FIRST + 4, None)));
}

/// From another array, and within one array in either direction.
#[test]
fn deletion_on_copy() {
    loses_an_object(
        Fault::NoDeletionBarrier,
        &removed(|m, array| {
            let empty: Array<'_> = m.alloc_slots(4).unwrap();
            array.copy_from(m, FIRST, empty, 0, 4);
        }),
    );
    loses_an_object(Fault::NoDeletionBarrier, &removed(|m, array| array.copy_from(m, FIRST, array, 4, 4)));
    loses_an_object(Fault::NoDeletionBarrier, &removed(|m, array| array.copy_from(m, FIRST, array, 600, 4)));
}
