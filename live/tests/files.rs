//! Recordings, traces and logs: what comes back is what went in, and the traces say the records' own numbers.
#![forbid(unsafe_code)]

use flate2::{Compression, write::GzEncoder};
use metronome_live::input::{self, InputError};
use metronome_live::sink::{Chrome, Lines, TuningFork};
use metronome_live::{Begin, Event, Heartbeat, Quantum, Record, Sink};
use metronome_tuningfork as fork;
use quickcheck::{Arbitrary, Gen, quickcheck};
use serde_json::Value;
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// An output that can be looked at afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn written(records: &[Record], sink: impl FnOnce(Shared) -> Box<dyn Sink>) -> Vec<u8> {
    let out = Shared::default();
    let mut sink = sink(out.clone());
    for (i, r) in records.iter().enumerate() {
        sink.take(r).unwrap();
        if i % 7 == 6 {
            sink.flush().unwrap();
        }
    }
    sink.end().unwrap();
    out.0.lock().unwrap().clone()
}

fn read(bytes: Vec<u8>) -> Result<Vec<Record>, InputError> {
    input::records(Cursor::new(bytes))?.collect()
}

fn all(bytes: Vec<u8>) -> Vec<Result<Record, InputError>> {
    input::records(Cursor::new(bytes)).unwrap().collect()
}

fn begin() -> Record {
    let b = Begin {
        version: 1,
        source: "test \u{7f} <&>".into(),
        pid: 7,
        unix_ms: Some(-5),
        heap_bytes: Some(1 << 40),
        window_ns: Some(10_000_000),
        target_ppm: Some(700_000),
        quantum_ns: Some(500_000),
        beat_ns: None,
    };
    Record { ns: 0, event: Event::Begin(b) }
}

/// A run: one record of each kind, and quanta.
#[derive(Clone, Debug)]
struct Run(Vec<Record>);

/// A number that all formats hold exactly.
fn number(g: &mut Gen) -> u64 {
    u64::arbitrary(g) >> (16 + u32::arbitrary(g) % 40)
}

fn event(g: &mut Gen, start: u64) -> Event {
    let text = String::arbitrary(g);
    let some = Option::<u32>::arbitrary(g).map(u64::from);
    match u8::arbitrary(g) % 18 {
        0 => Event::CycleStart { reason: text.into(), free_bytes: some },
        1 => Event::CycleEnd {
            quanta: some,
            collector_ns: some,
            elapsed_ns: None,
            allocated_bytes: some,
            live_bytes: some,
            free_bytes: None,
        },
        2 => Event::Synchronous {
            reason: text.into(),
            start_ns: start,
            free_before_bytes: some,
            free_after_bytes: None,
        },
        3 => Event::StopCancelled {
            mutator: text,
            waited_ns: number(g),
            budget_ns: number(g),
            missing: number(g),
        },
        4 => Event::SafepointOverdue { mutator: text, waited_ns: number(g) },
        5 => Event::Departure { reason: text.into(), enough_heap_bytes: some },
        6 => Event::Resized { from_bytes: number(g), to_bytes: number(g), reason: text.into() },
        7 => Event::Memory {
            used_bytes: number(g),
            heap_bytes: number(g),
            trigger_bytes: some,
            allocated_bytes: number(g),
        },
        8 => Event::MutatorStops { mutator: text, stops: number(g), sum_ns: number(g), max_ns: number(g) },
        9 => Event::Bookmark { text },
        10 => Event::Note { text },
        11 => Event::Lost { count: number(g), place: "client".into() },
        12 => Event::Heartbeat(Heartbeat {
            quanta: number(g),
            phase: "mark".into(),
            span_ns: some,
            ..Heartbeat::default()
        }),
        13 => Event::TriggerStart,
        _ => Event::Quantum(Quantum {
            start_ns: start,
            stop_ns: number(g),
            wakeup_ns: number(g),
            planned_ns: number(g),
            cpu_ns: number(g),
            charged_ns: number(g),
            phase: ["precollect", "mark", "postcollect", "sweep", "other"][usize::arbitrary(g) % 5].into(),
            steps: u32::arbitrary(g),
            longest_step: text.into(),
            longest_step_ns: number(g),
            free_bytes: number(g),
            synchronous: bool::arbitrary(g),
            end_ns: 0,
        }),
    }
}

