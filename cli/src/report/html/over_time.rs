//! Pictures over a run's time: utilization, heap, pauses, cycles, allocation. Several runs are laid over each other, each
//! from its own start.

use super::columns::Column;
use super::picture::{Block, Picture};
use super::plot::{Ink, Plot, Shape};
use super::scale::{Scale, Unit};
use super::subject::Subject;
use metronome_analysis::CycleRow;

/// Places between marks on the time axis.
const TIME_MARKS: usize = 9;
/// Cycles drawn one by one, of all runs together; of more, the longest and shortest of a stretch.
const CYCLES: usize = 400;

/// All pictures over time, in the page's order.
pub(super) fn all(subjects: &[Subject<'_>]) -> Vec<Block> {
    vec![utilization(subjects), heap(subjects), pauses(subjects), cycles(subjects), allocation(subjects)]
}

/// The longest run's time.
pub(super) fn time(subjects: &[Subject<'_>]) -> Scale {
    let longest = subjects.iter().map(|s| s.run.span_ns).max().unwrap_or(0);
    Scale::linear(Unit::Time, 0.0, (longest as f64).max(1e6), TIME_MARKS)
}

/// The ink of a run's curve.
pub(super) fn ink(s: &Subject<'_>, several: bool) -> Ink {
    Ink::Curve(if several { s.index } else { 0 })
}

/// What a curve is called.
pub(super) fn called(s: &Subject<'_>, several: bool, what: &str) -> String {
    if several { s.name.clone() } else { what.to_owned() }
}

fn level(x: &Scale, at: f64, ink: Ink) -> Shape {
    Shape::Line { points: vec![(x.from, at), (x.to, at)], ink, width: 2 }
}

fn has_shares(s: &Subject<'_>) -> bool {
    s.run.share.interval_ns > 0 || s.columns.iter().any(|c| c.synchronous_ns > 0)
}

fn utilization(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Utilization over time";
    let shown: Vec<_> = subjects.iter().filter(|s| has_shares(s)).collect();
    if shown.is_empty() {
        let why =
            "No heartbeat has an interval, so the log does not tell how much of the time the program had.";
        return Block::Lacking(TITLE, why.into());
    }
    let several = subjects.len() > 1;
    let x = time(subjects);
    let (mut shapes, mut legend) = (Vec::new(), Vec::new());
    if !several {
        shapes.extend(shading(&shown[0].columns));
        legend.push((Ink::Cycle, "a cycle was active".to_owned()));
    }
    for s in &shown {
        let ink = ink(s, several);
        if !several && s.columns.iter().any(|c| c.worst < c.utilization - 0.005) {
            let points = s.columns.iter().map(|c| (c.middle(), c.worst * 100.0, c.best * 100.0)).collect();
            shapes.push(Shape::Band { points, ink, alpha: 0.25 });
        }
        let points = s.columns.iter().map(|c| (c.middle(), c.utilization * 100.0)).collect();
        shapes.push(Shape::Line { points, ink, width: 3 });
        legend
            .push((ink, called(s, several, "utilization: line the mean, band down to the worst heartbeat")));
    }
    let mut targets: Vec<f64> =
        shown.iter().filter_map(|s| s.facts.number("judged/target_percent")).collect();
    targets.sort_by(f64::total_cmp);
    targets.dedup();
    for t in targets {
        shapes.push(level(&x, t, Ink::Target));
        let text = format!("target {t} %");
        shapes.push(Shape::Words { at: (x.to, t), text, ink: Ink::Target, right: true });
    }
    let standing: Vec<f64> = shown
        .iter()
        .flat_map(|s| s.columns.iter().filter(|c| c.synchronous_ns > 0).map(Column::middle))
        .collect();
    if !standing.is_empty() {
        legend.push((Ink::Bad, "synchronous collection: the program stood still".into()));
    }
    let tick = |at| Shape::Line { points: vec![(at, 0.0), (at, 7.0)], ink: Ink::Bad, width: 3 };
    shapes.extend(standing.into_iter().map(tick));
    let note = "What the program had of the processor, from the collector time of heartbeats spread evenly over their \
                intervals. Where nothing was logged, nothing ran.";
    picture("utilization", TITLE, note, x, Scale::linear(Unit::Percent, 0.0, 103.0, 5), shapes, legend)
}

pub(super) fn picture(
    name: &'static str,
    title: &'static str,
    note: &str,
    x: Scale,
    y: Scale,
    shapes: Vec<Shape>,
    legend: Vec<(Ink, String)>,
) -> Block {
    let plot = Plot { x, y, time: true, shapes, y_labels: true };
    Block::Picture(Picture { name, title, note: note.to_owned(), plot, legend })
}

/// Stretches in which cycles were active, the darker the more of the time.
fn shading(columns: &[Column]) -> Vec<Shape> {
    // A short cycle in a wide column is shown as well.
    let depth = |c: &Column| if c.cycle > 0.0 { ((c.cycle * 3.0).round() as u8).max(1) } else { 0 };
    let stretches = columns.chunk_by(|a, b| depth(a) == depth(b)).filter(|c| depth(&c[0]) > 0);
    stretches
        .map(|c| Shape::Rect {
            x: (c[0].from_ns, c[c.len() - 1].to_ns),
            y: (0.0, 103.0),
            ink: Ink::Cycle,
            alpha: f64::from(depth(&c[0])) / 3.0,
        })
        .collect()
}

fn heap(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Heap";
    let several = subjects.len() > 1;
    let shown: Vec<_> = subjects.iter().filter(|s| s.columns.iter().any(|c| c.free.is_some())).collect();
    if shown.is_empty() {
        return Block::Lacking(TITLE, "The log does not tell how much of the heap was free.".into());
    }
    // What is used needs the heap's size.
    let sized = shown.iter().all(|s| s.run.heap_bytes.is_some());
    let x = time(subjects);
    let (mut shapes, mut legend, mut most) = (Vec::new(), Vec::new(), 0_u64);
    for s in &shown {
        let ink = ink(s, several);
        let size = s.run.heap_bytes.unwrap_or(0);
        let used = |free: u64| if sized { size.saturating_sub(free) } else { free } as f64;
        let known = s.columns.iter().filter_map(|c| Some((c.middle(), c.free?)));
        let points: Vec<_> = known.map(|(at, f)| (at, used(f.1), used(f.0))).collect();
        most = most.max(size).max(s.run.free.map_or(0, |f| f.max));
        // A cycle that is shorter than a column still goes up and down.
        let ends = s.columns.iter().filter_map(|c| Some((c, c.free_ends?)));
        let line = ends.flat_map(|(c, f)| [(c.from_ns, used(f.0)), (c.to_ns, used(f.1))]).collect();
        if !several {
            shapes.push(Shape::Band { points, ink, alpha: 0.3 });
        }
        shapes.push(Shape::Line { points: line, ink, width: 3 });
        let what = if sized {
            "used: band from least to most, line as it went; the rest is free"
        } else {
            "free: band from least to most, line as it went"
        };
        legend.push((ink, called(s, several, what)));
        if sized && !several {
            shapes.push(level(&x, size as f64, Ink::Limit));
            shapes.push(words(x.to, size as f64, "heap", Ink::Limit));
            let live = s.run.cycle_rows.rows.iter();
            let live =
                thinned(live.filter_map(|c| Some((c.end_ns as f64, c.live_bytes? as f64))).collect(), CYCLES);
            if !live.is_empty() {
                legend.push((Ink::Curve(1), "live after a cycle".into()));
            }
            shapes.extend(live.into_iter().map(|at| Shape::Dot { at, ink: Ink::Curve(1), radius: 4 }));
            if let Some(trigger) = s.run.config.as_deref().and_then(|c| c.trigger_bytes).filter(|t| *t < size)
            {
                shapes.push(level(&x, trigger as f64, Ink::Target));
                let at = (x.from, trigger as f64);
                shapes.push(Shape::Words { at, text: "trigger".into(), ink: Ink::Target, right: false });
            }
        }
    }
    let note = if sized {
        "Used heap: it climbs while the program allocates and falls as a cycle sweeps. Where it touches the heap's size, \
         the collector lost the race."
    } else {
        "Free heap: the log does not tell the heap's size."
    };
    let y = Scale::linear(Unit::Bytes, 0.0, most as f64 * 1.1, 5);
    picture("heap", TITLE, note, x, y, shapes, legend)
}

fn words(x: f64, y: f64, text: &str, ink: Ink) -> Shape {
    Shape::Words { at: (x, y), text: text.into(), ink, right: true }
}

/// At most twice as many points as asked for: of each stretch the least and the most.
fn thinned(points: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    let per = points.len().div_ceil(most.max(1)).max(1);
    if per == 1 {
        return points;
    }
    let ends = |c: &[(f64, f64)]| {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        [c.iter().min_by(by).copied(), c.iter().max_by(by).copied()]
    };
    points.chunks(per).flat_map(ends).flatten().collect()
}

fn pauses(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Longest quanta and stops over time";
    let several = subjects.len() > 1;
    let x = time(subjects);
    let curve = |s: &Subject<'_>, f: fn(&Column) -> u64| -> Vec<(f64, f64)> {
        s.columns.iter().filter(|c| f(c) > 0).map(|c| (c.middle(), f(c) as f64)).collect()
    };
    let (mut shapes, mut legend) = (Vec::new(), Vec::new());
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    let mut draw = |points: Vec<(f64, f64)>, ink: Ink, name: String| {
        if points.is_empty() {
            return;
        }
        for (_, y) in &points {
            (least, most) = (least.min(*y), most.max(*y));
        }
        if points.len() < 120 {
            shapes.extend(points.iter().map(|at| Shape::Dot { at: *at, ink, radius: 4 }));
        }
        shapes.push(Shape::Line { points, ink, width: 2 });
        legend.push((ink, name));
    };
    for s in subjects {
        draw(curve(s, |c| c.quantum_max_ns), ink(s, several), called(s, several, "longest quantum"));
        if !several {
            draw(curve(s, |c| c.stop_max_ns), Ink::Curve(1), "longest time to stop".into());
        }
    }
    for s in subjects.iter().filter(|_| !several) {
        let rows = s
            .run
            .synchronous
            .rows
            .iter()
            .filter_map(|r| Some((r.at_ns as f64, r.ns.filter(|ns| *ns > 0)? as f64)));
        let rows = thinned(rows.collect(), CYCLES);
        if !rows.is_empty() {
            legend.push((Ink::Bad, "synchronous collection".into()));
        }
        for at in rows {
            (least, most) = (least.min(at.1), most.max(at.1));
            shapes.push(Shape::Dot { at, ink: Ink::Bad, radius: 4 });
        }
    }
    if most == 0.0 {
        return Block::Lacking(TITLE, "The log tells neither quanta nor stops.".into());
    }
    if let (false, Some(beat)) = (several, subjects[0].run.config.as_deref().and_then(|c| c.beat_ns)) {
        (least, most) = (least.min(beat as f64), most.max(beat as f64));
        shapes.push(level(&x, beat as f64, Ink::Target));
        shapes.push(words(x.to, beat as f64, "planned quantum", Ink::Target));
    }
    let note = "On a logarithmic scale. A single long quantum matters: it is what the program felt.";
    picture("pauses", TITLE, note, x, Scale::log(Unit::Time, least, most), shapes, legend)
}

fn cycles(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Cycle lengths";
    let several = subjects.len() > 1;
    let length =
        |c: &CycleRow| Some((c.end_ns as f64, c.end_ns.checked_sub(c.start_ns?).filter(|l| *l > 0)? as f64));
    let (mut shapes, mut legend) = (Vec::new(), Vec::new());
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for s in subjects {
        let rows =
            thinned(s.run.cycle_rows.rows.iter().filter_map(length).collect(), CYCLES / subjects.len());
        if rows.is_empty() {
            continue;
        }
        let ink = ink(s, several);
        for (end, ns) in rows {
            (least, most) = (least.min(ns), most.max(ns));
            shapes.push(Shape::Line { points: vec![(end - ns, ns), (end, ns)], ink, width: 6 });
        }
        legend.push((ink, called(s, several, "a cycle, from its start to its end")));
    }
    if legend.is_empty() {
        return Block::Lacking(TITLE, "The log has no cycle with both its ends.".into());
    }
    let note = "Each cycle in wall time, at the height of its length (logarithmic). Gaps between them are times without a \
                collector.";
    picture("cycles", TITLE, note, time(subjects), Scale::log(Unit::Time, least, most), shapes, legend)
}

fn allocation(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Allocation rate";
    let several = subjects.len() > 1;
    let (mut shapes, mut legend, mut most) = (Vec::new(), Vec::new(), 0.0_f64);
    for s in subjects.iter().filter(|s| s.columns.iter().any(|c| c.allocated_bytes > 0)) {
        let rate = |c: &Column| c.allocated_bytes as f64 * 1e9 / (c.to_ns - c.from_ns).max(1e6);
        let points: Vec<_> = s.columns.iter().map(|c| (c.middle(), rate(c))).collect();
        most = points.iter().fold(most, |m, p| m.max(p.1));
        let ink = ink(s, several);
        shapes.push(Shape::Line { points, ink, width: 3 });
        legend.push((ink, called(s, several, "allocated during cycles")));
    }
    if legend.is_empty() {
        return Block::Lacking(TITLE, "The log does not tell what was allocated.".into());
    }
    let note = "As far as the log tells, that is while cycles are active; spread evenly over the cycle or heartbeat that \
                tells.";
    let y = Scale::linear(Unit::Rate, 0.0, most * 1.1, 5);
    picture("allocation", TITLE, note, time(subjects), y, shapes, legend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_cycles_in_wide_columns_are_shaded() {
        let column = |i: u32, cycle| Column {
            from_ns: f64::from(i),
            to_ns: f64::from(i + 1),
            cycle,
            ..Column::default()
        };
        let columns: Vec<Column> = (0..9).map(|i| column(i, if i % 3 == 0 { 0.03 } else { 0.0 })).collect();
        assert_eq!(shading(&columns).len(), 3);
        assert_eq!(shading(&[column(0, 0.0)]).len(), 0);
    }
}
