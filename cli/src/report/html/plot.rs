//! One picture as SVG: axes and data in layers of their own, so that the page can zoom the data along the time axis.
//!
//! Colours are names: the drawing library writes numbers, which are replaced by the page's variables, so that one
//! picture serves light, dark and paper.

use super::scale::Scale;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Size of a picture in its own units; the page scales it.
const SIZE: (u32, u32) = (1520, 400);
const LABELS_LEFT: u32 = 110;
const LABELS_BELOW: u32 = 42;
const MARGIN: u32 = 14;
/// Text as the drawing library counts it: a fifth less is written.
const FONT: u32 = 25;

/// What a thing is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Text,
    Axis,
    Grid,
    /// Where a cycle was active.
    Cycle,
    /// The line that is to be kept, dashed.
    Target,
    /// A plain limit, dashed: the heap's size, the trigger.
    Limit,
    /// What should not be.
    Bad,
    /// A curve; several logs have one each.
    Curve(u8),
}

/// Colours of curves.
pub(super) const CURVES: u8 = 8;

impl Ink {
    const fn number(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Axis => 1,
            Self::Grid => 2,
            Self::Cycle => 3,
            Self::Target => 4,
            Self::Limit => 5,
            Self::Bad => 6,
            Self::Curve(n) => 16 + n % CURVES,
        }
    }

    pub(super) fn variable(self) -> String {
        match self {
            Self::Text => "--ink".into(),
            Self::Axis => "--axis".into(),
            Self::Grid => "--grid".into(),
            Self::Cycle => "--cycle".into(),
            Self::Target => "--target".into(),
            Self::Limit => "--limit".into(),
            Self::Bad => "--bad".into(),
            Self::Curve(n) => format!("--c{}", n % CURVES),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let named = [Self::Text, Self::Axis, Self::Grid, Self::Cycle, Self::Target, Self::Limit, Self::Bad];
        named.into_iter().chain((0..CURVES).map(Self::Curve))
    }

    /// A number that no picture would use as a colour.
    const fn color(self) -> RGBColor {
        RGBColor(1, 0, self.number())
    }
}

/// A thing in a picture.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Line {
        points: Vec<(f64, f64)>,
        ink: Ink,
        width: u32,
    },
    /// Between two curves: from and to at each place.
    Band {
        points: Vec<(f64, f64, f64)>,
        ink: Ink,
        alpha: f64,
    },
    Rect {
        x: (f64, f64),
        y: (f64, f64),
        ink: Ink,
        alpha: f64,
    },
    Dot {
        at: (f64, f64),
        ink: Ink,
        radius: u32,
    },
    /// A few words of the page's own beside a place.
    Words {
        at: (f64, f64),
        text: String,
        ink: Ink,
        right: bool,
    },
}

/// Axes and what is between them.
pub(super) struct Plot {
    pub(super) x: Scale,
    pub(super) y: Scale,
    /// The horizontal axis is a run's time: the page may zoom it.
    pub(super) time: bool,
    pub(super) shapes: Vec<Shape>,
    /// Marks on the vertical axis and their lines.
    pub(super) y_labels: bool,
}

/// A picture that is drawn.
pub(super) struct Drawn {
    /// What belongs inside an `svg` element.
    pub(super) inside: String,
    pub(super) size: (u32, u32),
    /// Where the data are, in the picture's units.
    pub(super) x: Range<i32>,
    pub(super) y: Range<i32>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;
type Failed = DrawingAreaErrorKind<std::io::Error>;

impl Plot {
    /// Draws it; `id` makes its names unique on the page.
    ///
    /// # Errors
    /// What the drawing library says; writing into memory, it has no reason to.
    pub(super) fn draw(&self, id: &str) -> Result<Drawn, String> {
        let mut pixels = (0..0, 0..0);
        let frame = self.layer(|chart| {
            pixels = chart.plotting_area().get_pixel_range();
            mesh(chart, false, self.y_labels)
        })?;
        let below = self.layer(|chart| mesh(chart, true, false))?;
        // Words stay where they are and as they are while data are zoomed.
        let is_words = |s: &&Shape| matches!(s, Shape::Words { .. });
        let mut shapes = self.shapes.iter().filter(|s| !is_words(s));
        let data = self.layer(|chart| shapes.try_for_each(|s| shape(chart, s)))?;
        let mut words = self.shapes.iter().filter(is_words);
        let words = self.layer(|chart| words.try_for_each(|s| shape(chart, s)))?;
        let (x, y) = pixels;
        let clip = format!(
            "<clipPath id=\"{id}-clip\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>",
            x.start,
            y.start - 6,
            x.end - x.start,
            y.end - y.start + 8
        );
        let inside = format!(
            "{clip}<g>{frame}</g><g class=\"x-axis\">{below}</g>\
             <g clip-path=\"url(#{id}-clip)\"><g class=\"plotted\">{data}</g></g><g>{words}</g>"
        );
        Ok(Drawn { inside, size: SIZE, x, y })
    }

