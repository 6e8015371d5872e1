//! The table.

use crate::task::{PERIOD_NS, Times};
use hdrhistogram::Histogram;
use metronome_gc::Stats;
use std::fmt;

/// In whose company the task ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// Busy heap threads and a collector that is always in a cycle.
    Collector,
    /// As many busy threads, no heap.
    Load,
    /// Nothing, no heap.
    Nothing,
}

impl Arm {
    pub(crate) const ALL: [Arm; 3] = [Arm::Collector, Arm::Nothing, Arm::Load];

    const fn text(self) -> &'static str {
        match self {
            Arm::Collector => "busy collector",
            Arm::Load => "no heap, busy threads",
            Arm::Nothing => "no heap, nothing else",
        }
    }
}

/// What the collector did in a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Collector {
    cycles: u64,
    quanta: u64,
    collector_ns: u64,
    elapsed_ns: u64,
    allocated_bytes: u64,
    departures: u64,
}

impl Collector {
    pub(crate) fn between(before: &Stats, after: &Stats) -> Collector {
        Collector {
            cycles: after.cycles - before.cycles,
            quanta: after.quanta - before.quanta,
            collector_ns: after.collector_ns - before.collector_ns,
            elapsed_ns: after.elapsed_ns - before.elapsed_ns,
            allocated_bytes: after.allocated_bytes - before.allocated_bytes,
            departures: after.departures - before.departures,
        }
    }
}

/// A stretch of one arm.
pub(crate) struct Segment {
    pub(crate) times: Times,
    /// Of the contrasting task.
    pub(crate) beside: Option<Times>,
    pub(crate) collector: Option<Collector>,
    pub(crate) refusals: Vec<String>,
}

/// All segments.
#[derive(Default)]
pub(crate) struct Report {
    segments: Vec<(Arm, Segment)>,
}

fn us(h: &Histogram<u64>, quantile: f64) -> f64 {
    h.value_at_quantile(quantile).min(h.max()) as f64 / 1e3
}

/// One line of the table.
fn line(f: &mut fmt::Formatter<'_>, name: &str, t: &Times) -> fmt::Result {
    let r = &t.response;
    let late = r.len() - r.count_between(0, PERIOD_NS);
    writeln!(
        f,
        "| {name} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {late} |",
        r.len(),
        us(r, 0.5),
        us(r, 0.99),
        us(r, 0.999),
        r.max() as f64 / 1e3,
        us(&t.wakeup, 0.999),
        us(&t.work, 0.999),
    )
}

impl Report {
    pub(crate) fn add(&mut self, arm: Arm, segment: Segment) {
        self.segments.push((arm, segment));
    }

    fn of(&self, arm: Arm) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |(a, _)| *a == arm).map(|(_, s)| s)
    }

    /// Cycles completed beside the task.
    pub(crate) fn cycles(&self) -> u64 {
        self.of(Arm::Collector).filter_map(|s| s.collector).map(|c| c.cycles).sum()
    }

    fn sum<'a>(times: impl Iterator<Item = &'a Times>) -> Times {
        times.fold(Times::new(), |mut sum, t| {
            sum.add(t);
            sum
        })
    }

    /// Ratios of the p99.9 responses of the two arms' segments, pair by pair, in rising order.
    fn ratios(&self, a: Arm, b: Arm) -> Vec<f64> {
        let p999 = |s: &Segment| us(&s.times.response, 0.999);
        let mut all: Vec<f64> = self.of(a).zip(self.of(b)).map(|(a, b)| p999(a) / p999(b)).collect();
        all.sort_by(f64::total_cmp);
        all
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut refusals: Vec<&String> = self.segments.iter().flat_map(|(_, s)| &s.refusals).collect();
        refusals.sort_unstable();
        refusals.dedup();
        for r in refusals {
            writeln!(f, "refused: {r}")?;
        }
        writeln!(f, "\nresponses (completion - intended start) in us; late: above the period of 500 us")?;
        writeln!(f, "| thread, company | n | p50 | p99 | p99.9 | max | wake-up p99.9 | work p99.9 | late |")?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        for arm in Arm::ALL {
            line(f, &format!("no-heap, {}", arm.text()), &Self::sum(self.of(arm).map(|s| &s.times)))?;
        }
        for (arm, name) in
            [(Arm::Collector, "heap task, busy collector"), (Arm::Load, "plain task, busy threads")]
        {
            line(f, name, &Self::sum(self.of(arm).filter_map(|s| s.beside.as_ref())))?;
        }
        writeln!(f, "\np99.9 of the no-heap thread, pair by pair: median (min-max)")?;
        for other in [Arm::Nothing, Arm::Load] {
            let all = self.ratios(Arm::Collector, other);
            // There is a pair, as there is a round.
            let (low, high) = (all[0], all[all.len() - 1]);
            let median = f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2]);
            writeln!(
                f,
                "busy collector / {}: {median:.2} ({low:.2}-{high:.2}), {} pairs",
                other.text(),
                all.len()
            )?;
        }
        let c = self.of(Arm::Collector).filter_map(|s| s.collector).fold(Collector::default(), |a, b| {
            Collector {
                cycles: a.cycles + b.cycles,
                quanta: a.quanta + b.quanta,
                collector_ns: a.collector_ns + b.collector_ns,
                elapsed_ns: a.elapsed_ns + b.elapsed_ns,
                allocated_bytes: a.allocated_bytes + b.allocated_bytes,
                departures: a.departures + b.departures,
            }
        });
        writeln!(
            f,
            "collector: {} cycles, {} quanta, {:.1} % of the time, {:.0} MB allocated, {} departures from the plan",
            c.cycles,
            c.quanta,
            100.0 * c.collector_ns as f64 / c.elapsed_ns.max(1) as f64,
            c.allocated_bytes as f64 / 1e6,
            c.departures
        )
    }
}
