//! Pictures over a run's time of what only some logs tell: priority of the collector's thread, references and finalization,
//! immortal memory.

use super::columns::Column;
use super::over_time::{called, ink, picture, time};
use super::picture::Block;
use super::plot::{Ink, Shape};
use super::scale::{Scale, Unit};
use super::subject::Subject;

/// Those that the logs tell; of the others a sentence, but for immortal memory, which is the real-time specification's.
pub(super) fn all(subjects: &[Subject<'_>]) -> Vec<Block> {
    let mut all = vec![priority(subjects), work(subjects)];
    all.extend(immortal(subjects));
    all
}

type Extremes = fn(&Column) -> Option<(u64, u64)>;

/// Bands of all runs.
struct Bands {
    shapes: Vec<Shape>,
    legend: Vec<(Ink, String)>,
    most: f64,
}

/// A band from least to most with a line at the least, for each run; nothing if no log tells it.
fn bands(subjects: &[Subject<'_>], of: Extremes, what: &str) -> Option<Bands> {
    let several = subjects.len() > 1;
    let (mut shapes, mut legend, mut most) = (Vec::new(), Vec::new(), 0_u64);
    for s in subjects {
        let known = s.columns.iter().filter_map(|c| Some((c.middle(), of(c)?)));
        let points: Vec<_> = known.map(|(at, (min, max))| (at, min as f64, max as f64)).collect();
        if points.is_empty() {
            continue;
        }
        most = points.iter().fold(most, |m, p| m.max(p.2 as u64));
        let ink = ink(s, several);
        if points.len() < 120 {
            shapes.extend(points.iter().map(|p| Shape::Dot { at: (p.0, p.1), ink, radius: 4 }));
        }
        shapes.push(Shape::Line { points: points.iter().map(|p| (p.0, p.1)).collect(), ink, width: 3 });
        if !several {
            shapes.push(Shape::Band { points, ink, alpha: 0.3 });
        }
        legend.push((ink, called(s, several, what)));
    }
    (!legend.is_empty()).then_some(Bands { shapes, legend, most: most as f64 })
}

fn priority(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "Priority of the collector's thread";
    let Some(Bands { shapes, legend, most }) =
        bands(subjects, |c| c.priority, "lowest, band up to the highest")
    else {
        return Block::Lacking(TITLE, "The log does not tell the priority of the collector's thread.".into());
    };
    let note = "It should be a straight line: a collector whose priority falls is held up by whatever runs above it. IBM's and \
                OpenJ9's collectors run at 11.";
    let y = Scale::linear(Unit::Count, 0.0, most.max(1.0) * 1.2, 4);
    picture("priority", TITLE, note, time(subjects), y, shapes, legend)
}

fn work(subjects: &[Subject<'_>]) -> Block {
    const TITLE: &str = "References and finalization";
    let several = subjects.len() > 1;
    let (mut shapes, mut legend, mut most) = (Vec::new(), Vec::new(), 0_u64);
    let mut draw = |s: &Subject<'_>, of: fn(&Column) -> u64, ink: Ink, name: String| {
        let some: Vec<_> = s.columns.iter().filter(|c| of(c) > 0).map(|c| (c.middle(), of(c))).collect();
        if some.is_empty() {
            return;
        }
        for (at, n) in some {
            most = most.max(n);
            shapes.push(Shape::Line { points: vec![(at, 0.0), (at, n as f64)], ink, width: 3 });
            shapes.push(Shape::Dot { at: (at, n as f64), ink, radius: 4 });
        }
        legend.push((ink, name));
    };
    for s in subjects {
        let name = called(s, several, "references cleared");
        draw(s, |c| c.references_cleared, ink(s, several), name);
        if !several {
            draw(s, |c| c.finalizer_enqueued, Ink::Curve(1), "objects handed to finalization".into());
        }
    }
    if legend.is_empty() {
        let why = "No heartbeat and no collection tells of references cleared or of objects handed to finalization.";
        return Block::Lacking(TITLE, why.into());
    }
    let note = "How many at a time, where the log tells them. All of them are in the table of figures.";
    let y = Scale::linear(Unit::Count, 0.0, most as f64 * 1.1, 5);
    picture("work", TITLE, note, time(subjects), y, shapes, legend)
}

fn immortal(subjects: &[Subject<'_>]) -> Option<Block> {
    let Bands { shapes, legend, most } =
        bands(subjects, |c| c.immortal, "free: the least, band up to the most")?;
    let note = "Free immortal memory, which is never collected: when it is used up, allocation in it fails.";
    let y = Scale::linear(Unit::Bytes, 0.0, most * 1.1, 4);
    Some(picture("immortal", "Immortal memory", note, time(subjects), y, shapes, legend))
}
