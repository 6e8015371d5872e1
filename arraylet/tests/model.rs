//! Random programs over a heap and several mutators' cursors, against a model: a map from the first byte of each
//! cell in use to what is known of it. No cell is handed out twice, cells do not overlap, the counter of used bytes
//! is exact, what is marked survives, what is free is given out again, promises are kept, the limit is what was asked for,
//! the system's account of memory agrees, and the verifier is content at every step.

use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{
    Class, Colour, Cursors, LEAF_CLASS, OsOptions, REGION_BYTES, RegionId, RegionState, Space, SpaceOptions,
    regions_for_bytes, regions_for_cells,
};
use quickcheck::{Arbitrary, Gen, QuickCheck};
use std::collections::BTreeMap;
use std::collections::HashSet;
use std::ptr::NonNull;

const MUTATORS: usize = 3;
const REGIONS: u32 = 24;
const REGIONS_MAX: u32 = 32;

/// What a program does.
#[derive(Clone, Debug)]
enum Op {
    /// Mutator, class, drop glue, how many cells.
    Allocate(u8, u8, bool, u8),
    Flush(u8),
    /// A whole cycle: keep one object in how many; what mutators allocate between its steps, if anything; which
    /// mutator stays stopped, so that its cursors are flushed late.
    Cycle {
        keep_one_in: u8,
        between: Option<u8>,
        stopped: Option<Stopped>,
    },
    /// The reaper takes this many batches.
    Reap(u8),
    /// Raises or lowers the limit to so many regions.
    Resize {
        grow: bool,
        to: u8,
    },
    /// Returns the memory of at most this many regions.
    Trim(u8),
    /// Promises a mutator regions for what is said, or ends its promise.
    Promise(u8, Promised),
    EndPromise(u8),
}

/// What a promise is for, or still for.
#[derive(Clone, Copy, Debug)]
enum Promised {
    /// Cells of one cursor: class, drop glue, how many.
    Cells(u8, bool, u16),
    /// Cells of any kind that sum up to so many bytes.
    Bytes(u16),
}

/// A promise under way.
#[derive(Clone, Copy, Debug)]
struct Promise {
    left: Promised,
    flushes: u32,
}

impl Promise {
    /// Whether it covers one more cell, which it pays for then.
    fn pay(&mut self, class: Class, glue: bool) -> bool {
        let paid = match &mut self.left {
            // Another cursor's cells may use up the promise.
            Promised::Cells(c, g, n) if *g == glue && self::class(*c) == class && *n > 0 => {
                *n -= 1;
                true
            }
            Promised::Bytes(n) if usize::from(*n) >= class.size() => {
                *n -= class.size() as u16;
                true
            }
            _ => false,
        };
        paid && self.flushes <= metronome_arraylet::promise::FLUSHES_MAX
    }
}

/// A mutator that does not run on during the sweep, and perhaps since before arming.
#[derive(Clone, Copy, Debug)]
struct Stopped {
    mutator: u8,
    since_arming: bool,
}

impl Arbitrary for Op {
    fn arbitrary(g: &mut Gen) -> Op {
        let b = |g: &mut Gen| u8::arbitrary(g);
        match b(g) % 17 {
            0..=5 => Op::Allocate(b(g), b(g), b(g) % 3 == 0, b(g)),
            6 => Op::Flush(b(g)),
            7 | 8 => Op::Cycle {
                keep_one_in: b(g) % 5,
                between: Some(b(g)).filter(|n| n % 4 != 0),
                stopped: (b(g) % 3 == 0)
                    .then(|| Stopped { mutator: b(g) % MUTATORS as u8, since_arming: b(g) % 2 == 0 }),
            },
            9 => Op::Reap(b(g) % 8),
            10 | 11 => Op::Resize { grow: b(g) % 2 == 0, to: b(g) % (REGIONS_MAX as u8 + 4) },
            12 | 13 => Op::Trim(b(g) % 8),
            14 => Op::Promise(b(g), Promised::Cells(b(g), b(g) % 3 == 0, u16::arbitrary(g) % 9000)),
            15 => Op::Promise(b(g), Promised::Bytes(u16::arbitrary(g) % 600)),
            _ => Op::EndPromise(b(g)),
        }
    }
}

