//! Numbers in sum: exact extremes and means, a bounded distribution, a straight line through points.

use hdrhistogram::Histogram;

/// Longest time that a distribution tells apart: an hour. Longer ones count as an hour there, but not in [`Stat`].
const LONGEST_NS: u64 = 3_600_000_000_000;
/// So many values are kept as they are: their quantiles are exact.
const FEW: usize = 1_000;
/// Bars of a distribution for each doubling.
const BARS_PER_OCTAVE: f64 = 4.0;

/// Exact count, least, sum and most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// How many.
    pub count: u64,
    /// The least; `u64::MAX` if there are none.
    pub min: u64,
    /// The most; 0 if there are none.
    pub max: u64,
    /// Their sum.
    pub sum: u128,
}

impl Default for Stat {
    fn default() -> Self {
        Self { count: 0, min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Stat {
    /// Takes one value.
    pub fn add(&mut self, value: u64) {
        self.add_group(1, value, value, value);
    }

    /// Takes a group of which least, mean and most are known. An empty group changes nothing.
    pub fn add_group(&mut self, count: u64, min: u64, mean: u64, max: u64) {
        if count == 0 {
            return;
        }
        // A torn or forged line may have them in the wrong order.
        let (min, max) = (min.min(max), max.max(min));
        self.count = self.count.saturating_add(count);
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        // Beyond this only a forged log comes; the mean is wrong there, and nothing else.
        self.sum = self.sum.saturating_add(u128::from(count) * u128::from(mean));
    }

    /// The mean of single values, or of groups weighted by their counts; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// True if there are no values.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A maximum and where in the log it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// The most.
    pub value: u64,
    /// Line of the event that has it, from 1; 0 if there is none.
    pub line: u64,
    /// Its place on the run's time axis, in nanoseconds.
    pub at_ns: u64,
}

impl Peak {
    /// Takes a value if it is higher than all before it, or the first.
    pub const fn add(&mut self, value: u64, line: u64, at_ns: u64) {
        if self.line == 0 || value > self.value {
            *self = Self { value, line, at_ns };
        }
    }
}

/// A distribution of times that is done: figures and bars for a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Exact count, extremes and mean.
    pub stat: Stat,
    /// The quantiles and bars are of the single values. If false they have three digits, as those of more than a thousand
    /// values do, or are estimated from groups of which the log tells count, least, mean and most only: one value at the
    /// least, one at the most, the others at what is left.
    pub exact: bool,
    /// Half are at most this, in ns.
    pub p50: u64,
    /// 90 % are.
    pub p90: u64,
    /// 99 % are.
    pub p99: u64,
    /// 99.9 % are.
    pub p999: u64,
    /// Bars on a logarithmic scale, in order, none of them empty; at most 200.
    pub bars: Vec<Bar>,
}

/// One bar of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bar {
    /// From this time, in ns.
    pub from_ns: u64,
    /// Up to this one, exclusive.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

/// A distribution that grows; its memory is bounded (about 200 KiB, and 16 KiB while its values are few).
#[derive(Clone, Debug, Default)]
pub(crate) struct Sketch {
    stat: Stat,
    estimated: bool,
    /// The values and how often each came, as long as they are few.
    few: Vec<(u64, u64)>,
    histogram: Option<Box<Histogram<u64>>>,
}

impl Sketch {
    pub(crate) fn add(&mut self, ns: u64) {
        self.stat.add(ns);
        self.record(ns, 1);
    }

    /// Takes a group of times; see [`Distribution::exact`].
    pub(crate) fn add_group(&mut self, count: u64, min: u64, mean: u64, max: u64) {
        self.stat.add_group(count, min, mean, max);
        let (min, max) = (min.min(max), max.max(min));
        match count {
            0 => {}
            1 => self.record(max, 1),
            _ => {
                self.record(min, 1);
                self.record(max, 1);
                let rest = count - 2;
                if rest > 0 {
                    self.estimated = true;
                    let ends = u128::from(min) + u128::from(max);
                    let left = (u128::from(count) * u128::from(mean)).saturating_sub(ends) / u128::from(rest);
                    // A mean that does not fit to the extremes is a torn or forged line.
                    let left = u64::try_from(left).unwrap_or(u64::MAX).clamp(min, max);
                    self.record(left, rest);
                }
            }
        }
    }

    fn record(&mut self, ns: u64, count: u64) {
        let Some(h) = &mut self.histogram else {
            self.few.push((ns, count));
            if self.few.len() > FEW {
                // 1 µs (what logs print) to an hour, three digits: constant bounds, so always made.
                let Ok(mut h) = Histogram::new_with_bounds(1_000, LONGEST_NS, 3) else { return };
                for (ns, count) in std::mem::take(&mut self.few) {
                    h.saturating_record_n(ns.min(LONGEST_NS), count);
                }
                self.histogram = Some(Box::new(h));
            }
            return;
        };
        h.saturating_record_n(ns.min(LONGEST_NS), count);
    }

    pub(crate) fn done(&self) -> Distribution {
        let quantiles = [0.5, 0.9, 0.99, 0.999];
        let mut bars: Vec<Bar> = Vec::new();
        let mut bar = |ns: u64, count: u64| {
            let step = ((ns.clamp(1_000, LONGEST_NS) as f64).log2() * BARS_PER_OCTAVE).floor();
            let edge = |step: f64| (step / BARS_PER_OCTAVE).exp2() as u64;
            let (from_ns, to_ns) = (edge(step), edge(step + 1.0));
            match bars.last_mut() {
                Some(bar) if bar.from_ns == from_ns => bar.count = bar.count.saturating_add(count),
                _ => bars.push(Bar { from_ns, to_ns, count }),
            }
        };
        let [p50, p90, p99, p999] = if let Some(h) = &self.histogram {
            h.iter_recorded().for_each(|v| bar(v.value_iterated_to(), v.count_since_last_iteration()));
            // The histogram keeps three digits.
            quantiles.map(|q| h.value_at_quantile(q).clamp(self.stat.min, self.stat.max))
        } else if self.few.is_empty() {
            return Distribution::default();
        } else {
            let mut few = self.few.clone();
            few.sort_unstable();
            few.iter().for_each(|(ns, count)| bar(*ns, *count));
            quantiles.map(|q| {
                let rank = (q * self.stat.count as f64).ceil().max(1.0) as u64;
                let mut before = 0_u64;
                let reached = few.iter().find(|(_, n)| {
                    before = before.saturating_add(*n);
                    before >= rank
                });
                reached.map_or(self.stat.max, |(ns, _)| *ns)
            })
        };
        Distribution {
            stat: self.stat,
            exact: !self.estimated && self.histogram.is_none(),
            p50,
            p90,
            p99,
            p999,
            bars,
        }
    }
}

/// A straight line through points by least squares; constant memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trend {
    count: u64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Trend {
    /// Takes a point.
    pub fn add(&mut self, x: f64, y: f64) {
        // Welford's update, which stays exact where sums of squares would cancel.
        self.count += 1;
        let n = self.count as f64;
        let (dx, dy) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += dx / n;
        self.mean_y += dy / n;
        self.xx += dx * (x - self.mean_x);
        self.xy += dx * (y - self.mean_y);
        self.yy += dy * (y - self.mean_y);
    }

    /// Number of points.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Rise of y for one x; `None` without two different x.
    pub fn slope(&self) -> Option<f64> {
        (self.xx > 0.0).then(|| self.xy / self.xx)
    }

    /// The line's y at an x; the mean without a slope.
    pub fn at(&self, x: f64) -> f64 {
        self.mean_y + self.slope().unwrap_or(0.0) * (x - self.mean_x)
    }

    /// Share of y's variance that the line explains, 0 to 1; 0 where y or x does not vary.
    pub fn r_squared(&self) -> f64 {
        if self.xx > 0.0 && self.yy > 0.0 { (self.xy * self.xy / (self.xx * self.yy)).min(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    quickcheck! {
        fn single_values_are_exact_and_their_quantiles_within_a_thousandth(values: Vec<u32>) -> bool {
            let mut sketch = Sketch::default();
            let mut sorted: Vec<u64> = values.iter().map(|v| u64::from(*v).max(1_000)).collect();
            sorted.iter().for_each(|v| sketch.add(*v));
            sorted.sort_unstable();
            let d = sketch.done();
            let near = |q: f64, got: u64| {
                let rank = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1;
                got.abs_diff(sorted[rank]) <= sorted[rank] / 1000 + 1_000
            };
            sorted.is_empty()
                || d.exact
                    && d.stat.min == sorted[0]
                    && d.stat.max == *sorted.last().unwrap()
                    && d.stat.sum == sorted.iter().map(|v| u128::from(*v)).sum::<u128>()
                    && near(0.5, d.p50)
                    && near(0.99, d.p99)
                    && d.bars.iter().map(|b| b.count).sum::<u64>() == sorted.len() as u64
        }

        fn a_line_is_found_whatever_its_place(slope: i16, at: i32, n: u8) -> bool {
            let mut t = Trend::default();
            for x in 0..=u32::from(n) + 1 {
                t.add(f64::from(x) + f64::from(at), f64::from(slope) * f64::from(x) + 1e9);
            }
            let found = t.slope().unwrap();
            (found - f64::from(slope)).abs() < 1e-3 && (slope == 0 || t.r_squared() > 0.999)
        }
    }

    #[test]
    fn groups_keep_count_sum_and_extremes_and_say_that_they_are_estimates() {
        let mut sketch = Sketch::default();
        sketch.add_group(477, 78_000, 503_000, 1_909_000);
        sketch.add_group(363, 24_000, 474_000, 1_473_000);
        let d = sketch.done();
        assert_eq!((d.stat.count, d.stat.min, d.stat.max, d.exact), (840, 24_000, 1_909_000, false));
        assert_eq!((d.stat.mean().unwrap() / 1e3).round(), 490.0);
        assert_eq!(d.bars.iter().map(|b| b.count).sum::<u64>(), 840);
        assert!((474_000..=505_000).contains(&d.p50));
        let mut pairs = Sketch::default();
        pairs.add_group(2, 1_000_000, 2_000_000, 3_000_000);
        assert!(pairs.done().exact, "two values are their extremes");
        let mut forged = Sketch::default();
        forged.add_group(u64::MAX, u64::MAX, u64::MAX, 0);
        assert_eq!(forged.done().stat.count, u64::MAX);
    }
}
