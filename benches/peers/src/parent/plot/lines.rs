//! Lines with a legend, on axes that may be logarithmic.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::error::Error;
use std::ops::Range;
use std::path::Path;

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// By ascending x.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) dashed: bool,
}

/// What is drawn around the lines.
#[derive(Clone, Debug)]
pub(super) struct Axes {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) log_x: bool,
    pub(super) log_y: bool,
    pub(super) x_label: fn(f64) -> String,
}

/// Colours that can be told apart on white.
const COLOURS: [RGBColor; 12] = [
    RGBColor(31, 90, 180),
    RGBColor(200, 80, 20),
    RGBColor(40, 130, 50),
    RGBColor(190, 30, 50),
    RGBColor(120, 70, 170),
    RGBColor(120, 75, 60),
    RGBColor(210, 90, 170),
    RGBColor(100, 100, 100),
    RGBColor(150, 140, 20),
    RGBColor(10, 150, 170),
    RGBColor(60, 60, 110),
    RGBColor(160, 160, 220),
];

/// Draws the lines that have points; whether there are any.
///
/// # Errors
/// The file, and what the drawing library says.
pub(super) fn draw(path: &Path, axes: &Axes, lines: &[Line]) -> Result<bool, String> {
    let lines: Vec<&Line> = lines.iter().filter(|l| !l.points.is_empty()).collect();
    let Some((xs, ys)) = ranges(axes, &lines) else { return Ok(false) };
    let drawn = match (axes.log_x, axes.log_y) {
        (false, false) => on(path, axes, &lines, xs, ys),
        (false, true) => on(path, axes, &lines, xs, ys.log_scale()),
        (true, false) => on(path, axes, &lines, xs.log_scale(), ys),
        (true, true) => on(path, axes, &lines, xs.log_scale(), ys.log_scale()),
    };
    drawn.map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(true)
}

/// The ranges of both axes, with some room around the points; none if there are no points.
fn ranges(axes: &Axes, lines: &[&Line]) -> Option<(Range<f64>, Range<f64>)> {
    let points = || lines.iter().flat_map(|l| &l.points);
    points().next()?;
    let range = |values: &mut dyn Iterator<Item = f64>, log: bool| {
        let (low, high) = values.fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
        if log { (low.max(1e-3) / 1.5)..(high.max(1e-3) * 1.5) } else { 0.0..(high * 1.05).max(1e-6) }
    };
    let xs = range(&mut points().map(|p| p.0), axes.log_x);
    Some((xs, range(&mut points().map(|p| p.1), axes.log_y)))
}

fn on<X, Y>(path: &Path, axes: &Axes, lines: &[&Line], xs: X, ys: Y) -> Result<(), Box<dyn Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let height = 520.max(60 + 18 * lines.len() as u32);
    let area = SVGBackend::new(path, (960, height)).into_drawing_area();
    area.fill(&WHITE)?;
    // The legend has a column of its own, so that it hides no line.
    let (left, right) = area.split_horizontally(700);
    let mut chart = ChartBuilder::on(&left)
        .caption(&axes.title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(xs, ys)?;
    chart
        .configure_mesh()
        .x_desc(&axes.x)
        .y_desc(&axes.y)
        .x_label_formatter(&|x| (axes.x_label)(*x))
        .label_style(("sans-serif", 13))
        .draw()?;
    for (i, line) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let style = colour.stroke_width(if line.name.contains("metronome") { 3 } else { 1 });
        if line.dashed {
            chart.draw_series(DashedLineSeries::new(line.points.iter().copied(), 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
        }
        chart.draw_series(line.points.iter().map(|&p| Circle::new(p, 3, colour.filled())))?;
        let y = 40 + 18 * i as i32;
        right.draw(&PathElement::new([(0, y), (24, y)], style))?;
        right.draw(&Text::new(line.name.clone(), (32, y - 6), ("sans-serif", 13)))?;
    }
    area.present()?;
    Ok(())
}
