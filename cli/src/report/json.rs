//! The figures for programs: schema `metronome-report/1`.

use crate::logs::ReadLog;
use metronome_analysis::advice::{Advice, Finding};
use metronome_analysis::contract::{ContractReport, DEFAULT_TARGET_PPM};
use metronome_analysis::{Bucket, Distribution, HeartbeatRow, Range, RunFigures, Series, Stat, SyncRow};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// How much of it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Rows of each list; the others are counted as omitted.
    pub(crate) rows: usize,
    /// Runs of each log.
    pub(crate) runs: usize,
    /// The buckets over time.
    pub(crate) series: bool,
}

impl Detail {
    /// Everything.
    pub(crate) const FULL: Self = Self { rows: usize::MAX, runs: usize::MAX, series: true };
}

/// All logs. Long lists become JSON a row at a time, so that writing needs no more memory than the figures have.
pub(crate) struct Report<'a> {
    pub(crate) logs: &'a [ReadLog],
    pub(crate) advice: &'a [Advice],
    pub(crate) detail: Detail,
}

/// Writes all of them, indented.
///
/// # Errors
/// Those of the output.
pub(crate) fn write(out: &mut dyn Write, logs: &[ReadLog], advice: &[Advice]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Report { logs, advice, detail: Detail::FULL })?;
    out.write_all(b"\n")
}

/// As far as asked for, as one value.
///
/// # Errors
/// What serializing says; it has no reason to.
pub(crate) fn value_of(logs: &[ReadLog], advice: &[Advice], detail: Detail) -> Result<Value, String> {
    serde_json::to_value(Report { logs, advice, detail }).map_err(|e| format!("cannot make JSON: {e}"))
}

/// A list of which one row at a time is in memory as JSON.
struct Rows<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Rows<F> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq((self.0)())
    }
}

/// The entries of an object that was put together before.
fn entries<M: SerializeMap>(map: &mut M, object: &Value) -> Result<(), M::Error> {
    object.as_object().into_iter().flatten().try_for_each(|(k, v)| map.serialize_entry(k, v))
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let logs = || self.logs.iter().zip(self.advice).map(|(log, advice)| One(log, advice, self.detail));
        let mut map = s.serialize_map(Some(2))?;
        map.serialize_entry("schema", "metronome-report/1")?;
        map.serialize_entry("logs", &Rows(logs))?;
        map.end()
    }
}

/// How many of so many rows are beyond those written.
fn beyond(len: usize, omitted: u64, most: usize) -> u64 {
    omitted + len.saturating_sub(most) as u64
}

/// One log.
struct One<'a>(&'a ReadLog, &'a Advice, Detail);

impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Self(log, advice, detail) = self;
        let a = &log.analysis;
        let Detail { rows, runs, .. } = *detail;
        let mut map = s.serialize_map(None)?;
        let head = json!({
            "file": log.file,
            "generation": a.writer.map(|w| w.name()),
            "complete": a.complete && log.broke_off.is_none(),
            "input_error": log.broke_off,
            "diagnostics_omitted": beyond(a.diagnostics.rows.len(), a.diagnostics.omitted, rows),
            "runs_omitted": beyond(a.runs.rows.len(), a.runs.omitted, runs),
            "runs_beyond_with_findings": a.beyond.sick,
            "findings_omitted": beyond(advice.findings.len(), a.beyond.findings.omitted, rows),
        });
        entries(&mut map, &head)?;
        let refused = a.refused.rows.iter().take(rows);
        let refused =
            || refused.clone().map(|r| json!({ "line": r.line, "policy": r.policy, "evidence": r.evidence }));
        map.serialize_entry("refused", &Rows(refused))?;
        let diagnostics = a.diagnostics.rows.iter().take(rows);
        let diagnostics =
            || diagnostics.clone().map(|d| json!({ "line": d.line, "column": d.column, "text": d.text }));
        map.serialize_entry("diagnostics", &Rows(diagnostics))?;
        let all = || a.runs.rows.iter().take(runs).map(|r| Run(r, *detail));
        map.serialize_entry("runs", &Rows(all))?;
        map.serialize_entry("findings", &Rows(|| advice.findings.iter().take(rows).map(finding)))?;
        let contracts = advice.contracts.iter().filter(|(i, _)| *i < runs);
        let contracts = || {
            contracts.clone().map(|(i, c)| match c {
                Ok(c) => json!({ "run": i, "contract": contract(c) }),
                Err(why) => json!({ "run": i, "contract": null, "not_enough_data": why }),
            })
        };
        map.serialize_entry("contracts", &Rows(contracts))?;
        map.end()
    }
}

