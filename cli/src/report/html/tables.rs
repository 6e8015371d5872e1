//! The figures as a table: a column for each run.

use super::escape;
use super::facts::{Facts, Show};
use super::subject::Subject;
use std::collections::BTreeSet;

/// Reasons, names and phases shown.
const NAMES: usize = 12;

type Cell<'a> = Box<dyn Fn(&Facts<'_>) -> Option<String> + 'a>;

/// A row: its name, and the cell of a run, in HTML.
struct Row<'a>(String, Cell<'a>);

fn value<'a>(name: &str, path: &'a str, show: Show) -> Row<'a> {
    Row(escape::text(name), Box::new(move |f| f.html(path, show)))
}

/// Left out where it is 0.
fn counted<'a>(name: &str, path: &'a str) -> Row<'a> {
    Row(escape::text(name), Box::new(move |f| f.counted(path, Show::Count)))
}

fn range<'a>(name: &str, path: &'a str, show: Show) -> Row<'a> {
    Row(escape::text(name), Box::new(move |f| f.range(path, show)))
}

fn spread(name: &str, path: String) -> Row<'static> {
    Row(
        escape::text(name),
        Box::new(move |f| {
            let part = |what: &str| f.html(&format!("{path}/{what}"), Show::Ms);
            // Percentiles of heartbeats that tell count, least, mean and most only are estimates.
            let about = if f.is(&format!("{path}/percentiles_exact"), false) { "~" } else { "" };
            let parts = [
                ("min ", "min"),
                ("mean ", "mean"),
                ("p50 ", "p50"),
                ("p90 ", "p90"),
                ("p99 ", "p99"),
                ("p99.9 ", "p999"),
                ("max ", "max"),
            ];
            let spans = parts.map(|(name, key)| {
                let about = if name.starts_with('p') { about } else { "" };
                Some(format!("<span class=\"spread\">{name}{about}{}</span> ", part(key)?))
            });
            spans.into_iter().collect()
        }),
    )
}

/// The table of all figures.
pub(super) fn figures(subjects: &[Subject<'_>]) -> String {
    let head: String =
        subjects.iter().map(|s| format!("<th scope=\"col\">{}</th>", column(s, subjects))).collect();
    let mut out = format!(
        "<div class=\"wide\"><table class=\"figures\"><thead><tr><th scope=\"col\">Figure</th>{head}</tr></thead>"
    );
    for (title, rows) in groups(subjects) {
        let body: String = rows.iter().filter_map(|row| one(row, subjects)).collect();
        if !body.is_empty() {
            out += &format!(
                "<tbody><tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\">{title}</th></tr>{body}</tbody>",
                subjects.len() + 1
            );
        }
    }
    out += "</table></div>";
    if subjects.iter().any(|s| !s.run.quantum.exact && !s.run.quantum.stat.is_empty()) {
        out += "<p class=\"hint\">~ estimated: heartbeats tell count, least, mean and most of their quanta only.</p>";
    }
    out
}

fn column(s: &Subject<'_>, all: &[Subject<'_>]) -> String {
    let swatch = match all.len() {
        1 => String::new(),
        _ => format!("<i class=\"line\" style=\"--swatch:var(--c{})\"></i>", s.index),
    };
    format!("{swatch}{}", escape::clipped(&s.name))
}

fn one(row: &Row<'_>, subjects: &[Subject<'_>]) -> Option<String> {
    let cells: Vec<_> = subjects.iter().map(|s| (row.1)(&s.facts)).collect();
    cells.iter().any(Option::is_some).then(|| {
        let cells: String =
            cells.into_iter().map(|c| format!("<td>{}</td>", c.unwrap_or_else(|| "–".into()))).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", row.0)
    })
}

