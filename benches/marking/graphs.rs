//! The graphs that are marked, each in two halves that share nothing.

use crate::chase::{Bits, chase};
use metronome_gc::testing::TestHeap;
use metronome_gc::{Gc, GcArray, Global, Mutator, Payload, Slot, Trace};

/// What a graph looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Binary trees, built top down: children are allocated after their parents, in the order of a breadth-first walk.
    Tree,
    /// Binary trees over a random order of addresses, with a third reference from each object to any other one.
    Random,
    /// Two arrays of references to objects that refer to nothing.
    Array,
}

impl Shape {
    pub(crate) const ALL: [Shape; 3] = [Shape::Tree, Shape::Random, Shape::Array];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Shape::Tree => "tree",
            Shape::Random => "random",
            Shape::Array => "array",
        }
    }
}

/// 32 bytes with the header.
#[repr(C)]
#[derive(Trace)]
struct Node {
    slots: [Slot<Node>; 3],
}

type Leaf = Payload<[u64; 3]>;

#[derive(Debug)]
enum Roots {
    Nodes { _held: [Global<Node>; 2] },
    Arrays { _held: [Global<GcArray<Slot<Leaf>>>; 2] },
}

/// A graph in a heap.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) shape: Shape,
    /// What marking scans: nodes or leaves, and arrays.
    pub(crate) objects: u64,
    /// References that are visited, null ones included.
    pub(crate) references: u64,
    arrays: u64,
    /// For each half: where its first references are, and how many follow each other there.
    first: [Vec<(usize, usize)>; 2],
    locals: Box<[usize; 2]>,
    low: usize,
    high: usize,
    _roots: Roots,
}

impl Graph {
    /// `n` objects.
    pub(crate) fn build(heap: &TestHeap, shape: Shape, n: usize) -> Result<Graph, String> {
        let half = n / 2;
        heap.enter(|m| match shape {
            Shape::Tree => nodes(m, shape, half, |n| (0..n).collect()),
            Shape::Random => nodes(m, shape, half, shuffled),
            Shape::Array => arrays(m, half),
        })
        .map_err(|e| format!("{}: {e}", shape.name()))
    }

    /// Bits for all of its objects, touched.
    pub(crate) fn bitmap(&self) -> Bits {
        let words = (self.high - self.low) / 16 / 64 + 1;
        let mut bits = vec![1u64; words];
        bits.fill(0);
        Bits { base: self.low, words: bits, stack: vec![1; self.objects as usize + 1024] }
    }

    /// Chases these halves; returns the number of objects, arrays included.
    pub(crate) fn chase(&self, bits: &mut Bits, halves: &[usize]) -> u64 {
        // The locals of nodes are read by address.
        debug_assert!(self.locals.iter().all(|&l| l >= self.low) || self.arrays > 0);
        halves
            .iter()
            .map(|&h| {
                let first = &self.first[h];
                // SAFETY: `Node` is three slots, a leaf has none, and nobody enters the heap meanwhile; the bitmap was made
                // for all of them.
                let found = unsafe {
                    match self.shape {
                        Shape::Tree | Shape::Random => chase::<3>(bits, first),
                        Shape::Array => chase::<0>(bits, first),
                    }
                };
                found + self.arrays / 2
            })
            .sum()
    }
}

/// A random order of `0..n`, the same in each run.
fn shuffled(n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    let mut x = 0x2545_F491_4F6C_DD1D;
    for i in (1..n).rev() {
        order.swap(i, below(&mut x, i + 1));
    }
    order
}

/// A number below `n` (xorshift).
fn below(x: &mut u64, n: usize) -> usize {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    (*x % n as u64) as usize
}

fn nodes(
    m: &mut Mutator<'_>,
    shape: Shape,
    half: usize,
    order: impl Fn(usize) -> Vec<usize>,
) -> Result<Graph, metronome_gc::AllocError> {
    let m: &Mutator<'_> = m;
    let order = order(half);
    let mut x = 0x9E37_79B9_7F4A_7C15;
    let mut tops = Vec::new();
    let (mut low, mut high) = (usize::MAX, 0);
    let cells: Vec<Gc<'_, Node>> =
        (0..2 * half).map(|_| m.alloc(NodeInit { slots: [None; 3] })).collect::<Result<_, _>>()?;
    for h in 0..2 {
        // The halves lie between each other.
        let at = |i: usize| cells[2 * order[i] + h];
        for i in 0..half {
            let node = at(i);
            let child = |i: usize| (i < half).then(|| at(i));
            node.slots[0].store(m, child(2 * i + 1));
            node.slots[1].store(m, child(2 * i + 2));
            if shape == Shape::Random {
                node.slots[2].store(m, at(below(&mut x, half)));
            }
            (low, high) = (low.min(Gc::address(node)), high.max(Gc::address(node)));
        }
        tops.push(at(0));
    }
    let locals = Box::new([Gc::address(tops[0]), Gc::address(tops[1])]);
    let address = |i: usize| std::ptr::from_ref(&locals[i]).expose_provenance();
    Ok(Graph {
        shape,
        objects: 2 * half as u64,
        references: 2 * half as u64 * 3,
        arrays: 0,
        first: [vec![(address(0), 1)], vec![(address(1), 1)]],
        locals,
        low,
        high,
        _roots: Roots::Nodes { _held: [Global::new(m, tops[0]), Global::new(m, tops[1])] },
    })
}

fn arrays(m: &mut Mutator<'_>, half: usize) -> Result<Graph, metronome_gc::AllocError> {
    let m: &Mutator<'_> = m;
    let (mut low, mut high) = (usize::MAX, 0);
    let both = [m.alloc_slots::<Leaf>(half)?, m.alloc_slots::<Leaf>(half)?];
    for i in 0..half {
        for array in both {
            let leaf = m.alloc(Payload([i as u64; 3]))?;
            array.at(i).store(m, leaf);
            (low, high) = (low.min(Gc::address(leaf)), high.max(Gc::address(leaf)));
        }
    }
    let first = both.map(|array| {
        let leaf = |l: &[Slot<Leaf>]| (l.as_ptr().expose_provenance(), l.len());
        array.leaves().map(leaf).collect()
    });
    Ok(Graph {
        shape: Shape::Array,
        objects: 2 * half as u64 + 2,
        references: 2 * half as u64,
        arrays: 2,
        first,
        locals: Box::default(),
        low,
        high,
        _roots: Roots::Arrays { _held: both.map(|array| Global::new(m, array)) },
    })
}
