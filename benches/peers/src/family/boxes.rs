//! `Box` with mimalloc, each object freed as it goes out of use: what a Rust program does without a collector. Shared
//! nodes are out of its reach, so there is no storm; the cache is a table with indices for references.

use super::{Family, Idle};
use crate::program::churn::{digest, words};
use crate::program::lru::bucket;
use crate::program::{arrays, binary_trees, churn, gcbench, lru};

/// Nothing: the allocator is the whole program's.
pub(crate) struct Boxes;

impl Family for Boxes {
    type Shared = ();
    type Memory<'a> = Boxes;

    fn open(_heap: Option<u64>) -> Result<(), String> {
        Ok(())
    }

    fn enter<R>((): &(), f: impl FnOnce(&mut Boxes) -> R) -> R {
        f(&mut Boxes)
    }
}

impl Idle for Boxes {}

/// A node of two references.
pub(crate) struct Pair(Option<(Box<Pair>, Box<Pair>)>);

impl binary_trees::Trees for Boxes {
    type Tree = Box<Pair>;

    fn tree(&mut self, depth: u32) -> Box<Pair> {
        Box::new(Pair((depth > 0).then(|| (self.tree(depth - 1), self.tree(depth - 1)))))
    }

    fn count(&mut self, tree: &Box<Pair>) -> u64 {
        tree.0.as_ref().map_or(1, |(left, right)| 1 + self.count(left) + self.count(right))
    }
}

/// A node of GCBench.
#[derive(Default)]
pub(crate) struct Node {
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
    i: u32,
    j: u32,
}

fn down(node: &mut Node, depth: u32) {
    if depth > 0 {
        node.left = Some(Box::default());
        node.right = Some(Box::default());
        for child in [&mut node.left, &mut node.right].into_iter().flatten() {
            down(child, depth - 1);
        }
    }
}

impl gcbench::MutableTrees for Boxes {
    type Tree = Box<Node>;
    type Numbers = Box<[f64]>;

    fn top_down(&mut self, depth: u32) -> Box<Node> {
        let mut root = Box::default();
        down(&mut root, depth);
        root
    }

    fn bottom_up(&mut self, depth: u32) -> Box<Node> {
        let mut child = || (depth > 0).then(|| self.bottom_up(depth - 1));
        let (left, right) = (child(), child());
        Box::new(Node { left, right, i: 0, j: 0 })
    }

    fn left_path(&mut self, tree: &Box<Node>) -> u64 {
        std::iter::successors(Some(tree), |node| node.left.as_ref()).count() as u64
    }

    fn count(&mut self, tree: &Box<Node>) -> u64 {
        let mut sum = 1 + u64::from(tree.i + tree.j);
        for child in [&tree.left, &tree.right].into_iter().flatten() {
            sum += gcbench::MutableTrees::count(self, child);
        }
        sum
    }

    fn numbers(&mut self, len: usize) -> Box<[f64]> {
        (0..len).map(|i| gcbench::number(i, len)).collect()
    }

    fn sum(&mut self, numbers: &Box<[f64]>) -> u64 {
        numbers.iter().fold(0, |sum, x| sum.wrapping_add(x.to_bits()))
    }
}

/// An object of the churn.
pub(crate) struct Block {
    serial: u64,
    words: Box<[u64]>,
}

impl churn::Store for Boxes {
    type Table = Vec<Option<Box<Block>>>;

    fn table(&mut self, n: usize) -> Self::Table {
        (0..n).map(|_| None).collect()
    }

    fn put(&mut self, table: &mut Self::Table, place: usize, serial: u64) {
        table[place] = Some(Box::new(Block { serial, words: words(serial).collect() }));
    }

    fn digest(&mut self, table: &Self::Table, place: usize) -> u64 {
        table[place].as_ref().map_or(0, |block| digest(block.serial, &block.words))
    }
}

impl arrays::Arrays for Boxes {
    type Table = Vec<Box<[u64]>>;

    fn arrays(&mut self, n: usize) -> Self::Table {
        vec![Box::default(); n]
    }

    fn make(&mut self, table: &mut Self::Table, place: usize, len: usize, seed: u64) {
        table[place] = Box::default();
        table[place] = (seed..seed + len as u64).collect();
    }

    fn total(&mut self, table: &Self::Table, place: usize) -> u64 {
        table[place].iter().fold(0, |sum: u64, x| sum.wrapping_add(*x))
    }
}

/// Index of no entry.
const NIL: u32 = u32::MAX;

struct Entry {
    key: u64,
    words: Box<[u64]>,
    chain: u32,
    older: u32,
    newer: u32,
}

/// A cache whose entries refer to each other by their places in one vector.
pub(crate) struct Lru {
    entries: Vec<Entry>,
    table: Vec<u32>,
    capacity: usize,
    oldest: u32,
    newest: u32,
}

impl Lru {
    fn append(&mut self, at: u32) {
        let newest = self.newest;
        let entry = &mut self.entries[at as usize];
        (entry.older, entry.newer) = (newest, NIL);
        match self.entries.get_mut(newest as usize) {
            Some(entry) => entry.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Entry { older, newer, .. } = self.entries[at as usize];
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    /// Takes the oldest entry out; its place can be used again.
    fn evict(&mut self) -> u32 {
        let victim = self.oldest;
        self.unlink(victim);
        let place = bucket(self.entries[victim as usize].key, self.table.len());
        let after = self.entries[victim as usize].chain;
        let mut at = self.table[place];
        if at == victim {
            self.table[place] = after;
            return victim;
        }
        while self.entries[at as usize].chain != victim {
            at = self.entries[at as usize].chain;
        }
        self.entries[at as usize].chain = after;
        victim
    }
}

impl lru::Cache for Boxes {
    type Cache = Lru;

    fn cache(&mut self, capacity: usize) -> Lru {
        let table = vec![NIL; capacity.next_power_of_two()];
        Lru { entries: Vec::with_capacity(capacity), table, capacity, oldest: NIL, newest: NIL }
    }

    fn look(&mut self, cache: &mut Lru, key: u64) -> Option<u64> {
        let mut at = cache.table[bucket(key, cache.table.len())];
        loop {
            let entry = cache.entries.get(at as usize)?;
            if entry.key == key {
                cache.unlink(at);
                cache.append(at);
                return Some(digest(key, &cache.entries[at as usize].words));
            }
            at = entry.chain;
        }
    }

    fn insert(&mut self, cache: &mut Lru, key: u64) {
        let words = words(key).collect();
        let place = bucket(key, cache.table.len());
        let at =
            if cache.entries.len() == cache.capacity { cache.evict() } else { cache.entries.len() as u32 };
        let entry = Entry { key, words, chain: cache.table[place], older: NIL, newer: NIL };
        match cache.entries.get_mut(at as usize) {
            Some(old) => *old = entry,
            None => cache.entries.push(entry),
        }
        cache.table[place] = at;
        cache.append(at);
    }
}
