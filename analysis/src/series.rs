//! A bounded series of time buckets for pictures: however long the run, at most [`MAX_BUCKETS`], and no extreme lost
//! (INV-ANALYSIS-EXTREMES).

use crate::figures::Range;

/// Most buckets of a series.
pub const MAX_BUCKETS: usize = 2048;
/// Width of a bucket at first.
const FIRST_NS: u64 = 1_000_000;

/// What happened in one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Collector time in quanta. A heartbeat's is spread evenly over its interval.
    pub collector_ns: u64,
    /// Time in synchronous collections.
    pub synchronous_ns: u64,
    /// Time that heartbeats with a known interval account for: where it is 0, nothing is known and probably nothing ran.
    pub covered_ns: u64,
    /// The highest share of the collector of a heartbeat that ended here and spans the target's window at least, in ppm.
    pub share_max_ppm: Option<u32>,
    /// Time during which a cycle was active.
    pub cycle_ns: u64,
    /// Quanta, counted where their heartbeat ended.
    pub quanta: u64,
    /// Longest quantum of the heartbeats that ended here.
    pub quantum_max_ns: u64,
    /// Longest time to stop.
    pub stop_max_ns: u64,
    /// Least free heap seen.
    pub free_min_bytes: Option<u64>,
    /// Most free heap seen.
    pub free_max_bytes: Option<u64>,
    /// Free heap as it was seen first and last: where cycles are shorter than a bucket, these still go up and down.
    pub free_ends_bytes: Option<(u64, u64)>,
    /// Allocated bytes, as far as the log tells; spread evenly over the cycle or heartbeat that tells.
    pub allocated_bytes: u64,
    /// Lowest and highest priority of the collector's thread.
    pub priority: Option<Range>,
    /// Least and most free immortal memory.
    pub immortal_free: Option<Range>,
    /// Objects handed to finalization, counted where their heartbeat or collection ended.
    pub finalizer_enqueued: u64,
    /// References cleared of all kinds, likewise.
    pub references_cleared: u64,
}

impl Bucket {
    fn merge(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.collector_ns, other.collector_ns);
        sum(&mut self.synchronous_ns, other.synchronous_ns);
        sum(&mut self.covered_ns, other.covered_ns);
        sum(&mut self.cycle_ns, other.cycle_ns);
        sum(&mut self.quanta, other.quanta);
        sum(&mut self.allocated_bytes, other.allocated_bytes);
        sum(&mut self.finalizer_enqueued, other.finalizer_enqueued);
        sum(&mut self.references_cleared, other.references_cleared);
        for (mine, theirs) in
            [(&mut self.priority, other.priority), (&mut self.immortal_free, other.immortal_free)]
        {
            if let Some(r) = theirs {
                Range::add(mine, r.min, r.max);
            }
        }
        self.share_max_ppm = self.share_max_ppm.max(other.share_max_ppm);
        self.quantum_max_ns = self.quantum_max_ns.max(other.quantum_max_ns);
        self.stop_max_ns = self.stop_max_ns.max(other.stop_max_ns);
        let ends = self.free_ends_bytes;
        self.free(other.free_min_bytes);
        self.free(other.free_max_bytes);
        self.free_ends_bytes = match (ends, other.free_ends_bytes) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (mine, theirs) => mine.or(theirs),
        };
    }

    fn free(&mut self, bytes: Option<u64>) {
        let Some(bytes) = bytes else { return };
        self.free_min_bytes = Some(self.free_min_bytes.map_or(bytes, |b| b.min(bytes)));
        self.free_max_bytes = Some(self.free_max_bytes.map_or(bytes, |b| b.max(bytes)));
        self.free_ends_bytes = Some((self.free_ends_bytes.map_or(bytes, |e| e.0), bytes));
    }
}

/// Amounts that are spread over a stretch of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    Collector,
    Synchronous,
    Covered,
    Cycle,
    Allocated,
}

/// Buckets of equal width from the run's start on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Width of a bucket, in ns.
    pub bucket_ns: u64,
    /// The buckets; the last one may be cut short by the run's end.
    pub buckets: Vec<Bucket>,
}

impl Default for Series {
    fn default() -> Self {
        Self { bucket_ns: FIRST_NS, buckets: Vec::new() }
    }
}

