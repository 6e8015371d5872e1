//! Pictures of a file of records, as SVG: one for each program, one of heap sizes, one of utilization.

mod bars;
mod lines;

use super::percentiles::Spread;
use super::record::{Record, Records};
use super::table::windows;
use crate::program::ProgramName;
use lines::{Axes, Line};
use std::path::{Path, PathBuf};

/// Draws all pictures into a folder; the files' names.
///
/// # Errors
/// What cannot be drawn or written.
pub(crate) fn all(records: &Records, folder: &Path) -> Result<Vec<PathBuf>, String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut made = Vec::new();
    let day = records.head("date").split(' ').next().unwrap_or_default();
    let mut draw = |name: &str, f: &dyn Fn(&Path) -> Result<bool, String>| {
        let path = folder.join(format!("{day}-{name}.svg"));
        if f(&path)? {
            made.push(path);
        }
        Ok::<(), String>(())
    };
    for name in records.programs() {
        let timed = ProgramName::parse(name).is_ok_and(ProgramName::is_timed);
        let picture =
            |path: &Path| if timed { responses(records, name, path) } else { times(records, name, path) };
        draw(name, &picture)?;
    }
    draw("heap", &|path| heap(records, path))?;
    draw("mmu", &|path| utilization(records, path))?;
    Ok(made)
}

/// The median of a figure over runs.
fn median(runs: &[&Record], name: &str) -> Option<f64> {
    Spread::of(runs.iter().filter_map(|r| r.number(name))).map(|s| s.median)
}

/// Bars of wall times.
fn times(records: &Records, program: &str, path: &Path) -> Result<bool, String> {
    let bar = |(name, runs): (&str, Vec<&Record>)| {
        let spread = Spread::of(runs.iter().filter_map(|r| r.number("wall_s")))?;
        Some((name.to_owned(), spread))
    };
    let all: Vec<(String, Spread)> = records.of(program).into_iter().filter_map(bar).collect();
    if all.is_empty() {
        return Ok(false);
    }
    let title = format!("{program}: wall time in seconds, median and min–max");
    bars::draw(path, &title, &all).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(true)
}

/// Curves of response percentiles: equal distances for each further nine.
fn responses(records: &Records, program: &str, path: &Path) -> Result<bool, String> {
    let points =
        [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999), ("p9999_us", 0.9999)];
    let line = |(name, runs): (&str, Vec<&Record>)| {
        let at = |(figure, q): (&str, f64)| Some((-(1.0 - q).log10(), median(&runs, figure)?));
        Line { name: name.to_owned(), points: points.into_iter().filter_map(at).collect(), dashed: false }
    };
    let axes = Axes {
        title: format!("{program}: response, completion less intended start"),
        x: "percentile".into(),
        y: "µs".into(),
        log_x: false,
        log_y: true,
        x_label: |x| match (x * 10.0).round() as i64 {
            0 => "p0".into(),
            10 => "p90".into(),
            20 => "p99".into(),
            30 => "p99.9".into(),
            40 => "p99.99".into(),
            _ => String::new(),
        },
    };
    lines::draw(path, &axes, &records.of(program).into_iter().map(line).collect::<Vec<_>>())
}

/// Wall time by the multiple of the minimum heap, as a ratio to the largest multiple measured.
fn heap(records: &Records, path: &Path) -> Result<bool, String> {
    let mut all = Vec::new();
    for program in records.programs() {
        if ProgramName::parse(program).is_ok_and(ProgramName::is_timed) {
            continue;
        }
        let mut points: Vec<(f64, f64)> = records
            .of(program)
            .into_iter()
            .filter_map(|(name, runs)| {
                let times: f64 = name.strip_prefix("metronome@")?.parse().ok()?;
                Some((times, median(&runs, "wall_s")?))
            })
            .collect();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        if let Some(&(_, last)) = points.last() {
            points.iter_mut().for_each(|p| p.1 /= last);
            all.push(Line { name: program.to_owned(), points, dashed: false });
        }
    }
    let axes = Axes {
        title: "Ours: wall time by heap size, largest = 1".into(),
        x: "heap, multiples of the measured minimum".into(),
        y: "wall time".into(),
        log_x: false,
        log_y: true,
        x_label: |x| format!("{x}"),
    };
    lines::draw(path, &axes, &all)
}

/// Minimum utilization by window, in charged time and (dashed) wall time, for the windows that the collector reports.
fn utilization(records: &Records, path: &Path) -> Result<bool, String> {
    let mut all = Vec::new();
    for program in records.programs() {
        let of = records.of(program);
        let twice = of.iter().any(|(name, _)| *name == "metronome@2");
        let wanted = |name: &str| if twice { name == "metronome@2" } else { name.starts_with("metronome@") };
        for (name, runs) in of.into_iter().filter(|(name, _)| wanted(name)).take(1) {
            for (kind, dashed) in [("charged", false), ("wall", true)] {
                let at = |w: u64| Some((w as f64 / 1e3, median(&runs, &format!("mmu.{kind}.{w}us"))?));
                let points: Vec<(f64, f64)> = windows(&runs, kind).into_iter().filter_map(at).collect();
                all.push(Line { name: format!("{program} {name} {kind}"), points, dashed });
            }
        }
    }
    let axes = Axes {
        title: "Ours: minimum mutator utilization".into(),
        x: "window, ms".into(),
        y: "utilization".into(),
        log_x: true,
        log_y: false,
        x_label: |x| format!("{x}"),
    };
    lines::draw(path, &axes, &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_picture_is_drawn_from_records_that_have_its_figures() {
        let mut records = Records { head: vec![("date".into(), "2026-11-30 10:00 UTC".into())], all: vec![] };
        for (program, contestant, figures) in [
            (
                "gcbench",
                "metronome@2",
                &[("wall_s", 1.5), ("mmu.charged.1000us", 0.5), ("mmu.charged.10000us", 0.7)][..],
            ),
            ("gcbench", "metronome@4", &[("wall_s", 1.0)]),
            ("churn", "go", &[("p50_us", 10.0), ("p99_us", 100.0), ("p999_us", 900.0)]),
        ] {
            let mut r = Record::default();
            for (name, value) in [("program", program), ("contestant", contestant), ("status", "ok")] {
                r.set(name, value);
            }
            for (name, value) in figures {
                r.set(name, value);
            }
            records.all.push(r);
        }
        let folder = std::env::temp_dir().join(format!("peers-plot-{}", std::process::id()));
        let made = all(&records, &folder).unwrap();
        let names: Vec<String> =
            made.iter().filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned())).collect();
        let days = |n: &str| format!("2026-11-30-{n}.svg");
        assert_eq!(names, ["gcbench", "churn", "heap", "mmu"].map(days));
        let text = std::fs::read_to_string(&made[0]).unwrap();
        assert!(text.starts_with("<svg") && text.contains("metronome@4"), "{text}");
        let text = std::fs::read_to_string(&made[1]).unwrap();
        assert!(text.contains("p99.9") && text.contains(">\ngo\n<"), "{text}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
