//! Trees in the heap, built and walked in pieces between safepoints.

use super::insist;
use crate::program::{binary_trees, gcbench};
use metronome_gc::{AllocError, Gc, GcArray, Mutator, Root, Slot, Trace};

/// Depth of the subtrees that are handled without a safepoint: some 2,000 nodes.
const PIECE: u32 = 10;

/// A node of two references.
#[derive(Trace)]
pub(crate) struct Pair {
    left: Slot<Pair>,
    right: Slot<Pair>,
}

fn pairs<'m>(m: &'m Mutator<'_>, depth: u32) -> Result<Gc<'m, Pair>, AllocError> {
    if depth == 0 {
        return m.alloc(PairInit { left: None, right: None });
    }
    let (left, right) = (pairs(m, depth - 1)?, pairs(m, depth - 1)?);
    m.alloc(PairInit { left: Some(left), right: Some(right) })
}

fn count_pairs(m: &Mutator<'_>, pair: Gc<'_, Pair>) -> u64 {
    match (pair.left.load(m), pair.right.load(m)) {
        (Some(left), Some(right)) => 1 + count_pairs(m, left) + count_pairs(m, right),
        _ => 1,
    }
}

impl binary_trees::Trees for Mutator<'_> {
    type Tree = (Root<Pair>, u32);

    fn tree(&mut self, depth: u32) -> Self::Tree {
        fn build(m: &mut Mutator<'_>, depth: u32) -> Root<Pair> {
            if depth <= PIECE {
                return insist(m, |m| Ok(Root::new(m, pairs(m, depth)?)));
            }
            let (left, right) = (build(m, depth - 1), build(m, depth - 1));
            insist(m, |m| {
                let pair = PairInit { left: Some(left.get(m)), right: Some(right.get(m)) };
                Ok(Root::new(m, m.alloc(pair)?))
            })
        }
        (build(self, depth), depth)
    }

    fn count(&mut self, (root, depth): &Self::Tree) -> u64 {
        fn walk(m: &mut Mutator<'_>, root: &Root<Pair>, depth: u32) -> u64 {
            if depth <= PIECE {
                let found = count_pairs(m, root.get(m));
                m.poll();
                m.safepoint();
                return found;
            }
            let pair = root.get(m);
            let (Some(left), Some(right)) = (pair.left.load(m), pair.right.load(m)) else { return 1 };
            let (left, right) = (Root::new(m, left), Root::new(m, right));
            1 + walk(m, &left, depth - 1) + walk(m, &right, depth - 1)
        }
        walk(self, root, *depth)
    }
}

/// A node of GCBench: two references and two numbers.
#[derive(Trace)]
pub(crate) struct Node {
    left: Slot<Node>,
    right: Slot<Node>,
    i: u32,
    j: u32,
}

fn node<'m>(
    m: &'m Mutator<'_>,
    left: Option<Gc<'m, Node>>,
    right: Option<Gc<'m, Node>>,
) -> Result<Gc<'m, Node>, AllocError> {
    m.alloc(NodeInit { left, right, i: 0, j: 0 })
}

fn up<'m>(m: &'m Mutator<'_>, depth: u32) -> Result<Gc<'m, Node>, AllocError> {
    if depth == 0 {
        return node(m, None, None);
    }
    let (left, right) = (up(m, depth - 1)?, up(m, depth - 1)?);
    node(m, Some(left), Some(right))
}

fn down(m: &Mutator<'_>, parent: Gc<'_, Node>, depth: u32) -> Result<(), AllocError> {
    if depth == 0 {
        return Ok(());
    }
    parent.left.store(m, node(m, None, None)?);
    parent.right.store(m, node(m, None, None)?);
    for child in [parent.left.load(m), parent.right.load(m)].into_iter().flatten() {
        down(m, child, depth - 1)?;
    }
    Ok(())
}

fn count(m: &Mutator<'_>, n: Gc<'_, Node>) -> u64 {
    let children = [n.left.load(m), n.right.load(m)];
    1 + u64::from(n.i + n.j) + children.into_iter().flatten().map(|c| count(m, c)).sum::<u64>()
}

impl gcbench::MutableTrees for Mutator<'_> {
    type Tree = (Root<Node>, u32);
    type Numbers = Root<GcArray<f64>>;

    fn top_down(&mut self, depth: u32) -> Self::Tree {
        fn grow(m: &mut Mutator<'_>, root: &Root<Node>, depth: u32) {
            if depth <= PIECE {
                return insist(m, |m| down(m, root.get(m), depth));
            }
            let (left, right) = insist(m, |m| {
                let (left, right) = (node(m, None, None)?, node(m, None, None)?);
                let parent = root.get(m);
                parent.left.store(m, left);
                parent.right.store(m, right);
                Ok((Root::new(m, left), Root::new(m, right)))
            });
            grow(m, &left, depth - 1);
            grow(m, &right, depth - 1);
        }
        let root = insist(self, |m| Ok(Root::new(m, node(m, None, None)?)));
        grow(self, &root, depth);
        (root, depth)
    }

    fn bottom_up(&mut self, depth: u32) -> Self::Tree {
        fn build(m: &mut Mutator<'_>, depth: u32) -> Root<Node> {
            if depth <= PIECE {
                return insist(m, |m| Ok(Root::new(m, up(m, depth)?)));
            }
            let (left, right) = (build(m, depth - 1), build(m, depth - 1));
            insist(m, |m| Ok(Root::new(m, node(m, Some(left.get(m)), Some(right.get(m)))?)))
        }
        (build(self, depth), depth)
    }

    fn left_path(&mut self, (root, _): &Self::Tree) -> u64 {
        let (mut at, mut length) = (Some(root.get(self)), 0);
        while let Some(node) = at {
            (at, length) = (node.left.load(self), length + 1);
        }
        length
    }

    fn count(&mut self, (root, depth): &Self::Tree) -> u64 {
        fn walk(m: &mut Mutator<'_>, root: &Root<Node>, depth: u32) -> u64 {
            if depth <= PIECE {
                let found = count(m, root.get(m));
                m.safepoint();
                return found;
            }
            let node = root.get(m);
            let (Some(left), Some(right)) = (node.left.load(m), node.right.load(m)) else { return 1 };
            let (left, right) = (Root::new(m, left), Root::new(m, right));
            1 + walk(m, &left, depth - 1) + walk(m, &right, depth - 1)
        }
        walk(self, root, *depth)
    }

    fn numbers(&mut self, len: usize) -> Self::Numbers {
        insist(self, |m| Ok(Root::new(m, m.alloc_array(len, |i| gcbench::number(i, len))?)))
    }

    fn sum(&mut self, numbers: &Self::Numbers) -> u64 {
        let m = &*self;
        let leaf = |sum, leaf: &[f64]| {
            m.poll();
            leaf.iter().fold(sum, |sum: u64, x| sum.wrapping_add(x.to_bits()))
        };
        numbers.get(m).leaves().fold(0, leaf)
    }
}