impl Series {
    /// The bucket at a time; widens all buckets until there is one.
    pub(crate) fn at(&mut self, ns: u64) -> &mut Bucket {
        // Every pass halves the number, so at most 64.
        while ns / self.bucket_ns >= MAX_BUCKETS as u64 {
            self.widen();
        }
        let i = (ns / self.bucket_ns) as usize;
        if self.buckets.len() <= i {
            self.buckets.resize(i + 1, Bucket::default());
        }
        &mut self.buckets[i]
    }

    /// Spreads an amount evenly over `from..to`; nothing is lost by rounding.
    pub(crate) fn spread(&mut self, from: u64, to: u64, amount: u64, what: Amount) {
        // Makes all buckets that are needed, so that the width stays as it is below.
        self.at(to.max(from));
        let width = self.bucket_ns;
        let span = u128::from(to.saturating_sub(from));
        let (mut at, mut given) = (from, 0_u64);
        loop {
            let end = (at / width).saturating_add(1).saturating_mul(width).min(to.max(from));
            let due = match span {
                0 => amount,
                _ => (u128::from(amount) * u128::from(end - from) / span) as u64,
            };
            let i = (at / width) as usize;
            let b = &mut self.buckets[i];
            let field = match what {
                Amount::Collector => &mut b.collector_ns,
                Amount::Synchronous => &mut b.synchronous_ns,
                Amount::Covered => &mut b.covered_ns,
                Amount::Cycle => &mut b.cycle_ns,
                Amount::Allocated => &mut b.allocated_bytes,
            };
            *field = field.saturating_add(due - given);
            given = due;
            if end >= to {
                return;
            }
            at = end;
        }
    }

    /// Notes free heap at a time.
    pub(crate) fn free(&mut self, ns: u64, bytes: Option<u64>) {
        self.at(ns).free(bytes);
    }

    /// Widens buckets until there are at most so many.
    pub(crate) fn shrink(&mut self, most: usize) {
        while self.buckets.len() > most.max(1) {
            self.widen();
        }
        self.buckets.shrink_to_fit();
    }

    fn widen(&mut self) {
        self.bucket_ns = self.bucket_ns.saturating_mul(2);
        let pairs = self.buckets.chunks(2).map(|pair| {
            let mut first = pair[0];
            if let Some(second) = pair.get(1) {
                first.merge(second);
            }
            first
        });
        self.buckets = pairs.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    // INV-ANALYSIS-EXTREMES.
    quickcheck! {
        fn nothing_is_lost_however_wide_the_buckets_become(pieces: Vec<(u32, u32, u32)>, far: u64) -> bool {
            let mut s = Series::default();
            let (mut sum, mut most) = (0_u64, 0);
            for (from, len, amount) in &pieces {
                let from = u64::from(*from) * 1000;
                s.spread(from, from + u64::from(*len), u64::from(*amount), Amount::Collector);
                let bucket = s.at(from);
                bucket.quantum_max_ns = bucket.quantum_max_ns.max(u64::from(*amount));
                s.free(from, Some(u64::from(*amount)));
                Range::add(&mut s.at(from).priority, u64::from(*amount), u64::from(*amount));
                s.at(from).references_cleared += u64::from(*amount);
                sum += u64::from(*amount);
                most = most.max(u64::from(*amount));
            }
            s.at(far);
            s.buckets.len() <= MAX_BUCKETS
                && s.buckets.iter().map(|b| b.collector_ns).sum::<u64>() == sum
                && s.buckets.iter().map(|b| b.quantum_max_ns).max().unwrap_or(0) == most
                && s.buckets.iter().filter_map(|b| b.free_max_bytes).max().unwrap_or(0) == most
                && s.buckets.iter().map(|b| b.references_cleared).sum::<u64>() == sum
                && s.buckets.iter().filter_map(|b| b.priority).map(|r| r.max).max().unwrap_or(0) == most
                && s.buckets.iter().filter_map(|b| b.priority).map(|r| r.min).min()
                    == pieces.iter().map(|p| u64::from(p.2)).min()
                && s.buckets.iter().filter_map(|b| b.free_min_bytes).min()
                    == pieces.iter().map(|p| u64::from(p.2)).min()
        }
    }

    #[test]
    fn an_amount_is_spread_by_the_length_in_each_bucket() {
        let mut s = Series::default();
        s.spread(500_000, 3_000_000, 1_000, Amount::Cycle);
        let got: Vec<u64> = s.buckets.iter().map(|b| b.cycle_ns).collect();
        assert_eq!(got, [200, 400, 400, 0]);
        s.spread(7_000_000, 7_000_000, 5, Amount::Cycle);
        assert_eq!(s.buckets[7].cycle_ns, 5);
    }
}