/// A cell in use.
#[derive(Clone, Copy, Debug)]
struct Cell {
    at: NonNull<u8>,
    bytes: usize,
    glue: bool,
    /// Found dead; its drop glue has yet to run.
    condemned: bool,
}

/// The heap, its mutators, and the model.
struct Program {
    space: Space,
    cursors: [Cursors; MUTATORS],
    promises: [Option<Promise>; MUTATORS],
    /// Regions are resident before they are within the limit.
    backed: bool,
    limit: u32,
    /// Cells in use by their first byte.
    cells: BTreeMap<usize, Cell>,
    /// Cells that were in use once.
    freed: HashSet<usize>,
    reused: usize,
    failed: usize,
    colour: Colour,
}

/// A few classes of all kinds: the smallest, ones that do not divide a region, the largest, leaves.
fn class(n: u8) -> Class {
    match n % 7 {
        0 => Class::of(16, 8),
        1 => Class::of(24, 8),
        2 => Class::of(40, 8),
        3 => Class::of(200, 8),
        4 => Class::of(3000, 8),
        5 => Class::of(8192, 8),
        _ => Some(LEAF_CLASS),
    }
    .unwrap()
}

impl Program {
    fn new(backed: bool) -> Program {
        let options = SpaceOptions {
            max_bytes: u64::from(REGIONS_MAX) << 16,
            initial_bytes: u64::from(REGIONS) << 16,
            os: OsOptions { prefault: backed, ..OsOptions::default() },
        };
        Program {
            // SAFETY: the test keeps the access rules.
            space: unsafe { Space::new(options) }.unwrap().0,
            cursors: Default::default(),
            promises: Default::default(),
            backed,
            limit: REGIONS,
            cells: BTreeMap::new(),
            freed: HashSet::new(),
            reused: 0,
            failed: 0,
            colour: Colour::White,
        }
    }

    fn allocate(&mut self, mutator: u8, class: Class, glue: bool) {
        let index = CursorIndex::new(class, glue);
        let m = usize::from(mutator) % MUTATORS;
        let promised = self.promises[m].as_mut().is_some_and(|p| p.pay(class, glue));
        if !promised {
            self.promises[m] = None;
        }
        let cursors = &mut self.cursors[m];
        let size = class.size_dynamic();
        let cell = cursors.bump(index, size).or_else(|| cursors.refill(&self.space, index, self.colour));
        let Some(cell) = cell else {
            assert!(!promised, "a promise was broken");
            assert_eq!(self.space.free_regions(), 0, "no region was given though some are free");
            self.failed += 1;
            return;
        };
        // SAFETY: the last word of the cell, which is this program's, and aligned as sizes are multiples of 8.
        unsafe { cell.add(size - 8).cast::<usize>().write(cell.addr().get()) };
        assert!(self.space.contains(cell.as_ptr()) && self.space.is_allocated(cell.as_ptr()));
        assert_eq!(self.space.is_leaf(cell.as_ptr()), class == LEAF_CLASS);
        assert_eq!(self.space.is_marked(cell.as_ptr()), self.colour == Colour::Black);
        let at = cell.addr().get();
        assert_eq!(at % if size.is_multiple_of(128) { 128 } else { 8 }, 0);
        let region = |p: usize| p / REGION_BYTES;
        assert_eq!(region(at), region(at + size - 1), "a cell lies in two regions");
        // No overlap with what is in use below or above.
        if let Some((&below, c)) = self.cells.range(..=at).next_back() {
            assert!(below + c.bytes <= at, "{at:#x} overlaps {below:#x}");
        }
        if let Some((&above, _)) = self.cells.range(at..).next() {
            assert!(at + size <= above, "{at:#x} overlaps {above:#x}");
        }
        self.cells.insert(at, Cell { at: cell, bytes: size, glue, condemned: false });
        self.reused += usize::from(self.freed.remove(&at));
    }

