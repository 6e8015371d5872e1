//! The modes for tests: what is written into freed memory is found, and free regions cannot be accessed.

use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::stress::{FREED, FRESH};
use metronome_arraylet::{Class, Colour, Cursors, RegionId, Space, SpaceOptions, SpaceStress, Violation};
use std::cell::RefCell;
use std::ptr::NonNull;

const SIZE: usize = 64;
const CLASS: Class = match Class::of(SIZE, 8) {
    Some(c) => c,
    None => panic!("there is a class for 64 bytes"),
};

thread_local! {
    static FOUND: RefCell<Vec<Violation>> = const { RefCell::new(Vec::new()) };
}

fn found() -> usize {
    FOUND.with_borrow_mut(|f| {
        assert!(f.iter().all(|v| v.invariant == "INV-HEAP-ZAPPED"), "{f:?}");
        std::mem::take(f).len()
    })
}

fn space(zap: bool, protect: bool) -> Space {
    // SAFETY: the tests keep the access rules, but where they plant a fault.
    let (mut space, _) = unsafe { Space::new(SpaceOptions::fixed(4 << 16)) }.unwrap();
    let zap: Option<fn(Violation)> = if zap { Some(|v| FOUND.with_borrow_mut(|f| f.push(v))) } else { None };
    space.set_stress(SpaceStress { zap, protect, ..SpaceStress::default() });
    space
}

fn alloc(space: &Space, c: &mut Cursors, glue: bool) -> NonNull<u8> {
    let index = CursorIndex::new(CLASS, glue);
    c.bump(index, CLASS.size_dynamic()).or_else(|| c.refill(space, index, Colour::White)).unwrap()
}

/// Nothing but `kept` is marked.
fn collect(space: &Space, kept: &[NonNull<u8>]) {
    kept.iter().for_each(|c| assert!(space.mark(c.as_ptr())));
    space.begin_sweep();
    (0..space.regions_touched()).for_each(|i| {
        space.sweep_region(RegionId(i));
    });
    while let Some(id) = space.pop_reap() {
        while let Some(batch) = space.condemned(id) {
            space.reaped(&batch);
        }
        space.reap_done(id);
    }
}

fn bytes(cell: NonNull<u8>) -> [u8; SIZE] {
    // SAFETY: cells of the heap stay mapped and are at least this long.
    unsafe { cell.cast().read() }
}

/// Writes one byte into a cell that is not the caller's.
fn plant(cell: NonNull<u8>) {
    // SAFETY: mapped memory that no other thread uses; to write here is the fault that is to be found.
    unsafe { cell.add(SIZE - 1).write(1) };
}

#[test]
fn fresh_and_freed_cells_are_filled() {
    let space = space(true, false);
    let mut c = Cursors::default();
    let (a, b, rest) =
        (alloc(&space, &mut c, false), alloc(&space, &mut c, false), alloc(&space, &mut c, false));
    assert_eq!([bytes(a), bytes(b)], [[FRESH; SIZE]; 2]);
    // What is left of the run was never used.
    c.flush(&space);
    assert_eq!(bytes(rest.map_addr(|x| x.saturating_add(SIZE))), [FREED; SIZE]);
    collect(&space, &[a]);
    assert_eq!(bytes(a), [FRESH; SIZE]);
    assert_eq!([bytes(b), bytes(rest)], [[FREED; SIZE]; 2]);
    collect(&space, &[]);
    assert_eq!(bytes(a), [FREED; SIZE]);
    // The free region is taken again, and a cell with drop glue is filled when it was reaped.
    let (d, e) = (alloc(&space, &mut c, true), alloc(&space, &mut c, true));
    assert_eq!(bytes(d)[..8], [0; 8]);
    assert_eq!(bytes(d)[8..], [FRESH; SIZE - 8]);
    c.flush(&space);
    collect(&space, &[e]);
    assert_eq!(bytes(d), [FREED; SIZE]);
    assert_eq!(found(), 0);
}

#[test]
fn a_write_into_freed_memory_is_found_when_it_is_handed_out() {
    let space = space(true, false);
    let mut c = Cursors::default();
    for glue in [false, true] {
        let (kept, dead) = (alloc(&space, &mut c, glue), alloc(&space, &mut c, glue));
        plant(dead);
        c.flush(&space);
        collect(&space, &[kept]);
        plant(kept);
        alloc(&space, &mut c, glue);
        assert_eq!(found(), 0, "a write into an object is none into freed memory");
        c.flush(&space);
        collect(&space, &[kept]);
        plant(dead);
        alloc(&space, &mut c, glue);
        assert_eq!(found(), 1);
        c.flush(&space);
    }
    // Into a free region.
    collect(&space, &[]);
    let dead = alloc(&space, &mut c, false);
    c.flush(&space);
    collect(&space, &[]);
    assert_eq!(found(), 0);
    plant(dead);
    let mut taken = Vec::new();
    while space.free_regions() > 0 {
        taken.push(Cursors::default());
        let c = taken.last_mut().unwrap();
        alloc(&space, c, false);
    }
    assert_eq!(found(), 1);
}

#[test]
fn free_regions_cannot_be_accessed() {
    const CHILD: &str = "METRONOME_TEST_READS_A_FREE_REGION";
    let space = space(true, true);
    let mut c = Cursors::default();
    let dead = alloc(&space, &mut c, false);
    c.flush(&space);
    collect(&space, &[]);
    if std::env::var_os(CHILD).is_some() {
        // To end here is what is to be seen.
        println!("{:?}", bytes(dead));
        return;
    }
    // Taken again, it is accessible; and so is one whose memory was returned and that is taken again.
    for trim in [false, true] {
        if trim {
            assert!(space.trim(4) > 0);
        }
        let cell = alloc(&space, &mut c, false);
        assert_eq!(bytes(cell), [FRESH; SIZE]);
        c.flush(&space);
        collect(&space, &[]);
    }
    assert_eq!(found(), 0);
    assert_eq!(space.verify(), Ok(()));
    use std::os::unix::process::ExitStatusExt;
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "free_regions_cannot_be_accessed"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert_eq!(child.status.signal(), Some(11), "{child:?}");
}
