//! The verifier has teeth: each invariant of DESIGN.md that it checks, broken on purpose, is reported by its id.

use metronome_arraylet::corrupt::Corruption;
use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{Class, Colour, Cursors, OsOptions, RegionId, RegionState, Space, SpaceOptions};

/// A class whose number of cells is no multiple of 64.
const CLASS: Class = match Class::of(24, 8) {
    Some(c) => c,
    None => panic!("there is a class for 24 bytes"),
};

const REGIONS: u64 = 8;

/// A heap with a listed region (cell 0 is in use, the last is free), free regions that were in use before, one that
/// is being reaped, more that were never taken, a promise, and a free region whose memory was returned, unless the heap
/// is backed in advance.
struct Scene {
    space: Space,
    listed: RegionId,
    free: RegionId,
    reaping: RegionId,
    returned: Option<RegionId>,
}

fn find(space: &Space, state: RegionState, resident: bool) -> Option<RegionId> {
    let meta = |i: u32| &space.metas()[i as usize];
    let is = |i: &u32| meta(*i).state() == state && meta(*i).is_resident() == resident;
    (0..space.regions_touched()).find(is).map(RegionId)
}

fn scene(prefault: bool) -> Scene {
    // SAFETY: the test keeps the access rules.
    let (space, _) = unsafe {
        Space::new(SpaceOptions {
            max_bytes: REGIONS << 16,
            initial_bytes: (REGIONS - 2) << 16,
            os: OsOptions { prefault, ..OsOptions::default() },
        })
    }
    .unwrap();
    let (mut a, mut b, mut c) = (Cursors::default(), Cursors::default(), Cursors::default());
    let kept = a.refill(&space, CursorIndex::new(CLASS, false), Colour::White).unwrap();
    b.refill(&space, CursorIndex::new(CLASS, false), Colour::White).unwrap();
    c.refill(&space, CursorIndex::new(CLASS, false), Colour::White).unwrap();
    assert!(c.promise(&space, 1));
    let glue = a.refill(&space, CursorIndex::new(CLASS, true), Colour::White).unwrap();
    assert_ne!(kept, glue);
    a.flush(&space);
    b.flush(&space);
    c.flush(&space);
    // One cycle: the kept cell is marked, two regions are empty, the one with drop glue has a dead object.
    space.mark(kept.as_ptr());
    space.begin_sweep();
    for i in 0..space.regions_touched() {
        space.sweep_region(RegionId(i));
    }
    assert_eq!(space.trim(1), u32::from(!prefault));
    assert_eq!(space.verify(), Ok(()));
    let there = |state| find(&space, state, true).unwrap_or_else(|| panic!("no region is {state:?}"));
    let (listed, free) = (there(RegionState::Listed), there(RegionState::Free));
    let reaping = there(RegionState::Reaping);
    let returned = find(&space, RegionState::Free, false);
    Scene { listed, free, reaping, returned, space }
}

#[test]
fn each_invariant_is_reported_by_its_id() {
    use Corruption::*;
    let cases = [
        (Used, "INV-HEAP-USED"),
        (Regions, "INV-HEAP-REGIONS"),
        (PromisedTwice, "INV-HEAP-REGIONS"),
        (LimitBelowUse, "INV-HEAP-LIMIT"),
        (LimitAboveMax, "INV-HEAP-LIMIT"),
        (Resident, "INV-HEAP-RESIDENT"),
        (InUseNotResident, "INV-HEAP-RESIDENT"),
        (ReturnedResident, "INV-HEAP-RESIDENT"),
        (NeverTakenResident, "INV-HEAP-RESIDENT"),
        (Unbacked, "INV-HEAP-BACKED"),
        (ReturnedAndReady, "INV-HEAP-POOL"),
        (PooledNeverTaken, "INV-HEAP-POOL"),
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
        (GreyFree, "INV-HEAP-GREY"),
        (CondemnedMarked, "INV-HEAP-CONDEMNED"),
        (CondemnedFree, "INV-HEAP-CONDEMNED"),
        (ReapingInUse, "INV-HEAP-REAPING"),
    ];
    for (what, invariant) in cases {
        let s = scene(what == Unbacked);
        let region = match what {
            LostFromPool | PooledTwice => s.free,
            ReturnedResident | ReturnedAndReady => s.returned.unwrap(),
            NeverTaken | PooledNeverTaken | NeverTakenResident => RegionId(s.space.max_regions() - 1),
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
    let left_to_the_collector = ["INV-HEAP-VACANT", "INV-CURSOR-RUN", "INV-LEAF-OWNER"];
    // Checked by the allocator under its stress mode, and broken in a test of that.
    let left_to_the_allocator = ["INV-HEAP-ZAPPED"];
    assert!(left_to_the_allocator.iter().all(|id| include_str!("stress.rs").contains(id)));
    let ids: Vec<&str> = design.split("**").filter(|s| s.starts_with("INV-")).collect();
    assert!(ids.len() > 8, "{ids:?}");
    for id in ids {
        assert!(
            left_to_the_collector.contains(&id) || left_to_the_allocator.contains(&id) || tests.contains(id),
            "{id} is not broken by any test"
        );
    }
}

/// Where shading is deferred, an unmarked cell is grey; that breaks nothing.
#[test]
fn an_unmarked_cell_may_be_grey() {
    let s = scene(false);
    let mut kept = None;
    s.space.for_each_allocated(|p, _| kept = kept.or(Some(p)));
    let kept = kept.unwrap();
    assert!(!s.space.is_marked(kept.as_ptr()));
    s.space.push_grey(kept.as_ptr());
    assert_eq!(s.space.verify(), Ok(()));
    let mut popped = Vec::new();
    while s.space.pop_grey(|p| popped.push(p)) {}
    assert_eq!(popped, [kept]);
    assert!(!s.space.is_marked(kept.as_ptr()), "taking it is not marking it");
}

/// A region that a sweep has yet to visit is in no list; one that it has visited is, and so is each one when it has ended.
#[test]
fn a_sweep_may_be_looked_at_in_the_middle() {
    let space = scene(false).space;
    let regions = space.regions_touched();
    let listed = |s: &Space| s.metas().iter().filter(|m| m.state() == RegionState::Listed).count();
    // A region of two classes each, which keep a cell.
    let mut cursors = Cursors::default();
    for class in [CLASS, Class::of(100, 8).unwrap()] {
        let kept = cursors.refill(&space, CursorIndex::new(class, false), Colour::White).unwrap();
        space.mark(kept.as_ptr());
    }
    cursors.flush(&space);
    assert!(listed(&space) >= 2);
    let end = space.regions_touched();
    assert!(end >= regions);
    space.begin_sweep();
    let unlisted = space.verify().expect_err("a sweep that has ended leaves no such region");
    assert_eq!(unlisted.invariant, "INV-HEAP-LISTED");
    for next in 0..end {
        assert_eq!(space.verify_sweeping(next..end), Ok(()), "before region {next}");
        if space.metas()[next as usize].state() == RegionState::Listed {
            let skipped = space.verify_sweeping(next + 1..end).expect_err("it has been passed over");
            assert_eq!(skipped.invariant, "INV-HEAP-LISTED");
        }
        space.sweep_region(RegionId(next));
    }
    assert_eq!(space.verify(), Ok(()));
    assert!(listed(&space) >= 2);
}