    /// Bytes that cursors hold in reserve.
    fn reserved(&self) -> usize {
        let mut bytes = 0;
        for c in &self.cursors {
            c.for_each_rest(|from, to| bytes += to.addr() - from.addr());
        }
        bytes
    }

    /// `used` is what is in use and what is in reserve, to the byte; and the verifier is content.
    fn check(&self) {
        assert_eq!(self.space.verify(), Ok(()));
        let used: usize = self.cells.values().map(|c| c.bytes).sum();
        assert_eq!(self.space.used_bytes(), (used + self.reserved()) as u64);
        let mut seen = 0;
        self.space.for_each_allocated(|p, _| seen += usize::from(self.cells.contains_key(&p.addr().get())));
        assert_eq!(seen, self.cells.len(), "a cell in use is not allocated");
        assert_eq!(self.space.heap_bytes(), u64::from(self.limit) << 16);
        let promised: u32 = self.cursors.iter().map(Cursors::promised).sum();
        let metas = self.space.metas().iter();
        let in_use = metas.filter(|m| m.state() != RegionState::Free).count() as u32;
        assert_eq!(self.space.free_regions(), self.limit - in_use - promised);
        if let Ok(system) = self.space.system_resident_bytes() {
            let ours = self.space.resident_bytes();
            assert!(
                if self.backed { system == ours } else { system <= ours },
                "{system}, by our account {ours}"
            );
        }
    }

    /// What was written to the cells in use is there.
    fn check_contents(&self) {
        for c in self.cells.values() {
            // SAFETY: as when it was written; nobody else writes to cells.
            let word = unsafe { c.at.add(c.bytes - 8).cast::<usize>().read() };
            assert_eq!(word, c.at.addr().get());
        }
    }

    fn flush(&mut self, mutator: usize) {
        self.cursors[mutator].flush(&self.space);
        if let Some(p) = &mut self.promises[mutator] {
            p.flushes += 1;
        }
    }

    fn resize(&mut self, grow: bool, to: u8) {
        let to = u32::from(to);
        if grow {
            self.limit = self.limit.max(to.min(REGIONS_MAX));
            assert_eq!(self.space.grow(to).unwrap(), (self.limit, Vec::new()));
        } else {
            let in_use = self.space.stats().regions_in_use;
            self.limit = self.limit.min(to.max(in_use).max(1));
            assert_eq!(self.space.shrink(to), self.limit);
        }
    }

    fn trim(&mut self, at_most: u8) {
        let metas = self.space.metas().iter();
        let mut there = metas.filter(|m| m.state() == RegionState::Free && m.is_resident()).count() as u32;
        let resident = self.space.resident_regions();
        if self.backed {
            there = resident - self.limit;
        }
        let returned = self.space.trim(u32::from(at_most));
        assert_eq!(returned, there.min(u32::from(at_most)));
        assert_eq!(self.space.resident_regions(), resident - returned);
        self.check_contents();
    }

    fn promise(&mut self, mutator: u8, what: Promised) {
        let m = usize::from(mutator) % MUTATORS;
        let regions = match what {
            Promised::Cells(c, _, n) => regions_for_cells(class(c), n.into()),
            Promised::Bytes(n) => regions_for_bytes(n.into()),
        };
        self.end_promise(mutator);
        let free = self.space.free_regions();
        let made = self.cursors[m].promise(&self.space, regions);
        assert_eq!(made, regions <= free);
        assert_eq!(self.space.free_regions(), free - if made { regions } else { 0 });
        self.promises[m] = made.then_some(Promise { left: what, flushes: 0 });
    }

    fn end_promise(&mut self, mutator: u8) {
        let m = usize::from(mutator) % MUTATORS;
        let free = self.space.free_regions() + self.cursors[m].promised();
        self.cursors[m].end_promise(&self.space);
        assert_eq!(self.space.free_regions(), free);
        self.promises[m] = None;
    }

