//! A program, whims, and an account of windows that knows nothing of the collector's.

use metronome_gc::testing::{Cost, Stop, TickFault, TimedHeap, World};
use metronome_gc::{Config, GcArray, Mutator, Root, Slot, Trace};

pub(crate) const MS: u64 = 1_000_000;
/// Where true time begins.
pub(crate) const BEGIN: u64 = 1_000_000_000_000;

/// Numbers from a seed (xorshift).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }

    pub(crate) fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }
}

#[derive(Trace)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) older: Slot<Node>,
    _room: [u64; 5],
}

/// Keeps the newest of the nodes that it makes in a table, each with a link to the one in the next place.
pub(crate) struct Program {
    table: Root<GcArray<Slot<Node>>>,
    made: u64,
    pub(crate) failed: u64,
    /// Nodes made in a slice.
    pub(crate) rate: u64,
    pub(crate) dice: Dice,
    /// Chance of a fault at a tick, in percent.
    pub(crate) tick_faults: u64,
    pub(crate) clock_back: bool,
    pub(crate) lost: bool,
    /// Longest way to a poll; `None`: it comes by none.
    pub(crate) arrives: Option<u64>,
    pub(crate) timer_late: u64,
    /// Chance of coming by no poll while a stop lasts, in percent.
    pub(crate) misses: u64,
}

const KEPT: usize = 10_000;

impl Program {
    pub(crate) fn new(m: &mut Mutator<'_>, seed: u64) -> Program {
        let table = m.alloc_slots::<Node>(KEPT).unwrap();
        Program {
            table: Root::new(m, table),
            made: 0,
            failed: 0,
            rate: 8,
            dice: Dice::new(seed),
            tick_faults: 0,
            clock_back: false,
            lost: false,
            arrives: Some(0),
            timer_late: 0,
            misses: 0,
        }
    }

    /// Every node that is kept is what it was when it was made.
    pub(crate) fn check(&self, m: &Mutator<'_>) {
        let table = self.table.get(m);
        for i in 0..KEPT.min(self.made as usize) {
            let n = table.load(m, i).expect("it was stored");
            assert_eq!(n.id as usize % KEPT, i);
            assert!(n.id + KEPT as u64 >= self.made, "node {} is old, {} were made", n.id, self.made);
            if let Some(older) = n.older.load(m) {
                assert_eq!(older.id + 1, n.id);
            }
        }
    }
}

impl World for Program {
    fn work(&mut self, m: &mut Mutator<'_>) {
        for _ in 0..self.rate {
            let table = self.table.get(m);
            let at = (self.made % KEPT as u64) as usize;
            // The one before has its own link cut, so that what is older dies.
            let before = (self.made > 0).then(|| table.load(m, (at + KEPT - 1) % KEPT)).flatten();
            if let Some(b) = before {
                b.older.store(m, None);
            }
            match m.alloc(NodeInit { id: self.made, older: before, _room: [0; 5] }) {
                Ok(n) => {
                    table.store(m, at, Some(n));
                    self.made += 1;
                }
                Err(_) => self.failed += 1,
            }
        }
    }

    fn arrives(&mut self) -> Option<u64> {
        if self.misses > 0 && self.dice.percent(self.misses) {
            return None;
        }
        self.arrives.map(|most| self.dice.below(most + 1))
    }

    fn tick(&mut self) -> TickFault {
        if self.lost {
            return TickFault::Lost;
        }
        if !self.dice.percent(self.tick_faults) {
            return TickFault::OnTime;
        }
        let ns = self.dice.below(3 * MS);
        match self.dice.below(if self.clock_back { 5 } else { 4 }) {
            0 => TickFault::Late(ns),
            1 => TickFault::Lost,
            2 => TickFault::Doubled,
            3 => TickFault::Backward(ns),
            _ => TickFault::ClockBack(ns),
        }
    }

    fn timer_late(&mut self) -> u64 {
        self.dice.below(self.timer_late + 1)
    }
}

/// A heap in which a cycle follows the other, so that windows are full.
pub(crate) fn config(name: &str, value: &str) -> Config {
    let c = Config::default().with("heap", "8M").unwrap().with("cycle-interval", "1ms").unwrap();
    c.with(name, value).unwrap()
}

/// Runs a program that `set` has changed for `ns`, then an idle one until all is told.
pub(crate) fn run(heap: &TimedHeap, seed: u64, ns: u64, set: impl FnOnce(&mut Program)) -> u64 {
    heap.enter(|m| {
        let mut p = Program::new(m, seed);
        set(&mut p);
        heap.run(m, ns, &mut p);
        p.check(m);
        p.rate = 0;
        heap.run(m, 30 * MS, &mut p);
        p.check(m);
        p.failed
    })
}

/// Costs below `most`, from a seed; the release costs up to a tenth of that.
pub(crate) fn costs(seed: u64, most: u64) -> impl FnMut(&'static str) -> Cost + Send {
    let mut dice = Dice::new(seed ^ 0xC057);
    move |name| Cost::own(1 + dice.below(if name == "release" { most / 10 } else { most }))
}

/// What a stop is charged: the stop up to its budget, and the collector's own work.
pub(crate) fn charged(s: &Stop, stop_budget: u64) -> u64 {
    s.stop_ns.min(stop_budget) + s.own_ns
}

/// The most collector time in any window of `window` from the beginning on: every window that ends where an interval
/// does, and the first one. Each sum is made afresh.
pub(crate) fn most_used(intervals: &[(u64, u64)], window: u64) -> (u64, usize) {
    let used = |end: u64| {
        intervals.iter().map(|&(a, b)| b.min(end).saturating_sub(a.max(end - window))).sum::<u64>()
    };
    let ends = intervals.iter().enumerate().map(|(i, &(_, b))| (b, i)).filter(|&(b, _)| b >= BEGIN + window);
    ends.chain([(BEGIN + window, 0)]).map(|(end, i)| (used(end), i)).max().expect("there is the first window")
}

pub(crate) fn charged_intervals(stops: &[Stop], stop_budget: u64) -> Vec<(u64, u64)> {
    stops.iter().map(|s| (s.start_ns, s.start_ns + charged(s, stop_budget))).collect()
}
