//! Markdown tables of a file of records: medians with min–max over the rounds, and ratios to `Box` with mimalloc.

use super::percentiles::Spread;
use super::record::{Record, Records};
use crate::program::ProgramName;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The contestant that ratios are to, and those that stand in where a program has no `Box`.
const REFERENCES: [&str; 3] = ["box", "arc", "epoch"];

/// Median and range of a figure of several runs, times `scale`.
fn spread(runs: &[&Record], name: &str, scale: f64) -> Option<Spread> {
    Spread::of(runs.iter().filter_map(|r| r.number(name)).map(|x| x * scale))
}

/// Median with the range behind it, with three digits or so.
fn cell(spread: Option<Spread>) -> String {
    let digits = |x: f64| match x {
        _ if x >= 100.0 || x == 0.0 => 0,
        _ if x >= 10.0 => 1,
        _ => 2,
    };
    match spread {
        None => "–".into(),
        Some(s) => {
            let d = digits(s.median);
            if s.min == s.max {
                format!("{:.d$}", s.median)
            } else {
                format!("{:.d$} ({:.d$}–{:.d$})", s.median, s.min, s.max)
            }
        }
    }
}

/// CPU seconds of a run.
fn cpu(r: &Record) -> Option<f64> {
    Some(r.number("user_s")? + r.number("system_s")?)
}

/// All tables of the file.
pub(crate) fn markdown(records: &Records) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "{}, {}, {}, {}; {}, commit {}; load at the start {}. Medians over rounds (min–max).\n",
        records.head("date"),
        records.head("cpu"),
        records.head("cpus"),
        records.head("kernel"),
        records.head("rustc"),
        records.head("commit"),
        records.head("load"),
    );
    let _ = writeln!(out, "`{}`\n", records.head("command"));
    for name in records.programs() {
        let timed = ProgramName::parse(name).is_ok_and(ProgramName::is_timed);
        let _ = writeln!(out, "### {name} ({})\n", records.head(&format!("sizes {name}")));
        if timed {
            responses(&mut out, records, name)
        } else {
            throughput(&mut out, records, name)
        }
        let mut said = BTreeSet::new();
        for r in
            records.all.iter().filter(|r| r.text("program") == name && !(r.ok() && r.text("note").is_empty()))
        {
            let line = format!("- {}: {}. {}", r.text("contestant"), r.text("status"), r.text("note"));
            if said.insert(line.clone()) {
                let _ = writeln!(out, "{}", line.trim_end());
            }
        }
        out.push('\n');
    }
    for (name, why) in records.head.iter().filter(|(n, _)| n.starts_with("skipped ")) {
        let _ = writeln!(out, "- {name}: {why}");
    }
    pauses(&mut out, records);
    out
}

/// Programs whose figure is the time they take.
fn throughput(out: &mut String, records: &Records, program: &str) {
    let all = records.of(program);
    let reference = REFERENCES.iter().find_map(|name| all.iter().find(|(n, _)| n == name));
    let unit = reference.and_then(|(_, runs)| spread(runs, "wall_s", 1.0)).map(|s| s.median);
    let base = reference.map_or("–", |(name, _)| name);
    // The lower bound of any overhead: the least CPU time that anybody needed.
    let least =
        all.iter().filter_map(|(_, runs)| Spread::of(runs.iter().filter_map(|r| cpu(r)))).map(|s| s.median);
    let least = least.min_by(f64::total_cmp);
    let _ = writeln!(
        out,
        "| contestant | wall, s | {base} = 1 | CPU, s | CPU, least = 1 | peak, MiB | heap, MiB | cycles |"
    );
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|");
    for (name, runs) in &all {
        let wall = spread(runs, "wall_s", 1.0);
        let cpu = Spread::of(runs.iter().filter_map(|r| cpu(r)));
        let ratio = |s: Option<Spread>, to: Option<f64>| {
            s.zip(to).map_or("–".into(), |(s, to)| format!("{:.2}", s.median / to))
        };
        let mib = 1.0 / 1_048_576.0;
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            cell(wall),
            ratio(wall, unit),
            cell(cpu),
            ratio(cpu, least),
            cell(spread(runs, "peak_rss_bytes", mib)),
            cell(spread(runs, "heap_bytes", mib)),
            cell(spread(runs, "gc.cycles", 1.0)),
        );
    }
    out.push('\n');
}

