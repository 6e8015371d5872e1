//! A trace in the JSON trace-event format, which Chrome's `chrome://tracing` and Perfetto open.

use super::Sink;
use crate::model::{Event, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Threads of the trace: rows of the picture.
const COLLECTOR: u32 = 1;
const CYCLES: u32 = 2;
const PROGRAM: u32 = 3;

/// Writes such a trace: quanta as slices with the time to stop inside, cycles as slices on a row of their own, memory and
/// times to stop as counters, everything else as instants. Times are microseconds from the run's beginning; each run of a
/// log with several is a process of the trace.
#[derive(Debug)]
pub struct Chrome<W: Write> {
    out: io::BufWriter<W>,
    empty: bool,
    ended: bool,
    run: u32,
    /// When the cycle that is under way began, and why.
    cycle: Option<(u64, String)>,
    /// End of the last cycle: a slice begins after it.
    last_ns: u64,
    /// Rows of foreign intervals.
    rows: BTreeMap<String, u32>,
}

/// Nanoseconds in the format's unit.
#[expect(clippy::cast_precision_loss, reason = "to the nanosecond for 13 days, 2^50 ns")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl<W: Write> Chrome<W> {
    /// A trace that goes to `out`.
    pub fn new(out: W) -> Chrome<W> {
        Chrome {
            out: io::BufWriter::new(out),
            empty: true,
            ended: false,
            run: 0,
            cycle: None,
            last_ns: 0,
            rows: BTreeMap::new(),
        }
    }

    fn put(&mut self, mut event: Value) -> io::Result<()> {
        event["pid"] = self.run.max(1).into();
        let before = match self.empty {
            true => "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
            false => ",\n",
        };
        self.empty = false;
        self.out.write_all(before.as_bytes())?;
        serde_json::to_writer(&mut self.out, &event)?;
        Ok(())
    }

    fn named(&mut self, what: &str, row: u32, name: &str) -> io::Result<()> {
        self.put(json!({ "ph": "M", "name": what, "tid": row, "args": { "name": name } }))
    }

    fn slice(&mut self, row: u32, name: &str, start: u64, end: u64, args: &Value) -> io::Result<()> {
        let dur = us(end.saturating_sub(start));
        self.put(json!({
            "ph": "X", "cat": "gc", "name": name, "tid": row, "ts": us(start), "dur": dur, "args": args
        }))
    }

    fn counter(&mut self, name: &str, ns: u64, args: &Value) -> io::Result<()> {
        self.put(
            json!({ "ph": "C", "cat": "gc", "name": name, "tid": COLLECTOR, "ts": us(ns), "args": args }),
        )
    }

    fn instant(&mut self, row: u32, name: &str, ns: u64, args: &Value) -> io::Result<()> {
        self.put(json!({
            "ph": "i", "s": "p", "cat": "gc", "name": name, "tid": row, "ts": us(ns), "args": args
        }))
    }

    fn begin(&mut self, source: &str) -> io::Result<()> {
        self.run += 1;
        self.cycle = None;
        self.rows.clear();
        self.named("process_name", COLLECTOR, source)?;
        for (row, name) in [(COLLECTOR, "collector"), (CYCLES, "cycles"), (PROGRAM, "program")] {
            self.named("thread_name", row, name)?;
        }
        Ok(())
    }

    fn row(&mut self, name: &str) -> io::Result<u32> {
        if let Some(row) = self.rows.get(name) {
            return Ok(*row);
        }
        let row = PROGRAM + 1 + self.rows.len() as u32;
        self.rows.insert(name.into(), row);
        self.named("thread_name", row, name)?;
        Ok(row)
    }
}

