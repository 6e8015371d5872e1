//! Horizontal bars with the range from least to most.

use crate::parent::percentiles::Spread;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

/// Height of a bar and the gap below it, in pixels.
const ROW: u32 = 22;

/// Colour of a contestant: ours stand out.
fn colour(name: &str) -> RGBColor {
    match name {
        n if n.starts_with("metronome-") => RGBColor(150, 170, 200),
        n if n.starts_with("metronome") => RGBColor(30, 90, 180),
        "bump" => RGBColor(170, 170, 170),
        "box" => RGBColor(200, 120, 30),
        _ => RGBColor(120, 150, 110),
    }
}

/// Draws the bars, the first one on top.
pub(super) fn draw(path: &Path, title: &str, bars: &[(String, Spread)]) -> Result<(), Box<dyn Error>> {
    let n = bars.len() as i32;
    let area = SVGBackend::new(path, (820, 90 + ROW * bars.len() as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = bars.iter().map(|(_, s)| s.max).fold(0.0, f64::max).max(1e-6);
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(170)
        .build_cartesian_2d(0.0..most * 1.08, (0..n).into_segmented())?;
    let name = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(i) => {
            bars.get((n - 1 - i) as usize).map_or(String::new(), |(name, _)| name.clone())
        }
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(bars.len() + 1)
        .y_label_formatter(&name)
        .x_label_formatter(&|x| format!("{x:.2}"))
        .label_style(("sans-serif", 13))
        .draw()?;
    for (i, (name, spread)) in bars.iter().enumerate() {
        let row = n - 1 - i as i32;
        let mut bar = Rectangle::new(
            [(0.0, SegmentValue::Exact(row)), (spread.median, SegmentValue::Exact(row + 1))],
            colour(name).filled(),
        );
        bar.set_margin(3, 3, 0, 0);
        chart.draw_series([bar])?;
        let range = [(spread.min, SegmentValue::CenterOf(row)), (spread.max, SegmentValue::CenterOf(row))];
        chart.draw_series([PathElement::new(range, BLACK.stroke_width(2))])?;
    }
    area.present()?;
    Ok(())
}
