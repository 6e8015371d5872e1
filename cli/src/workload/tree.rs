//! Binary trees in the heap, built and measured in pieces between safepoints.

use crate::run::env::{Env, Failure};
use metronome_gc::{AllocError, Gc, Mutator, Root, Slot, Trace};

/// Bytes of a node's cell: header, value, two slots.
pub(crate) const NODE_BYTES: u64 = 32;

/// Depth of the subtrees that are handled in one piece: some 500 nodes, some ten microseconds.
const PIECE: u32 = 8;

/// A node. The root has the value 1, the children of `v` have `2v` and `2v + 1`, so that a tree of `n` nodes holds
/// 1..=n, each once, and a subtree that was lost or linked twice shows in the sum.
#[derive(Trace)]
pub(crate) struct Tree {
    value: u64,
    left: Slot<Tree>,
    right: Slot<Tree>,
}

/// Nodes of a full tree of this depth; a lone root has depth 0.
pub(crate) const fn nodes(depth: u32) -> u64 {
    (2 << depth) - 1
}

/// Bytes of the cells of a full tree.
pub(crate) const fn tree_bytes(depth: u32) -> u64 {
    nodes(depth) * NODE_BYTES
}

/// The largest depth, within `range`, of a tree of at most `bytes`.
pub(crate) fn depth_for(bytes: u64, range: std::ops::RangeInclusive<u32>) -> u32 {
    range.clone().rev().find(|&d| tree_bytes(d) <= bytes).unwrap_or(*range.start())
}

/// What a walk over a tree finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) nodes: u64,
    pub(crate) sum: u64,
}

impl std::ops::AddAssign for Measure {
    fn add_assign(&mut self, other: Measure) {
        self.nodes += other.nodes;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl Measure {
    /// One number for checksums.
    pub(crate) fn digest(self) -> u64 {
        self.sum.wrapping_add(self.nodes.rotate_left(32))
    }
}

/// A tree built from its leaves up: every node is allocated after its children.
pub(crate) fn bottom_up(env: &Env, m: &mut Mutator<'_>, depth: u32) -> Result<Root<Tree>, Failure> {
    up(env, m, 1, depth)
}

fn up(env: &Env, m: &mut Mutator<'_>, value: u64, depth: u32) -> Result<Root<Tree>, Failure> {
    if depth <= PIECE {
        return env.insist(m, |m| Ok(Root::new(m, piece_up(m, value, depth)?)));
    }
    let left = up(env, m, 2 * value, depth - 1)?;
    let right = up(env, m, 2 * value + 1, depth - 1)?;
    env.insist(m, |m| {
        let node = m.alloc(TreeInit { value, left: Some(left.get(m)), right: Some(right.get(m)) })?;
        Ok(Root::new(m, node))
    })
}

fn piece_up<'m>(m: &'m Mutator<'_>, value: u64, depth: u32) -> Result<Gc<'m, Tree>, AllocError> {
    if depth == 0 {
        return m.alloc(TreeInit { value, left: None, right: None });
    }
    let left = piece_up(m, 2 * value, depth - 1)?;
    let right = piece_up(m, 2 * value + 1, depth - 1)?;
    m.alloc(TreeInit { value, left: Some(left), right: Some(right) })
}

/// A tree built from its root down: every node is stored into its parent after both exist.
pub(crate) fn top_down(env: &Env, m: &mut Mutator<'_>, depth: u32) -> Result<Root<Tree>, Failure> {
    let root =
        env.insist(m, |m| Ok(Root::new(m, m.alloc(TreeInit { value: 1, left: None, right: None })?)))?;
    down(env, m, &root, depth)?;
    Ok(root)
}

fn down(env: &Env, m: &mut Mutator<'_>, root: &Root<Tree>, depth: u32) -> Result<(), Failure> {
    if depth <= PIECE {
        return env.insist(m, |m| piece_down(m, root.get(m), depth));
    }
    let (left, right) = env.insist(m, |m| {
        let (left, right) = children(m, root.get(m))?;
        Ok((Root::new(m, left), Root::new(m, right)))
    })?;
    down(env, m, &left, depth - 1)?;
    down(env, m, &right, depth - 1)
}

fn piece_down(m: &Mutator<'_>, node: Gc<'_, Tree>, depth: u32) -> Result<(), AllocError> {
    if depth == 0 {
        return Ok(());
    }
    let (left, right) = children(m, node)?;
    piece_down(m, left, depth - 1)?;
    piece_down(m, right, depth - 1)
}

fn children<'m>(m: &'m Mutator<'_>, node: Gc<'m, Tree>) -> Result<(Gc<'m, Tree>, Gc<'m, Tree>), AllocError> {
    let child = |value| m.alloc(TreeInit { value, left: None, right: None });
    let (left, right) = (child(2 * node.value)?, child(2 * node.value + 1)?);
    node.left.store(m, left);
    node.right.store(m, right);
    Ok((left, right))
}

/// Walks a whole tree that should have this depth; polls at each node, comes by a safepoint after each piece.
pub(crate) fn measure(m: &mut Mutator<'_>, root: &Root<Tree>, depth: u32) -> Measure {
    if depth <= PIECE {
        let found = piece_measure(m, root.get(m), depth);
        m.safepoint();
        return found;
    }
    let mut found = Measure { nodes: 1, sum: root.get(m).value };
    let side = |m: &Mutator<'_>, slot: fn(&Tree) -> &Slot<Tree>| {
        slot(metronome_gc::Gc::object(root.get(m))).load(m).map(|child| Root::new(m, child))
    };
    for slot in [(|t| &t.left) as fn(&Tree) -> &Slot<Tree>, |t| &t.right] {
        if let Some(child) = side(m, slot) {
            found += measure(m, &child, depth - 1);
        }
    }
    found
}

