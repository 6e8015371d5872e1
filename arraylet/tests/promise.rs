//! Promises against an adversary: a rival that takes every listed region at each flush, in a heap that has no region to
//! spare. What is promised can be allocated whatever it does, and one region less would not do.

use metronome_arraylet::class::{CLASSES, CLASSES_ALL};
use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::promise::FLUSHES_MAX;
use metronome_arraylet::{
    Class, Colour, Cursors, LEAF_CLASS, Space, SpaceOptions, regions_for_bytes, regions_for_cells,
};
use quickcheck::{Arbitrary, Gen, QuickCheck};

/// Classes with drop glue or without, as cursors have them.
fn kinds() -> impl Iterator<Item = (Class, bool)> {
    (0..CLASSES_ALL as u8)
        .flat_map(|c| [(Class(c), false), (Class(c), true)])
        .filter(|&k| k != (LEAF_CLASS, true))
}

/// A mutator with a promise, its rival, and one that keeps the rest of the heap.
struct Duel {
    space: Space,
    mine: Cursors,
    rival: Cursors,
    hog: Cursors,
    flushes: u32,
}

impl Duel {
    /// A heap in which `before` was allocated and flushed, and then `regions` were promised and all others kept.
    fn new(regions: u32, before: &[(Class, bool)], flush_before: bool) -> Duel {
        let size = regions + before.len() as u32 + 1;
        // SAFETY: the test keeps the access rules.
        let (space, _) = unsafe { Space::new(SpaceOptions::fixed(u64::from(size) << 16)) }.unwrap();
        let mut duel = Duel {
            space,
            mine: Cursors::default(),
            rival: Cursors::default(),
            hog: Cursors::default(),
            flushes: 0,
        };
        for &(class, glue) in before {
            assert!(duel.allocate(class, glue));
        }
        if flush_before {
            duel.mine.flush(&duel.space);
        }
        assert!(duel.mine.promise(&duel.space, regions));
        let rest = duel.space.free_regions();
        assert!(duel.hog.promise(&duel.space, rest));
        assert_eq!(duel.space.free_regions(), 0);
        duel
    }

    fn allocate(&mut self, class: Class, glue: bool) -> bool {
        let index = CursorIndex::new(class, glue);
        // The colour changes with each flush, as at arming and at the start of the sweep.
        let colour = if self.flushes.is_multiple_of(2) { Colour::White } else { Colour::Black };
        let cell = self.mine.bump(index, class.size());
        cell.or_else(|| self.mine.refill(&self.space, index, colour)).is_some()
    }

    /// The colour changes, and before this mutator gets a cell the rival takes all that is in lists.
    fn flush(&mut self) {
        self.mine.flush(&self.space);
        self.flushes += 1;
        for (class, glue) in kinds() {
            while self.rival.refill(&self.space, CursorIndex::new(class, glue), Colour::White).is_some() {}
        }
    }

    fn end(mut self) {
        self.mine.end_promise(&self.space);
        self.hog.end_promise(&self.space);
        self.rival.flush(&self.space);
        self.mine.flush(&self.space);
        assert_eq!(self.space.verify(), Ok(()));
    }
}

/// Allocations that a promise is asked for, the moments of the flushes among them (per mille), and what was before.
#[derive(Clone, Debug)]
struct Section {
    cells: Vec<(u8, bool, u16)>,
    flushes: [u16; FLUSHES_MAX as usize],
    before: Vec<(u8, bool)>,
    flush_before: bool,
}