impl Arbitrary for Run {
    fn arbitrary(g: &mut Gen) -> Run {
        let mut records = vec![begin()];
        let mut ns = 0;
        for _ in 0..usize::arbitrary(g) % 60 {
            let start = ns + u64::from(u16::arbitrary(g));
            ns = start + u64::from(u16::arbitrary(g));
            let mut event = event(g, start);
            if let Event::Quantum(q) = &mut event {
                q.end_ns = ns;
            }
            records.push(Record { ns, event });
        }
        records.push(Record { ns, event: Event::End });
        Run(records)
    }
}

quickcheck! {
    fn recordings_come_back(run: Run, more: Run) -> bool {
        let both = [run.0, more.0].concat();
        read(written(&both, |out| Box::new(Lines::new(out)))).unwrap() == both
    }

    fn tuning_fork_traces_come_back_whole_and_in_order(run: Run, more: Run) -> bool {
        let both = [run.0, more.0].concat();
        read(written(&both, |out| Box::new(TuningFork::new(out)))).unwrap() == both
    }

    fn intervals_of_tuning_fork_traces_are_the_records_own(run: Run) -> bool {
        let bytes = written(&run.0, |out| Box::new(TuningFork::new(out)));
        let items = fork::read_all(&bytes[..]).unwrap();
        let name = |id: i32| items.iter().find_map(|i| match i {
            fork::Item::EventType(t) if t.id == id => Some(t.name.clone()),
            _ => None,
        }).unwrap();
        // The viewer's way: starts and stops by name, in the order of each feedlet.
        let (mut open, mut intervals) = (std::collections::BTreeMap::new(), Vec::new());
        for item in &items {
            let fork::Item::Event(e) = item else { continue };
            let name = name(e.type_id);
            if let Some(x) = name.strip_prefix("Interval Start: ") {
                assert!(open.insert((e.feedlet, x.to_owned()), e.time).is_none(), "two starts of {x}");
            } else if let Some(x) = name.strip_prefix("Interval Stop: ") {
                let start = open.remove(&(e.feedlet, x.to_owned())).expect("a start");
                if !["cycle", "synchronous collection"].contains(&x) {
                    intervals.push((x.to_owned(), start, e.time));
                }
            }
        }
        assert!(open.is_empty(), "{open:?}");
        let want: Vec<(String, i64, i64)> = run.0.iter().filter_map(|r| match &r.event {
            Event::Quantum(q) => {
                let phase = if q.phase == "other" { "quantum" } else { &q.phase };
                Some((phase.to_owned(), q.start_ns as i64, q.end_ns as i64))
            }
            _ => None,
        }).collect();
        intervals == want
    }

    fn chrome_traces_say_the_quanta_s_own_numbers(run: Run) -> bool {
        let bytes = written(&run.0, |out| Box::new(Chrome::new(out)));
        let trace: Value = serde_json::from_slice(&bytes).unwrap();
        let all = trace["traceEvents"].as_array().unwrap();
        for e in all {
            assert!(e["ph"].is_string() && e["pid"].is_u64() && e["tid"].is_u64() && e["name"].is_string(), "{e}");
            assert!(e["ph"] == "M" || e["ts"].as_f64().is_some_and(|t| t >= 0.0), "{e}");
        }
        // Microseconds back to nanoseconds.
        let ns = |v: &Value| (v.as_f64().unwrap() * 1000.0).round() as u64;
        let slices: Vec<&Value> = all.iter().filter(|e| e["ph"] == "X" && e["tid"] == 1).collect();
        let (stops, quanta): (Vec<&Value>, Vec<&Value>) = slices.into_iter()
            .filter(|e| !e["name"].as_str().unwrap().contains('×'))
            .partition(|e| e["name"] == "stop");
        let want: Vec<&Quantum> = run.0.iter().filter_map(|r| match &r.event { Event::Quantum(q) => Some(q), _ => None }).collect();
        let bookmarks = |of: fn(&Record) -> bool| run.0.iter().filter(|r| of(r)).count();
        let shown = all.iter().filter(|e| e["args"]["kind"] == "bookmark" && e["ph"] == "i").count();
        let marks = bookmarks(|r| matches!(r.event, Event::Bookmark { .. }));
        stops.len() == want.len() && quanta.len() == want.len() && shown == marks
            && quanta.iter().zip(&stops).zip(want).all(|((e, stop), q)| {
                e["name"] == *q.phase && ns(&e["ts"]) == q.start_ns && ns(&e["dur"]) == q.end_ns - q.start_ns
                    && ns(&stop["ts"]) == q.start_ns && ns(&stop["dur"]) == q.stop_ns
                    && ns(&e["args"]["charged_us"]) == q.charged_ns && ns(&e["args"]["cpu_us"]) == q.cpu_ns
                    && e["args"]["steps"] == q.steps && e["args"]["free_bytes"] == q.free_bytes
            })
    }
}

