//! Tables of segments: medians with the least and the largest.

use hdrhistogram::Histogram;
use metronome_gc::{Distribution, Stats};
use std::collections::BTreeMap;

/// A distribution that is being filled, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Figure(Histogram<u64>);

impl Default for Figure {
    fn default() -> Self {
        Figure(Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid"))
    }
}

impl Figure {
    pub(crate) fn add(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    fn percentiles(&self) -> [u64; 4] {
        let at = |q| self.0.value_at_quantile(q);
        [at(0.5), at(0.99), at(0.999), self.0.max()]
    }
}

/// What one segment showed: percentiles (50, 99, 99.9, 100) by the figure's name, in nanoseconds, and counts.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    figures: BTreeMap<String, [u64; 4]>,
    counts: BTreeMap<&'static str, f64>,
    refusals: Vec<String>,
}

fn of(d: &Distribution) -> [u64; 4] {
    [d.p50, d.p99, d.p999, d.max]
}

impl Segment {
    pub(crate) fn of_heap(s: &Stats, refusals: Vec<String>) -> Segment {
        let mut out = Segment { refusals, ..Segment::default() };
        for (name, d) in [
            ("time to stop", &s.time_to_stop_ns),
            ("resume", &s.resume_ns),
            ("over budget", &s.overshoot_ns),
            ("quantum, charged", &s.quantum_charged_ns),
        ] {
            out.figures.insert(name.into(), of(d));
        }
        for k in &s.step_kinds {
            out.figures.insert(format!("step {}", k.name), of(&k.cpu_ns));
        }
        let charged = s.mmu.iter().find(|m| m.window_ns == s.window_ns).and_then(|m| m.charged_ppm);
        out.counts.insert("cycles", s.cycles as f64);
        out.counts.insert("quanta", s.quanta as f64);
        out.counts.insert("stops cancelled", s.stops_cancelled as f64);
        out.counts.insert("windows below 70 %, charged", s.violations as f64);
        out.counts.insert("windows below 70 %, wall", s.violations_wall as f64);
        out.counts.insert(
            "least utilization of a window, charged, %",
            charged.map_or(100.0, |p| f64::from(p) / 1e4),
        );
        out.counts
            .insert("median error of predicted collector time, %", s.collector_error_ppm.p50 as f64 / 1e4);
        out.counts.insert("median error of predicted allocation, %", s.allocation_error_ppm.p50 as f64 / 1e4);
        out
    }

    pub(crate) fn of_control(
        stop: Figure,
        resume: Figure,
        steps: Figure,
        over: Figure,
        refused: Option<String>,
    ) -> Segment {
        let mut out = Segment { refusals: refused.into_iter().collect(), ..Segment::default() };
        for (name, f) in [("time to stop", stop), ("resume", resume), ("step", steps), ("over budget", over)]
        {
            out.figures.insert(name.into(), f.percentiles());
        }
        out
    }

    /// A table of two kinds of segments.
    pub(crate) fn table(name: &str, of: &[Segment], other: &str, others: &[Segment]) -> String {
        let mut out =
            String::from("\n| figure, us | of | p50 | p99 | p99.9 | max |\n|---|---|---|---|---|---|\n");
        for (kind, segments) in [(name, of), (other, others)] {
            let names: std::collections::BTreeSet<&String> =
                segments.iter().flat_map(|s| s.figures.keys()).collect();
            for figure in names {
                let cell = |i: usize| {
                    let values = segments.iter().filter_map(|s| s.figures.get(figure));
                    median(values.map(|v| v[i] as f64 / 1e3).collect())
                };
                out += &format!(
                    "| {figure} | {kind} | {} | {} | {} | {} |\n",
                    cell(0),
                    cell(1),
                    cell(2),
                    cell(3)
                );
            }
        }
        out += "\n";
        for (kind, segments) in [(name, of), (other, others)] {
            let names: std::collections::BTreeSet<_> =
                segments.iter().flat_map(|s| s.counts.keys()).collect();
            for count in names {
                let values = segments.iter().filter_map(|s| s.counts.get(count)).copied().collect();
                out += &format!("{count}, {kind}: {}\n", median(values));
            }
        }
        let refusals: std::collections::BTreeSet<_> =
            of.iter().chain(others).flat_map(|s| &s.refusals).collect();
        for r in refusals {
            out += &format!("refused: {r}\n");
        }
        out
    }
}

/// `median (least–largest)`.
fn median(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return "–".into() };
    format!("{:.2} ({least:.2}–{most:.2})", values[values.len() / 2])
}
