//! GCBench (Ellis, Kovac, Boehm): trees built top-down, which stores into old nodes, and bottom-up, beside a long-lived
//! tree and a long-lived array of numbers.

use super::{Outcome, join, start};
use crate::child::params::Params;
use crate::family::Family;

/// Trees of nodes with two numbers, whose links can be set; and arrays of numbers.
pub(crate) trait MutableTrees {
    /// Keeps a tree alive.
    type Tree;
    /// Keeps an array alive.
    type Numbers;

    /// A full tree whose nodes are made before their children.
    fn top_down(&mut self, depth: u32) -> Self::Tree;
    /// A full tree whose nodes are made after their children.
    fn bottom_up(&mut self, depth: u32) -> Self::Tree;
    /// The number of nodes on the way from the root always to the left.
    fn left_path(&mut self, tree: &Self::Tree) -> u64;
    /// The number of all nodes.
    fn count(&mut self, tree: &Self::Tree) -> u64;
    /// An array of [`number`]s.
    fn numbers(&mut self, len: usize) -> Self::Numbers;
    /// The sum of the bits of its elements.
    fn sum(&mut self, numbers: &Self::Numbers) -> u64;
}

const MIN_DEPTH: u32 = 4;

/// Element `i` of the array: the first half holds inverses.
pub(crate) fn number(i: usize, len: usize) -> f64 {
    if i > 0 && i < len / 2 { 1.0 / i as f64 } else { 0.0 }
}

/// Nodes of a full tree.
fn nodes(depth: u32) -> u64 {
    (2 << depth) - 1
}

fn pass<T: MutableTrees>(memory: &mut T, stretch: u32) -> u64 {
    let temporary = memory.bottom_up(stretch);
    let mut sum = memory.left_path(&temporary);
    drop(temporary);
    let long = stretch - 2;
    let long_lived = memory.top_down(long);
    let array = memory.numbers(500_000 >> 18_u32.saturating_sub(stretch));
    for depth in (MIN_DEPTH..=long).step_by(2) {
        let times = 2 * nodes(stretch) / nodes(depth);
        for _ in 0..times {
            let tree = memory.top_down(depth);
            sum = sum.wrapping_add(memory.left_path(&tree));
        }
        for _ in 0..times {
            let tree = memory.bottom_up(depth);
            sum = sum.wrapping_add(memory.left_path(&tree));
        }
    }
    sum.wrapping_add(memory.count(&long_lived)).wrapping_add(memory.sum(&array))
}

/// The program: depth of the `stretch` tree (18 in the original), `passes`, `threads`.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run<F: Family>(shared: &F::Shared, params: &Params) -> Result<Outcome, String>
where
    for<'a> F::Memory<'a>: MutableTrees,
{
    let (stretch, passes) = (params.get("stretch")? as u32, params.get("passes")?);
    let work = || {
        F::enter(shared, |memory| (0..passes).fold(0_u64, |sum, _| sum.wrapping_add(pass(memory, stretch))))
    };
    std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..params.get("threads")?).map(|_| start(scope, "gcbench", work)).collect::<Result<_, _>>()?;
        Ok(Outcome::of(all.into_iter().map(join).fold(0, u64::wrapping_add)))
    })
}
