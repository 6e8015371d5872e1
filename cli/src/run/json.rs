//! The results for programs: schema `metronome-run/1`.

use super::{Contract, Outcome};
use hdrhistogram::Histogram;
use metronome_gc::{Distribution, FinalizerCounts, Mmu, ReferenceCounts, Stats};
use serde_json::{Map, Value, json};

/// A histogram's figures, as the library gives its own.
pub(super) fn distribution_of(h: &Histogram<u64>) -> Distribution {
    let at = |q| h.value_at_quantile(q).min(h.max());
    match h.len() {
        0 => Distribution::default(),
        count => Distribution { count, p50: at(0.5), p99: at(0.99), p999: at(0.999), max: h.max() },
    }
}

/// Microseconds.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn distribution(d: &Distribution) -> Value {
    json!({ "count": d.count, "p50": us(d.p50), "p99": us(d.p99), "p999": us(d.p999), "max": us(d.max) })
}

/// The same of what is no time.
fn plain(d: &Distribution) -> Value {
    json!({ "count": d.count, "p50": d.p50, "p99": d.p99, "p999": d.p999, "max": d.max })
}

fn mmu(m: &Mmu) -> Value {
    let fraction = |ppm: Option<u32>| ppm.map(|p| f64::from(p) / 1e6);
    json!({
        "window_ms": m.window_ns as f64 / 1e6,
        "charged": fraction(m.charged_ppm),
        "wall": fraction(m.wall_ppm),
    })
}

fn references(r: &ReferenceCounts) -> Value {
    json!({
        "weak_cleared": r.weak_cleared,
        "soft_cleared": r.soft_cleared,
        "long_weak_cleared": r.long_cleared,
        "ephemerons_cleared": r.ephemerons_cleared,
        "deaths_noted": r.deaths_noted,
    })
}

fn finalizers(f: &FinalizerCounts) -> Value {
    json!({
        "enqueued": f.enqueued,
        "run": f.run,
        "suppressed": f.suppressed,
        "panicked": f.panicked,
        "backlog": f.backlog,
        "stuck": f.stuck,
    })
}