    /// Draws one layer and takes its frame and its numbers for colours away.
    fn layer(&self, draw: impl FnOnce(&mut Chart<'_, '_>) -> Result<(), Failed>) -> Result<String, String> {
        let mut svg = String::new();
        let drawn = (|| {
            let root: Area<'_> = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            let mut chart = ChartBuilder::on(&root)
                .margin(MARGIN)
                .margin_right(3 * MARGIN)
                .x_label_area_size(LABELS_BELOW)
                .y_label_area_size(LABELS_LEFT)
                .build_cartesian_2d(self.x.clone(), self.y.clone())?;
            draw(&mut chart)?;
            root.present()
        })();
        drawn.map_err(|e| format!("cannot draw a picture: {e}"))?;
        let inside = svg.split_once(">\n").map_or("", |(_, rest)| rest);
        let mut inside = inside.trim_end().trim_end_matches("</svg>").to_owned();
        for ink in Ink::all() {
            let number = format!("\"#0100{:02X}\"", ink.number());
            let name = format!("\"var({})\"", ink.variable());
            if matches!(ink, Ink::Target | Ink::Limit) {
                let dashed = format!("stroke={name} stroke-dasharray=\"10 7\"");
                inside = inside.replace(&format!("stroke={number}"), &dashed);
            }
            inside = inside.replace(&number, &name);
        }
        Ok(inside.replace(" opacity=\"1\"", "").replace(" \"/>", "\"/>").replace("\n", ""))
    }
}

/// Marks of one axis, their lines, and the axis.
fn mesh(chart: &mut Chart<'_, '_>, x: bool, y: bool) -> Result<(), Failed> {
    let text = ("sans-serif", FONT).into_font().color(&Ink::Text.color());
    let mut mesh = chart.configure_mesh();
    mesh.axis_style(Ink::Axis.color())
        .bold_line_style(Ink::Grid.color())
        .light_line_style(TRANSPARENT)
        .label_style(text)
        .x_labels(if x { 64 } else { 0 })
        .y_labels(if y { 64 } else { 0 });
    if !x {
        mesh.disable_x_mesh().disable_x_axis();
    }
    if !y {
        mesh.disable_y_mesh().disable_y_axis();
    }
    mesh.draw()
}

fn shape(chart: &mut Chart<'_, '_>, shape: &Shape) -> Result<(), Failed> {
    match shape {
        Shape::Line { points, ink, width } => {
            let style = ink.color().stroke_width(*width);
            chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        }
        Shape::Band { points, ink, alpha } => {
            let there = points.iter().map(|(x, _, to)| (*x, *to));
            let back = points.iter().rev().map(|(x, from, _)| (*x, *from));
            let around: Vec<_> = there.chain(back).collect();
            chart.draw_series(std::iter::once(Polygon::new(around, ink.color().mix(*alpha).filled())))?;
        }
        Shape::Rect { x, y, ink, alpha } => {
            let style = ink.color().mix(*alpha).filled();
            chart.draw_series(std::iter::once(Rectangle::new([(x.0, y.0), (x.1, y.1)], style)))?;
        }
        Shape::Dot { at, ink, radius } => {
            // A line without length and with round ends stays round while the data are stretched.
            let style = ink.color().stroke_width(2 * radius);
            chart.draw_series(LineSeries::new([*at, *at], style))?;
        }
        Shape::Words { at, text, ink, right } => {
            let h = if *right { HPos::Right } else { HPos::Left };
            let color = ink.color();
            let style = TextStyle::from(("sans-serif", FONT).into_font()).color(&color);
            let style = style.pos(Pos::new(h, VPos::Bottom));
            let beside = if *right { -8 } else { 8 };
            let element = EmptyElement::at(*at) + Text::new(text.clone(), (beside, -6), style);
            chart.draw_series(std::iter::once(element))?;
        }
    }
    Ok(())
}
