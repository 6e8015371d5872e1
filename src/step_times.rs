//! Distributions of the collector's step times, one for each kind of step.
//!
//! *State*: log-linear buckets, 16 to each power of two, so that a reading is at most 1/16 too high; 1.1 KiB for each kind,
//! allocated once. (The alarm's histogram has 15 KiB and locked instructions, for many writers; here is one for each kind of step,
//! on the path of every step.) *Who may touch what*: the collector thread records, any thread reads. *Ordering*: a bucket is raised last,
//! with Release; a reader that sees it (Acquire) also sees the maximum that came with it. *Safety*: no `unsafe`.

use crate::collector::StepName;
use crate::stats::Distribution;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// Times from 2^20 ns (a millisecond) on share the last bucket.
const POWERS: u32 = 20;
const BUCKETS: usize = (SUB as usize) * (POWERS - SUB_BITS + 1) as usize;

#[derive(Debug)]
struct Kind {
    buckets: [AtomicU32; BUCKETS],
    max: AtomicU64,
}

/// Step times by kind, in nanoseconds of the collector thread's CPU time as far as the meter knows it.
#[derive(Debug)]
pub(crate) struct StepTimes {
    kinds: Box<[Kind]>,
}

impl StepTimes {
    pub(crate) fn new() -> StepTimes {
        let kind = || Kind { buckets: [const { AtomicU32::new(0) }; BUCKETS], max: AtomicU64::new(0) };
        StepTimes { kinds: StepName::ALL.iter().map(|_| kind()).collect() }
    }

    /// Records a step. The collector thread. O(1), wait-free.
    #[inline]
    pub(crate) fn record(&self, name: StepName, ns: u64) {
        let Some(kind) = self.kinds.get(name as usize) else { return };
        let bucket = &kind.buckets[index(ns)];
        // Relaxed: this thread alone writes; published by the bucket's Release.
        if ns > kind.max.load(Relaxed) {
            kind.max.store(ns, Relaxed);
        }
        // Relaxed: this thread's own; stays at its largest. Release: pairs with the Acquire in `of`.
        bucket.store(bucket.load(Relaxed).saturating_add(1), Release);
    }

    /// The distribution of one kind. O(buckets).
    pub(crate) fn of(&self, name: StepName) -> Distribution {
        let Some(kind) = self.kinds.get(name as usize) else { return Distribution::default() };
        // Acquire: pairs with the Release in `record`.
        let counts: [u32; BUCKETS] = std::array::from_fn(|i| kind.buckets[i].load(Acquire));
        // Relaxed: ordered by the Acquire above.
        let max = kind.max.load(Relaxed);
        let count: u64 = counts.iter().map(|&n| u64::from(n)).sum();
        if count == 0 {
            return Distribution::default();
        }
        let at = |per_mille: u64| {
            // At most `count`, hence fits.
            let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1000) as u64;
            let mut seen = 0;
            let found = counts.iter().position(|&n| {
                seen += u64::from(n);
                seen >= rank
            });
            found.map_or(max, |i| high(i).min(max))
        };
        Distribution { count, p50: at(500), p99: at(990), p999: at(999), max }
    }
}

/// The bucket of a time.
const fn index(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let power = ns.ilog2();
    if power >= POWERS {
        return BUCKETS - 1;
    }
    let shift = power - SUB_BITS;
    ((shift as u64 + 1) * SUB + ((ns >> shift) - SUB)) as usize
}

/// The largest time that falls into bucket `i`.
const fn high(i: usize) -> u64 {
    let (row, column) = (i as u64 / SUB, i as u64 % SUB);
    if i == BUCKETS - 1 {
        u64::MAX
    } else if row == 0 {
        column
    } else {
        ((SUB + column + 1) << (row - 1)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_a_bucket_that_holds_it_and_is_narrow() {
        let mut last = 0;
        for ns in (0..4096).chain((12..40).flat_map(|p| [(1u64 << p) - 1, 1 << p, (1 << p) + (1 << (p - 1))]))
        {
            let i = index(ns);
            assert!(i < BUCKETS && i >= last, "{ns}: {i} after {last}");
            last = i;
            assert!(high(i) >= ns, "{ns}");
            assert!(i == 0 || high(i - 1) < ns || i == BUCKETS - 1, "{ns}");
            assert!(i == BUCKETS - 1 || high(i) - ns <= ns / 16, "{ns}: up to {}", high(i));
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let t = StepTimes::new();
        let mut times: Vec<u64> = (0..5000u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 45).collect();
        for &ns in &times {
            t.record(StepName::Sweep, ns);
        }
        times.sort_unstable();
        let d = t.of(StepName::Sweep);
        assert_eq!((d.count, d.max), (5000, times[4999]));
        for (got, rank) in [(d.p50, 2500), (d.p99, 4950), (d.p999, 4995)] {
            let exact = times[rank - 1];
            assert!(got >= exact && got <= exact + exact / 16 + 1, "{got} for {exact}");
        }
        assert_eq!(t.of(StepName::Mark), Distribution::default());
    }

    #[test]
    fn every_kind_has_its_own_place() {
        for (i, name) in StepName::ALL.iter().enumerate() {
            assert_eq!(*name as usize, i);
        }
    }
}
