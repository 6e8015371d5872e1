//! The verifier has teeth: each invariant of DESIGN.md that it checks, broken on purpose, is reported by its id.

use metronome_arraylet::corrupt::Corruption;
use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{Class, Colour, Cursors, OsOptions, RegionId, RegionState, Space};

/// A class whose number of cells is no multiple of 64.
const CLASS: Class = match Class::of(24, 8) {
    Some(c) => c,
    None => panic!("there is a class for 24 bytes"),
};

/// A heap with a listed region (cell 0 is in use, the last is free), one free region that was in use before, one
/// that is being reaped, and more that were never taken.
struct Scene {
    space: Space,
    listed: RegionId,
    free: RegionId,
    reaping: RegionId,
}

fn find(space: &Space, state: RegionState) -> RegionId {
    let id = (0..space.regions_touched()).find(|&i| space.metas()[i as usize].state() == state);
    RegionId(id.unwrap_or_else(|| panic!("no region is {state:?}")))
}

fn scene() -> Scene {
    let (space, _) = Space::new(8 << 16, OsOptions::default()).unwrap();
    let (mut a, mut b) = (Cursors::default(), Cursors::default());
    let kept = a.refill(&space, CursorIndex::new(CLASS, false), Colour::White).unwrap();
    b.refill(&space, CursorIndex::new(CLASS, false), Colour::White).unwrap();
    let glue = a.refill(&space, CursorIndex::new(CLASS, true), Colour::White).unwrap();
    assert_ne!(kept, glue);
    a.flush(&space);
    b.flush(&space);
    // One cycle: the kept cell is marked, the second region is empty, the one with drop glue has a dead object.
    space.mark(kept.as_ptr());
    space.begin_sweep();
    for i in 0..space.regions_touched() {
        space.sweep_region(RegionId(i));
    }
    assert_eq!(space.verify(), Ok(()));
    let (listed, free) = (find(&space, RegionState::Listed), find(&space, RegionState::Free));
    let reaping = find(&space, RegionState::Reaping);
    Scene { space, listed, free, reaping }
}

#[test]
fn each_invariant_is_reported_by_its_id() {
    use Corruption::*;
    let cases = [
        (Used, "INV-HEAP-USED"),
        (Regions, "INV-HEAP-REGIONS"),
        (PooledInUse, "INV-HEAP-POOL"),
        (LostFromPool, "INV-HEAP-POOL"),
        (PooledTwice, "INV-HEAP-POOL"),
        (NeverTaken, "INV-HEAP-POOL"),
        (NoSuchRegion, "INV-HEAP-POOL"),
        (ListedButFull, "INV-HEAP-LISTED"),
        (ListedInNoList, "INV-HEAP-LISTED"),
        (ListedUnswept, "INV-HEAP-SWEPT"),
        (MarkedFree, "INV-HEAP-MARK"),
        (BeyondLast, "INV-HEAP-MARK"),
        (GreyUnmarked, "INV-HEAP-GREY"),
        (CondemnedMarked, "INV-HEAP-CONDEMNED"),
        (CondemnedFree, "INV-HEAP-CONDEMNED"),
        (ReapingInUse, "INV-HEAP-REAPING"),
    ];
    for (what, invariant) in cases {
        let s = scene();
        let region = match what {
            LostFromPool | PooledTwice => s.free,
            NeverTaken => RegionId(s.space.regions() - 1),
            ReapingInUse => s.reaping,
            _ => s.listed,
        };
        s.space.corrupt(what, region);
        let violation = s.space.verify().unwrap_err();
        assert_eq!(violation.invariant, invariant, "{what:?}: {violation}");
        assert!(!violation.detail.is_empty() && violation.to_string().starts_with(invariant));
    }
}

/// The invariants that the heap's verifier checks are exactly those that are broken here.
#[test]
fn no_invariant_is_left_out() {
    let design = include_str!("../DESIGN.md");
    let tests = include_str!("teeth.rs");
    let left_to_the_collector = ["INV-HEAP-VACANT", "INV-CURSOR-RUN"];
    let ids: Vec<&str> = design.split("**").filter(|s| s.starts_with("INV-")).collect();
    assert!(ids.len() > 8, "{ids:?}");
    for id in ids {
        assert!(left_to_the_collector.contains(&id) || tests.contains(id), "{id} is not broken by any test");
    }
}