impl<W: Write> Sink for Chrome<W> {
    fn take(&mut self, r: &Record) -> io::Result<()> {
        let ns = r.ns;
        self.last_ns = self.last_ns.max(ns);
        match &r.event {
            Event::Begin(b) => self.begin(&b.source),
            Event::Quantum(q) => {
                let args = json!({
                    "stop_us": us(q.stop_ns), "wakeup_us": us(q.wakeup_ns), "planned_us": us(q.planned_ns),
                    "cpu_us": us(q.cpu_ns), "charged_us": us(q.charged_ns), "steps": q.steps,
                    "longest_step": q.longest_step, "longest_step_us": us(q.longest_step_ns),
                    "free_bytes": q.free_bytes, "synchronous": q.synchronous,
                });
                self.slice(COLLECTOR, &q.phase, q.start_ns, q.end_ns, &args)?;
                self.slice(COLLECTOR, "stop", q.start_ns, q.start_ns + q.stop_ns, &json!({}))?;
                self.counter("free heap", q.end_ns, &json!({ "bytes": q.free_bytes }))
            }
            Event::Heartbeat(h) => {
                let args = json!({
                    "quanta": h.quanta, "min_us": us(h.min_ns), "mean_us": us(h.mean_ns), "max_us": us(h.max_ns),
                    "stop_max_us": h.stop_max_ns.map(us),
                });
                let name = format!("{} ×{}", if h.phase.is_empty() { "quanta" } else { &h.phase }, h.quanta);
                let span = h.span_ns.unwrap_or_else(|| h.quanta.saturating_mul(h.mean_ns));
                self.slice(COLLECTOR, &name, ns.saturating_sub(span), ns, &args)?;
                match h.free_min_bytes {
                    Some(bytes) => self.counter("free heap", ns, &json!({ "bytes": bytes })),
                    None => Ok(()),
                }
            }
            Event::CycleStart { reason, .. } => {
                self.cycle = Some((ns, reason.to_string()));
                Ok(())
            }
            Event::CycleEnd { quanta, collector_ns, elapsed_ns, allocated_bytes, live_bytes, .. } => {
                let (start, reason) = self
                    .cycle
                    .take()
                    .unwrap_or_else(|| (ns.saturating_sub(elapsed_ns.unwrap_or(0)), "unknown".to_owned()));
                let args = json!({
                    "reason": reason, "quanta": quanta, "collector_us": collector_ns.map(us),
                    "allocated_bytes": allocated_bytes, "live_bytes": live_bytes,
                });
                self.slice(CYCLES, "cycle", start, ns, &args)
            }
            Event::Synchronous { reason, start_ns, free_before_bytes, free_after_bytes } => {
                let args =
                    json!({ "free_before_bytes": free_before_bytes, "free_after_bytes": free_after_bytes });
                self.slice(CYCLES, &format!("synchronous: {reason}"), *start_ns, ns, &args)
            }
            Event::Memory { used_bytes, heap_bytes, allocated_bytes, .. } => {
                self.counter("heap", ns, &json!({ "used": used_bytes, "size": heap_bytes }))?;
                self.counter("allocated", ns, &json!({ "bytes": allocated_bytes }))
            }
            Event::MutatorStops { mutator, stops, sum_ns, max_ns } => {
                let args = json!({ "max_us": us(*max_ns), "mean_us": us(sum_ns / (*stops).max(1)) });
                self.counter(&format!("time to stop: {mutator}"), ns, &args)
            }
            Event::Interval { name, start_ns } => {
                let row = self.row(name)?;
                self.slice(row, name, *start_ns, ns, &json!({}))
            }
            Event::Point { name, value } => self.counter(name, ns, &json!({ "value": value })),
            Event::Bookmark { text } => self.instant(PROGRAM, text, ns, &json!({ "kind": "bookmark" })),
            Event::End | Event::Other => Ok(()),
            Event::StopCancelled { .. } | Event::SafepointOverdue { .. } => {
                let value = serde_json::to_value(&r.event)?;
                let name = value["kind"].as_str().unwrap_or_default().replace('_', " ");
                self.instant(PROGRAM, &name, ns, &value)
            }
            other => {
                let value = serde_json::to_value(other)?;
                let name = value["kind"].as_str().unwrap_or_default().replace('_', " ");
                self.instant(CYCLES, &name, ns, &value)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.ended, true) {
            if let Some((start, reason)) = self.cycle.take() {
                // A cycle that was under way at the end.
                self.slice(
                    CYCLES,
                    "cycle",
                    start,
                    self.last_ns,
                    &json!({ "reason": reason, "complete": false }),
                )?;
            }
            let end: &[u8] = if self.empty { b"{\"traceEvents\":[]}\n" } else { b"\n]}\n" };
            self.out.write_all(end)?;
        }
        self.out.flush()
    }
}
