//! Exact percentiles of response times, and medians over rounds.

/// What a task felt, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Responses {
    pub(crate) count: u64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) p9999: u64,
    pub(crate) max: u64,
    /// Later than the deadline.
    pub(crate) missed: u64,
}

impl Responses {
    /// Of these times, in any order; none for none.
    pub(crate) fn of(mut times: Vec<u64>, deadline_ns: u64) -> Option<Responses> {
        times.sort_unstable();
        let max = *times.last()?;
        // The smallest time that at least this share of all does not exceed.
        let at = |share: f64| times[((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1];
        let missed = times.len() - times.partition_point(|&t| t <= deadline_ns);
        Some(Responses {
            count: times.len() as u64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max,
            missed: missed as u64,
        })
    }
}

/// Median with the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of these values; none for none. The median of an even number is the mean of the middle two.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut all: Vec<f64> = values.into_iter().collect();
        all.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (all.first()?, all.last()?);
        let median = (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0;
        Some(Spread { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_definition() {
        let times: Vec<u64> = (1..=10_000).rev().collect();
        let r = Responses::of(times, 9_990).unwrap();
        let found = [r.count, r.p50, r.p90, r.p99, r.p999, r.p9999, r.max, r.missed];
        assert_eq!(found, [10_000, 5_000, 9_000, 9_900, 9_990, 9_999, 10_000, 10]);
        let one = Responses::of(vec![7], 7).unwrap();
        assert_eq!([one.p50, one.p9999, one.max, one.missed], [7, 7, 7, 0]);
        assert_eq!(Responses::of(vec![], 1), None);
    }

    #[test]
    fn medians_of_even_and_odd_numbers() {
        let spread = |v: &[f64]| Spread::of(v.iter().copied()).map(|s| (s.median, s.min, s.max));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(&[]), None);
    }
}
