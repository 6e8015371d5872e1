//! Pictures that are not over time: minimum utilization by window, quanta by length and phase, heap against utilization.

use super::picture::{Block, Picture};
use super::plot::{Ink, Plot, Shape};
use super::scale::{Scale, Unit};
use super::subject::Subject;
use metronome_analysis::contract::even_mmu_ppm;
use metronome_analysis::{Distribution, RunFigures};

/// Rows of quanta by phase, with the runs' names.
const ROWS: usize = 24;

/// All of them, in the page's order.
pub(super) fn all(subjects: &[Subject<'_>]) -> Vec<Block> {
    vec![mmu(subjects), phases(subjects), lengths(subjects), contract(subjects)]
}

fn upright(x: f64, y: (f64, f64), ink: Ink) -> Shape {
    Shape::Line { points: vec![(x, y.0), (x, y.1)], ink, width: 2 }
}

fn picture(
    name: &'static str,
    title: &'static str,
    note: String,
    plot: Plot,
    legend: Vec<(Ink, String)>,
) -> Block {
    Block::Picture(Picture { name, title, note, plot, legend })
}

/// The windows of a run in order, the charged utilization of each, and the same in wall time: as the run measured them, or
/// as single quanta tell them.
fn windows(run: &RunFigures) -> Vec<(f64, f64, Option<f64>)> {
    let percent = |ppm: u32| f64::from(ppm) / 1e4;
    if run.own.mmu.is_empty() {
        return run.windows().iter().map(|w| (w.window_ns as f64, percent(w.least_ppm), None)).collect();
    }
    let rows = run.own.mmu.iter().filter(|m| m.window_ns > 0);
    let mut rows: Vec<_> =
        rows.map(|m| (m.window_ns as f64, percent(m.charged_ppm), m.wall_ppm.map(percent))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows
}

fn mmu(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Minimum mutator utilization (MMU, BMU)";
    let all: Vec<_> = subjects.iter().map(|s| (s, windows(s.run))).filter(|(_, w)| !w.is_empty()).collect();
    if all.is_empty() {
        let why = "This log holds heartbeats only: they sum quanta up, so the least utilization of a window cannot be known, \
                   and no curve is drawn. Logs with a heartbeat for each quantum have it, and logs of metronome-gc where the run \
                   ended in order.";
        return Block::Lacking(TITLE, why.into());
    }
    let several = subjects.len() > 1;
    let places = all.iter().flat_map(|(_, w)| w.iter().map(|w| w.0));
    let (least, most) = places.fold((f64::INFINITY, 0.0_f64), |(a, b), w| (a.min(w), b.max(w)));
    let x = Scale::log(Unit::Time, least, most);
    let (mut shapes, mut legend) = (Vec::new(), Vec::new());
    for (s, w) in &all {
        let ink = Ink::Curve(if several { s.index } else { 0 });
        let charged: Vec<_> = w.iter().map(|w| (w.0, w.1)).collect();
        shapes.extend(charged.iter().map(|at| Shape::Dot { at: *at, ink, radius: 6 }));
        shapes.push(Shape::Line { points: charged, ink, width: 3 });
        let what = if s.run.own.mmu.is_empty() {
            "MMU by quanta that the log tells one by one, and synchronous collections"
        } else {
            "MMU as charged to the collector"
        };
        legend.push((ink, if several { s.name.clone() } else { what.into() }));
        if several {
            continue;
        }
        let wall: Vec<_> = w.iter().filter_map(|w| Some((w.0, w.2?))).collect();
        if !wall.is_empty() {
            shapes.extend(wall.iter().map(|at| Shape::Dot { at: *at, ink: Ink::Curve(1), radius: 5 }));
            shapes.push(Shape::Line { points: wall, ink: Ink::Curve(1), width: 2 });
            legend.push((Ink::Curve(1), "MMU in wall time, with what the system took".into()));
        }
        // The least of this window and all longer ones.
        let mut bound = 100.0_f64;
        let mut bmu: Vec<_> = w
            .iter()
            .rev()
            .map(|w| {
                (w.0, {
                    bound = bound.min(w.1);
                    bound
                })
            })
            .collect();
        bmu.reverse();
        shapes.push(Shape::Line { points: bmu, ink: Ink::Curve(2), width: 2 });
        legend.push((Ink::Curve(2), "BMU: this window or any longer one".into()));
        targets(s, &x, &mut shapes, &mut legend);
    }
    let note = "The least that the program had in any window of a length: the contract is that the curve lies above the \
                target at its window.";
    let y = Scale::linear(Unit::Percent, 0.0, 103.0, 5);
    let plot = Plot { x, y, time: false, shapes, y_labels: true };
    picture("mmu", TITLE, note.into(), plot, legend)
}

/// The target, its window, and what evenly spread quanta would give.
fn targets(s: &Subject<'_>, x: &Scale, shapes: &mut Vec<Shape>, legend: &mut Vec<(Ink, String)>) {
    let Some(target) = s.facts.number("judged/target_percent") else { return };
    shapes.push(Shape::Line { points: vec![(x.from, target), (x.to, target)], ink: Ink::Target, width: 2 });
    let text = format!("target {target} %");
    shapes.push(Shape::Words { at: (x.to, target), text, ink: Ink::Target, right: true });
    let config = s.run.config.as_deref();
    if let Some(window) = s.run.window_ns().filter(|w| *w > 0) {
        shapes.push(upright(window as f64, (0.0, 103.0), Ink::Target));
        let at = (window as f64, 2.0);
        shapes.push(Shape::Words { at, text: "its window".into(), ink: Ink::Target, right: false });
    }
    if let Some(beat) = config.and_then(|c| c.beat_ns).filter(|b| *b > 0) {
        let ppm = (target * 1e4) as u32;
        let steps = (0..=120).map(|i| x.from * (x.to / x.from).powf(f64::from(i) / 120.0));
        let points = steps.map(|w| (w, f64::from(even_mmu_ppm(beat, w as u64, ppm)) / 1e4)).collect();
        shapes.push(Shape::Line { points, ink: Ink::Limit, width: 2 });
        legend.push((Ink::Limit, "as planned: even quanta".into()));
    }
}

/// Least to most, half to 99 %, for each phase or run.
fn phases(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Quantum lengths by phase";
    let several = subjects.len() > 1;
    let mut rows: Vec<(String, &Distribution, Ink)> = Vec::new();
    for s in subjects.iter().filter(|s| !s.run.quantum.stat.is_empty()) {
        let ink = Ink::Curve(if several { s.index } else { 0 });
        let prefix = if several { format!("{} ", s.index + 1) } else { String::new() };
        rows.push((format!("{prefix}all"), &s.run.quantum, ink));
        if s.run.phases.len() > 1 {
            let phases =
                s.run.phases.iter().map(|p| (format!("{prefix}{}", p.phase.name()), &p.quantum, ink));
            rows.extend(phases);
        }
        if !s.run.stop.stat.is_empty() {
            rows.push((format!("{prefix}stop"), &s.run.stop, Ink::Curve(1)));
        }
    }
    rows.truncate(ROWS);
    if rows.is_empty() {
        return Block::Lacking(TITLE, "No heartbeat tells the length of its quanta.".into());
    }
    let (x, mut shapes) = (lengths_scale(rows.iter().map(|r| r.1)), Vec::new());
    let count = rows.len() as f64;
    for (i, (name, d, ink)) in rows.iter().enumerate() {
        let y = count - i as f64 - 0.6;
        let bar = |from: u64, to: u64, width| Shape::Line {
            points: vec![(from as f64, y), (to.max(from + 1) as f64, y)],
            ink: *ink,
            width,
        };
        shapes.push(bar(d.stat.min, d.stat.max, 2));
        shapes.push(bar(d.p50, d.p99, 9));
        shapes.push(Shape::Dot { at: (d.p50 as f64, y), ink: *ink, radius: 8 });
        shapes.push(Shape::Dot { at: (d.stat.max as f64, y), ink: Ink::Bad, radius: 6 });
        let words = format!("{name} ({})", crate::quantity::grouped(d.stat.count));
        shapes.push(Shape::Words { at: (x.from, y), text: words, ink: Ink::Text, right: false });
    }
    beat(subjects, &mut shapes, (0.0, count));
    let estimated = rows.iter().any(|r| !r.1.exact);
    let note = format!(
        "Thin line from least to most, thick from the median (dot) to the 99th percentile; red: the longest. The number of \
         quanta in brackets.{}",
        if estimated {
            " Percentiles are estimates: heartbeats tell count, least, mean and most only."
        } else {
            ""
        }
    );
    let y = Scale::linear(Unit::Count, 0.0, count, 2);
    let plot = Plot { x, y, time: false, shapes, y_labels: false };
    let legend = if several { names(subjects) } else { planned(subjects) };
    picture("phases", TITLE, note, plot, legend)
}

fn lengths_scale<'d>(all: impl Iterator<Item = &'d Distribution>) -> Scale {
    let (least, most) = all.fold((u64::MAX, 1), |(a, b), d| (a.min(d.stat.min), b.max(d.stat.max)));
    // Logs print microseconds: less is as good as nothing. Room for names on the left.
    Scale::log(Unit::Time, least.max(1_000) as f64 / 6.0, most.max(1_000) as f64)
}

fn names(subjects: &[Subject<'_>]) -> Vec<(Ink, String)> {
    subjects.iter().map(|s| (Ink::Curve(s.index), format!("{} {}", s.index + 1, s.name))).collect()
}

fn planned_ns(subjects: &[Subject<'_>]) -> Option<u64> {
    let [one] = subjects else { return None };
    one.run.config.as_deref().and_then(|c| c.beat_ns).filter(|b| *b > 0)
}

fn planned(subjects: &[Subject<'_>]) -> Vec<(Ink, String)> {
    planned_ns(subjects).map(|_| (Ink::Target, "planned quantum".to_owned())).into_iter().collect()
}

fn beat(subjects: &[Subject<'_>], shapes: &mut Vec<Shape>, y: (f64, f64)) {
    shapes.extend(planned_ns(subjects).map(|b| upright(b as f64, y, Ink::Target)));
}

/// How many quanta of each length.
fn lengths(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Distribution of quanta";
    let shown: Vec<_> = subjects.iter().filter(|s| !s.run.quantum.bars.is_empty()).collect();
    if shown.is_empty() {
        return Block::Lacking(TITLE, "No heartbeat tells the length of its quanta.".into());
    }
    let several = subjects.len() > 1;
    let mut shapes = Vec::new();
    let bars = || shown.iter().flat_map(|s| &s.run.quantum.bars);
    let most = bars().map(|b| b.count).max().unwrap_or(1) as f64;
    for s in &shown {
        let bars = &s.run.quantum.bars;
        if several {
            let middle =
                |b: &metronome_analysis::Bar| ((b.from_ns as f64 * b.to_ns as f64).sqrt(), b.count as f64);
            let points = bars.iter().map(middle).collect();
            shapes.push(Shape::Line { points, ink: Ink::Curve(s.index), width: 3 });
            continue;
        }
        let bar = |b: &metronome_analysis::Bar| Shape::Rect {
            x: (b.from_ns as f64 * 1.01, b.to_ns as f64),
            y: (0.5, b.count as f64),
            ink: Ink::Curve(0),
            alpha: 0.8,
        };
        shapes.extend(bars.iter().map(bar));
        let d = &s.run.quantum;
        for (text, ns, height) in [("p50", d.p50, 0.9), ("p99", d.p99, 0.7), ("max", d.stat.max, 0.5)] {
            let ink = if text == "max" { Ink::Bad } else { Ink::Text };
            shapes.push(upright(ns as f64, (0.5, most), ink));
            let at = (ns as f64, most.powf(height).max(1.0));
            shapes.push(Shape::Words { at, text: text.into(), ink, right: false });
        }
    }
    beat(subjects, &mut shapes, (0.5, most * 1.25));
    let edges = bars()
        .fold((f64::INFINITY, 1.0_f64), |(a, b), bar| (a.min(bar.from_ns as f64), b.max(bar.to_ns as f64)));
    let note = "Both axes are logarithmic: single long quanta are seen beside many short ones.";
    let (x, y) = (Scale::log(Unit::Time, edges.0, edges.1), Scale::log(Unit::Count, 1.0, most));
    let plot = Plot { x, y, time: false, shapes, y_labels: true };
    let legend = if several { names(subjects) } else { planned(subjects) };
    picture("lengths", TITLE, note.into(), plot, legend)
}

/// The smallest heap for each utilization.
fn contract(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "The contract: heap against utilization";
    let several = subjects.len() > 1;
    let (mut shapes, mut legend) = (Vec::new(), Vec::new());
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for s in subjects {
        let Some(c) = s.contract else { continue };
        let ink = Ink::Curve(if several { s.index } else { 0 });
        let points: Vec<_> =
            c.curve.iter().filter_map(|(ppm, heap)| Some((f64::from(*ppm) / 1e4, (*heap)? as f64))).collect();
        let heaps = points.iter().map(|p| p.1).chain(c.heap_bytes.map(|h| h as f64));
        (least, most) = heaps.fold((least, most), |(a, b), h| (a.min(h), b.max(h)));
        shapes.push(Shape::Line { points, ink, width: 3 });
        let target = f64::from(c.target_ppm) / 1e4;
        if let Some(heap) = c.heap_for_target {
            shapes.push(Shape::Dot { at: (target, heap as f64), ink: Ink::Target, radius: 8 });
        }
        if let Some(heap) = c.heap_bytes {
            let heap = heap as f64;
            shapes.push(Shape::Line { points: vec![(0.0, heap), (100.0, heap)], ink: Ink::Limit, width: 2 });
            let text = if several { format!("heap {}", s.index + 1) } else { "this heap".into() };
            shapes.push(Shape::Words { at: (0.0, heap), text, ink: Ink::Limit, right: false });
            if let Some(u) = c.utilization_for_heap {
                shapes.push(Shape::Dot { at: (f64::from(u) / 1e4, heap), ink, radius: 8 });
            }
        }
        legend.push((ink, if several { s.name.clone() } else { "smallest heap for a utilization".into() }));
    }
    if legend.is_empty() {
        let why = subjects.first().and_then(|s| s.advice.contracts.iter().find(|(i, _)| *i == s.at.1));
        let why = why.and_then(|(_, c)| c.as_ref().err()).map_or_else(String::new, |why| format!(": {why}"));
        return Block::Lacking(TITLE, format!("Not enough data to measure the contract{why}."));
    }
    legend.push((Ink::Target, "the heap that the target needs (dot)".into()));
    let note = "What this program needs, as measured: above the curve the contract holds. The higher the utilization, the \
                longer a cycle takes and the more is allocated in it.";
    let (x, y) = (Scale::linear(Unit::Percent, 0.0, 100.0, 10), Scale::log(Unit::Bytes, least, most));
    let plot = Plot { x, y, time: false, shapes, y_labels: true };
    picture("contract", TITLE, note.into(), plot, legend)
}
