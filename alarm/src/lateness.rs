//! Histogram of lateness that the tick thread fills and any thread reads, without a lock.
//!
//! *State*: log-linear buckets, 32 to each power of two, so that a reading is at most 1/32 too high; 15 KiB, allocated
//! once. *Who may touch what*: any thread may record, any thread may read.
//! *Ordering*: a bucket is raised last, with Release; a reader that sees it (Acquire) also sees the maximum and the
//! missed count that came with it.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// Each power of two is cut into `2^SUB_BITS` buckets.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
/// Values below `SUB` have a bucket each; above, each of the `64 - SUB_BITS` powers of two has `SUB` of them.
const BUCKETS: usize = (SUB as usize) * (64 - SUB_BITS as usize + 1);

/// A fixed-size, lock-free histogram of nanoseconds over the whole range of `u64`.
pub struct LatenessHistogram {
    /// Written by each recording thread: apart from what the readers poll.
    totals: CachePadded<Totals>,
    buckets: Box<[AtomicU64]>,
}

#[derive(Default)]
struct Totals {
    max: AtomicU64,
    missed: AtomicU64,
}

/// What a [`LatenessHistogram`] showed at one time. Times in nanoseconds; percentiles are upper bounds, at most 1/32
/// above the exact value and never above `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LatenessSnapshot {
    /// Ticks recorded.
    pub count: u64,
    /// Half of the ticks were at most this late.
    pub p50: u64,
    /// 99 % of the ticks were at most this late.
    pub p99: u64,
    /// 99.9 % of the ticks were at most this late.
    pub p999: u64,
    /// The latest tick, exactly.
    pub max: u64,
    /// Grid points that got no tick.
    pub missed: u64,
}

/// A bucket that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value that falls into it, in nanoseconds.
    pub low: u64,
    /// Largest value that falls into it, in nanoseconds.
    pub high: u64,
    /// How many values did.
    pub count: u64,
}

impl LatenessHistogram {
    /// An empty histogram. Allocates; nothing else here does, save [`buckets`](Self::buckets).
    pub fn new() -> LatenessHistogram {
        LatenessHistogram {
            totals: CachePadded::default(),
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Records one tick that was `ns` late and stood for `missed` further grid points. O(1), wait-free.
    #[inline]
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub fn record(&self, ns: u64, missed: u64) {
        // Relaxed: published by the Release on the bucket below.
        self.totals.max.fetch_max(ns, Ordering::Relaxed);
        if missed > 0 {
            // Relaxed: published by the Release on the bucket below.
            self.totals.missed.fetch_add(missed, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `counts`.
        self.buckets[index(ns)].fetch_add(1, Ordering::Release);
    }

    /// Reads the histogram: consistent in itself (the percentiles belong to the count, none is above the maximum),
    /// though ticks recorded meanwhile may or may not be in it. Copies the 1920 buckets to the stack; no allocation.
    pub fn snapshot(&self) -> LatenessSnapshot {
        // One pass over the atomics into 15 KiB of stack, so that count and percentiles are of the same moment.
        let mut counts = [0_u64; BUCKETS];
        let mut count = 0_u64;
        for (at, n) in self.counts() {
            counts[at] = n;
            count = count.saturating_add(n);
        }
        if count == 0 {
            return LatenessSnapshot::default();
        }
        let values = [500, 990, 999].map(|per_mille| {
            let wanted = rank(count, per_mille);
            let mut seen = 0_u64;
            let at = counts.iter().position(|&n| {
                seen = seen.saturating_add(n);
                seen >= wanted
            });
            // The sum of the counts reaches every rank, so there is a position.
            at.map_or(u64::MAX, high)
        });
        // Relaxed: ordered after the bucket loads by their Acquire, so at least the maximum of what was counted.
        let max = self.totals.max.load(Ordering::Relaxed);
        let [p50, p99, p999] = values.map(|value| value.min(max));
        // Relaxed: as above.
        LatenessSnapshot { count, p50, p99, p999, max, missed: self.totals.missed.load(Ordering::Relaxed) }
    }

    /// The buckets that are not empty, in rising order. Allocates the vector.
    pub fn buckets(&self) -> Vec<Bucket> {
        self.counts()
            .filter(|&(_, count)| count > 0)
            .map(|(at, count)| Bucket { low: low(at), high: high(at), count })
            .collect()
    }

    fn counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        // Acquire: pairs with the Release in `record`.
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Acquire)).enumerate()
    }
}

impl Default for LatenessHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for LatenessHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LatenessHistogram").field(&self.snapshot()).finish()
    }
}

