//! gc-arena: an arena for each thread, which collects what it owes after each `mutate`. Handles are dynamic roots.

use super::{Family, Idle};
use crate::program::churn::{digest, words};
use crate::program::storm::{NONE, Step};
use crate::program::{binary_trees, churn, gcbench, storm};
use gc_arena::barrier::unlock;
use gc_arena::{Arena, Collect, DynamicRoot, DynamicRootSet, Gc, Lock, Mutation, RefLock, Rootable};

type Roots = Rootable![DynamicRootSet<'_>];

/// A thread's arena.
pub(crate) struct Garden(Arena<Roots>);

/// Arenas of gc-arena.
pub(crate) struct GcArena;

impl Family for GcArena {
    type Shared = ();
    type Memory<'a> = Garden;

    fn open(_heap: Option<u64>) -> Result<(), String> {
        Ok(())
    }

    fn enter<R>((): &(), f: impl FnOnce(&mut Garden) -> R) -> R {
        #[allow(
            clippy::redundant_closure,
            reason = "the function itself is not general enough in its lifetimes"
        )]
        let arena = Arena::<Roots>::new(|mc| DynamicRootSet::new(mc));
        f(&mut Garden(arena))
    }
}

impl Idle for Garden {}

impl Garden {
    /// Works in the arena, then pays its debt.
    fn work<R>(&mut self, f: impl for<'gc> FnOnce(&'gc Mutation<'gc>, DynamicRootSet<'gc>) -> R) -> R {
        let result = self.0.mutate(|mc, roots| f(mc, *roots));
        self.0.collect_debt();
        result
    }
}

/// A node of two references.
#[derive(Clone, Copy, Collect)]
#[collect(no_drop)]
pub(crate) struct Pair<'gc>(Option<(Gc<'gc, Pair<'gc>>, Gc<'gc, Pair<'gc>>)>);

fn pairs<'gc>(mc: &Mutation<'gc>, depth: u32) -> Gc<'gc, Pair<'gc>> {
    Gc::new(mc, Pair((depth > 0).then(|| (pairs(mc, depth - 1), pairs(mc, depth - 1)))))
}

fn count_pairs(pair: &Pair<'_>) -> u64 {
    pair.0.as_ref().map_or(1, |(left, right)| 1 + count_pairs(left) + count_pairs(right))
}

impl binary_trees::Trees for Garden {
    type Tree = DynamicRoot<Rootable![Pair<'_>]>;

    fn tree(&mut self, depth: u32) -> Self::Tree {
        self.work(|mc, roots| roots.stash(mc, pairs(mc, depth)))
    }

    fn count(&mut self, tree: &Self::Tree) -> u64 {
        self.work(|_, roots| count_pairs(&roots.fetch(tree)))
    }
}

type Link<'gc> = Lock<Option<Gc<'gc, Node<'gc>>>>;

/// A node of GCBench.
#[derive(Collect)]
#[collect(no_drop)]
pub(crate) struct Node<'gc> {
    left: Link<'gc>,
    right: Link<'gc>,
    i: u32,
    j: u32,
}

fn node<'gc>(
    mc: &Mutation<'gc>,
    left: Option<Gc<'gc, Node<'gc>>>,
    right: Option<Gc<'gc, Node<'gc>>>,
) -> Gc<'gc, Node<'gc>> {
    Gc::new(mc, Node { left: Lock::new(left), right: Lock::new(right), i: 0, j: 0 })
}

fn down<'gc>(mc: &Mutation<'gc>, parent: Gc<'gc, Node<'gc>>, depth: u32) {
    if depth > 0 {
        let (left, right) = (node(mc, None, None), node(mc, None, None));
        let parent = Gc::write(mc, parent);
        unlock!(parent, Node, left).set(Some(left));
        unlock!(parent, Node, right).set(Some(right));
        down(mc, left, depth - 1);
        down(mc, right, depth - 1);
    }
}

fn up<'gc>(mc: &Mutation<'gc>, depth: u32) -> Gc<'gc, Node<'gc>> {
    let child = || (depth > 0).then(|| up(mc, depth - 1));
    let (left, right) = (child(), child());
    node(mc, left, right)
}

fn count(node: &Node<'_>) -> u64 {
    let children = [node.left.get(), node.right.get()];
    1 + u64::from(node.i + node.j) + children.into_iter().flatten().map(|n| count(&n)).sum::<u64>()
}

