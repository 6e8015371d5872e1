//! The heap's account of memory against the system's.

use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{
    Class, Colour, Cursors, OsOptions, REGION_BYTES, RegionId, ReserveError, Space, SpaceOptions,
};

const CLASS: Class = match Class::of(8192, 8) {
    Some(c) => c,
    None => panic!("there is a class for 8192 bytes"),
};
const REGION: u64 = REGION_BYTES as u64;

fn space(max: u64, initial: u64, os: OsOptions) -> (Space, Vec<String>) {
    // SAFETY: the test keeps the access rules.
    unsafe { Space::new(SpaceOptions { max_bytes: max * REGION, initial_bytes: initial * REGION, os }) }
        .unwrap()
}

/// Fills `n` whole regions and writes to all of their pages.
fn fill(space: &Space, cursors: &mut Cursors, n: usize) {
    let index = CursorIndex::new(CLASS, false);
    for i in 0..n * CLASS.cells() {
        let cell = cursors.bump(index, CLASS.size());
        let cell = cell.or_else(|| cursors.refill(space, index, Colour::White));
        let cell = cell.unwrap_or_else(|| panic!("no cell {i} in {n} regions"));
        for page in (0..CLASS.size()).step_by(4096) {
            // SAFETY: within the cell, which is this test's alone.
            unsafe { cell.add(page).as_ptr().write(1) };
        }
    }
}

/// Everything dies.
fn empty(space: &Space, cursors: &mut Cursors) {
    cursors.flush(space);
    space.begin_sweep();
    (0..space.regions_touched()).for_each(|i| {
        space.sweep_region(RegionId(i));
    });
    assert_eq!(space.used_bytes(), 0);
}

/// Both accounts say so many regions.
#[track_caller]
fn resident(space: &Space, regions: u64) {
    assert_eq!(space.resident_bytes(), regions * REGION);
    match space.system_resident_bytes() {
        Ok(bytes) => assert_eq!(bytes, regions * REGION, "by the system's account"),
        Err(e) => println!("skipped: mincore says {e}"),
    }
    assert_eq!(space.verify(), Ok(()));
}

#[test]
fn touched_regions_are_accounted_for_until_they_are_trimmed() {
    let (space, refused) = space(16, 12, OsOptions::default());
    assert!(refused.is_empty(), "{refused:?}");
    let mut c = Cursors::default();
    resident(&space, 0);
    fill(&space, &mut c, 5);
    resident(&space, 5);
    assert_eq!(space.trim(9), 0, "what is in use was trimmed");
    empty(&space, &mut c);
    resident(&space, 5);
    assert_eq!(space.trim(2), 2);
    resident(&space, 3);
    // Resident ones are taken first, then returned ones, then new ones.
    fill(&space, &mut c, 3);
    assert_eq!(space.regions_touched(), 5);
    resident(&space, 3);
    fill(&space, &mut c, 2);
    assert_eq!(space.regions_touched(), 5);
    resident(&space, 5);
    fill(&space, &mut c, 1);
    assert_eq!(space.regions_touched(), 6);
    resident(&space, 6);
    empty(&space, &mut c);
    assert_eq!(space.trim(u32::MAX), 6);
    resident(&space, 0);
}

#[test]
fn trimming_leaves_promises_and_the_last_free_region_to_mutators() {
    let (space, _) = space(2, 2, OsOptions::default());
    let (mut c, mut d) = (Cursors::default(), Cursors::default());
    fill(&space, &mut c, 2);
    empty(&space, &mut c);
    assert!(c.promise(&space, 2));
    // The memory goes; the promise stays good.
    assert_eq!(space.trim(2), 2);
    resident(&space, 0);
    assert!(d.refill(&space, CursorIndex::new(CLASS, false), Colour::White).is_none());
    fill(&space, &mut c, 2);
    resident(&space, 2);
}

#[test]
fn what_the_limit_admits_is_resident_with_prefaulting() {
    let os = OsOptions { prefault: true, ..OsOptions::default() };
    let (space, refused) = space(16, 8, os);
    assert!(refused.is_empty(), "{refused:?}");
    let mut c = Cursors::default();
    resident(&space, 8);
    fill(&space, &mut c, 8);
    assert!(c.refill(&space, CursorIndex::new(CLASS, false), Colour::White).is_none());
    resident(&space, 8);
    assert_eq!(space.grow(12).unwrap(), (12, vec![]));
    resident(&space, 12);
    fill(&space, &mut c, 4);
    resident(&space, 12);
    assert_eq!(space.shrink(3), 12, "shrunk below what is in use");
    empty(&space, &mut c);
    assert_eq!(space.trim(100), 0, "what the limit admits was trimmed");
    assert_eq!(space.shrink(3), 3);
    resident(&space, 12);
    assert_eq!(space.trim(4), 4);
    resident(&space, 8);
    assert_eq!(space.grow(6).unwrap().0, 6);
    resident(&space, 8);
    assert_eq!(space.trim(100), 2);
    resident(&space, 6);
    fill(&space, &mut c, 6);
    resident(&space, 6);
    // Returned ones come back, and new ones join.
    assert_eq!(space.grow(u32::MAX).unwrap().0, 16);
    resident(&space, 16);
    fill(&space, &mut c, 10);
    resident(&space, 16);
    assert_eq!(space.regions_touched(), 16);
}