/// Milliseconds.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn percent(ppm: u32) -> f64 {
    f64::from(ppm) / 1e4
}

/// Least, mean and most; null if there is nothing.
fn stat_ms(s: &Stat) -> Value {
    match s.mean() {
        Some(mean) => json!({ "min": ms(s.min), "mean": mean / 1e6, "max": ms(s.max) }),
        None => Value::Null,
    }
}

fn distribution(d: &Distribution) -> Value {
    if d.stat.is_empty() {
        return Value::Null;
    }
    let mut v = stat_ms(&d.stat);
    let more = json!({
        "count": d.stat.count, "p50": ms(d.p50), "p90": ms(d.p90), "p99": ms(d.p99), "p999": ms(d.p999),
        "percentiles_exact": d.exact,
    });
    if let (Value::Object(v), Value::Object(more)) = (&mut v, more) {
        v.extend(more);
    }
    v
}

fn range(r: Option<Range>) -> Value {
    r.map_or(Value::Null, |r| json!({ "min": r.min, "max": r.max }))
}

/// One run.
struct Run<'a>(&'a RunFigures, Detail);

impl Serialize for Run<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Self(r, Detail { rows, series, .. }) = *self;
        let mut map = s.serialize_map(None)?;
        entries(&mut map, &figures(r, rows))?;
        entries(&mut map, &rest(r))?;
        entries(&mut map, &totals(r))?;
        map.serialize_entry("triggers_ms", &Rows(|| r.triggers_ns.rows.iter().take(rows).map(|ns| ms(*ns))))?;
        map.serialize_entry("synchronous", &Rows(|| r.synchronous.rows.iter().take(rows).map(collection)))?;
        map.serialize_entry("heartbeats", &Rows(|| r.heartbeats.rows.iter().take(rows).map(heartbeat)))?;
        if series {
            map.serialize_entry("series", &Buckets(&r.series))?;
        }
        map.end()
    }
}

fn heartbeat(h: &HeartbeatRow) -> Value {
    json!({
        "quanta": h.quanta,
        "phase": h.phase.map(|p| p.name()),
        "share_percent": h.share_ppm.map(percent),
        "line": h.line,
        "at_ms": ms(h.at_ns),
        "mean_ms": h.mean_ns.map(ms),
        "max_ms": h.max_ns.map(ms),
    })
}

fn collection(s: &SyncRow) -> Value {
    json!({
        "reason": s.reason,
        "ms": s.ns.map(ms),
        "line": s.line,
        "at_ms": ms(s.at_ns),
        "requested_bytes": s.requested_bytes,
        "free_before_bytes": s.free_before_bytes,
        "free_after_bytes": s.free_after_bytes,
    })
}

fn figures(r: &RunFigures, rows: usize) -> Value {
    let quantum_ms = stat_ms(&r.quantum.stat);
    let phases: Map<String, Value> =
        r.phases.iter().map(|p| (p.phase.name().to_owned(), distribution(&p.quantum))).collect();
    json!({
        "line": r.line,
        "generation": r.writer.map(|w| w.name()),
        "version": r.version,
        "fragment": r.fragment,
        "complete": r.complete,
        "refused": r.refused.as_ref().map(|p| p.policy.clone()),
        "first_time": r.first_time.map(|t| t.to_string()),
        "last_time": r.last_time.map(|t| t.to_string()),
        "span_ms": ms(r.span_ns),
        "events": r.events,
        "partial_events": r.partial,
        "heap_bytes": r.heap_bytes,
        "quanta": r.quanta,
        "quantum_ms": quantum_ms,
        "quantum_distribution_ms": distribution(&r.quantum),
        "phases_ms": phases,
        "stop_ms": distribution(&r.stop),
        "collector_share_percent": r.share.ppm().map(percent),
        "cycles": r.cycles,
        "cycles_incomplete": r.cycles_incomplete,
        "cycle_rows_omitted": r.cycle_rows.omitted,
        "cycle_ms": distribution(&r.cycle_length),
        "cycle_ms_exact": !r.lengths_rough,
        "cycle_gap_ms": distribution(&r.cycle_gap),
        "trigger_open": r.trigger_open,
        "synchronous_omitted": beyond(r.synchronous.rows.len(), r.synchronous.omitted, rows),
        "heartbeats_omitted": beyond(r.heartbeats.rows.len(), r.heartbeats.omitted, rows),
        "free_bytes": range(r.free),
        "free_low_line": r.free_low.map(|l| l.line),
        "immortal_free_bytes": range(r.immortal_free),
        "finalization_enqueued": r.work.finalizer_enqueued,
        "priority": range(r.priority),
    })
}

