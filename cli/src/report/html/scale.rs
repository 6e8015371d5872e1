//! An axis of a picture: linear or logarithmic, with round marks in the unit of what it shows.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Nanoseconds.
    Time,
    Bytes,
    /// Bytes per second.
    Rate,
    Percent,
    Count,
}

/// An axis.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    log: bool,
    unit: Unit,
    marks: Vec<f64>,
}

/// Steps between marks within a power of ten.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

impl Scale {
    /// A linear axis; `marks` is how many there may be.
    pub(super) fn linear(unit: Unit, from: f64, to: f64, marks: usize) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let step = step(unit, (to - from) / marks.max(1) as f64);
        let first = (from / step).ceil();
        let count = ((to / step) - first).floor().max(0.0) as usize;
        let marks = (0..=count.min(64)).map(|i| (first + i as f64) * step).collect();
        Self { from, to, log: false, unit, marks }
    }

    /// A logarithmic axis that takes in both values, with some room around them.
    pub(super) fn log(unit: Unit, from: f64, to: f64) -> Self {
        let from = from.max(1.0);
        let to = to.max(from);
        let base: f64 = if matches!(unit, Unit::Bytes | Unit::Rate) { 2.0 } else { 10.0 };
        let (from, to) = (from / 1.25, to * 1.25);
        let (low, high) = (from.log(base).ceil() as i32, to.log(base).floor() as i32);
        let decades: Vec<f64> = (low..=high).map(|e| base.powi(e)).collect();
        let marks = if base == 10.0 && decades.len() < 3 {
            let all = (low - 1..=high).flat_map(|e| STEPS.map(|s| s * 10_f64.powi(e)));
            all.filter(|v| (from..=to).contains(v)).collect()
        } else {
            let each = decades.len().div_ceil(8).max(1);
            decades.into_iter().step_by(each).collect()
        };
        Self { from, to, log: true, unit, marks }
    }

    /// Where a value stands between 0 and 1; beyond the ends at the ends.
    fn place(&self, v: f64) -> f64 {
        let part = if self.log {
            (v.max(self.from).ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
        } else {
            (v - self.from) / (self.to - self.from)
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Steps of minutes, hours and days, in seconds.
const LONG_STEPS: [f64; 13] =
    [60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14400.0, 21600.0, 43200.0, 86400.0, 172800.0];

/// The least round step that is no smaller.
fn step(unit: Unit, least: f64) -> f64 {
    if matches!(unit, Unit::Bytes | Unit::Rate) {
        return 2_f64.powi(least.max(1.0).log2().ceil() as i32);
    }
    if unit == Unit::Time
        && least > 30e9
        && let Some(step) = LONG_STEPS.into_iter().map(|s| s * 1e9).find(|s| *s >= least)
    {
        return step;
    }
    let least = if unit == Unit::Count { least.max(1.0) } else { least };
    let power = 10_f64.powi(least.log10().floor() as i32);
    STEPS.into_iter().map(|s| s * power).find(|s| *s >= least * 0.999).unwrap_or(10.0 * power)
}

/// A value as an axis has it: short.
pub(super) fn short(unit: Unit, v: f64) -> String {
    let trim = |v: f64| {
        let s = format!("{v:.3}");
        s.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match unit {
        Unit::Time if v == 0.0 => "0".into(),
        Unit::Time if v < 1e3 => format!("{} ns", trim(v)),
        Unit::Time if v < 1e6 => format!("{} µs", trim(v / 1e3)),
        Unit::Time if v < 1e9 => format!("{} ms", trim(v / 1e6)),
        Unit::Time if v >= 60e9 && v % 60e9 == 0.0 => {
            let minutes = (v / 60e9) as u64;
            match (minutes / 60, minutes % 60) {
                (0, m) => format!("{m} min"),
                (h, 0) => format!("{h} h"),
                (h, m) => format!("{h} h {m} min"),
            }
        }
        Unit::Time => format!("{} s", trim(v / 1e9)),
        Unit::Percent => format!("{} %", trim(v)),
        Unit::Count => trim(v),
        Unit::Bytes | Unit::Rate => {
            let names = ["B", "KiB", "MiB", "GiB", "TiB"];
            let (mut v, mut i) = (v, 0);
            while v >= 1024.0 && i + 1 < names.len() {
                v /= 1024.0;
                i += 1;
            }
            format!("{} {}{}", trim(v), names[i], if unit == Unit::Rate { "/s" } else { "" })
        }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, v: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.place(*v) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, v: &f64) -> String {
        short(self.unit, *v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_inside() {
        let marks = |s: Scale| s.marks.iter().map(|v| s.format_ext(v)).collect::<Vec<_>>();
        assert_eq!(
            marks(Scale::linear(Unit::Percent, 0.0, 100.0, 5)),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(
            marks(Scale::linear(Unit::Bytes, 0.0, 40e6, 5)),
            ["0 B", "8 MiB", "16 MiB", "24 MiB", "32 MiB"]
        );
        let hours = marks(Scale::linear(Unit::Time, 0.0, 2.2 * 3600e9, 9));
        assert_eq!(hours, ["0", "20 min", "40 min", "1 h", "1 h 20 min", "1 h 40 min", "2 h"]);
        assert_eq!(marks(Scale::log(Unit::Time, 20e3, 3e7)), ["100 µs", "1 ms", "10 ms"]);
        assert_eq!(marks(Scale::log(Unit::Time, 1e6, 4e6)), ["1 ms", "2 ms", "5 ms"]);
        for (from, to) in [(0.0, 0.0), (5.0, 5.0), (0.0, 1e300), (1e18, 1e18 + 1.0)] {
            for s in [Scale::linear(Unit::Time, from, to, 6), Scale::log(Unit::Time, from, to)] {
                assert!(s.marks.len() <= 65, "{from} {to}");
            }
        }
    }

    #[test]
    fn values_beyond_the_ends_stand_at_the_ends() {
        let s = Scale::log(Unit::Time, 1e3, 1e6);
        assert_eq!((s.map(&0.0, (0, 100)), s.map(&1e12, (0, 100))), (0, 100));
        assert_eq!(s.map(&f64::NAN, (10, 100)), 10);
        let y = Scale::linear(Unit::Percent, 0.0, 100.0, 5);
        assert_eq!((y.map(&25.0, (400, 0)), y.map(&-3.0, (400, 0))), (300, 400));
    }
}