    fn flush_all_but(&mut self, stopped: Option<u8>) {
        for i in 0..MUTATORS {
            if Some(i) != stopped.map(usize::from) {
                self.flush(i);
                assert!(self.cursors[i].is_empty());
            }
        }
    }

    fn cycle(&mut self, keep_one_in: u8, between: Option<u8>, stopped: Option<Stopped>) {
        // Arming: black from here on; who runs on has flushed.
        self.colour = Colour::Black;
        let at_arming = stopped.filter(|s| s.since_arming).map(|s| s.mutator);
        self.flush_all_but(at_arming);
        let before: Vec<usize> = self.cells.keys().copied().collect();
        if let Some(n) = between {
            for m in (0..MUTATORS as u8).filter(|&m| Some(m) != at_arming) {
                self.allocate(m, class(n), n % 2 == 0 && class(n) != LEAF_CLASS);
            }
        }
        let kept = self.mark(&before, keep_one_in);
        // The sweep: white from here on; who runs on has flushed.
        self.space.begin_sweep();
        self.colour = Colour::White;
        let stopped = stopped.map(|s| s.mutator);
        self.flush_all_but(stopped);
        self.sweep(&before, &kept, between, stopped);
        // The stopped one runs on.
        if let Some(m) = stopped {
            self.flush(m.into());
        }
    }

    /// Marks every n-th object, some by way of the grey bits.
    fn mark(&self, before: &[usize], keep_one_in: u8) -> HashSet<usize> {
        let (mut kept, mut pushed) = (HashSet::new(), HashSet::new());
        for (n, &at) in before.iter().enumerate() {
            if keep_one_in == 0 || self.cells[&at].condemned || n % usize::from(keep_one_in) != 0 {
                continue;
            }
            let p = std::ptr::without_provenance::<u8>(at);
            assert!(self.space.mark(p) && !self.space.mark(p) && self.space.is_marked(p));
            kept.insert(at);
            if n % 3 == 0 {
                self.space.push_grey(p);
                pushed.insert(at);
            }
        }
        assert_eq!(self.space.verify(), Ok(()));
        let mut grey = HashSet::new();
        while self.space.pop_grey(|p| assert!(grey.insert(p.addr().get()))) {}
        assert!(!self.space.has_grey());
        assert_eq!(grey, pushed);
        kept
    }

    fn sweep(&mut self, before: &[usize], kept: &HashSet<usize>, between: Option<u8>, stopped: Option<u8>) {
        let base = self.space.cell_ptr(RegionId(0), 0).addr().get();
        for id in 0..self.space.regions_touched() {
            let owned = self.space.metas()[id as usize].state() == RegionState::Owned;
            let out = self.space.sweep_region(RegionId(id));
            let (from, to) = (base + id as usize * REGION_BYTES, base + (id as usize + 1) * REGION_BYTES);
            let (mut freed, mut condemned) = (0, 0);
            for at in before.iter().filter(|&at| (from..to).contains(at) && !kept.contains(at)) {
                let Some(cell) = self.cells.get_mut(at) else { continue };
                if !cell.glue {
                    freed += cell.bytes as u64;
                    self.cells.remove(at);
                    self.freed.insert(*at);
                } else if !owned {
                    condemned += cell.bytes as u64;
                    cell.condemned = true;
                    assert!(self.space.is_condemned(std::ptr::without_provenance(*at)));
                }
            }
            // What a stopped mutator's cursor has in reserve may be freed besides.
            assert!(out.freed_bytes >= freed, "{out:?}, expected {freed}");
            assert!(stopped.is_some() || out.freed_bytes == freed, "{out:?}, expected {freed}");
            assert_eq!(out.condemned_bytes, condemned);
            if let Some(n) = between
                && id % 2 == u32::from(n % 2)
            {
                let m = (0..MUTATORS as u8).find(|&m| Some(m) != stopped).unwrap_or(0);
                self.allocate(m, class(n.wrapping_add(id as u8)), false);
            }
        }
    }