fn piece_measure(m: &Mutator<'_>, node: Gc<'_, Tree>, depth: u32) -> Measure {
    m.poll();
    let mut found = Measure { nodes: 1, sum: node.value };
    // The depth ends the walk also if links should be wrong.
    for child in [node.left.load(m), node.right.load(m)].into_iter().flatten() {
        if depth == 0 {
            // Deeper than built: counted, so that the check fails.
            found.nodes += 1;
        } else {
            found += piece_measure(m, child, depth - 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use metronome_gc::Heap;
    use std::sync::Arc;

    #[test]
    fn both_ways_build_the_tree_that_the_formula_describes() {
        let env = Env::new(Heap::builder().heap_bytes(8 << 20).build().unwrap(), Arc::default());
        env.heap.enter(|m| {
            for depth in [0, 1, 5, PIECE, PIECE + 1, PIECE + 3] {
                let n = (1_u64 << (depth + 1)) - 1;
                let expected = Measure { nodes: n, sum: n * (n + 1) / 2 };
                let (a, b) = (bottom_up(&env, m, depth).unwrap(), top_down(&env, m, depth).unwrap());
                assert_eq!(measure(m, &a, depth), expected, "bottom-up, depth {depth}");
                assert_eq!(measure(m, &b, depth), expected, "top-down, depth {depth}");
                if depth > 0 {
                    assert_ne!(measure(m, &a, depth - 1), expected, "a tree that is too deep is noticed");
                    assert_ne!(measure(m, &a, depth + 1).nodes, nodes(depth + 1));
                }
            }
        });
    }

    #[test]
    fn depths_fit_their_bytes() {
        assert_eq!(depth_for(tree_bytes(10), 1..=20), 10);
        assert_eq!(depth_for(tree_bytes(10) - 1, 1..=20), 9);
        assert_eq!((depth_for(0, 3..=20), depth_for(u64::MAX, 3..=20)), (3, 20));
    }
}
