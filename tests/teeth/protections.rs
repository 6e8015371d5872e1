//! Scripts for protections that are not barriers: cells of arrays, and runs of cells.

use metronome_gc::config::Config;
use metronome_gc::testing::{Fault, Phase, TestHeap};
use metronome_gc::{Gc, Global, Mutator, Slot, Trace};

#[derive(Trace)]
struct Node {
    id: u64,
    next: Slot<Node>,
}

fn node<'m>(m: &'m Mutator<'_>, id: u64) -> Gc<'m, Node> {
    m.alloc(NodeInit { id, next: None }).unwrap()
}

fn heap() -> TestHeap {
    TestHeap::new(Config { heap: 8 << 20, max_mutators: 8, ..Config::DEFAULT }).unwrap()
}

fn found(heap: &TestHeap) -> Vec<&'static str> {
    heap.violations().iter().map(|v| v.invariant).collect()
}

/// INV-CURSOR-RUN: a run that is kept when a cycle is armed gives out white cells while new objects must be black.
#[test]
fn runs_are_flushed_when_the_colour_changes() {
    for on in [false, true] {
        let heap = heap();
        heap.fault(Fault::NoCursorFlush, on);
        let global = heap.enter(|m| {
            let global = Global::new(m, node(m, 1));
            // A pause point alone keeps the run: the next safepoint, too, is one with the collector's steps before it.
            heap.at_pause(m, |h| h.steps(1));
            assert_eq!(heap.phase(), Phase::Snapshot);
            let new = node(m, 2);
            assert_eq!(heap.is_marked(new), !on);
            heap.at_safepoint(m, |h| h.run_through("globals"));
            heap.at_pause(m, |h| h.run_through("mark"));
            let head = global.get(m);
            assert!(heap.is_marked(head));
            head.next.store(m, node(m, 3));
            global
        });
        heap.run_until(Phase::Weak);
        let found = found(&heap);
        assert_eq!(found.contains(&"INV-MARK-COMPLETE"), on, "{found:?}");
        assert_eq!(found.contains(&"INV-NO-BLACK-TO-WHITE"), on, "{found:?}");
        drop(global);
    }
}

/// The spine is marked, and one of its leaves is not, for the first leaf and two in the middle. The last element of this
/// array lies in the spine itself.
#[test]
fn any_lost_leaf_is_found_when_marking_ends() {
    let leaf = "INV-LEAF-MARKED";
    for (index, invariant) in [(0, leaf), (10_000, leaf), (290_000, leaf), (299_999, "INV-MARK-COMPLETE")] {
        let heap = heap();
        let (array, other) = heap.enter(|m| {
            let other = node(m, 3);
            other.next.store(m, node(m, 4));
            (Global::new(m, m.alloc_array(300_000, |i| i as u64).unwrap()), Global::new(m, other))
        });
        heap.run_through("pass");
        // Something to flush, which comes after all that handles reach has been marked.
        heap.enter(|m| other.get(m).next.store(m, None));
        assert_eq!(heap.run_through("flush").names.last(), Some(&"flush"));
        heap.enter(|m| heap.unmark_payload(array.get(m).at(index)));
        heap.run_until(Phase::Weak);
        assert_eq!(found(&heap), [invariant], "element {index}");
    }
}