impl gcbench::MutableTrees for Garden {
    type Tree = DynamicRoot<Rootable![Node<'_>]>;
    type Numbers = DynamicRoot<Rootable![Box<[f64]>]>;

    fn top_down(&mut self, depth: u32) -> Self::Tree {
        self.work(|mc, roots| {
            let root = node(mc, None, None);
            down(mc, root, depth);
            roots.stash(mc, root)
        })
    }

    fn bottom_up(&mut self, depth: u32) -> Self::Tree {
        self.work(|mc, roots| roots.stash(mc, up(mc, depth)))
    }

    fn left_path(&mut self, tree: &Self::Tree) -> u64 {
        self.work(|_, roots| {
            std::iter::successors(Some(roots.fetch(tree)), |node| node.left.get()).count() as u64
        })
    }

    fn count(&mut self, tree: &Self::Tree) -> u64 {
        self.work(|_, roots| count(&roots.fetch(tree)))
    }

    fn numbers(&mut self, len: usize) -> Self::Numbers {
        let numbers: Box<[f64]> = (0..len).map(|i| gcbench::number(i, len)).collect();
        self.work(|mc, roots| roots.stash(mc, Gc::new(mc, numbers)))
    }

    fn sum(&mut self, numbers: &Self::Numbers) -> u64 {
        self.work(|_, roots| roots.fetch(numbers).iter().fold(0, |sum: u64, x| sum.wrapping_add(x.to_bits())))
    }
}

/// An object of the churn; its words are memory of the allocator, as the arena has no arrays of unknown length.
#[derive(Collect)]
#[collect(no_drop)]
pub(crate) struct Block {
    serial: u64,
    words: Box<[u64]>,
}

type Blocks<'gc> = RefLock<Vec<Option<Gc<'gc, Block>>>>;

impl churn::Store for Garden {
    type Table = DynamicRoot<Rootable![Blocks<'_>]>;

    fn table(&mut self, n: usize) -> Self::Table {
        self.work(|mc, roots| roots.stash(mc, Gc::new(mc, RefLock::new(vec![None; n]))))
    }

    fn put(&mut self, table: &mut Self::Table, place: usize, serial: u64) {
        self.work(|mc, roots| {
            let block = Gc::new(mc, Block { serial, words: words(serial).collect() });
            roots.fetch(table).borrow_mut(mc)[place] = Some(block);
        });
    }

    fn digest(&mut self, table: &Self::Table, place: usize) -> u64 {
        self.work(|_, roots| {
            roots.fetch(table).borrow()[place].map_or(0, |block| digest(block.serial, &block.words))
        })
    }
}

type Arc<'gc> = Lock<Option<Gc<'gc, Vertex<'gc>>>>;

/// A node of the storm.
#[derive(Collect)]
#[collect(no_drop)]
pub(crate) struct Vertex<'gc> {
    id: u64,
    a: Arc<'gc>,
    b: Arc<'gc>,
}

type Vertices<'gc> = RefLock<Vec<Gc<'gc, Vertex<'gc>>>>;

fn vertex<'gc>(mc: &Mutation<'gc>, id: u64, a: Option<Gc<'gc, Vertex<'gc>>>) -> Gc<'gc, Vertex<'gc>> {
    Gc::new(mc, Vertex { id, a: Lock::new(a), b: Lock::new(None) })
}

impl storm::Graph for Garden {
    type Graph = DynamicRoot<Rootable![Vertices<'_>]>;

    fn graph(&mut self, n: usize) -> Self::Graph {
        self.work(|mc, roots| {
            let all = (0..n as u64).map(|id| vertex(mc, id, None)).collect();
            roots.stash(mc, Gc::new(mc, RefLock::new(all)))
        })
    }

    fn steps(&mut self, graph: &mut Self::Graph, steps: impl Iterator<Item = Step>) {
        self.work(|mc, roots| {
            let table = roots.fetch(graph);
            for step in steps {
                match step {
                    Step::Replace(i, j, id) => {
                        let mut table = table.borrow_mut(mc);
                        let old = Gc::write(mc, table[i]);
                        let new = vertex(mc, id, Some(table[j]));
                        unlock!(old, Vertex, a).set(None);
                        unlock!(old, Vertex, b).set(None);
                        table[i] = new;
                    }
                    Step::Copy(i, j) => {
                        let table = table.borrow();
                        unlock!(Gc::write(mc, table[i]), Vertex, a).set(table[j].b.get());
                    }
                    Step::Link(i, j) => {
                        let table = table.borrow();
                        unlock!(Gc::write(mc, table[i]), Vertex, b).set(Some(table[j]));
                    }
                }
            }
        });
    }

    fn node(&mut self, graph: &Self::Graph, place: usize) -> [u64; 3] {
        self.work(|_, roots| {
            let node = roots.fetch(graph).borrow()[place];
            let id = |n: Option<Gc<'_, Vertex<'_>>>| n.map_or(NONE, |n| n.id);
            [node.id, id(node.a.get()), id(node.b.get())]
        })
    }
}
