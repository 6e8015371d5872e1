//! Each check of the verifier, and damage or a missing protection that no other one finds.

use metronome_gc::config::{Config, Verify};
use metronome_gc::testing::{Fault, Phase, TestHeap};
use metronome_gc::{Finalize, Gc, Global, Mutator, Root, Slot, Soft, Trace, VerifyError};

#[derive(Trace)]
struct Node {
    id: u64,
    next: Slot<Node>,
}

impl Finalize for Node {
    fn finalize(_: Root<Node>, _: &mut Mutator<'_>) {}
}

fn node<'m>(m: &'m Mutator<'_>, id: u64, next: Option<Gc<'m, Node>>) -> Gc<'m, Node> {
    m.alloc(NodeInit { id, next }).unwrap()
}

fn heap(verify: Verify) -> TestHeap {
    let config = Config { heap: 4 << 20, max_mutators: 8, verify: Some(verify), ..Config::DEFAULT };
    TestHeap::new(config).unwrap()
}

/// Invariants that are broken now, each once, and the paths that were given.
fn broken(heap: &TestHeap) -> (Vec<&'static str>, Vec<String>) {
    match heap.verify() {
        Ok(_) => (vec![], vec![]),
        Err(VerifyError::Broken { violations, .. }) => {
            assert!(violations.iter().all(|v| v.edge == "demand"), "{violations:?}");
            let mut ids: Vec<_> = violations.iter().map(|v| v.invariant).collect();
            ids.dedup();
            (ids, violations.into_iter().filter_map(|v| v.path).collect())
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_sound_heap_is_counted() {
    let heap = heap(Verify::OFF);
    let _kept = heap.enter(|m| {
        let list = node(m, 1, Some(node(m, 2, None)));
        // Dead, and yet to be swept.
        node(m, 3, None);
        (Global::new(m, list), Root::new(m, list))
    });
    let report = heap.verify().unwrap();
    assert_eq!((report.cycles, report.objects, report.reachable, report.handles), (0, 3, 2, 2));
    heap.cycle();
    let report = heap.verify().unwrap();
    assert_eq!((report.cycles, report.objects, report.reachable, report.handles), (1, 2, 2, 2));
}

#[test]
fn marks_and_greys_outside_of_a_cycle_are_found() {
    for grey in [false, true] {
        let heap = heap(Verify::OFF);
        let kept = heap.enter(|m| Global::new(m, node(m, 1, None)));
        heap.enter(|m| if grey { heap.corrupt_grey(kept.get(m)) } else { heap.corrupt_mark(kept.get(m)) });
        assert_eq!(broken(&heap).0, ["INV-ARM-CLEAN"]);
    }
}

#[test]
fn damaged_handle_tables_are_found() {
    for count in [false, true] {
        let heap = heap(Verify::OFF);
        let _kept = heap.enter(|m| {
            drop((Global::new(m, node(m, 1, None)), Global::new(m, node(m, 2, None))));
            Global::new(m, node(m, 3, None))
        });
        if count {
            heap.corrupt_handle_count();
        } else {
            heap.corrupt_free_handles();
        }
        assert_eq!(broken(&heap).0, ["INV-TABLE-EMPTY"]);
    }
}

/// A header that is no address at all, one that is the address of something else, and none.
#[test]
fn damaged_headers_are_found_with_the_way_there() {
    static ELSE: [u64; 8] = [7; 8];
    for word in [0x10, (&raw const ELSE).addr(), 0] {
        let heap = heap(Verify::OFF);
        let list = heap.enter(|m| Global::new(m, node(m, 1, Some(node(m, 2, None)))));
        let header = heap.enter(|m| heap.corrupt_header(list.get(m).next.load(m).unwrap(), word));
        let (found, paths) = broken(&heap);
        assert_eq!(found, ["INV-PUBLISH"], "{word:#x}");
        assert!(paths.iter().all(|p| p.starts_with("Global 0 -> ") && p.contains("Node")), "{paths:?}");
        heap.enter(|m| heap.restore_header(list.get(m).next.load(m).unwrap(), header));
        assert_eq!(broken(&heap).0, [""; 0]);
    }
}

#[test]
fn a_leaf_of_two_arrays_is_found() {
    let heap = heap(Verify::OFF);
    let (a, b) = heap.enter(|m| {
        let array = |m: &Mutator<'_>| Global::new(m, m.alloc_array(20_000, |i| i).unwrap());
        (array(m), array(m))
    });
    heap.enter(|m| heap.corrupt_leaf(a.get(m), b.get(m)));
    assert_eq!(broken(&heap).0, ["INV-LEAF-OWNER"]);
}

#[test]
fn a_registration_that_its_object_does_not_note_is_found() {
    let heap = heap(Verify::OFF);
    let kept = heap.enter(|m| {
        let n = node(m, 1, None);
        assert!(m.register_finalizer(n));
        Global::new(m, n)
    });
    heap.enter(|m| heap.corrupt_registration(kept.get(m)));
    assert_eq!(broken(&heap).0, ["INV-REGISTRATION"]);
}

/// A white object hidden from the collector behind a black one is found at once, also if it is let go before marking
/// ends, when nobody misses it any more.
#[test]
fn the_tricolour_invariant_is_checked_while_marking_goes_on() {
    for on in [false, true] {
        let heap = heap(Verify { snapshot: false, ..Verify::ALL });
        heap.fault(Fault::NoDeletionBarrier, on);
        let (head, black) = heap.enter(|m| {
            let second = node(m, 2, None);
            (Root::new(m, node(m, 1, Some(second))), Global::new(m, node(m, 3, None)))
        });
        heap.run_through("roots");
        assert_eq!(heap.phase(), Phase::Mark);
        heap.enter(|m| {
            let second = head.get(m).next.swap(m, None);
            black.get(m).next.store(m, second);
        });
        // The black object is scanned when it is taken out of the log of what `get` has shaded: so it is black already.
        let (found, paths) = broken(&heap);
        assert_eq!(found, if on { vec!["INV-TRICOLOUR"] } else { vec![] });
        assert!(paths.iter().all(|p| p.starts_with("Global 0 -> ")), "{paths:?}");
        heap.enter(|m| black.get(m).next.store(m, None));
        heap.run_until(Phase::Idle);
        assert_eq!(heap.violations(), []);
    }
}

/// A reference that goes and is not shaded, to an object that is never seen again: no handle misses it, so no mark from
/// the handles does; the barrier broke its promise all the same.
#[test]
fn the_snapshot_validator_alone_finds_a_vanished_edge_to_garbage() {
    for on in [false, true] {
        let heap = heap(Verify::ALL);
        heap.fault(Fault::NoDeletionBarrier, on);
        let head = heap.enter(|m| {
            let second = node(m, 2, None);
            Root::new(m, node(m, 1, Some(second)))
        });
        let steps = heap.steps(1);
        assert_eq!((steps.names, heap.phase()), (vec!["arm"], Phase::Snapshot));
        heap.enter(|m| head.get(m).next.store(m, None));
        heap.run_until(Phase::Idle);
        let found: Vec<_> = heap.violations().iter().map(|v| (v.edge, v.invariant)).collect();
        assert_eq!(found, if on { vec![("weak", "INV-SNAPSHOT")] } else { vec![] });
    }
}

/// A soft reference that keeps its object in this cycle is a root, though no handle: only the second mark looks at it.
#[test]
fn the_re_mark_validator_alone_finds_what_a_soft_reference_lost() {
    for on in [false, true] {
        let heap = heap(Verify::ALL);
        heap.fault(Fault::NoSoftBarrier, on);
        let _soft = heap.enter(|m| {
            let white = node(m, 1, None);
            assert!(heap.at_pause(m, |h| h.run_until(Phase::Mark)).blocked);
            Soft::new(m, white)
        });
        heap.run_until(Phase::Weak);
        let found: Vec<_> = heap.violations().iter().map(|v| (v.edge, v.invariant)).collect();
        assert_eq!(found, if on { vec![("weak", "INV-REMARK")] } else { vec![] });
    }
}

/// What survives its own death by a cycle is counted: exactly what the heap still holds after that cycle.
#[test]
fn floating_garbage_is_a_number() {
    let heap = heap(Verify { heap: false, snapshot: false, ..Verify::ALL });
    let (list, array) = heap.enter(|m| {
        let list = (0..100).fold(None, |next, i| Some(node(m, i, next)));
        (Global::new(m, list.unwrap()), Global::new(m, m.alloc_array(20_000, |i| i).unwrap()))
    });
    heap.run_through("globals");
    assert_eq!(heap.floating(), None, "marking has not ended");
    drop((list, array));
    heap.run_until(Phase::Idle);
    let floating = heap.floating().unwrap();
    assert_eq!((floating.objects, floating.bytes), (101, heap.used_bytes()));
    heap.cycle();
    let floating = heap.floating().unwrap();
    assert_eq!((floating.objects, floating.bytes, heap.used_bytes()), (0, 0, 0));
}

#[test]
fn only_each_nth_cycle_is_verified() {
    let heap = heap(Verify { every: 3, ..Verify::HEAP });
    heap.corrupt_used();
    let mut found = vec![];
    for _ in 0..7 {
        heap.cycle();
        found.push(heap.violations().first().map(|v| v.cycle));
    }
    assert_eq!(found, [None, None, Some(3), None, None, Some(6), None]);
}
