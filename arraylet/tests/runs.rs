//! Cells of a cursor's run, and vacant cells of regions with drop glue: what only the cursor's owner and the reaper see,
//! so that the heap's verifier cannot check it.
//!
//! Not in a tiny build, whose runs are one cell of the size used here, or two of the smaller one: no rest and no gaps.
#![cfg(not(metronome_tiny))]

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

/// Cells of 32 bytes: 64 of them, a bitmap word, are 2 KiB.
const SMALL: Class = match Class::of(32, 8) {
    Some(c) => c,
    None => panic!("there is a class for 32 bytes"),
};

/// Fills a region with small cells, keeps those that `keep` says, and gives back the address of its first cell.
fn region_with_gaps(space: &Space, glue: bool, keep: impl Fn(usize) -> bool) -> usize {
    let mut cursors = Cursors::default();
    let index = CursorIndex::new(SMALL, glue);
    let cells: Vec<_> = (0..SMALL.cells())
        .map(|_| {
            let cell = cursors.bump(index, SMALL.size());
            cell.or_else(|| cursors.refill(space, index, Colour::White)).unwrap()
        })
        .collect();
    cells.iter().enumerate().filter(|&(i, _)| keep(i)).for_each(|(_, c)| assert!(space.mark(c.as_ptr())));
    cursors.flush(space);
    sweep(space);
    while let Some(region) = space.pop_reap() {
        while let Some(batch) = space.condemned(region) {
            space.reaped(&batch);
        }
        space.reap_done(region);
    }
    assert_eq!(space.stats().regions_in_use, 1);
    cells[0].addr().get()
}

/// Free cells that lie singly are reserved a bitmap word at a time, handed out once each in order of their addresses, and
/// given back by a flush.
#[test]
fn gaps_are_handed_out_once_and_given_back() {
    let keeps: [fn(usize) -> bool; 4] =
        [|i| i % 2 == 0, |i| i % 2 == 1, |i| i % 5 < 2, |i| i % 64 == 63 || i == 7];
    for glue in [false, true] {
        for (keep, colour) in keeps.into_iter().flat_map(|k| [(k, Colour::White), (k, Colour::Black)]) {
            let space = space();
            let base = region_with_gaps(&space, glue, keep);
            let free: Vec<usize> = (0..SMALL.cells()).filter(|&i| !keep(i)).collect();
            let index = CursorIndex::new(SMALL, glue);
            let kept_bytes = space.used_bytes();
            let mut cursors = Cursors::default();
            let (mut refills, mut taken) = (0, Vec::new());
            let half = free.len() / 2 + 1;
            for _ in 0..half {
                let cell =
                    cursors.bump(index, SMALL.size()).or_else(|| cursors.next_gap(index, SMALL.size()));
                let cell = cell.unwrap_or_else(|| {
                    refills += 1;
                    cursors.refill(&space, index, colour).unwrap()
                });
                assert!(space.is_allocated(cell.as_ptr()));
                assert_eq!(space.is_marked(cell.as_ptr()), colour == Colour::Black);
                taken.push((cell.addr().get() - base) / SMALL.size());
            }
            assert_eq!(taken, free[..half], "in order, each once, and none that is kept");
            // A word's cells at a time: never more than one refill for each word looked at.
            assert!(refills <= taken[half - 1] / 64 + 1, "{refills} refills");
            // What is reserved beyond is in the rest, to the byte.
            let mut rest = Vec::new();
            cursors.for_each_rest(|from, to| {
                for at in (0..to.addr() - from.addr()).step_by(SMALL.size()).map(|n| from.wrapping_add(n)) {
                    rest.push((at.addr() - base) / SMALL.size());
                    // SAFETY: a reserved cell of this test's, which holds a word at least.
                    assert!(!glue || unsafe { at.cast::<usize>().read() } == 0, "INV-HEAP-VACANT");
                }
            });
            assert_eq!(rest, free[half..half + rest.len()]);
            assert_eq!(space.used_bytes() - kept_bytes, ((half + rest.len()) * SMALL.size()) as u64);
            cursors.flush(&space);
            assert_eq!(space.used_bytes() - kept_bytes, (half * SMALL.size()) as u64);
            assert_eq!(space.verify(), Ok(()));
            // The rest is still to be had, and nothing else in this region.
            let more: Vec<usize> = (half..free.len())
                .map(|_| {
                    let cell = cursors.bump(index, SMALL.size());
                    let cell = cell.or_else(|| cursors.refill(&space, index, Colour::White)).unwrap();
                    (cell.addr().get() - base) / SMALL.size()
                })
                .collect();
            assert_eq!(more, free[half..]);
        }
    }
}

/// Where 64 cells are more than the longest run, there are no gaps: a refill reserves one run.
#[test]
fn large_cells_have_no_gaps() {
    let space = space();
    let mut cursors = Cursors::default();
    let cells: Vec<_> =
        (0..CLASS.cells()).map(|_| alloc(&mut cursors, &space, false, Colour::White).unwrap()).collect();
    cells.iter().step_by(2).for_each(|c| assert!(space.mark(c.as_ptr())));
    cursors.flush(&space);
    sweep(&space);
    let before = space.used_bytes();
    alloc(&mut cursors, &space, false, Colour::White).unwrap();
    assert_eq!(space.used_bytes() - before, CLASS.size() as u64);
}
