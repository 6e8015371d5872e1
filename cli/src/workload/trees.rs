//! Binary trees: short-lived ones of several depths beside one long-lived tree per thread.

use super::tree::{Measure, bottom_up, depth_for, measure, top_down, tree_bytes};
use super::{Tally, Workload};
use crate::run::env::{Env, Failure};
use metronome_gc::Mutator;
use serde_json::json;
use std::sync::atomic::Ordering::Relaxed;

const SHORT_MIN: u32 = 4;
const SHORT_MAX: u32 = 12;

/// The workload's sizes.
#[derive(Debug)]
pub(crate) struct Trees {
    mutators: u64,
    long_depth: u32,
    short_max: u32,
}

impl Trees {
    /// Long-lived trees of at most `live` bytes together.
    pub(crate) fn new(heap_bytes: u64, live: u64, mutators: u32) -> Trees {
        let mutators = u64::from(mutators);
        let long_depth = depth_for(live / mutators, SHORT_MIN..=26);
        let short_max = depth_for(heap_bytes / 64 / mutators, SHORT_MIN..=SHORT_MAX);
        Trees { mutators, long_depth, short_max }
    }
}

/// What a full tree of `depth` holds, by formula: the values 1..=n.
fn formula(depth: u32) -> Measure {
    let n = (1_u64 << (depth + 1)) - 1;
    Measure { nodes: n, sum: n * (n + 1) / 2 }
}

impl Workload for Trees {
    fn name(&self) -> &'static str {
        "trees"
    }

    fn round_name(&self) -> &'static str {
        "trees"
    }

    fn size_classes(&self) -> u64 {
        2
    }

    fn live_estimate(&self) -> u64 {
        self.mutators * (tree_bytes(self.long_depth) + tree_bytes(self.short_max))
    }

    fn plan(&self) -> Vec<String> {
        vec![format!(
            "each thread keeps a tree of depth {} ({}) and builds short-lived ones of depth {SHORT_MIN} to {}",
            self.long_depth,
            crate::quantity::bytes(tree_bytes(self.long_depth)),
            self.short_max
        )]
    }

    fn facts(&self) -> serde_json::Value {
        json!({ "long_lived_depth": self.long_depth, "short_lived_depth_max": self.short_max })
    }

    fn run(&self, env: &Env, _: usize, m: &mut Mutator<'_>) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        // Trees built, by depth: the formula is applied to these, not to what the walks found.
        let mut built = [0_u64; SHORT_MAX as usize + 1];
        let mut found = [Measure::default(); SHORT_MAX as usize + 1];
        let long = bottom_up(env, m, self.long_depth)?;
        'run: loop {
            for depth in (SHORT_MIN..=self.short_max).step_by(2) {
                for i in 0..1_u32 << (SHORT_MAX - depth) {
                    let tree = if i % 2 == 0 { bottom_up(env, m, depth)? } else { top_down(env, m, depth)? };
                    found[depth as usize] += measure(m, &tree, depth);
                    built[depth as usize] += 1;
                    // Relaxed: a counter for reports.
                    env.counters.rounds.fetch_add(1, Relaxed);
                    if env.stopping() {
                        break 'run;
                    }
                }
            }
        }
        let kept = measure(m, &long, self.long_depth);
        tally.add(kept.digest(), formula(self.long_depth).digest());
        for (depth, (&count, found)) in built.iter().zip(found).enumerate().filter(|&(_, (&n, _))| n > 0) {
            let one = formula(depth as u32);
            let expected = Measure { nodes: one.nodes * count, sum: one.sum.wrapping_mul(count) };
            tally.add(found.digest(), expected.digest());
            tally.count("trees", count);
            tally.count("nodes", found.nodes);
            if found != expected {
                tally.differs(|| format!("trees of depth {depth}: {found:?} instead of {expected:?}"));
            }
        }
        if kept != formula(self.long_depth) {
            tally.differs(|| {
                format!("the long-lived tree holds {kept:?}, not {:?}", formula(self.long_depth))
            });
        }
        Ok(tally)
    }
}