/// Programs whose figure is the response.
fn responses(out: &mut String, records: &Records, program: &str) {
    let _ = writeln!(
        out,
        "| contestant | p50, µs | p99 | p99.9 | p99.99 | max | later than 1 ms | of | wall, s | CPU, s | peak, MiB | heap, MiB |"
    );
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, runs) in records.of(program) {
        let figure = |name| cell(spread(&runs, name, 1.0));
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            figure("p50_us"),
            figure("p99_us"),
            figure("p999_us"),
            figure("p9999_us"),
            figure("max_us"),
            figure("missed"),
            figure("responses"),
            figure("wall_s"),
            cell(Spread::of(runs.iter().filter_map(|r| cpu(r)))),
            cell(spread(&runs, "peak_rss_bytes", 1.0 / 1_048_576.0)),
            cell(spread(&runs, "heap_bytes", 1.0 / 1_048_576.0)),
        );
    }
    out.push('\n');
}

/// The windows for which runs report a utilization, in microseconds, ascending.
pub(crate) fn windows(runs: &[&Record], kind: &str) -> Vec<u64> {
    let prefix = format!("mmu.{kind}.");
    let window = |(name, _): (&str, &str)| name.strip_prefix(&prefix)?.strip_suffix("us")?.parse().ok();
    let mut all: Vec<u64> = runs.iter().flat_map(|r| r.figures().filter_map(window)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Our own account: pauses and utilization.
fn pauses(out: &mut String, records: &Records) {
    let ours: Vec<(&str, &str, Vec<&Record>)> = records
        .programs()
        .into_iter()
        .flat_map(|p| records.of(p).into_iter().map(move |(name, runs)| (p, name, runs)))
        .filter(|(_, _, runs)| runs.iter().any(|r| r.number("gc.quanta").is_some_and(|q| q > 0.0)))
        .collect();
    let every: Vec<&Record> = ours.iter().flat_map(|(_, _, runs)| runs.iter().copied()).collect();
    let windows = windows(&every, "charged");
    if ours.is_empty() {
        return;
    }
    let columns: Vec<String> = windows.iter().map(|w| format!("MMU {} ms", *w as f64 / 1e3)).collect();
    let _ = writeln!(out, "\n### Our pauses (µs) and minimum utilization, charged / wall\n");
    let _ = writeln!(
        out,
        "| program | contestant | quanta | p50 | p99 | p99.9 | max | synchronous | {} |",
        columns.join(" | ")
    );
    let _ = writeln!(out, "|{}", "---|".repeat(8 + columns.len()));
    for (program, name, runs) in ours {
        let figure = |name: &str| cell(spread(&runs, name, 1.0));
        let median =
            |name: String| spread(&runs, &name, 1.0).map_or("–".to_owned(), |s| format!("{:.2}", s.median));
        let mmu: Vec<String> = windows
            .iter()
            .map(|w| {
                format!("{} / {}", median(format!("mmu.charged.{w}us")), median(format!("mmu.wall.{w}us")))
            })
            .collect();
        let _ = writeln!(
            out,
            "| {program} | {name} | {} | {} | {} | {} | {} | {} | {} |",
            figure("gc.quanta"),
            figure("gc.pause_p50_us"),
            figure("gc.pause_p99_us"),
            figure("gc.pause_p999_us"),
            figure("gc.pause_max_us"),
            figure("gc.synchronous"),
            mmu.join(" | "),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &str, contestant: &str, wall: f64) -> Record {
        let mut r = Record::default();
        for (name, value) in [("program", program), ("contestant", contestant), ("status", "ok")] {
            r.set(name, value);
        }
        r.set("wall_s", wall);
        r.set("user_s", wall);
        r.set("system_s", 0.0);
        r
    }

    #[test]
    fn ratios_are_of_medians_and_to_the_box() {
        let mut records = Records::default();
        for wall in [2.0, 4.0, 3.0] {
            records.all.push(run("gcbench", "box", wall));
            records.all.push(run("gcbench", "go", 2.0 * wall));
        }
        let mut failed = run("gcbench", "arc", 1.0);
        failed.set("status", "too slow");
        records.all.push(failed);
        records.head.push(("skipped boehm".into(), "absent".into()));
        let text = markdown(&records);
        assert!(text.contains("| box | 3.00 (2.00–4.00) | 1.00 |"), "{text}");
        assert!(text.contains("| go | 6.00 (4.00–8.00) | 2.00 |"), "{text}");
        assert!(text.contains("- arc: too slow") && text.contains("- skipped boehm: absent"), "{text}");
    }

    #[test]
    fn utilization_is_shown_by_ascending_windows() {
        let mut r = run("churn", "metronome@2", 1.0);
        r.set("gc.quanta", 5);
        r.set("mmu.charged.10000us", 0.7);
        r.set("mmu.charged.1000us", 0.5);
        r.set("mmu.wall.1000us", 0.4);
        assert_eq!(windows(&[&r], "charged"), [1000, 10_000]);
        let text = markdown(&Records { head: vec![], all: vec![r] });
        assert!(text.contains("| MMU 1 ms | MMU 10 ms |"), "{text}");
        assert!(text.contains("0.50 / 0.40 | 0.70 / – |"), "{text}");
    }
}