#[test]
fn never_taken_regions_are_trimmed_too() {
    let os = OsOptions { prefault: true, ..OsOptions::default() };
    let (space, _) = space(8, 8, os);
    assert_eq!(space.shrink(0), 1);
    assert_eq!(space.trim(8), 7);
    resident(&space, 1);
    let mut c = Cursors::default();
    fill(&space, &mut c, 1);
    resident(&space, 1);
    space.grow(8).unwrap();
    fill(&space, &mut c, 7);
    resident(&space, 8);
}

/// Page faults of this thread so far, by the system's count.
fn faults() -> i64 {
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) }, 0);
    usage.ru_minflt + usage.ru_majflt
}

#[test]
fn no_page_is_faulted_in_with_prefaulting() {
    let faults_of = |prefault| {
        let (space, _) = space(96, 64, OsOptions { prefault, ..OsOptions::default() });
        let mut c = Cursors::default();
        fill(&space, &mut c, 1);
        space.grow(96).unwrap();
        let before = faults();
        fill(&space, &mut c, 95);
        faults() - before
    };
    let (without, with) = (faults_of(false), faults_of(true));
    println!("{without} page faults without prefaulting, {with} with");
    // Each of 95 regions has 16 pages (fewer where pages are larger), and a few faults of the test's own are allowed.
    assert!(with < 32 && without > 95, "{without} page faults without prefaulting, {with} with");
}

#[test]
fn locked_regions_are_trimmed_and_locked_again() {
    let os = OsOptions { lock: true, ..OsOptions::default() };
    let (space, refused) = space(8, 8, os);
    println!("refused: {refused:?}");
    assert!(refused.iter().all(|r| r.starts_with("mlock")) && refused.len() < 2, "{refused:?}");
    resident(&space, 8);
    let mut c = Cursors::default();
    fill(&space, &mut c, 8);
    empty(&space, &mut c);
    assert_eq!(space.shrink(2), 2);
    assert_eq!(space.trim(8), 6);
    resident(&space, 2);
    assert_eq!(space.grow(5).unwrap().0, 5);
    resident(&space, 5);
    space.discard();
    assert_eq!(space.resident_bytes(), 0);
    assert!(space.system_resident_bytes().is_ok_and(|b| b == 0) || space.system_resident_bytes().is_err());
}

#[test]
fn huge_pages_are_asked_for_or_refused_in_words() {
    let os = OsOptions { huge_pages: true, ..OsOptions::default() };
    let (space, refused) = space(64, 64, os);
    assert!(refused.iter().all(|r| r.starts_with("huge pages: ")), "{refused:?}");
    let mut c = Cursors::default();
    fill(&space, &mut c, 3);
    assert_eq!(space.resident_bytes(), 3 * REGION);
    // The system may have backed more at once, but not less.
    assert!(space.system_resident_bytes().map_or(true, |b| b >= 3 * REGION));
}

#[test]
fn sizes_that_make_no_sense_are_errors() {
    let new = |max_bytes, initial_bytes| {
        // SAFETY: the test keeps the access rules.
        unsafe { Space::new(SpaceOptions { max_bytes, initial_bytes, os: OsOptions::default() }) }
            .unwrap_err()
    };
    assert!(matches!(new(REGION - 1, REGION), ReserveError::Size { bytes } if bytes as u64 == REGION - 1));
    assert!(matches!(new(REGION, 0), ReserveError::Size { bytes: 0 }));
    assert!(matches!(new(u64::MAX, REGION), ReserveError::Size { .. }));
    let e = new(4 * REGION, 5 * REGION);
    assert!(
        matches!(e, ReserveError::Initial { initial, max } if (initial, max) == (5 * REGION, 4 * REGION))
    );
    assert!(e.to_string().contains("327680") && e.to_string().contains("262144"), "{e}");
}

#[test]
fn memory_that_is_not_there_is_an_error_and_changes_nothing() {
    // 16 TiB of address space.
    let max_bytes = 1 << 44;
    let os = OsOptions { prefault: true, ..OsOptions::default() };
    // SAFETY: the test keeps the access rules.
    match unsafe { Space::new(SpaceOptions { max_bytes, initial_bytes: 4 * REGION, os }) } {
        Err(e @ ReserveError::Map { .. }) => println!("skipped: {e}"),
        Err(e) => panic!("{e}"),
        Ok((space, _)) => {
            let e = space.grow(u32::MAX).unwrap_err();
            assert!(matches!(e, ReserveError::Unavailable { .. }), "{e}");
            assert!(e.to_string().contains("available"), "{e}");
            assert_eq!((space.limit_regions(), space.resident_regions()), (4, 4));
            assert_eq!(space.grow(6).unwrap(), (6, vec![]));
            assert_eq!((space.limit_regions(), space.resident_regions()), (6, 6));
        }
    }
}