#[test]
fn torn_and_foreign_files_are_told() {
    let lines =
        written(&[begin(), Record { ns: 1, event: Event::TriggerStart }], |o| Box::new(Lines::new(o)));
    // The last line of one who died: what is whole counts, and that it breaks off is said, at whatever byte that is.
    for cut in (lines.len() / 2 + 60..lines.len()).rev().take(30) {
        let all = all(lines[..cut].to_vec());
        let (last, records) = all.split_last().unwrap();
        assert!(matches!(last, Err(e @ InputError::BreaksOff { .. }) if e.goes_on()), "{cut}: {last:?}");
        assert_eq!(records[0].as_ref().unwrap(), &begin(), "{cut}");
    }
    // Damaged lines cost themselves only, wherever they are.
    let bookmark = |ns| Record { ns, event: Event::Bookmark { text: "b".into() } };
    let good: Vec<String> = (1..100).map(|ns| bookmark(ns).json()).collect();
    for damaged in [0..1, 0..2, 3..4, 50..60, 98..99] {
        let mut text = good.clone();
        text[damaged.clone()]
            .iter_mut()
            .for_each(|l| *l = format!("{}\"{l}", "x".repeat(if damaged.start == 0 { 9 } else { 2 << 20 })));
        text.push(Record { ns: 100, event: Event::End }.json() + "\n");
        let all = all(text.join("\n").into_bytes());
        let first = damaged.start as u64 + 1;
        let errors: Vec<_> = all.iter().filter_map(|r| r.as_ref().err()).collect();
        assert!(
            matches!(errors[..], [InputError::Line { line, count, foreign: false, .. }]
                if (*line, *count) == (first, damaged.len() as u64)),
            "{errors:?}"
        );
        assert_eq!(all.iter().filter(|r| r.is_ok()).count(), 100 - damaged.len());
        assert!(all[damaged.start].is_err(), "in its place");
    }
    // Two runs, the first of which broke off.
    let two = [&lines[..], &lines, &lines[..lines.len() - 1]].concat();
    let ends: Vec<bool> = all(two).iter().map(|r| matches!(r, Err(InputError::BreaksOff { .. }))).collect();
    assert_eq!(ends, [false, false, true, false, false, true, false, false, true]);
    let none = b"{\"a\":1}\n{\n".to_vec();
    assert!(
        matches!(&all(none)[..], [Err(e @ InputError::Line { line: 1, count: 2, foreign: true, .. })] if !e.goes_on())
    );
    // Compressed, and after a byte-order mark.
    let ended = [&lines[..], b"{\"ns\":9,\"kind\":\"end\"}\n"].concat();
    let want = read(ended.clone()).unwrap();
    assert_eq!(want.len(), 3);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&ended).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(read(gzip.clone()).unwrap(), want);
    assert!(matches!(read(gzip[..gzip.len() - 9].to_vec()), Err(InputError::Read(_))));
    assert_eq!(read([b"\xef\xbb\xbf", &ended[..]].concat()).unwrap(), want);
    // A kind of a later version is passed on as such, one with another meaning is refused.
    let mut later = lines.clone();
    later.extend(b"{\"ns\":2,\"kind\":\"teleport\",\"to\":[1]}\n");
    assert_eq!(all(later)[2].as_ref().unwrap(), &Record { ns: 2, event: Event::Other });
    let two = b"{\"ns\":0,\"kind\":\"begin\",\"version\":2,\"source\":\"x\"}\n".to_vec();
    assert!(matches!(read(two), Err(InputError::Version { found: 2 })));
    assert!(matches!(read(b"  \n ".to_vec()), Err(InputError::Unknown)));
    assert!(matches!(read(b"plain text".to_vec()), Err(InputError::Unknown)));

    let trace =
        written(&[begin(), Record { ns: 1, event: Event::TriggerStart }], |o| Box::new(TuningFork::new(o)));
    let mut records = input::records(Cursor::new(trace[..trace.len() - 1].to_vec())).unwrap();
    assert!(records.any(|r| matches!(r, Err(InputError::TuningFork(fork::Error::Torn { .. })))));
}

