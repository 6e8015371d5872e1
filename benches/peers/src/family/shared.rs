//! The programs over counted pointers with a cycle detector: crates whose `Gc` is cloned, dropped and dereferenced like
//! an `Rc`, and whose references that change are in cells.

/// Implements the traits for `$family`, a unit struct, with what is in scope at the call:
/// `Gc<T>`; `Link<T>`, a cell with an `Option<Gc<T>>`; `gc(value)`; `link(option)`, `load(&link)`, `store(&link, option)`.
macro_rules! counted_pointers {
    ($family:ident, derive($($derive:ident),*)) => {
        use crate::family::{Family, Idle};
        use crate::program::churn::{digest, words};
        use crate::program::storm::{NONE, Step};
        use crate::program::{binary_trees, churn, gcbench, storm};

        impl Family for $family {
            type Shared = ();
            type Memory<'a> = $family;

            fn open(_heap: Option<u64>) -> Result<(), String> {
                Ok(())
            }

            fn enter<R>((): &(), f: impl FnOnce(&mut $family) -> R) -> R {
                f(&mut $family)
            }
        }

        impl Idle for $family {}

        /// A node of two references.
        #[derive($($derive),*)]
        pub(crate) struct Pair {
            left: Option<Gc<Pair>>,
            right: Option<Gc<Pair>>,
        }

        impl binary_trees::Trees for $family {
            type Tree = Gc<Pair>;

            fn tree(&mut self, depth: u32) -> Gc<Pair> {
                let mut child = || (depth > 0).then(|| self.tree(depth - 1));
                let (left, right) = (child(), child());
                gc(Pair { left, right })
            }

            fn count(&mut self, tree: &Gc<Pair>) -> u64 {
                match (&tree.left, &tree.right) {
                    (Some(left), Some(right)) => 1 + self.count(left) + self.count(right),
                    _ => 1,
                }
            }
        }

        /// A node of GCBench.
        #[derive($($derive),*)]
        pub(crate) struct Node {
            left: Link<Node>,
            right: Link<Node>,
            i: u32,
            j: u32,
        }

        fn node(left: Option<Gc<Node>>, right: Option<Gc<Node>>) -> Gc<Node> {
            gc(Node { left: link(left), right: link(right), i: 0, j: 0 })
        }

        fn down(parent: &Gc<Node>, depth: u32) {
            if depth > 0 {
                for side in [&parent.left, &parent.right] {
                    let child = node(None, None);
                    store(side, Some(child.clone()));
                    down(&child, depth - 1);
                }
            }
        }

        impl gcbench::MutableTrees for $family {
            type Tree = Gc<Node>;
            type Numbers = Gc<Vec<f64>>;

            fn top_down(&mut self, depth: u32) -> Gc<Node> {
                let root = node(None, None);
                down(&root, depth);
                root
            }

            fn bottom_up(&mut self, depth: u32) -> Gc<Node> {
                let mut child = || (depth > 0).then(|| self.bottom_up(depth - 1));
                let (left, right) = (child(), child());
                node(left, right)
            }

            fn left_path(&mut self, tree: &Gc<Node>) -> u64 {
                std::iter::successors(Some(tree.clone()), |node| load(&node.left)).count() as u64
            }

            fn count(&mut self, tree: &Gc<Node>) -> u64 {
                let mut sum = 1 + u64::from(tree.i + tree.j);
                for child in [load(&tree.left), load(&tree.right)].into_iter().flatten() {
                    sum += gcbench::MutableTrees::count(self, &child);
                }
                sum
            }

            fn numbers(&mut self, len: usize) -> Gc<Vec<f64>> {
                gc((0..len).map(|i| gcbench::number(i, len)).collect())
            }

            fn sum(&mut self, numbers: &Gc<Vec<f64>>) -> u64 {
                numbers.iter().fold(0, |sum, x| sum.wrapping_add(x.to_bits()))
            }
        }

        /// An object of the churn; its words are memory of the allocator.
        #[derive($($derive),*)]
        pub(crate) struct Block {
            serial: u64,
            words: Vec<u64>,
        }

        impl churn::Store for $family {
            type Table = Vec<Option<Gc<Block>>>;

            fn table(&mut self, n: usize) -> Self::Table {
                (0..n).map(|_| None).collect()
            }

            fn put(&mut self, table: &mut Self::Table, place: usize, serial: u64) {
                table[place] = Some(gc(Block { serial, words: words(serial).collect() }));
            }

            fn digest(&mut self, table: &Self::Table, place: usize) -> u64 {
                table[place].as_ref().map_or(0, |block| digest(block.serial, &block.words))
            }
        }

        /// A node of the storm.
        #[derive($($derive),*)]
        pub(crate) struct Vertex {
            id: u64,
            a: Link<Vertex>,
            b: Link<Vertex>,
        }

        fn vertex(id: u64, a: Option<Gc<Vertex>>) -> Gc<Vertex> {
            gc(Vertex { id, a: link(a), b: link(None) })
        }

        impl storm::Graph for $family {
            type Graph = Vec<Gc<Vertex>>;

            fn graph(&mut self, n: usize) -> Self::Graph {
                (0..n as u64).map(|id| vertex(id, None)).collect()
            }

            fn steps(&mut self, graph: &mut Self::Graph, steps: impl Iterator<Item = Step>) {
                for step in steps {
                    match step {
                        Step::Replace(i, j, id) => {
                            let new = vertex(id, Some(graph[j].clone()));
                            store(&graph[i].a, None);
                            store(&graph[i].b, None);
                            graph[i] = new;
                        }
                        Step::Copy(i, j) => store(&graph[i].a, load(&graph[j].b)),
                        Step::Link(i, j) => store(&graph[i].b, Some(graph[j].clone())),
                    }
                }
            }

            fn node(&mut self, graph: &Self::Graph, place: usize) -> [u64; 3] {
                let id = |link| load(link).map_or(NONE, |n: Gc<Vertex>| n.id);
                let node = &graph[place];
                [node.id, id(&node.a), id(&node.b)]
            }
        }
    };
}
pub(crate) use counted_pointers;