/// All results.
pub(super) fn value(o: &Outcome) -> Value {
    let s = &o.stats;
    let config: Map<String, Value> = o.config.pairs().map(|(k, v)| (k.to_owned(), v.into())).collect();
    let task = o.task.as_ref().map(|t| distribution_of(&t.response)).unwrap_or_default();
    let prediction = s.last_prediction.map(|p| {
        json!({
            "collector_us": us(p.collector_ns),
            "actual_collector_us": us(p.actual_collector_ns),
            "allocated_bytes": p.allocated_bytes,
            "actual_allocated_bytes": p.actual_allocated_bytes,
        })
    });
    let stragglers: Vec<Value> =
        s.stragglers.iter().map(|(name, n)| json!({ "name": name, "times": n })).collect();
    let mut out = json!({
        "schema": "metronome-run/1",
        "workload": o.workload,
        "mutators": o.mutators,
        "config": config,
        "input": o.facts,
        "elapsed_s": s.elapsed_ns as f64 / 1e9,
        "interrupted": o.interrupted,
        "checksum": format!("{:#018x}", o.tally.checksum),
        "expected_checksum": format!("{:#018x}", o.tally.expected),
        // Null: nothing was compared.
        "verified": if o.compared_nothing() { None } else { Some(o.verified()) },
        "nothing": o.nothing,
        "problems": o.problems,
        "counts": o.tally.counts,
    });
    let measured = json!({
        "cycles": s.cycles,
        "verified_cycles": s.verified_cycles,
        "quanta": s.quanta,
        "pause_us": distribution(&s.pause_ns),
        "quantum_cpu_us": distribution(&s.quantum_cpu_ns),
        "quantum_charged_us": distribution(&s.quantum_charged_ns),
        "time_to_stop_us": distribution(&s.time_to_stop_ns),
        "resume_us": distribution(&s.resume_ns),
        "wakeup_us": distribution(&s.wakeup_ns),
        "over_budget_us": us(s.over_budget_ns),
        "task_response_us": distribution(&task),
        "task_missed": o.task.as_ref().map_or(0, |t| t.missed),
        "mmu": s.mmu.iter().map(mmu).collect::<Vec<_>>(),
        "window_ms": s.window_ns as f64 / 1e6,
        "target_utilization": f64::from(s.target_ppm) / 1e6,
        "contract": Contract::of(s).word(),
        "utilization_violations": s.violations,
        "utilization_violations_wall": s.violations_wall,
        "collector_ms": s.collector_ns as f64 / 1e6,
        "stops_cancelled": s.stops_cancelled,
        "stragglers": stragglers,
        "synchronous_collections": s.synchronous_collections,
        "departures": s.departures,
        "departure_reasons": o.told.departures,
        "enough_heap_bytes": o.told.enough_heap_bytes,
        "synchronous_reasons": o.told.synchronous,
        "headroom_low": o.told.headroom_low,
        "last_departure": s.last_departure,
        "step_us": distribution(&s.step_ns),
        "interrupted_steps": { "count": s.interrupted_steps, "us": us(s.interrupted_ns) },
        "longest_step": { "name": s.longest_step, "cpu_us": us(s.longest_step_ns) },
        "last_prediction": prediction,
        "failed_allocations": s.failed_allocations,
        "out_of_memory": s.out_of_memory,
        "lost_events": s.lost_events,
        "verbose_log_error": s.log_error,
        "alarm_ticks": s.alarm_ticks,
        "alarm_missed": s.alarm_missed,
        "alarm_lateness_us": distribution(&s.alarm_lateness_ns),
        "refusals": o.refusals,
    });
    for more in [measured, pace(s), memory(o)] {
        if let (Value::Object(out), Value::Object(more)) = (&mut out, more) {
            out.extend(more);
        }
    }
    out
}

/// How steps, quanta and cycles kept to what was planned.
fn pace(s: &Stats) -> Value {
    let kinds: Map<String, Value> =
        s.step_kinds.iter().map(|k| (k.name.to_owned(), distribution(&k.cpu_ns))).collect();
    json!({
        "step_kinds_cpu_us": kinds,
        "overshoot_us": distribution(&s.overshoot_ns),
        "prediction_error_ppm": {
            "collector": plain(&s.collector_error_ppm),
            "allocation": plain(&s.allocation_error_ppm),
        },
    })
}

/// What became of memory and of what was in it.
fn memory(o: &Outcome) -> Value {
    let s = &o.stats;
    json!({
        "allocated_bytes": s.allocated_bytes,
        "live_bytes": s.live_bytes,
        // Null: the option verify did not ask for it.
        "floating": (s.remarked_cycles > 0).then(|| json!({
            "cycles": s.remarked_cycles,
            "last": { "objects": s.floating.objects, "bytes": s.floating.bytes },
            "total": { "objects": s.floating_total.objects, "bytes": s.floating_total.bytes },
        })),
        "used_bytes": s.used_bytes,
        "heap_bytes": s.heap_bytes,
        "max_heap_bytes": s.max_heap_bytes,
        "resident_bytes": s.resident_bytes,
        "external_bytes": s.external_bytes,
        "heap_resized": {
            "grown": o.told.grown,
            "trimmed": o.told.trimmed,
            "returned_bytes": o.told.returned_bytes,
        },
        "low_memory": { "times": o.told.low_memory, "last": o.told.low_memory_last },
        "references": references(&s.references),
        "finalizers": finalizers(&s.finalizers),
        "reaped": { "objects": s.reaped, "panics": s.reaper_panics },
        "listener_panics": s.listener_panics,
        "peak_rss_bytes": o.peak_rss_bytes,
    })
}
