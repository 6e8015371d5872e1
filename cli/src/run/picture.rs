//! Small pictures made of text.

use crate::quantity;
use hdrhistogram::Histogram;

/// A bar of `width` places, filled to `share` (0 to 1).
pub(super) fn bar(share: f64, width: usize) -> String {
    let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("[{}{}]", "#".repeat(filled), ".".repeat(width - filled))
}

/// Rows of a histogram of nanoseconds, one for each doubling, on a logarithmic scale: single long times are what one
/// looks for, and must be seen beside millions of short ones.
pub(super) fn histogram(h: &Histogram<u64>, width: usize) -> Vec<String> {
    if h.is_empty() {
        return Vec::new();
    }
    let bucket = |ns: u64| 63 - ns.max(1).leading_zeros();
    let (first, last) = (bucket(h.min()), bucket(h.max()));
    let counts: Vec<u64> = (first..=last).map(|b| h.count_between(1 << b, (2 << b) - 1)).collect();
    let scale = |n: u64| (n as f64 + 1.0).log2();
    let most = counts.iter().copied().max().map_or(1.0, scale);
    counts
        .iter()
        .zip(first..=last)
        .map(|(&n, b)| {
            let length = (scale(n) / most * width as f64).round() as usize;
            let places = if n == 0 { 0 } else { length.max(1) };
            format!("{:>9} {:<width$} {}", quantity::time(2 << b), "#".repeat(places), quantity::grouped(n))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_wide_as_asked_whatever_the_share() {
        assert_eq!(bar(0.5, 4), "[##..]");
        for share in [-1.0, 0.0, 0.3, 1.0, 7.0, f64::NAN] {
            assert_eq!(bar(share, 10).len(), 12, "{share}");
        }
    }

    #[test]
    fn a_single_long_time_is_seen_and_no_row_is_left_out() {
        let mut h = Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).unwrap();
        assert!(histogram(&h, 20).is_empty());
        h.record_n(1_000, 1_000_000).unwrap();
        h.record(16_000).unwrap();
        let rows = histogram(&h, 20);
        // 512..1024, then up to 8192..16384.
        assert_eq!(rows.len(), 5, "{rows:?}");
        assert!(rows[0].ends_with("1,000,000") && rows[0].contains(&"#".repeat(20)), "{rows:?}");
        assert!(rows[4].contains('#') && rows[4].ends_with(" 1"), "{rows:?}");
        assert!(rows[2].ends_with(" 0") && !rows[2].contains('#'), "{rows:?}");
    }
}