impl Arbitrary for Section {
    fn arbitrary(g: &mut Gen) -> Section {
        let few = u8::arbitrary(g) % 2 == 0;
        let mut cells = Vec::<(u8, bool, u16)>::arbitrary(g);
        // Few cells of many kinds cost most; many cells of one kind fill regions.
        cells.iter_mut().for_each(|c| c.2 = if few { 1 + c.2 % 3 } else { c.2 % 900 });
        Section {
            cells,
            flushes: [u16::arbitrary(g) % 1001, u16::arbitrary(g) % 1001],
            before: Vec::arbitrary(g),
            flush_before: bool::arbitrary(g),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Section>> {
        let s = self.clone();
        let t = self.clone();
        Box::new(
            self.cells
                .shrink()
                .map(move |cells| Section { cells, ..s.clone() })
                .chain(self.before.shrink().map(move |before| Section { before, ..t.clone() })),
        )
    }
}

fn kind(class: u8, glue: bool) -> (Class, bool) {
    let class = Class(class % CLASSES_ALL as u8);
    (class, glue && class != LEAF_CLASS)
}

/// Runs the section with a promise of `regions`; every allocation must succeed.
fn run(section: &Section, cells: &[(Class, bool)], regions: u32) -> bool {
    let before: Vec<_> = section.before.iter().map(|&(c, g)| kind(c, g)).collect();
    let mut duel = Duel::new(regions, &before, section.flush_before);
    for (n, &(class, glue)) in cells.iter().enumerate() {
        for _ in section.flushes.iter().filter(|&&f| usize::from(f) * cells.len() / 1000 == n) {
            duel.flush();
        }
        assert!(duel.allocate(class, glue), "cell {n} of {} ({class:?}) failed", cells.len());
    }
    assert!(duel.flushes <= FLUSHES_MAX);
    duel.end();
    true
}

#[test]
fn any_mix_of_the_bytes_is_kept() {
    fn mix(section: Section) -> bool {
        let mut cells = Vec::new();
        for &(class, glue, n) in &section.cells {
            cells.extend(std::iter::repeat_n(kind(class, glue), n.into()));
        }
        // At most 1 MiB, so that a run is short.
        let (mut bytes, mut n) = (0, 0);
        while n < cells.len() && bytes + cells[n].0.size() <= 1 << 20 {
            bytes += cells[n].0.size();
            n += 1;
        }
        run(&section, &cells[..n], regions_for_bytes(bytes as u64))
    }
    QuickCheck::new().tests(60).quickcheck(mix as fn(Section) -> bool);
}

#[test]
fn cells_of_one_kind_are_kept() {
    fn one_kind(section: Section, class: u8, glue: bool, n: u16) -> bool {
        let kind = kind(class, glue);
        let n = usize::from(n) % (3 * kind.0.cells() + 5);
        run(&section, &vec![kind; n], regions_for_cells(kind.0, n as u64))
    }
    QuickCheck::new().tests(60).quickcheck(one_kind as fn(Section, u8, bool, u16) -> bool);
}

/// Allocates in the three stretches between flushes; returns whether all went well, and what is left of the promise.
fn stretches(regions: u32, cells: &[Vec<(Class, bool)>; 3]) -> (bool, u32) {
    let mut duel = Duel::new(regions, &[], false);
    let mut all = true;
    for (i, stretch) in cells.iter().enumerate() {
        if i > 0 {
            duel.flush();
        }
        all &= stretch.iter().all(|&(class, glue)| duel.allocate(class, glue));
    }
    let left = duel.mine.promised();
    duel.end();
    (all, left)
}

#[test]
fn no_fewer_regions_do_for_cells() {
    for (class, glue) in kinds().step_by(7) {
        let c = class.cells();
        for n in [1, 2, 3, c + 2, c + 3, 2 * c + 3] {
            let last = n.saturating_sub(2);
            let cells = [n.min(1), usize::from(n >= 2), last].map(|n| vec![(class, glue); n]);
            let regions = regions_for_cells(class, n as u64);
            assert_eq!(stretches(regions, &cells), (true, 0), "{n} of {class:?}");
            assert!(!stretches(regions - 1, &cells).0, "{n} of {class:?}: {regions} regions are too many");
        }
    }
}

#[test]
fn no_fewer_regions_do_for_bytes() {
    for bytes in [16, 40, 1_000, 50_000, 300_000, 600_000, 1_000_000] {
        // Buys three cells of each kind, one for each stretch, the smallest kinds first; then whole regions of the
        // class of which the fewest bytes fill one.
        let (mut cells, mut left) = ([const { Vec::new() }; 3], bytes);
        let mut kinds: Vec<_> = kinds().collect();
        kinds.sort_by_key(|k| k.0.size());
        'buy: for kind in kinds {
            for stretch in &mut cells {
                if left < kind.0.size() {
                    break 'buy;
                }
                left -= kind.0.size();
                stretch.push(kind);
            }
        }
        let fill = |c: &Class| c.size() * c.cells();
        let dense = (0..CLASSES as u8).map(Class).min_by_key(fill).unwrap();
        if cells[2].contains(&(Class(CLASSES as u8 - 1), true)) {
            cells[2].extend(std::iter::repeat_n((dense, false), left / fill(&dense) * dense.cells()));
        }
        let total: usize = cells.iter().flatten().map(|k| k.0.size()).sum();
        assert!(total <= bytes);
        let regions = regions_for_bytes(bytes as u64);
        assert_eq!(stretches(regions, &cells), (true, 0), "{bytes} bytes");
        assert!(!stretches(regions - 1, &cells).0, "{bytes} bytes: {regions} regions are too many");
    }
}

#[test]
fn a_promise_is_all_or_nothing_and_bounds_shrinking() {
    // SAFETY: the test keeps the access rules.
    let (space, _) = unsafe { Space::new(SpaceOptions::fixed(8 << 16)) }.unwrap();
    let (mut a, mut b) = (Cursors::default(), Cursors::default());
    assert!(!a.promise(&space, 9) && !a.promise(&space, u32::MAX));
    assert_eq!((a.promised(), space.free_regions()), (0, 8));
    assert!(a.promise(&space, 5) && a.promise(&space, 1));
    assert_eq!((a.promised(), space.free_regions()), (6, 2));
    assert!(!b.promise(&space, 3));
    assert_eq!(space.shrink(1), 6);
    assert!(!b.promise(&space, 1) && b.promise(&space, 0));
    let index = CursorIndex::new(LEAF_CLASS, false);
    assert!(b.refill(&space, index, Colour::White).is_none());
    assert!(a.refill(&space, index, Colour::White).is_some());
    assert_eq!(space.verify(), Ok(()));
    assert_eq!((a.promised(), space.stats().regions_in_use), (5, 6));
    // Free cells in a listed region come before the promise.
    a.flush(&space);
    assert!(a.refill(&space, index, Colour::White).is_some());
    assert_eq!((a.promised(), space.stats().regions_in_use), (5, 6));
    a.end_promise(&space);
    a.end_promise(&space);
    assert_eq!((a.promised(), space.stats().regions_in_use), (0, 1));
    assert!(b.refill(&space, index, Colour::White).is_some());
    assert_eq!(space.verify(), Ok(()));
}