    fn reap(&mut self, batches: u8) {
        let mut left = batches;
        while left > 0 {
            let Some(region) = self.space.pop_reap() else { return };
            // A region is reaped to its end, as the reaper does.
            while let Some(batch) = self.space.condemned(region) {
                let mut bits = batch.bits;
                while bits != 0 {
                    let p = self.space.cell_ptr(region, batch.first_cell + bits.trailing_zeros());
                    bits &= bits - 1;
                    let cell = self.cells.remove(&p.addr().get());
                    assert!(cell.is_some_and(|c| c.condemned), "reaped what is not condemned");
                    self.freed.insert(p.addr().get());
                }
                self.space.reaped(&batch);
            }
            self.space.reap_done(region);
            left -= 1;
        }
    }

    fn run(&mut self, ops: &[Op]) {
        for op in ops {
            match *op {
                Op::Allocate(m, c, glue, n) => {
                    let class = class(c);
                    for _ in 0..n {
                        self.allocate(m, class, glue && class != LEAF_CLASS);
                    }
                }
                Op::Flush(m) => self.flush(usize::from(m) % MUTATORS),
                Op::Cycle { keep_one_in, between, stopped } => self.cycle(keep_one_in, between, stopped),
                Op::Reap(n) => self.reap(n),
                Op::Resize { grow, to } => self.resize(grow, to),
                Op::Trim(n) => self.trim(n),
                Op::Promise(m, what) => self.promise(m, what),
                Op::EndPromise(m) => self.end_promise(m),
            }
            self.check();
        }
    }

    /// Everything dies: the heap is as empty as a new one, and takes as much again.
    fn end(&mut self) {
        let failed = self.failed;
        self.check_contents();
        (0..MUTATORS as u8).for_each(|m| self.end_promise(m));
        self.cycle(0, None, None);
        self.reap(u8::MAX);
        self.check();
        assert!(self.cells.is_empty());
        assert_eq!((self.space.used_bytes(), self.space.free_regions()), (0, self.limit));
        self.resize(true, u8::MAX);
        let class = class(5);
        for _ in 0..REGIONS_MAX as usize * class.cells() {
            self.allocate(0, class, false);
        }
        assert_eq!(self.cells.len(), REGIONS_MAX as usize * class.cells());
        assert_eq!(self.failed, failed);
        self.check_contents();
        self.check();
    }
}

#[test]
fn random_programs() {
    fn program(backed: bool, ops: Vec<Op>) -> bool {
        let mut p = Program::new(backed);
        p.run(&ops);
        p.end();
        true
    }
    QuickCheck::new().tests(200).quickcheck(program as fn(bool, Vec<Op>) -> bool);
}

#[test]
fn freed_cells_are_given_out_again() {
    let mut p = Program::new(false);
    let fill = |p: &mut Program| {
        while p.failed == 0 {
            p.allocate(0, class(1), false);
        }
        p.failed = 0;
    };
    fill(&mut p);
    let cells = p.cells.len();
    assert_eq!(cells, REGIONS as usize * class(1).cells());
    // Every second one is kept, so no region is free, and all others are given out again.
    p.flush_all_but(None);
    let before: Vec<usize> = p.cells.keys().copied().collect();
    let kept: HashSet<usize> = before.iter().copied().step_by(2).collect();
    kept.iter().for_each(|&at| assert!(p.space.mark(std::ptr::without_provenance(at))));
    p.space.begin_sweep();
    for id in 0..p.space.regions_touched() {
        p.space.sweep_region(RegionId(id));
    }
    for at in before.iter().filter(|at| !kept.contains(at)) {
        p.cells.remove(at);
        p.freed.insert(*at);
    }
    p.check();
    fill(&mut p);
    assert_eq!((p.cells.len(), p.reused), (cells, cells - kept.len()));
    p.check();
}
