//! A run over time in so many columns: sums by adding, extremes by comparing, so that none is lost however few they are.

use metronome_analysis::{Bucket, RunFigures};
use serde_json::{Value, json};

/// What happened in one column.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Column {
    pub(super) from_ns: f64,
    pub(super) to_ns: f64,
    /// What the program got on the average and in the worst and best bucket, from 0 to 1.
    pub(super) utilization: f64,
    pub(super) worst: f64,
    pub(super) best: f64,
    /// Part of the time in which a cycle was active.
    pub(super) cycle: f64,
    pub(super) synchronous_ns: u64,
    pub(super) free: Option<(u64, u64)>,
    /// As it was first and last.
    pub(super) free_ends: Option<(u64, u64)>,
    pub(super) quantum_max_ns: u64,
    pub(super) stop_max_ns: u64,
    pub(super) allocated_bytes: u64,
    pub(super) priority: Option<(u64, u64)>,
    pub(super) immortal: Option<(u64, u64)>,
    pub(super) finalizer_enqueued: u64,
    pub(super) references_cleared: u64,
}

impl Column {
    /// Its middle, where a point is drawn.
    pub(super) const fn middle(&self) -> f64 {
        f64::midpoint(self.from_ns, self.to_ns)
    }
}

/// The run in at most `most` columns.
pub(super) fn columns(run: &RunFigures, most: usize) -> Vec<Column> {
    let s = &run.series;
    let per = s.buckets.len().div_ceil(most.max(1)).max(1);
    let width = s.bucket_ns as f64;
    let end = (run.span_ns as f64).max(1.0);
    let chunks = s.buckets.chunks(per).enumerate();
    chunks
        .map(|(i, chunk)| {
            let from = (i * per) as f64 * width;
            let mut c = Column { from_ns: from, worst: 1.0, ..Column::default() };
            let (mut busy, mut time, mut cycle) = (0.0, 0.0, 0.0);
            for (j, b) in chunk.iter().enumerate() {
                // The run may end within the last one.
                let length = (end - (from + j as f64 * width)).clamp(0.0, width);
                let taken = ((b.collector_ns + b.synchronous_ns) as f64).min(width);
                if length > 0.0 {
                    let left = 1.0 - (taken / length).min(1.0);
                    (c.worst, c.best) = (c.worst.min(left), c.best.max(left));
                }
                if let Some(ppm) = b.share_max_ppm {
                    c.worst = c.worst.min(1.0 - f64::from(ppm) / 1e6);
                }
                busy += taken;
                time += length;
                cycle += b.cycle_ns as f64;
                add(&mut c, b);
            }
            c.to_ns = (from + chunk.len() as f64 * width).min(end.max(from));
            c.utilization = if time > 0.0 { (1.0 - busy / time).clamp(0.0, 1.0) } else { 1.0 };
            c.cycle = if time > 0.0 { (cycle / time).min(1.0) } else { 0.0 };
            c
        })
        .filter(|c| c.to_ns > c.from_ns || c.quantum_max_ns > 0 || c.free.is_some() || c.priority.is_some())
        .collect()
}

fn add(c: &mut Column, b: &Bucket) {
    c.synchronous_ns += b.synchronous_ns;
    c.allocated_bytes = c.allocated_bytes.saturating_add(b.allocated_bytes);
    c.quantum_max_ns = c.quantum_max_ns.max(b.quantum_max_ns);
    c.stop_max_ns = c.stop_max_ns.max(b.stop_max_ns);
    c.finalizer_enqueued = c.finalizer_enqueued.saturating_add(b.finalizer_enqueued);
    c.references_cleared = c.references_cleared.saturating_add(b.references_cleared);
    widen(&mut c.free, b.free_min_bytes.zip(b.free_max_bytes));
    if let Some((first, last)) = b.free_ends_bytes {
        c.free_ends = Some((c.free_ends.map_or(first, |e| e.0), last));
    }
    widen(&mut c.priority, b.priority.map(|r| (r.min, r.max)));
    widen(&mut c.immortal, b.immortal_free.map(|r| (r.min, r.max)));
}

fn widen(slot: &mut Option<(u64, u64)>, by: Option<(u64, u64)>) {
    let Some((min, max)) = by else { return };
    let (least, most) = slot.get_or_insert((min, max));
    (*least, *most) = ((*least).min(min), (*most).max(max));
}

