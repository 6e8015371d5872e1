//! Binary trees, as in the Computer Language Benchmarks Game: many short-lived trees of several depths beside one that
//! lives all the time. Nodes are two references and nothing else.

use super::{Outcome, join, start};
use crate::child::params::Params;
use crate::family::Family;

/// Trees of nodes that do not change.
pub(crate) trait Trees {
    /// Keeps a tree alive.
    type Tree;

    /// A full tree, its nodes made after their children.
    fn tree(&mut self, depth: u32) -> Self::Tree;

    /// The number of its nodes, by a walk over them.
    fn count(&mut self, tree: &Self::Tree) -> u64;
}

const MIN_DEPTH: u32 = 4;

/// One thread's share of the work.
fn work<T: Trees>(memory: &mut T, depth: u32, threads: u64) -> u64 {
    let stretch = memory.tree(depth + 1);
    let mut sum = memory.count(&stretch);
    drop(stretch);
    let long_lived = memory.tree(depth);
    for d in (MIN_DEPTH..=depth).step_by(2) {
        for _ in 0..(1_u64 << (depth - d + MIN_DEPTH)) / threads {
            let tree = memory.tree(d);
            sum = sum.wrapping_add(memory.count(&tree));
        }
    }
    sum.wrapping_add(memory.count(&long_lived))
}

/// The program: `depth` of the long-lived tree, `threads`.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run<F: Family>(shared: &F::Shared, params: &Params) -> Result<Outcome, String>
where
    for<'a> F::Memory<'a>: Trees,
{
    let (depth, threads) = (params.get("depth")? as u32, params.get("threads")?);
    if threads == 1 {
        return Ok(Outcome::of(F::enter(shared, |memory| work(memory, depth, 1))));
    }
    std::thread::scope(|scope| {
        let share = || F::enter(shared, |memory| work(memory, depth, threads));
        let all: Vec<_> = (0..threads).map(|_| start(scope, "trees", share)).collect::<Result<_, _>>()?;
        Ok(Outcome::of(all.into_iter().map(join).fold(0, u64::wrapping_add)))
    })
}