/// The rank, from 1, of the value that `per_mille` of `count` values do not exceed.
fn rank(count: u64, per_mille: u64) -> u64 {
    // At most `count`, hence fits.
    (u128::from(count) * u128::from(per_mille)).div_ceil(1000) as u64
}

/// The bucket that `ns` falls into.
const fn index(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let exponent = ns.ilog2();
    let sub = (ns >> (exponent - SUB_BITS)) - SUB;
    ((exponent - SUB_BITS + 1) as u64 * SUB + sub) as usize
}

/// Smallest value of a bucket.
const fn low(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    (SUB + bucket % SUB) << (bucket / SUB - 1)
}

/// Largest value of a bucket.
const fn high(bucket: usize) -> u64 {
    if bucket + 1 == BUCKETS { u64::MAX } else { low(bucket + 1) - 1 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    #[test]
    fn buckets_cover_every_value_once() {
        assert_eq!(low(0), 0);
        for bucket in 0..BUCKETS {
            assert!(low(bucket) <= high(bucket));
            assert_eq!((index(low(bucket)), index(high(bucket))), (bucket, bucket));
            if bucket + 1 < BUCKETS {
                assert_eq!(high(bucket) + 1, low(bucket + 1));
            }
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    /// The exact percentile of a list, by sorting.
    fn exact(values: &[u64], per_mille: usize) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let position = (values.len() * per_mille).div_ceil(1000).max(1);
        sorted[position - 1]
    }

    quickcheck! {
        fn percentiles_are_at_most_a_32nd_too_high(raw: Vec<(u64, u8)>) -> bool {
            // Shifted so that every magnitude occurs.
            let values: Vec<u64> = raw.iter().map(|&(value, shift)| value >> (shift % 64)).collect();
            let histogram = LatenessHistogram::new();
            for &value in &values {
                histogram.record(value, value % 3);
            }
            let shot = histogram.snapshot();
            assert_eq!(shot.count, values.len() as u64);
            assert_eq!(shot.missed, values.iter().map(|value| value % 3).sum::<u64>());
            assert_eq!(histogram.buckets().iter().map(|bucket| bucket.count).sum::<u64>(), shot.count);
            if values.is_empty() {
                return shot == LatenessSnapshot::default();
            }
            assert_eq!(Some(&shot.max), values.iter().max());
            for (got, per_mille) in [(shot.p50, 500), (shot.p99, 990), (shot.p999, 999)] {
                let want = exact(&values, per_mille);
                assert!(got >= want && got - want <= want / 32, "{got} for {want}");
                assert!(got <= shot.max);
            }
            true
        }
    }

    #[test]
    fn readers_see_consistent_snapshots_while_it_is_written() {
        let histogram = LatenessHistogram::new();
        const EACH: u64 = 20_000;
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let histogram = &histogram;
                scope.spawn(move || (0..EACH).for_each(|i| histogram.record(i * (writer + 1), 1)));
            }
            let mut before = 0;
            while before < 2 * EACH {
                let shot = histogram.snapshot();
                assert!(shot.count >= before);
                assert!(shot.p50 <= shot.p99 && shot.p99 <= shot.p999 && shot.p999 <= shot.max);
                assert!(shot.missed >= shot.count, "missed is raised before the bucket");
                before = shot.count;
            }
        });
        assert_eq!(histogram.snapshot().max, (EACH - 1) * 2);
    }
}
