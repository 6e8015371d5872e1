//! One line for each event, written as the log is read.

use metronome_verbosegc::model::{DurationStats, Event, LoggedEvent};
use metronome_verbosegc::reader::Item;
use std::io::{self, Write};
use std::path::Path;

const HEAD: &str = "file,run,line,time,event,id,cycle,quanta,phase,min_ms,mean_ms,max_ms,stop_max_ms,interval_ms,\
                    share_percent,free_min_bytes,free_max_bytes,text,partial,clock_error\r\n";

/// A writer of CSV (RFC 4180).
pub(super) struct Csv<W> {
    out: W,
    begun: bool,
    file: String,
    run: u64,
}

/// The fields of an event that are not in all events.
#[derive(Default)]
struct Row {
    event: &'static str,
    quanta: Option<u64>,
    phase: &'static str,
    times: Option<DurationStats>,
    stop_max_ns: Option<u64>,
    interval_ns: Option<u64>,
    share_ppm: Option<u32>,
    free: [Option<u64>; 2],
    text: String,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, begun: false, file: String::new(), run: 0 }
    }

    /// Writes the line of an event.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn item(&mut self, file: &Path, item: &Item) -> io::Result<()> {
        let name = file.display().to_string();
        if name != self.file {
            (self.file, self.run) = (name, 0);
        }
        match item {
            Item::RunStart(_) => self.run += 1,
            Item::Event(e) => self.event(e)?,
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.out.write_all(HEAD.as_bytes())?;
        }
        Ok(())
    }

    fn event(&mut self, e: &LoggedEvent) -> io::Result<()> {
        self.begin()?;
        let r = row(&e.event);
        let ms = |ns: Option<u64>| ns.map(|ns| format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000));
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let fields = [
            Some(self.file.clone()),
            Some(self.run.to_string()),
            Some(e.line.to_string()),
            e.timestamp.map(|t| t.to_string()),
            Some(r.event.to_owned()),
            number(e.id),
            number(e.context_id),
            number(r.quanta),
            Some(r.phase.to_owned()),
            ms(r.times.map(|t| t.min_ns)),
            ms(r.times.map(|t| t.mean_ns)),
            ms(r.times.map(|t| t.max_ns)),
            ms(r.stop_max_ns),
            ms(r.interval_ns),
            r.share_ppm.map(|p| format!("{}.{:04}", p / 10_000, p % 10_000)),
            number(r.free[0]),
            number(r.free[1]),
            Some(r.text),
            Some(u8::from(e.partial).to_string()),
            Some(u8::from(e.clock_error).to_string()),
        ];
        let line: Vec<String> = fields.into_iter().map(|f| quoted(f.unwrap_or_default())).collect();
        self.out.write_all(line.join(",").as_bytes())?;
        self.out.write_all(b"\r\n")
    }

    /// Gives the output back, which has its head now if there was no event.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.begin()?;
        Ok(self.out)
    }
}

/// A field that a reader of CSV takes as it is; a leading sign of a formula is kept from spreadsheets by a quote mark.
fn quoted(field: String) -> String {
    let field = if field.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{field}") } else { field };
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

fn row(event: &Event) -> Row {
    let named = |event: &'static str| Row { event, ..Row::default() };
    let told = |event: &'static str, text: String| Row { event, text, ..Row::default() };
    match event {
        Event::Initialized(i) => told("initialized", i.policy.clone().unwrap_or_default()),
        Event::TriggerStart { interval_ns } => Row { interval_ns: *interval_ns, ..named("trigger-start") },
        Event::TriggerEnd { interval_ns } => Row { interval_ns: *interval_ns, ..named("trigger-end") },
        Event::CycleStart(edge) => Row {
            interval_ns: edge.interval_ns,
            free: [edge.heap_free_bytes; 2],
            text: edge.reason.as_ref().map_or(String::new(), ToString::to_string),
            ..named("cycle-start")
        },
        Event::CycleEnd(edge) => {
            Row { interval_ns: edge.interval_ns, free: [edge.heap_free_bytes; 2], ..named("cycle-end") }
        }
        Event::HeapFixup { reason, .. } => told("heap-fixup", reason.clone().unwrap_or_default()),
        Event::Heartbeat(h) => Row {
            quanta: h.quantum_count,
            phase: h.phase.map_or("", |p| p.name()),
            times: h.quantum,
            stop_max_ns: h.exclusive_access.map(|s| s.max_ns),
            interval_ns: h.interval_ns.or(h.derived_interval_ns),
            share_ppm: h.collector_share_ppm(),
            free: [h.heap_free.map(|f| f.min_bytes), h.heap_free.map(|f| f.max_bytes)],
            ..named("heartbeat")
        },
        Event::SyncGc(gc) => {
            let ns = gc.duration_ns;
            Row {
                times: ns.map(|ns| DurationStats { min_ns: ns, mean_ns: ns, max_ns: ns }),
                stop_max_ns: gc.exclusive_access_ns,
                interval_ns: gc.interval_ns,
                free: [gc.free_before_bytes, gc.free_after_bytes],
                text: gc.reason.as_ref().map_or(String::new(), ToString::to_string),
                ..named("synchronous")
            }
        }
        Event::OutOfMemory(o) => told("out-of-memory", o.space.clone().unwrap_or_default()),
        Event::TrackerOverflow(_) => named("tracker-overflow"),
        Event::NonMonotonicTime(t) => told("non-monotonic-time", t.timer.clone().unwrap_or_default()),
        Event::Warning { details } => told("warning", details.clone()),
        Event::Cycle(c) => Row { quanta: Some(c.quanta), ..named("cycle") },
        Event::StopCancelled(s) => {
            Row { stop_max_ns: Some(s.waited_ns), ..told("stop-cancelled", s.mutator.clone()) }
        }
        Event::LostRecords(l) => told("lost-records", l.count.to_string()),
        Event::Departure(d) => told("departure", d.reason.clone()),
        Event::Resize(r) => told("resize", r.reason.clone()),
        Event::Thread(t) => told("thread", t.name.clone()),
        Event::Mmu(_) => named("mmu"),
        Event::Summary(_) => named("summary"),
        Event::Note(n) => told("note", n.text.clone()),
        Event::OutputLost(l) => told("output-lost", l.elements.to_string()),
        // The model may come to know more.
        _ => named("other"),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn fields_are_quoted_where_they_must_be_and_formulas_disarmed() {
        assert_eq!(quoted("a,b".into()), "\"a,b\"");
        assert_eq!(quoted("a\"b".into()), "\"a\"\"b\"");
        assert_eq!(quoted("=1+1".into()), "'=1+1");
        assert_eq!(quoted("plain 1.5".into()), "plain 1.5");
    }
}
