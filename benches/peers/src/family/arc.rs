//! `Arc` with mimalloc. Links that change are behind a `Mutex`, those set once behind a `OnceLock`.

use super::{Family, Idle};
use crate::program::churn::{digest, words};
use crate::program::storm::{NONE, Step};
use crate::program::{binary_trees, churn, gcbench, storm};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Nothing: the allocator is the whole program's.
pub(crate) struct Arcs;

impl Family for Arcs {
    type Shared = ();
    type Memory<'a> = Arcs;

    fn open(_heap: Option<u64>) -> Result<(), String> {
        Ok(())
    }

    fn enter<R>((): &(), f: impl FnOnce(&mut Arcs) -> R) -> R {
        f(&mut Arcs)
    }
}

impl Idle for Arcs {}

/// A node of two references.
pub(crate) struct Pair(Option<(Arc<Pair>, Arc<Pair>)>);

impl binary_trees::Trees for Arcs {
    type Tree = Arc<Pair>;

    fn tree(&mut self, depth: u32) -> Arc<Pair> {
        Arc::new(Pair((depth > 0).then(|| (self.tree(depth - 1), self.tree(depth - 1)))))
    }

    fn count(&mut self, tree: &Arc<Pair>) -> u64 {
        tree.0.as_ref().map_or(1, |(left, right)| 1 + self.count(left) + self.count(right))
    }
}

/// A node of GCBench.
#[derive(Default)]
pub(crate) struct Node {
    left: OnceLock<Arc<Node>>,
    right: OnceLock<Arc<Node>>,
    i: u32,
    j: u32,
}

fn down(node: &Node, depth: u32) {
    if depth > 0 {
        let (left, right) = (node.left.get_or_init(Arc::default), node.right.get_or_init(Arc::default));
        down(left, depth - 1);
        down(right, depth - 1);
    }
}

impl gcbench::MutableTrees for Arcs {
    type Tree = Arc<Node>;
    type Numbers = Arc<[f64]>;

    fn top_down(&mut self, depth: u32) -> Arc<Node> {
        let root = Arc::default();
        down(&root, depth);
        root
    }

    fn bottom_up(&mut self, depth: u32) -> Arc<Node> {
        if depth == 0 {
            return Arc::default();
        }
        let (left, right) = (self.bottom_up(depth - 1), self.bottom_up(depth - 1));
        Arc::new(Node { left: left.into(), right: right.into(), i: 0, j: 0 })
    }

    fn left_path(&mut self, tree: &Arc<Node>) -> u64 {
        std::iter::successors(Some(tree), |node| node.left.get()).count() as u64
    }

    fn count(&mut self, tree: &Arc<Node>) -> u64 {
        let mut sum = 1 + u64::from(tree.i + tree.j);
        for child in [&tree.left, &tree.right].into_iter().filter_map(OnceLock::get) {
            sum += gcbench::MutableTrees::count(self, child);
        }
        sum
    }

    fn numbers(&mut self, len: usize) -> Arc<[f64]> {
        (0..len).map(|i| gcbench::number(i, len)).collect()
    }

    fn sum(&mut self, numbers: &Arc<[f64]>) -> u64 {
        numbers.iter().fold(0, |sum, x| sum.wrapping_add(x.to_bits()))
    }
}

/// An object of the churn.
pub(crate) struct Block {
    serial: u64,
    words: Arc<[u64]>,
}

impl churn::Store for Arcs {
    type Table = Vec<Option<Arc<Block>>>;

    fn table(&mut self, n: usize) -> Self::Table {
        vec![None; n]
    }

    fn put(&mut self, table: &mut Self::Table, place: usize, serial: u64) {
        table[place] = Some(Arc::new(Block { serial, words: words(serial).collect() }));
    }

    fn digest(&mut self, table: &Self::Table, place: usize) -> u64 {
        table[place].as_ref().map_or(0, |block| digest(block.serial, &*block.words))
    }
}

type Link = Mutex<Option<Arc<Vertex>>>;

/// A node of the storm.
pub(crate) struct Vertex {
    id: u64,
    a: Link,
    b: Link,
}

fn load(link: &Link) -> Option<Arc<Vertex>> {
    link.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn store(link: &Link, value: Option<Arc<Vertex>>) {
    // What was there is dropped after the lock is open again.
    let _old = std::mem::replace(&mut *link.lock().unwrap_or_else(PoisonError::into_inner), value);
}

fn vertex(id: u64, a: Option<Arc<Vertex>>) -> Arc<Vertex> {
    Arc::new(Vertex { id, a: Mutex::new(a), b: Mutex::new(None) })
}

impl storm::Graph for Arcs {
    type Graph = Vec<Arc<Vertex>>;

    fn graph(&mut self, n: usize) -> Self::Graph {
        (0..n as u64).map(|id| vertex(id, None)).collect()
    }

    fn steps(&mut self, graph: &mut Self::Graph, steps: impl Iterator<Item = Step>) {
        for step in steps {
            match step {
                Step::Replace(i, j, id) => {
                    let new = vertex(id, Some(Arc::clone(&graph[j])));
                    store(&graph[i].a, None);
                    store(&graph[i].b, None);
                    graph[i] = new;
                }
                Step::Copy(i, j) => store(&graph[i].a, load(&graph[j].b)),
                Step::Link(i, j) => store(&graph[i].b, Some(Arc::clone(&graph[j]))),
            }
        }
    }

    fn node(&mut self, graph: &Self::Graph, place: usize) -> [u64; 3] {
        let id = |link| load(link).map_or(NONE, |n| n.id);
        let node = &graph[place];
        [node.id, id(&node.a), id(&node.b)]
    }
}