/// The columns for the page's script, each figure a list of its own.
pub(super) fn lists(columns: &[Column], utilization: bool) -> Value {
    let round = |v: f64, digits: f64| (v * digits).round() / digits;
    let list = |f: &dyn Fn(&Column) -> Value| columns.iter().map(f).collect::<Vec<_>>();
    let share = |v: f64| if utilization { json!(round(v * 100.0, 100.0)) } else { Value::Null };
    let ms = |ns: u64| if ns == 0 { Value::Null } else { json!(ns as f64 / 1e6) };
    let count = |n: u64| if n == 0 { Value::Null } else { json!(n) };
    let mut all = json!({
        "at_ms": list(&|c| json!(round(c.from_ns / 1e6, 1e3))),
        "utilization": list(&|c| share(c.utilization)),
        "worst": list(&|c| share(c.worst)),
        "free_min": list(&|c| json!(c.free.map(|f| f.0))),
        "free_max": list(&|c| json!(c.free.map(|f| f.1))),
        "quantum_max_ms": list(&|c| ms(c.quantum_max_ns)),
        "stop_max_ms": list(&|c| ms(c.stop_max_ns)),
        "allocated": list(&|c| count(c.allocated_bytes)),
    });
    // What few logs have takes no room in the others' pages.
    let mut some = |name: &str, has: bool, f: &dyn Fn(&Column) -> Value| {
        if has {
            all[name] = list(f).into();
        }
    };
    let any = |has: &dyn Fn(&Column) -> bool| columns.iter().any(has);
    let priority = any(&|c| c.priority.is_some());
    some("priority_min", priority, &|c| json!(c.priority.map(|p| p.0)));
    some("priority_max", priority, &|c| json!(c.priority.map(|p| p.1)));
    let immortal = any(&|c| c.immortal.is_some());
    some("immortal_min", immortal, &|c| json!(c.immortal.map(|p| p.0)));
    some("immortal_max", immortal, &|c| json!(c.immortal.map(|p| p.1)));
    some("finalization", any(&|c| c.finalizer_enqueued > 0), &|c| count(c.finalizer_enqueued));
    some("references", any(&|c| c.references_cleared > 0), &|c| count(c.references_cleared));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use metronome_analysis::Range;

    #[test]
    fn the_worst_heartbeat_of_a_wide_bucket_is_the_worst_of_its_column() {
        let mut run = RunFigures { span_ns: 100_000, ..RunFigures::default() };
        run.series.bucket_ns = 10_000;
        run.series.buckets = vec![Bucket { collector_ns: 300, ..Bucket::default() }; 10];
        run.series.buckets[7].share_max_ppm = Some(960_000);
        for most in [1, 3, 10] {
            let worst = columns(&run, most).iter().map(|c| c.worst).fold(1.0, f64::min);
            assert!((worst - 0.04).abs() < 1e-9, "{most}: {worst}");
        }
    }

    /// Every extreme of the buckets is one of the columns, however few there are.
    #[test]
    fn no_extreme_is_lost() {
        let mut run = RunFigures { span_ns: 999_500, ..RunFigures::default() };
        run.series.bucket_ns = 1_000;
        run.series.buckets = (0..1_000_u64)
            .map(|i| Bucket {
                collector_ns: (i * 7_919) % 900,
                covered_ns: 1_000,
                quantum_max_ns: (i * 104_729) % 5_003,
                stop_max_ns: (i * 1_299_709) % 811,
                free_min_bytes: Some(i * 31 % 257 + 5),
                free_max_bytes: Some(i * 31 % 257 + 9),
                free_ends_bytes: Some((i * 31 % 257 + 5, i * 31 % 257 + 9)),
                allocated_bytes: i,
                priority: Some(Range { min: i % 7 + 2, max: i % 11 + 5 }),
                references_cleared: i % 3,
                ..Bucket::default()
            })
            .collect();
        let b = &run.series.buckets;
        for most in [1, 2, 7, 333, 1_000, 5_000] {
            let c = columns(&run, most);
            assert!(c.len() <= most, "{most}");
            assert_eq!(c.iter().map(|c| c.quantum_max_ns).max(), b.iter().map(|b| b.quantum_max_ns).max());
            assert_eq!(c.iter().map(|c| c.stop_max_ns).max(), b.iter().map(|b| b.stop_max_ns).max());
            assert_eq!(c.iter().filter_map(|c| c.free).map(|f| f.0).min(), Some(5));
            assert_eq!(c.iter().filter_map(|c| c.free).map(|f| f.1).max(), Some(265));
            let (first, last) = (c[0].free_ends.unwrap().0, c[c.len() - 1].free_ends.unwrap().1);
            assert_eq!((Some(first), Some(last)), (b[0].free_min_bytes, b[999].free_max_bytes), "{most}");
            assert_eq!(c.iter().filter_map(|c| c.priority).map(|p| p.0).min(), Some(2));
            assert_eq!(c.iter().filter_map(|c| c.priority).map(|p| p.1).max(), Some(15));
            assert_eq!(c.iter().map(|c| c.references_cleared).sum::<u64>(), 999);
            assert_eq!(c.iter().map(|c| c.allocated_bytes).sum::<u64>(), 999 * 1_000 / 2);
            let worst = c.iter().map(|c| c.worst).fold(1.0, f64::min);
            let expected = b[..999].iter().map(|b| 1.0 - b.collector_ns as f64 / 1e3).fold(1.0, f64::min);
            assert!((worst - expected).abs() < 1e-9, "{most}: {worst} {expected}");
            assert!(
                c.iter().all(|c| c.worst <= c.utilization + 1e-9 && c.utilization <= c.best + 1e-9),
                "{most}"
            );
        }
    }
}
