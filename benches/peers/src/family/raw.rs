//! The programs over memory that is never freed by hand: plain references that stay valid, because nothing is freed
//! (a bump arena) or because a conservative collector finds them (Boehm).

use super::Idle;
use crate::program::churn::{digest, length, word};
use crate::program::lru::{self, bucket};
use crate::program::storm::{NONE, Step};
use crate::program::{arrays, binary_trees, churn, gcbench, storm};
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

/// Memory for the asking.
///
/// # Safety
/// What `get` returns must have the layout asked for, be written by nobody else, be zeroed if it may hold references,
/// and stay valid while a reference to it is on the stack, or in memory that was got with `references`.
pub(crate) unsafe trait Raw {
    /// Memory of this layout, aligned to at most 8 bytes.
    fn get(&mut self, layout: Layout, references: bool) -> NonNull<u8>;
}

/// A thread's memory.
pub(crate) struct Pointers<R>(pub(crate) R);

/// A reference that may be null and changes.
type Link<T> = Cell<Option<&'static T>>;

impl<R: Raw> Pointers<R> {
    /// A new object.
    #[inline]
    fn object<T>(&mut self, value: T) -> &'static T {
        const { assert!(align_of::<T>() <= 8) }
        let place = self.0.get(Layout::new::<T>(), true).cast::<T>();
        // SAFETY: memory of this layout that is ours; it stays valid where it is used, as `Raw` says.
        unsafe {
            place.write(value);
            place.as_ref()
        }
    }

    /// A new array without references, element `i` being `f(i)`.
    fn array<T: Copy>(&mut self, len: usize, f: impl Fn(usize) -> T) -> &'static [T] {
        self.fill(len, false, f)
    }

    /// A new array of null references.
    fn links<T>(&mut self, len: usize) -> &'static [Link<T>] {
        self.fill(len, true, |_| Cell::new(None))
    }

    fn fill<T>(&mut self, len: usize, references: bool, f: impl Fn(usize) -> T) -> &'static [T] {
        const { assert!(align_of::<T>() <= 8) }
        let Ok(layout) = Layout::array::<T>(len) else { panic!("an array of {len} elements is too large") };
        let place = self.0.get(layout, references).cast::<T>();
        for i in 0..len {
            // SAFETY: element `i` of memory for `len` of them.
            unsafe { place.add(i).write(f(i)) };
        }
        // SAFETY: all are initialised; the memory stays valid as in `object`.
        unsafe { std::slice::from_raw_parts(place.as_ptr(), len) }
    }
}

impl<R> Idle for Pointers<R> {}

/// A node of two references.
pub(crate) struct Pair(Option<(&'static Pair, &'static Pair)>);

impl<R: Raw> binary_trees::Trees for Pointers<R> {
    type Tree = &'static Pair;

    fn tree(&mut self, depth: u32) -> &'static Pair {
        let children = (depth > 0).then(|| (self.tree(depth - 1), self.tree(depth - 1)));
        self.object(Pair(children))
    }

    fn count(&mut self, tree: &&'static Pair) -> u64 {
        tree.0.as_ref().map_or(1, |(left, right)| 1 + self.count(left) + self.count(right))
    }
}

/// A node of GCBench.
#[derive(Default)]
pub(crate) struct Node {
    left: Link<Node>,
    right: Link<Node>,
    i: u32,
    j: u32,
}

impl<R: Raw> Pointers<R> {
    fn down(&mut self, node: &Node, depth: u32) {
        if depth > 0 {
            for side in [&node.left, &node.right] {
                let child = self.object(Node::default());
                side.set(Some(child));
                self.down(child, depth - 1);
            }
        }
    }
}

impl<R: Raw> gcbench::MutableTrees for Pointers<R> {
    type Tree = &'static Node;
    type Numbers = &'static [f64];

    fn top_down(&mut self, depth: u32) -> &'static Node {
        let root = self.object(Node::default());
        self.down(root, depth);
        root
    }

    fn bottom_up(&mut self, depth: u32) -> &'static Node {
        let mut child = || Cell::new((depth > 0).then(|| self.bottom_up(depth - 1)));
        let (left, right) = (child(), child());
        self.object(Node { left, right, i: 0, j: 0 })
    }

    fn left_path(&mut self, tree: &&'static Node) -> u64 {
        std::iter::successors(Some(*tree), |node| node.left.get()).count() as u64
    }

    fn count(&mut self, tree: &&'static Node) -> u64 {
        let mut sum = 1 + u64::from(tree.i + tree.j);
        for child in [tree.left.get(), tree.right.get()].into_iter().flatten() {
            sum += gcbench::MutableTrees::count(self, &child);
        }
        sum
    }

    fn numbers(&mut self, len: usize) -> &'static [f64] {
        self.array(len, |i| gcbench::number(i, len))
    }

    fn sum(&mut self, numbers: &&'static [f64]) -> u64 {
        numbers.iter().fold(0, |sum, x| sum.wrapping_add(x.to_bits()))
    }
}

/// An object of the churn.
pub(crate) struct Block {
    serial: u64,
    words: &'static [u64],
}

impl<R: Raw> churn::Store for Pointers<R> {
    type Table = &'static [Link<Block>];

    fn table(&mut self, n: usize) -> Self::Table {
        self.links(n)
    }

