//! Random programs over a heap and several mutators' cursors, against a model: a map from the first byte of each
//! cell in use to what is known of it. No cell is handed out twice, cells do not overlap, the counter of used bytes
//! is exact, what is marked survives, what is free is given out again, and the verifier is content at every step.

use metronome_arraylet::cursor::CursorIndex;
use metronome_arraylet::{
    Class, Colour, Cursors, LEAF_CLASS, OsOptions, REGION_BYTES, RegionId, RegionState, Space,
};
use quickcheck::{Arbitrary, Gen, QuickCheck};
use std::collections::BTreeMap;
use std::collections::HashSet;

const MUTATORS: usize = 3;
const REGIONS: u64 = 24;

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
        match b(g) % 10 {
            0..=5 => Op::Allocate(b(g), b(g), b(g) % 3 == 0, b(g)),
            6 => Op::Flush(b(g)),
            7 | 8 => Op::Cycle {
                keep_one_in: b(g) % 5,
                between: Some(b(g)).filter(|n| n % 4 != 0),
                stopped: (b(g) % 3 == 0)
                    .then(|| Stopped { mutator: b(g) % MUTATORS as u8, since_arming: b(g) % 2 == 0 }),
            },
            _ => Op::Reap(b(g) % 8),
        }
    }
}

/// A cell in use.
#[derive(Clone, Copy, Debug)]
struct Cell {
    bytes: usize,
    glue: bool,
    /// Found dead; its drop glue has yet to run.
    condemned: bool,
}

/// The heap, its mutators, and the model.
struct Program {
    space: Space,
    cursors: [Cursors; MUTATORS],
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
    fn new() -> Program {
        Program {
            space: Space::new(REGIONS << 16, OsOptions::default()).unwrap().0,
            cursors: Default::default(),
            cells: BTreeMap::new(),
            freed: HashSet::new(),
            reused: 0,
            failed: 0,
            colour: Colour::White,
        }
    }

    fn allocate(&mut self, mutator: u8, class: Class, glue: bool) {
        let index = CursorIndex::new(class, glue);
        let cursors = &mut self.cursors[usize::from(mutator) % MUTATORS];
        let size = class.size_dynamic();
        let cell = cursors.bump(index, size).or_else(|| cursors.refill(&self.space, index, self.colour));
        let Some(cell) = cell else {
            self.failed += 1;
            return;
        };
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
        self.cells.insert(at, Cell { bytes: size, glue, condemned: false });
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
    }

    fn flush_all_but(&mut self, stopped: Option<u8>) {
        for (i, c) in self.cursors.iter_mut().enumerate() {
            if Some(i) != stopped.map(usize::from) {
                c.flush(&self.space);
                assert!(c.is_empty());
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
        self.flush_all_but(None);
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
                Op::Flush(m) => self.cursors[usize::from(m) % MUTATORS].flush(&self.space),
                Op::Cycle { keep_one_in, between, stopped } => self.cycle(keep_one_in, between, stopped),
                Op::Reap(n) => self.reap(n),
            }
            self.check();
        }
    }

    /// Everything dies: the heap is as empty as a new one, and takes as much again.
    fn end(&mut self) {
        self.cycle(0, None, None);
        self.reap(u8::MAX);
        self.check();
        assert!(self.cells.is_empty());
        assert_eq!((self.space.used_bytes(), self.space.free_regions()), (0, REGIONS as u32));
        let class = class(5);
        for _ in 0..REGIONS as usize * class.cells() {
            self.allocate(0, class, false);
        }
        assert_eq!(self.cells.len(), REGIONS as usize * class.cells());
        self.check();
    }
}

#[test]
fn random_programs() {
    fn program(ops: Vec<Op>) -> bool {
        let mut p = Program::new();
        p.run(&ops);
        p.end();
        true
    }
    QuickCheck::new().tests(150).quickcheck(program as fn(Vec<Op>) -> bool);
}

#[test]
fn freed_cells_are_given_out_again() {
    let mut p = Program::new();
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