#[test]
fn a_foreign_tuning_fork_trace_shows_its_intervals_points_and_bookmarks() {
    let mut w = fork::Writer::new(Vec::new()).unwrap();
    // Ticks of 10 ns.
    w.properties(&[("Tick Frequency", "100000000")]).unwrap();
    w.add_feedlet(1, &[("name", "main")]).unwrap();
    w.event_types(&[
        fork::EventType::interval_start(1, "GC"),
        fork::EventType::interval_stop(2, "GC"),
        fork::EventType::point(3, "used"),
        fork::EventType::bookmark(4, "b"),
    ])
    .unwrap();
    let none = fork::Attributes::default();
    w.event(1, 1000, 1, &none).unwrap();
    w.event(1, 1005, 2, &none).unwrap();
    w.event(1, 1010, 3, &fork::Attributes { doubles: vec![0.5], ..none.clone() }).unwrap();
    w.event(1, 1020, 4, &fork::Attributes { strings: vec!["here".into()], ..none }).unwrap();
    let records = read(w.finish().unwrap()).unwrap();
    assert_eq!(
        records[1..],
        [
            Record { ns: 50, event: Event::Interval { name: "GC".into(), start_ns: 0 } },
            Record { ns: 100, event: Event::Point { name: "used".into(), value: 0.5 } },
            Record { ns: 200, event: Event::Bookmark { text: "here".into() } },
        ]
    );
}

#[test]
fn verbose_logs_come_as_sums_with_the_numbers_that_they_print() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../verbosegc-samples");
    for name in ["index-openj9.xml", "index-2007.xml"] {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let records: Vec<Record> = input::open(&path).unwrap().collect::<Result<_, _>>().unwrap();
        // Counted in the text, without the reader.
        let sum = |attribute: &str| -> u64 {
            let quoted = format!("{attribute}=\"");
            let values = text.split(&quoted).skip(1).map(|rest| rest.split('"').next().unwrap());
            values.map(|v| v.parse::<u64>().unwrap()).sum()
        };
        let quanta: u64 = records
            .iter()
            .filter_map(|r| match &r.event {
                Event::Heartbeat(h) => Some(h.quanta),
                _ => None,
            })
            .sum();
        let attribute = if name.contains("2007") { "summary quantumcount" } else { "quantumCount" };
        assert_eq!(quanta, sum(attribute), "{name}");
        let cycles = records.iter().filter(|r| matches!(r.event, Event::CycleEnd { .. })).count();
        let tag = if name.contains("2007") { "<gc type=\"cycle end" } else { "<cycle-end " };
        assert_eq!(cycles, text.matches(tag).count(), "{name}");
        assert!(cycles > 0 && quanta > 0, "{name}");
        let Event::Begin(b) = &records[0].event else { panic!("{name}: {:?}", records[0]) };
        assert_eq!((b.target_ppm, b.heap_bytes), (Some(700_000), Some(64 << 20)), "{name}");
        assert!(records.windows(2).all(|p| p[0].ns <= p[1].ns), "{name}: times never go back");
        assert_eq!(records.last().unwrap().event, Event::End, "{name}");
    }
}

#[test]
fn a_log_of_another_collector_is_refused_by_name() {
    let other = "<?xml version=\"1.0\" ?>\n<verbosegc version=\"1\">\n<initialized id=\"1\">\n\
         <attribute name=\"gcPolicy\" value=\"-Xgcpolicy:gencon\" />\n</initialized>\n</verbosegc>\n";
    match read(other.as_bytes().to_vec()) {
        Err(InputError::OtherPolicy(p)) => assert!(p.policy.contains("gencon"), "{p}"),
        other => panic!("{other:?}"),
    }
}

/// The traces that the fuzz target begins with, whole, cut and changed: records or an error, never a panic; and what became
/// records goes into every kind of file.
#[test]
fn damaged_traces_become_records_or_an_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/tuning_fork");
    let files = std::fs::read_dir(folder).unwrap().map(|e| std::fs::read(e.unwrap().path()).unwrap());
    let files: Vec<Vec<u8>> = files.filter(|f| f.starts_with(&fork::MAGIC)).collect();
    assert!(files.len() > 5);
    let mut g = Gen::new(64);
    let mut records_seen = 0;
    for file in files.iter().flat_map(|f| std::iter::repeat_n(f, 60)) {
        let mut bytes = file.clone();
        // Behind the header, which is what tells a trace from other files.
        let at = 20 + usize::arbitrary(&mut g) % bytes.len().saturating_sub(20).max(1);
        match u8::arbitrary(&mut g) % 3 {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << (u8::arbitrary(&mut g) % 8),
            _ => {}
        }
        let Ok(records) = input::records(Cursor::new(bytes)) else { continue };
        let records: Vec<Record> = records.map_while(Result::ok).collect();
        records_seen += records.len();
        written(&records, |out| Box::new(Lines::new(out)));
        serde_json::from_slice::<Value>(&written(&records, |out| Box::new(Chrome::new(out)))).unwrap();
    }
    assert!(records_seen > 100, "{records_seen}");
}
