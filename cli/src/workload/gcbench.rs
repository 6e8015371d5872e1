//! GCBench: the benchmark of Ellis, Kovac and Boehm, one instance per thread.
//!
//! Each pass stretches the heap with one large tree, keeps a tree and an array of numbers, and builds trees of growing
//! depth top-down and bottom-up. Sizes shrink with the heap. Results are confirmed by trees of `Box`es.

use super::tree::{Measure, bottom_up, depth_for, measure, nodes, top_down, tree_bytes};
use super::{Tally, Workload};
use crate::run::env::{Env, Failure};
use metronome_gc::{GcArray, Mutator, Root};
use serde_json::json;
use std::sync::atomic::Ordering::Relaxed;

const MIN_DEPTH: u32 = 4;
/// Depth of the stretch tree in the original; the other sizes follow from it.
const STRETCH_MAX: u32 = 18;
const ARRAY_MAX: usize = 500_000;

/// The workload's sizes, and what its trees must hold.
#[derive(Debug)]
pub(crate) struct GcBench {
    mutators: u64,
    stretch: u32,
    long: u32,
    array: usize,
    /// By depth: what a tree of boxes held.
    expected: Vec<Measure>,
    array_expected: u64,
}

impl GcBench {
    pub(crate) fn new(heap_bytes: u64, mutators: u32) -> GcBench {
        let mutators = u64::from(mutators);
        let stretch = depth_for(heap_bytes / 4 / mutators, MIN_DEPTH + 2..=STRETCH_MAX);
        let array = ARRAY_MAX >> (STRETCH_MAX - stretch);
        let expected = (0..=stretch)
            .map(|depth| {
                let tree = boxes::tree(1, depth);
                let (nodes, sum) = boxes::measure(&tree);
                Measure { nodes, sum }
            })
            .collect();
        let numbers: Vec<f64> = (0..array).map(|i| number(i, array)).collect();
        let array_expected = numbers.iter().fold(0, |sum: u64, x| sum.wrapping_add(x.to_bits()));
        GcBench { mutators, stretch, long: stretch - 2, array, expected, array_expected }
    }

    fn tree(
        &self,
        m: &mut Mutator<'_>,
        tree: &Root<super::tree::Tree>,
        depth: u32,
        what: &str,
        tally: &mut Tally,
    ) {
        let (found, expected) = (measure(m, tree, depth), self.expected[depth as usize]);
        tally.add(found.digest(), expected.digest());
        tally.count("trees", 1);
        tally.count("nodes", found.nodes);
        if found != expected {
            tally.differs(|| format!("{what} of depth {depth}: {found:?} instead of {expected:?}"));
        }
    }

    /// One pass; ends early when the run stops.
    fn pass(&self, env: &Env, m: &mut Mutator<'_>, tally: &mut Tally) -> Result<(), Failure> {
        let stretch = bottom_up(env, m, self.stretch)?;
        self.tree(m, &stretch, self.stretch, "the stretch tree", tally);
        drop(stretch);
        let long = top_down(env, m, self.long)?;
        let array: Root<GcArray<f64>> =
            env.insist(m, |m| Ok(Root::new(m, m.alloc_array(self.array, |i| number(i, self.array))?)))?;
        'depths: for depth in (MIN_DEPTH..=self.long).step_by(2) {
            for _ in 0..(2 * nodes(self.stretch) / nodes(depth)) {
                if env.stopping() {
                    break 'depths;
                }
                let tree = top_down(env, m, depth)?;
                self.tree(m, &tree, depth, "a top-down tree", tally);
                let tree = bottom_up(env, m, depth)?;
                self.tree(m, &tree, depth, "a bottom-up tree", tally);
            }
        }
        self.tree(m, &long, self.long, "the long-lived tree", tally);
        let mut sum = 0_u64;
        for leaf in array.get(m).leaves() {
            sum = leaf.iter().fold(sum, |sum, x| sum.wrapping_add(x.to_bits()));
            m.poll();
        }
        tally.add(sum, self.array_expected);
        if sum != self.array_expected {
            tally.differs(|| {
                format!("the long-lived array sums to {sum:#x} instead of {:#x}", self.array_expected)
            });
        }
        m.safepoint();
        Ok(())
    }
}

/// Element `i` of the long-lived array: the first half holds inverses.
fn number(i: usize, len: usize) -> f64 {
    if i > 0 && i < len / 2 { 1.0 / i as f64 } else { 0.0 }
}

/// The same trees without a collector.
mod boxes {
    pub(super) struct Tree(u64, Option<(Box<Tree>, Box<Tree>)>);

    pub(super) fn tree(value: u64, depth: u32) -> Tree {
        let children = (depth > 0)
            .then(|| (Box::new(tree(value << 1, depth - 1)), Box::new(tree(value << 1 | 1, depth - 1))));
        Tree(value, children)
    }

    pub(super) fn measure(t: &Tree) -> (u64, u64) {
        let Tree(value, children) = t;
        children.as_ref().map_or((1, *value), |(left, right)| {
            let ((n1, s1), (n2, s2)) = (measure(left), measure(right));
            (n1 + n2 + 1, s1.wrapping_add(s2).wrapping_add(*value))
        })
    }
}

impl Workload for GcBench {
    fn name(&self) -> &'static str {
        "gcbench"
    }

    fn round_name(&self) -> &'static str {
        "passes"
    }

    fn size_classes(&self) -> u64 {
        4
    }

    fn live_estimate(&self) -> u64 {
        self.mutators * (tree_bytes(self.stretch).max(2 * tree_bytes(self.long) + 8 * self.array as u64))
    }

    fn plan(&self) -> Vec<String> {
        vec![format!(
            "each thread stretches to depth {}, keeps a tree of depth {} and {} numbers, and builds trees of depth \
             {MIN_DEPTH} to {}",
            self.stretch, self.long, self.array, self.long
        )]
    }

    fn facts(&self) -> serde_json::Value {
        json!({ "stretch_depth": self.stretch, "long_lived_depth": self.long, "array_elements": self.array })
    }

    fn run(&self, env: &Env, _: usize, m: &mut Mutator<'_>) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        loop {
            self.pass(env, m, &mut tally)?;
            tally.count("passes", 1);
            // Relaxed: a counter for reports.
            env.counters.rounds.fetch_add(1, Relaxed);
            if env.stopping() {
                return Ok(tally);
            }
        }
    }
}