fn groups(subjects: &[Subject<'_>]) -> Vec<(&'static str, Vec<Row<'static>>)> {
    let configured = vec![
        value("Heap", "heap_bytes", Show::Bytes),
        value("Utilization target", "config/target_percent", Show::Percent),
        value("Window", "config/window_ms", Show::Ms),
        value("Quantum", "config/quantum_ms", Show::Ms),
        value("Trigger", "config/trigger_bytes", Show::Bytes),
        range("Priority of the collector", "priority", Show::Count),
    ];
    let mut time = vec![
        value("Length of the run", "span_ms", Show::Ms),
        value("Events", "events", Show::Count),
        value("Heartbeats", "heartbeat_count", Show::Count),
        value("Quanta", "quanta", Show::Count),
        value("Utilization of the run", "run_utilization_percent", Show::Percent),
        value("Collector's share in heartbeats", "collector_share_percent", Show::Percent),
        value("Highest share of a long heartbeat", "share/peak_percent", Show::Percent),
        counted("Heartbeats above the target's share", "share/above_target"),
        counted("Heartbeats that starved", "share/starved"),
    ];
    time.extend(windows(subjects));
    let mut pauses =
        vec![spread("Quantum", "quantum_distribution_ms".into()), spread("Time to stop", "stop_ms".into())];
    let phases: BTreeSet<&str> =
        subjects.iter().flat_map(|s| s.run.phases.iter().map(|p| p.phase.name())).collect();
    pauses
        .extend(phases.into_iter().map(|p| spread(&format!("Quantum, phase {p}"), format!("phases_ms/{p}"))));
    vec![
        ("Configured", configured),
        ("Time", time),
        ("Pauses", pauses),
        ("Synchronous collections", synchronous(subjects)),
        (
            "Cycles",
            vec![
                value("Cycles", "cycles", Show::Count),
                counted("Without their end", "cycles_incomplete"),
                spread("Length", "cycle_ms".into()),
                spread("From one to the next", "cycle_gap_ms".into()),
                counted("Triggers", "trigger_count"),
            ],
        ),
        (
            "Memory",
            vec![
                range("Free heap in heartbeats", "free_bytes", Show::Bytes),
                value("Least free heap, also at collections", "free_low_bytes", Show::Bytes),
                range("Live after cycles", "live_bytes", Show::Bytes),
                value("Allocated during cycles", "allocated_bytes", Show::Bytes),
                range("Free immortal memory", "immortal_free_bytes", Show::Bytes),
            ],
        ),
        (
            "References and finalization",
            vec![
                counted("Objects handed to finalization", "finalization_enqueued"),
                counted("Finalizers run", "finalizers_run"),
                counted("Most waiting for their finalizer", "finalizer_backlog"),
                counted("Soft references cleared", "references/soft_cleared"),
                counted("Weak references cleared", "references/weak_cleared"),
                counted("Phantom references cleared", "references/phantom_cleared"),
                counted("Long weak references and ephemerons", "references/other_cleared"),
                counted("Classes unloaded", "references/classes_unloaded"),
            ],
        ),
        ("The contract, as measured", contract()),
        (
            "Trouble",
            vec![
                counted("Stops given up", "stops_cancelled"),
                counted("Target left", "departures"),
                counted("Allocations failed for good", "out_of_memory"),
                counted("Clock errors", "clock_errors"),
                counted("Mark queue overflows", "overflows"),
                counted("Tracker overflows", "tracker_overflows"),
                counted("Event records lost", "lost_records"),
                counted("Elements of the log lost", "output_lost"),
                counted("Partial events", "partial_events"),
            ],
        ),
    ]
}

/// A row for each window that a run measured.
fn windows(subjects: &[Subject<'_>]) -> Vec<Row<'static>> {
    let lengths: BTreeSet<u64> =
        subjects.iter().flat_map(|s| s.run.own.mmu.iter().map(|m| m.window_ns)).collect();
    let row = |ns: u64| {
        let name = format!("Least utilization of any {}", Show::Ms.words(ns as f64 / 1e6));
        let cell = move |f: &Facts<'_>| {
            let i = f.list("mmu").iter().position(|m| m["window_ms"] == ns as f64 / 1e6)?;
            let charged = f.html(&format!("mmu/{i}/charged_percent"), Show::Percent)?;
            let wall = f.html(&format!("mmu/{i}/wall_percent"), Show::Percent);
            Some(wall.map_or_else(|| charged.clone(), |wall| format!("{charged} (in wall time {wall})")))
        };
        Row(escape::text(&name), Box::new(cell))
    };
    let singles: BTreeSet<u64> =
        subjects.iter().flat_map(|s| s.run.windows().iter().map(|w| w.window_ns)).collect();
    let single = |ns: u64| {
        let name = format!("Least utilization of any {}, by single quanta", Show::Ms.words(ns as f64 / 1e6));
        let cell = move |f: &Facts<'_>| {
            let i = f.list("windows").iter().position(|w| w["window_ms"] == ns as f64 / 1e6)?;
            f.html(&format!("windows/{i}/least_percent"), Show::Percent)
        };
        Row(escape::text(&name), Box::new(cell))
    };
    let own = lengths.into_iter().take(NAMES).map(row);
    own.chain(singles.into_iter().take(NAMES).map(single)).collect()
}

fn synchronous(subjects: &[Subject<'_>]) -> Vec<Row<'static>> {
    let mut rows = vec![counted("All", "synchronous_count")];
    let reasons: BTreeSet<&String> =
        subjects.iter().flat_map(|s| s.run.synchronous_by_reason.keys()).collect();
    let row = |why: &String| {
        let name = escape::clipped(why);
        let why = escape::clip(why, escape::LONGEST);
        let cell = move |f: &Facts<'_>| {
            let i = f.list("synchronous_by_reason").iter().position(|r| r["reason"] == why)?;
            let at = |what: &str, show| f.html(&format!("synchronous_by_reason/{i}/{what}"), show);
            Some(format!(
                "{}, longest {}, {} in all",
                at("count", Show::Count)?,
                at("max_ms", Show::Ms)?,
                at("sum_ms", Show::Ms)?
            ))
        };
        Row(format!("“{name}”"), Box::new(cell))
    };
    rows.extend(reasons.into_iter().take(NAMES).map(row));
    rows
}

fn contract() -> Vec<Row<'static>> {
    let row = |name: &str, path: &'static str, show: Show| {
        Row(
            escape::text(name),
            Box::new(move |f: &Facts<'_>| f.at(&format!("{}/{path}", f.contract()?), show)),
        )
    };
    vec![
        row("Live data (m)", "live_bytes", Show::Bytes),
        row("Allocation in mutator time (a)", "allocation_bytes_per_s", Show::BytesPerSecond),
        row("Tracing in collector time (R)", "trace_bytes_per_s", Show::BytesPerSecond),
        row("Sweeping in collector time (S)", "sweep_bytes_per_s", Show::BytesPerSecond),
        row("Fragmentation (f)", "fragmentation_percent", Show::Percent),
        row("Smallest heap that keeps the target", "heap_for_target_bytes", Show::Bytes),
        row("Highest utilization that this heap keeps", "utilization_for_heap_percent", Show::Percent),
    ]
}

/// What other quanta and windows would give.
pub(super) fn what_if(s: &Subject<'_>) -> Option<String> {
    let pointer = s.facts.contract()?;
    let n = s.contract?.what_if.len();
    let at = |i: usize, what: &str, show| s.facts.at(&format!("{pointer}/what_if/{i}/{what}"), show);
    let rows: String = (0..n)
        .filter_map(|i| {
            Some(format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                at(i, "quantum_ms", Show::Ms)?,
                at(i, "window_ms", Show::Ms)?,
                at(i, "mmu_percent", Show::Percent)?
            ))
        })
        .collect();
    Some(format!(
        "<details><summary>What if: other quanta and windows</summary><table class=\"figures\"><thead><tr><th \
         scope=\"col\">Quantum</th><th scope=\"col\">Window</th><th scope=\"col\">Least utilization, quanta spread \
         evenly</th></tr></thead><tbody>{rows}</tbody></table></details>"
    ))
}