/// What was configured, and sums that the lists do not show.
fn totals(r: &RunFigures) -> Value {
    let config = r.config.as_deref();
    let (s, w, own) = (&r.share, &r.work, &r.own);
    let by_reason = r.synchronous_by_reason.iter().map(|(why, stat)| {
        json!({
            "reason": why,
            "count": stat.count,
            "max_ms": ms(stat.max),
            "sum_ms": stat.sum as f64 / 1e6,
        })
    });
    json!({
        "config": {
            "target_percent": config.and_then(|c| c.target_ppm).map(percent),
            "window_ms": config.and_then(|c| c.window_ns).map(ms),
            "quantum_ms": config.and_then(|c| c.beat_ns).map(ms),
            "trigger_bytes": config.and_then(|c| c.trigger_bytes),
        },
        "share": {
            "heartbeats": s.heartbeats,
            "long_heartbeats": s.long_heartbeats,
            "peak_of_all_percent": (s.heartbeats > 0).then(|| f64::from(s.peak_of_all_ppm) / 1e4),
            "peak_percent": (s.long_heartbeats > 0).then(|| s.peak_ppm.value as f64 / 1e4),
            "above_target": s.above_target,
            "starved": s.starved,
        },
        "judged": judged(r),
        "run_utilization_percent": r.run_utilization_ppm().map(percent),
        "mean_utilization_percent": r.share.ppm().map(|p| percent(1_000_000 - p.min(1_000_000))),
        "heartbeat_count": r.heartbeats.total(),
        "quantum_peak_line": r.quantum_peak.line,
        "stop_peak_line": r.stop_peak.line,
        "trigger_count": r.triggers_ns.total(),
        "synchronous_count": r.synchronous.total(),
        "synchronous_by_reason": by_reason.collect::<Vec<_>>(),
        "finalizers_run": w.finalizers_run,
        "finalizer_backlog": w.finalizer_backlog.value,
        "free_low_bytes": r.free_low.map(|l| l.value),
        "live_bytes": range_of(&own.live),
        "allocated_bytes": (own.allocated.count > 0).then_some(own.allocated.sum as f64),
        "departure_low_percent": own.departure_low.map(|l| l.value as f64 / 1e4),
        "enough_heap_bytes": (own.enough_heap.value > 0).then_some(own.enough_heap.value),
        "output_lost": r.trouble.output_lost,
        "tracker_overflows": r.trouble.tracker_overflows,
    })
}

/// The least utilization against the target: over the target's own window where the run measured it or single quanta tell
/// it, else of the heartbeat that left least.
fn judged(r: &RunFigures) -> Value {
    let config = r.config.as_deref();
    let told = config.and_then(|c| c.target_ppm);
    let target = told.unwrap_or(DEFAULT_TARGET_PPM);
    let window = r.window_ns();
    let measured = window.and_then(|w| r.least_ppm(w)).map(u64::from);
    let heartbeat = (r.share.long_heartbeats > 0).then(|| 1_000_000 - r.share.peak_ppm.value.min(1_000_000));
    let least = measured.or(heartbeat);
    json!({
        "target_percent": percent(target),
        "target_assumed": told.is_none(),
        "least_percent": least.map(|l| l as f64 / 1e4),
        "window_ms": measured.and(window).map(ms),
        "by": match (measured, r.own.mmu.is_empty()) {
            (Some(_), false) => Some("run"),
            (Some(_), true) => Some("single quanta"),
            (None, _) => heartbeat.map(|_| "heartbeats"),
        },
        "margin_points": least.map(|l| (l as f64 - f64::from(target)) / 1e4),
    })
}

fn range_of(s: &Stat) -> Value {
    if s.is_empty() { Value::Null } else { json!({ "min": s.min, "max": s.max }) }
}

