//! Cells of a cursor's run, and vacant cells of regions with drop glue: what only the cursor's owner and the reaper see,
//! so that the heap's verifier cannot check it.

use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{Class, Colour, Cursors, OsOptions, RegionId, Space, SpaceOptions};
use std::collections::HashSet;
use std::ptr::NonNull;

const CLASS: Class = match Class::of(1024, 8) {
    Some(c) => c,
    None => panic!("there is a class for 1024 bytes"),
};

fn space() -> Space {
    // SAFETY: the tests keep the access rules but where they break one on purpose, and then touch no cell.
    unsafe {
        Space::new(SpaceOptions { max_bytes: 4 << 16, initial_bytes: 4 << 16, os: OsOptions::default() })
    }
    .unwrap()
    .0
}

fn alloc(cursors: &mut Cursors, space: &Space, glue: bool, colour: Colour) -> Option<NonNull<u8>> {
    let index = CursorIndex::new(CLASS, glue);
    cursors.bump(index, CLASS.size_dynamic()).or_else(|| cursors.refill(space, index, colour))
}

fn sweep(space: &Space) {
    space.begin_sweep();
    for i in 0..space.regions_touched() {
        space.sweep_region(RegionId(i));
    }
}

/// INV-CURSOR-RUN: a run that is not flushed before a sweep is not reserved any more after it, so that two cursors give
/// the same cells out.
#[test]
fn a_run_that_is_kept_through_a_sweep_is_handed_out_twice() {
    for flushed in [true, false] {
        let space = space();
        let (mut a, mut b) = (Cursors::default(), Cursors::default());
        let kept = alloc(&mut a, &space, false, Colour::White).unwrap();
        space.mark(kept.as_ptr());
        if flushed {
            a.flush(&space);
        }
        let mut rest = 0;
        a.for_each_rest(|p, end| {
            assert!(space.is_allocated(p), "reserved until the sweep");
            rest += end.addr() - p.addr();
        });
        assert_eq!(rest > 0, !flushed);
        sweep(&space);
        let mut unreserved = 0;
        a.for_each_rest(|p, _| unreserved += u32::from(!space.is_allocated(p)));
        assert_eq!(unreserved > 0, !flushed, "the check of a run's reservation");
        // And what comes of it.
        let mut seen = HashSet::from([kept]);
        let mut twice = 0;
        for cursors in [&mut b, &mut a] {
            for _ in 0..CLASS_CELLS {
                if let Some(cell) = alloc(cursors, &space, false, Colour::White) {
                    twice += u32::from(!seen.insert(cell));
                }
            }
        }
        assert_eq!(twice > 0, !flushed);
    }
}

/// More cells than a region has.
const CLASS_CELLS: usize = 100;

/// INV-CURSOR-RUN: a run keeps the colour it was taken with, so that one that is kept through an arming gives white
/// cells out in a phase of black ones.
#[test]
fn a_run_that_is_kept_through_an_arming_is_white() {
    for flushed in [true, false] {
        let space = space();
        let mut cursors = Cursors::default();
        alloc(&mut cursors, &space, false, Colour::White).unwrap();
        if flushed {
            cursors.flush(&space);
        }
        let cell = alloc(&mut cursors, &space, false, Colour::Black).unwrap();
        assert_eq!(space.is_marked(cell.as_ptr()), flushed);
    }
}

/// Runs what a reaper does, but for the drop glue itself.
fn reap(space: &Space) {
    while let Some(region) = space.pop_reap() {
        while let Some(batch) = space.condemned(region) {
            space.reaped(&batch);
        }
        space.reap_done(region);
    }
}

/// A region with drop glue that has an owner when it is swept is passed over, and has none at the next sweep: a program
/// that always allocates, so that each sweep finds it with a region of its own, does not keep its dead for ever.
#[test]
fn what_a_sweep_passes_over_is_condemned_by_the_next() {
    let space = space();
    let mut cursors = Cursors::default();
    let mut before: Option<*const u8> = None;
    for round in 0..20 {
        // Dead at once; the region is owned in the sweep.
        let cell = alloc(&mut cursors, &space, true, Colour::White).unwrap();
        // SAFETY: the cell was given to this test, and holds a word at least.
        unsafe { cell.as_ptr().cast::<usize>().write(0) };
        sweep(&space);
        assert!(space.is_allocated(cell.as_ptr()), "a cell of an owned region was condemned");
        // As mutators do when they run on after the sweep has begun.
        cursors.flush(&space);
        reap(&space);
        if let Some(before) = before.replace(cell.as_ptr()) {
            assert!(!space.is_allocated(before), "round {round}");
        }
        assert!(
            space.used_bytes() <= 2 * CLASS.size_dynamic() as u64,
            "round {round}: {}",
            space.used_bytes()
        );
    }
}

/// Reserved cells of the rest of a run that say they hold an object.
fn with_headers(cursors: &Cursors) -> usize {
    let mut out = 0;
    cursors.for_each_rest(|start, end| {
        let mut at = start;
        while at.addr() < end.addr() {
            // SAFETY: the cells of a run are reserved for its owner, this test, and each holds a word at least.
            out += usize::from(unsafe { at.cast::<usize>().read() } != 0);
            at = at.wrapping_add(CLASS.size_dynamic());
        }
    });
    out
}

/// INV-HEAP-VACANT: cells that held objects are vacant again when they are reserved; a header that is left behind is
/// found.
#[test]
fn a_vacant_cell_with_a_header_is_found() {
    let space = space();
    let mut cursors = Cursors::default();
    for _ in 0..2 {
        let mut cells = Vec::new();
        for _ in 0..40 {
            let cell = alloc(&mut cursors, &space, true, Colour::White).unwrap();
            assert_eq!(with_headers(&cursors), 0);
            // SAFETY: the cell was given to this test, and holds a word at least.
            unsafe { cell.as_ptr().cast::<usize>().write(0xBEE0) };
            cells.push(cell);
        }
        cursors.flush(&space);
        // All are dead: what a reaper would drop is given back.
        sweep(&space);
        reap(&space);
        assert!(cells.iter().all(|c| !space.is_allocated(c.as_ptr())));
    }
    alloc(&mut cursors, &space, true, Colour::White).unwrap();
    assert_eq!(with_headers(&cursors), 0);
    let mut last = None;
    cursors.for_each_rest(|p, _| last = Some(p));
    let vacant = last.expect("a run has more cells than one").cast_mut();
    // SAFETY: as in `with_headers`.
    unsafe { vacant.cast::<usize>().write(0xBEE0) };
    assert_eq!(with_headers(&cursors), 1);
}
