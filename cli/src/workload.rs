//! Workloads: what the mutator threads do, and how their results are confirmed by something that knows no collector.

pub(crate) mod churn;
pub(crate) mod contract;
pub(crate) mod gcbench;
pub(crate) mod index;
mod random;
mod tree;
pub(crate) mod trees;
pub(crate) mod wander;

use crate::run::env::{Env, Failure};
use metronome_gc::Mutator;
use std::collections::BTreeMap;

/// Differences kept word for word; more are only counted.
const DIFFERENCES_MAX: usize = 5;

/// One thread's result, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Sum over what was computed in the heap (wrapping).
    pub(crate) checksum: u64,
    /// The same by the independent implementation.
    pub(crate) expected: u64,
    /// What was done, by name.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    differences: Vec<String>,
    difference_count: u64,
}

impl Tally {
    /// Adds to a count.
    pub(crate) fn count(&mut self, name: &'static str, n: u64) {
        *self.counts.entry(name).or_default() += n;
    }

    /// Adds a value computed in the heap, with the one expected.
    pub(crate) fn add(&mut self, value: u64, expected: u64) {
        self.checksum = self.checksum.wrapping_add(value);
        self.expected = self.expected.wrapping_add(expected);
    }

    /// Notes that something differed.
    pub(crate) fn differs(&mut self, what: impl FnOnce() -> String) {
        self.difference_count += 1;
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what());
        }
    }

    /// Takes in another thread's result.
    pub(crate) fn merge(&mut self, other: Tally) {
        self.add(other.checksum, other.expected);
        for (name, n) in other.counts {
            self.count(name, n);
        }
        self.difference_count += other.difference_count;
        self.differences.extend(other.differences);
        self.differences.truncate(DIFFERENCES_MAX);
    }

    /// What differed, in words; empty if the independent implementation agrees.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut out = self.differences.clone();
        if self.checksum != self.expected {
            out.push(format!("checksum {:#018x} instead of {:#018x}", self.checksum, self.expected));
        }
        let more = self.difference_count.saturating_sub(self.differences.len() as u64);
        if more > 0 {
            out.push(format!("and {more} more differences"));
        }
        out
    }
}

/// A workload, shared by its threads.
pub(crate) trait Workload: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Name of thread `i`.
    fn thread_name(&self, i: usize) -> String {
        format!("{}-{i}", self.name())
    }

    /// Most bytes that are alive at once, for advice on the heap's size.
    fn live_estimate(&self) -> u64;

    /// Size classes that each thread uses, about, for the same: it holds a region of each.
    fn size_classes(&self) -> u64;

    /// Why there is nothing to compute and to compare, if so.
    fn nothing(&self) -> Option<String> {
        None
    }

    /// Whether the summary also says what did not happen: no departure, no failed allocation.
    fn tells_all_departures(&self) -> bool {
        false
    }

    /// Facts of the plan for people: sizes, depths, what was read.
    fn plan(&self) -> Vec<String>;

    /// The same facts for programs.
    fn facts(&self) -> serde_json::Value;

    /// What one round is called on the progress line.
    fn round_name(&self) -> &'static str {
        "rounds"
    }

    /// Work of thread `i` until the run stops, and the check of its results.
    ///
    /// # Errors
    /// [`Failure`] if the thread could not do its work.
    fn run(&self, env: &Env, i: usize, m: &mut Mutator<'_>) -> Result<Tally, Failure>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_and_tell_what_differs() {
        let (mut a, mut b) = (Tally::default(), Tally::default());
        a.add(u64::MAX, u64::MAX);
        a.count("trees", 2);
        b.add(3, 3);
        b.count("trees", 1);
        a.merge(b);
        assert_eq!((a.checksum, a.expected, a.counts["trees"]), (2, 2, 3));
        assert!(a.differences().is_empty());
        a.add(1, 0);
        assert_eq!(a.differences().len(), 1);
        for i in 0..10 {
            a.differs(|| format!("number {i}"));
        }
        let words = a.differences();
        assert!(
            words.iter().any(|w| w == "number 0") && words.iter().any(|w| w.contains("5 more")),
            "{words:?}"
        );
    }
}