/// References, trouble, and what only our own logs tell.
fn rest(r: &RunFigures) -> Value {
    let w = &r.work;
    let mut all = Map::new();
    all.insert(
        "references".into(),
        json!({
            "soft_cleared": w.soft_cleared,
            "weak_cleared": w.weak_cleared,
            "phantom_cleared": w.phantom_cleared,
            "other_cleared": w.other_cleared,
            "classes_unloaded": w.classes_unloaded,
        }),
    );
    all.insert("overflows".into(), w.overflows.into());
    all.insert("clock_errors".into(), r.trouble.clock_errors.into());
    all.insert("out_of_memory".into(), r.trouble.out_of_memory.into());
    all.insert("lost_records".into(), r.trouble.lost_records.into());
    all.insert("stops_cancelled".into(), r.own.stops_cancelled.into());
    let stragglers = r.own.stragglers.iter().map(|(n, s)| (n.clone(), s.cancelled.into()));
    all.insert("stragglers".into(), Value::Object(stragglers.collect()));
    let departures: u64 = r.own.departures.values().sum();
    all.insert("departures".into(), departures.into());
    let mmu = r.own.mmu.iter().map(|m| {
        json!({
            "window_ms": ms(m.window_ns),
            "charged_percent": percent(m.charged_ppm),
            "wall_percent": m.wall_ppm.map(percent),
        })
    });
    all.insert("mmu".into(), mmu.collect());
    all.insert("single_quanta".into(), r.single.quanta.into());
    let windows = r.windows().iter();
    let windows =
        windows.map(|w| json!({ "window_ms": ms(w.window_ns), "least_percent": percent(w.least_ppm) }));
    all.insert("windows".into(), windows.collect());
    all.into()
}

/// What happened over time.
struct Buckets<'a>(&'a Series);

impl Serialize for Buckets<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let width = self.0.bucket_ns;
        let some = || {
            let all = self.0.buckets.iter().enumerate().filter(|(_, b)| **b != Bucket::default());
            all.map(|(i, b)| bucket(i as u64 * width, b))
        };
        let mut map = s.serialize_map(Some(2))?;
        map.serialize_entry("bucket_ms", &ms(width))?;
        map.serialize_entry("buckets", &Rows(some))?;
        map.end()
    }
}

fn bucket(at_ns: u64, b: &Bucket) -> Value {
    json!({
        "at_ms": ms(at_ns),
        "collector_ms": ms(b.collector_ns),
        "synchronous_ms": ms(b.synchronous_ns),
        "covered_ms": ms(b.covered_ns),
        "cycle_ms": ms(b.cycle_ns),
        "quanta": b.quanta,
        "quantum_max_ms": ms(b.quantum_max_ns),
        "stop_max_ms": ms(b.stop_max_ns),
        "free_min_bytes": b.free_min_bytes,
        "free_max_bytes": b.free_max_bytes,
        "free_last_bytes": b.free_ends_bytes.map(|e| e.1),
        "allocated_bytes": b.allocated_bytes,
        "priority": range(b.priority),
        "immortal_free_bytes": range(b.immortal_free),
        "finalization_enqueued": b.finalizer_enqueued,
        "references_cleared": b.references_cleared,
    })
}

/// One finding, as `report` and `advise` write it.
pub(crate) fn finding(f: &Finding) -> Value {
    json!({
        "rule": f.rule,
        "severity": f.severity as u8,
        "title": f.title,
        "evidence": f.evidence,
        "lines": f.lines,
        "advice": f.advice,
        "run": f.run,
    })
}

/// The contract of a run.
pub(crate) fn contract(c: &ContractReport) -> Value {
    let m = &c.measured;
    json!({
        "cycles": c.cycles,
        "live_bytes": m.live_bytes,
        "allocation_bytes_per_s": m.allocation_rate,
        "burst": c.burst.map(|b| json!({ "allocation_bytes_per_s": b.rate, "line": b.line })),
        "trace_bytes_per_s": m.trace_rate,
        "sweep_bytes_per_s": if m.sweep_rate == u64::MAX { None } else { Some(m.sweep_rate) },
        "fragmentation_percent": percent(m.fragmentation_ppm),
        "phases_unknown": c.phases_unknown,
        "from_free_memory": c.from_free_memory,
        "heap_bytes": c.heap_bytes,
        "target_percent": percent(c.target_ppm),
        "heap_for_target_bytes": c.heap_for_target,
        "utilization_for_heap_percent": c.utilization_for_heap.map(percent),
        "curve": c.curve.iter().map(|(ppm, heap)| json!({ "utilization_percent": percent(*ppm), "heap_bytes": heap }))
            .collect::<Vec<_>>(),
        "what_if": c.what_if.iter().map(|w| json!({
            "quantum_ms": ms(w.quantum_ns), "window_ms": ms(w.window_ns), "mmu_percent": percent(w.mmu_ppm),
        })).collect::<Vec<_>>(),
    })
}
