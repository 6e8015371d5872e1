//! A storm of pointers: references moved at random between the nodes of a table, and a node replaced at each eighth
//! step. A node that leaves the table lets go of what it refers to, so that reference counts free it too.

use super::Outcome;
use crate::child::params::Params;
use crate::child::random::{Random, mix};
use crate::family::Family;

/// Nodes with a number and two references, in a table.
pub(crate) trait Graph {
    /// Keeps the table alive.
    type Graph;

    /// A table of `n` nodes, numbered by their places, that refer to nothing.
    fn graph(&mut self, n: usize) -> Self::Graph;
    /// Takes these steps.
    fn steps(&mut self, graph: &mut Self::Graph, steps: impl Iterator<Item = Step>);
    /// The numbers of a node and of those that it refers to, or [`NONE`].
    fn node(&mut self, graph: &Self::Graph, place: usize) -> [u64; 3];
}

/// Stands for a null reference.
pub(crate) const NONE: u64 = u64::MAX;

/// What one step does; places `i` and `j`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sets both references of `i` to null and puts a new node into its place, whose first reference is node `j`.
    Replace(usize, usize, u64),
    /// The first reference of `i` becomes the second one of `j`.
    Copy(usize, usize),
    /// The second reference of `i` becomes node `j`.
    Link(usize, usize),
}

/// Steps between looks at the collector.
const BATCH: u64 = 256;

fn step(random: &mut Random, n: u64, k: u64) -> Step {
    let (i, j) = (random.below(n) as usize, random.below(n) as usize);
    match k % 8 {
        0 => Step::Replace(i, j, n + k),
        1 | 3 | 5 | 7 => Step::Copy(i, j),
        _ => Step::Link(i, j),
    }
}

/// The program: `nodes`, `steps`.
///
/// # Errors
/// A size that is missing.
pub(crate) fn run<F: Family>(shared: &F::Shared, params: &Params) -> Result<Outcome, String>
where
    for<'a> F::Memory<'a>: Graph,
{
    let (n, steps) = (params.get("nodes")?, params.get("steps")?);
    F::enter(shared, |memory| {
        let mut graph = memory.graph(n as usize);
        let mut random = Random::new(0x5702);
        for start in (0..steps).step_by(BATCH as usize) {
            let batch = start..(start + BATCH).min(steps);
            memory.steps(&mut graph, batch.map(|k| step(&mut random, n, k)));
        }
        let place = |sum: u64, place| {
            let [id, a, b] = memory.node(&graph, place);
            sum.wrapping_add(mix(id ^ a.rotate_left(17) ^ b.rotate_left(34)))
        };
        Ok(Outcome::of((0..n as usize).fold(0, place)))
    })
}
