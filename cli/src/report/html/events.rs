//! The events worth a line: marks, collections, cycles, and the heartbeats that hold an extreme. Bounded; what is longest
//! or worst is kept, whatever else is left out.

use super::escape;
use super::facts::Show;
use super::subject::Subject;
use metronome_analysis::RunFigures;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Rows on a page, of all runs together.
const MOST: usize = 2_400;
/// Heartbeats with the longest quanta, and with the longest stops.
const EXTREMES: usize = 25;
/// Characters of a row's text.
const LONGEST: usize = 240;

/// One row.
struct Row {
    at_ns: u64,
    line: u64,
    kind: &'static str,
    text: String,
    /// The smaller, the rather it is kept.
    rank: (u8, u64),
}

/// The rows of a run in order of time, and how many were left out.
pub(super) fn rows(s: &Subject<'_>, subjects: usize) -> (Vec<Value>, u64) {
    let run = s.run;
    let mut rows = marks(run, &important(s));
    rows.extend(collections(run));
    rows.extend(cycles(run));
    rows.extend(heartbeats(run));
    let omitted = run.marks.omitted + run.cycle_rows.omitted;
    let most = MOST / subjects.max(1);
    // Keeps the order of time among those of equal rank.
    rows.sort_by_key(|r| r.rank);
    let cut = rows.len().saturating_sub(most) as u64;
    rows.truncate(most);
    rows.sort_by_key(|r| (r.at_ns, r.line));
    let rows = rows.into_iter();
    let rows = rows.map(|r| json!([r.at_ns as f64 / 1e6, r.line, r.kind, escape::clip(&r.text, LONGEST)]));
    (rows.collect(), omitted + cut)
}

/// Lines that the figures or the findings name.
fn important(s: &Subject<'_>) -> BTreeSet<u64> {
    let r = s.run;
    let mut lines: BTreeSet<u64> = [r.quantum_peak.line, r.stop_peak.line, r.own.enough_heap.line].into();
    lines.extend(r.free_low.map(|l| l.line));
    lines.extend(r.own.departure_low.map(|l| l.line));
    lines.extend(r.own.stragglers.values().map(|s| s.wait.line));
    lines.extend(s.advice.findings.iter().filter(|f| f.run == s.at.1).flat_map(|f| f.lines.iter().copied()));
    lines
}

fn marks(run: &RunFigures, important: &BTreeSet<u64>) -> Vec<Row> {
    // Synchronous collections are told with their lengths.
    let rows = run.marks.rows.iter().filter(|m| m.kind != "synchronous");
    rows.map(|m| {
        let rank = match m.kind {
            _ if important.contains(&m.line) => 0,
            "out-of-memory" | "clock" | "lost" | "tracker-overflow" => 1,
            "departure" | "stop-cancelled" | "warning" | "note" => 2,
            "thread" | "resize" => 3,
            _ => 4,
        };
        Row { at_ns: m.at_ns, line: m.line, kind: m.kind, text: m.text.clone(), rank: (rank, 0) }
    })
    .collect()
}

fn time(ns: u64) -> String {
    Show::Ms.words(ns as f64 / 1e6)
}

fn bytes(n: u64) -> String {
    Show::Bytes.words(n as f64)
}

fn collections(run: &RunFigures) -> impl Iterator<Item = Row> {
    run.synchronous.rows.iter().map(|r| {
        let length = r.ns.map_or_else(|| "of unknown length".into(), |ns| format!("of {}", time(ns)));
        let mut text = format!("synchronous collection {length}: {}", r.reason);
        if let (Some(before), Some(after)) = (r.free_before_bytes, r.free_after_bytes) {
            text += &format!("; free {} before, {} after", bytes(before), bytes(after));
        }
        // The longest ones first.
        Row {
            at_ns: r.at_ns,
            line: r.line,
            kind: "synchronous",
            text,
            rank: (1, u64::MAX - r.ns.unwrap_or(0)),
        }
    })
}

fn cycles(run: &RunFigures) -> impl Iterator<Item = Row> {
    run.cycle_rows.rows.iter().map(|c| {
        let length = c.start_ns.and_then(|s| c.end_ns.checked_sub(s));
        let mut text =
            format!("cycle of {}: {} quanta", length.map_or("unknown length".into(), time), c.quanta);
        let mut more = |what: &str, n: Option<u64>| {
            if let Some(n) = n {
                text += &format!(", {what} {}", bytes(n));
            }
        };
        more("allocated", c.allocated_bytes);
        more("live", c.live_bytes);
        more("least free", c.free_min_bytes);
        if let Some(why) = &c.reason {
            text += &format!("; begun for {why}");
        }
        Row { at_ns: c.end_ns, line: c.line, kind: "cycle", text, rank: (5, u64::MAX - length.unwrap_or(0)) }
    })
}

fn heartbeats(run: &RunFigures) -> Vec<Row> {
    let all = &run.heartbeats.rows;
    let top = |of: fn(&metronome_analysis::HeartbeatRow) -> Option<u64>| {
        let mut order: Vec<_> = all.iter().enumerate().filter_map(|(i, h)| Some((of(h)?, i))).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        order.into_iter().take(EXTREMES).map(|(_, i)| i).collect::<BTreeSet<_>>()
    };
    let (quanta, stops) = (top(|h| h.max_ns), top(|h| h.stop_max_ns));
    let rows = quanta.union(&stops).map(|i| {
        let h = &all[*i];
        let mut text = format!("{} quanta", h.quanta.unwrap_or(0));
        if let Some(phase) = h.phase {
            text += &format!(" of {}", phase.name());
        }
        if let Some(ns) = h.max_ns {
            text += &format!(", longest {}", time(ns));
        }
        if let Some(ns) = h.stop_max_ns {
            text += &format!(", longest stop {}", time(ns));
        }
        let kind = if quanta.contains(i) { "long-quantum" } else { "slow-stop" };
        Row { at_ns: h.at_ns, line: h.line, kind, text, rank: (1, 0) }
    });
    rows.collect()
}