    fn put(&mut self, table: &mut Self::Table, place: usize, serial: u64) {
        let words = self.array(length(serial), |i| word(serial, i));
        table[place].set(Some(self.object(Block { serial, words })));
    }

    fn digest(&mut self, table: &Self::Table, place: usize) -> u64 {
        table[place].get().map_or(0, |block| digest(block.serial, block.words))
    }
}

/// A node of the storm.
pub(crate) struct Vertex {
    id: u64,
    a: Link<Vertex>,
    b: Link<Vertex>,
}

impl<R: Raw> Pointers<R> {
    fn vertex(&mut self, id: u64, a: Option<&'static Vertex>) -> &'static Vertex {
        self.object(Vertex { id, a: Cell::new(a), b: Cell::new(None) })
    }
}

impl<R: Raw> storm::Graph for Pointers<R> {
    type Graph = &'static [Link<Vertex>];

    fn graph(&mut self, n: usize) -> Self::Graph {
        let table = self.links(n);
        for (id, place) in (0..).zip(table) {
            place.set(Some(self.vertex(id, None)));
        }
        table
    }

    fn steps(&mut self, graph: &mut Self::Graph, steps: impl Iterator<Item = Step>) {
        for step in steps {
            match step {
                Step::Replace(i, j, id) => {
                    let new = self.vertex(id, graph[j].get());
                    if let Some(old) = graph[i].replace(Some(new)) {
                        old.a.set(None);
                        old.b.set(None);
                    }
                }
                Step::Copy(i, j) => {
                    if let (Some(to), Some(from)) = (graph[i].get(), graph[j].get()) {
                        to.a.set(from.b.get());
                    }
                }
                Step::Link(i, j) => {
                    if let Some(to) = graph[i].get() {
                        to.b.set(graph[j].get());
                    }
                }
            }
        }
    }

    fn node(&mut self, graph: &Self::Graph, place: usize) -> [u64; 3] {
        let id = |n: Option<&Vertex>| n.map_or(NONE, |n| n.id);
        let node = graph[place].get();
        [id(node), id(node.and_then(|n| n.a.get())), id(node.and_then(|n| n.b.get()))]
    }
}

impl<R: Raw> arrays::Arrays for Pointers<R> {
    type Table = &'static [Link<&'static [u64]>];

    fn arrays(&mut self, n: usize) -> Self::Table {
        self.links(n)
    }

    fn make(&mut self, table: &mut Self::Table, place: usize, len: usize, seed: u64) {
        table[place].set(None);
        let array = self.array(len, |i| seed + i as u64);
        table[place].set(Some(self.object(array)));
    }

    fn total(&mut self, table: &Self::Table, place: usize) -> u64 {
        table[place].get().map_or(0, |array| array.iter().fold(0, |sum: u64, x| sum.wrapping_add(*x)))
    }
}

/// An entry of the cache.
pub(crate) struct Entry {
    key: u64,
    words: &'static [u64],
    chain: Link<Entry>,
    older: Link<Entry>,
    newer: Link<Entry>,
}

/// The cache.
pub(crate) struct Lru {
    table: &'static [Link<Entry>],
    oldest: Link<Entry>,
    newest: Link<Entry>,
    capacity: usize,
    len: usize,
}

impl Lru {
    fn append(&self, entry: &'static Entry) {
        let newest = self.newest.get();
        entry.older.set(newest);
        entry.newer.set(None);
        newest.map_or(&self.oldest, |n| &n.newer).set(Some(entry));
        self.newest.set(Some(entry));
    }

    fn unlink(&self, entry: &Entry) {
        let (older, newer) = (entry.older.get(), entry.newer.get());
        older.map_or(&self.oldest, |o| &o.newer).set(newer);
        newer.map_or(&self.newest, |n| &n.older).set(older);
    }

    fn evict(&self) {
        let Some(victim) = self.oldest.get() else { return };
        self.unlink(victim);
        let mut at = &self.table[bucket(victim.key, self.table.len())];
        while let Some(entry) = at.get() {
            if std::ptr::eq(entry, victim) {
                return at.set(victim.chain.get());
            }
            at = &entry.chain;
        }
    }
}

impl<R: Raw> lru::Cache for Pointers<R> {
    type Cache = Lru;

    fn cache(&mut self, capacity: usize) -> Lru {
        let table = self.links(capacity.next_power_of_two());
        Lru { table, oldest: Cell::default(), newest: Cell::default(), capacity, len: 0 }
    }

    fn look(&mut self, cache: &mut Lru, key: u64) -> Option<u64> {
        let mut at = cache.table[bucket(key, cache.table.len())].get();
        while let Some(entry) = at {
            if entry.key == key {
                cache.unlink(entry);
                cache.append(entry);
                return Some(digest(key, entry.words));
            }
            at = entry.chain.get();
        }
        None
    }

    fn insert(&mut self, cache: &mut Lru, key: u64) {
        let words = self.array(length(key), |i| word(key, i));
        if cache.len == cache.capacity {
            cache.evict();
        } else {
            cache.len += 1;
        }
        let place = &cache.table[bucket(key, cache.table.len())];
        let (older, newer) = (Cell::default(), Cell::default());
        let entry = self.object(Entry { key, words, chain: Cell::new(place.get()), older, newer });
        place.set(Some(entry));
        cache.append(entry);
    }
}
