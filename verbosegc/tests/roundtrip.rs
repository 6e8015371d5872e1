//! What was written is what is read, in both forms (INV-LOG-ONCE, INV-LOG-WELLFORMED).

mod common;
#[path = "common/oracle.rs"]
mod oracle;

use common::{Fact, Script, Seen, feed, write};
use metronome_verbosegc::model::*;
use metronome_verbosegc::reader::{DiagnosticKind, Log, read_log};
use metronome_verbosegc::writer::*;
use oracle::Oracle;
use quickcheck::{Arbitrary, Gen, QuickCheck, TestResult};
use std::io;

fn seen(log: &Log) -> Vec<Seen> {
    let events = log.runs.iter().flat_map(|r| &r.events);
    events
        .map(|e| {
            assert!(!e.partial, "{e:?}");
            Seen {
                id: e.id,
                context: e.context_id,
                time: e.timestamp,
                clock_error: e.clock_error,
                event: e.event.clone(),
            }
        })
        .collect()
}

fn round_trip(script: Script) -> TestResult {
    let text = write(&script);
    if let Err(e) = roxmltree::Document::parse(&text) {
        return TestResult::error(format!("{e}\n{text}"));
    }
    let log = read_log(text.as_bytes()).unwrap();
    let (got, want) = (seen(&log), Oracle::run(&script));
    if let Some(i) = (0..got.len().max(want.len())).find(|i| got.get(*i) != want.get(*i)) {
        return TestResult::error(format!("{i}:\n got {:?}\nwant {:?}\n{text}", got.get(i), want.get(i)));
    }
    // Random scripts pair nothing, and some clocks go back; anything else would be a fault of ours.
    let allowed = [DiagnosticKind::Order, DiagnosticKind::Clock];
    if let Some(d) = log.diagnostics.iter().find(|d| !allowed.contains(&d.kind)) {
        return TestResult::error(format!("{d}\n{text}"));
    }
    let runs = (log.runs.len(), log.complete, log.generation, log.runs[0].refused.is_some());
    TestResult::from_bool(runs == (1, true, Some(script.format), false))
}

#[test]
fn random_facts_come_back() {
    QuickCheck::new().tests(600).quickcheck(round_trip as fn(Script) -> TestResult);
}

/// Every quantum is in exactly one heartbeat, whatever the rules of flushing do.
#[test]
fn no_quantum_is_lost_or_written_twice() {
    fn counts(script: Script) -> bool {
        fed(&script) == counted(&write(&script))
    }
    QuickCheck::new().tests(200).quickcheck(counts as fn(Script) -> bool);
}

/// Quanta in a script.
fn fed(script: &Script) -> u64 {
    script.facts.iter().filter(|f| matches!(f, Fact::Quantum(_))).count() as u64
}

/// Quanta in the heartbeats of a log.
fn counted(text: &str) -> u64 {
    let log = read_log(text.as_bytes()).unwrap();
    log.runs[0]
        .events
        .iter()
        .filter_map(|e| if let Event::Heartbeat(h) = &e.event { h.quantum_count } else { None })
        .sum()
}

/// The oracles bite: on a quantum that a writer loses or repeats, and on a text that is not well-formed.
#[test]
fn a_quantum_lost_or_repeated_and_a_torn_end_are_found() {
    let mut seen = 0;
    for seed in 0..20 {
        let script = Script::arbitrary(&mut Gen::from_size_and_seed(100, seed));
        let text = write(&script);
        let end = text.trim_end().strip_suffix('>').unwrap();
        assert!(roxmltree::Document::parse(&text).is_ok() && roxmltree::Document::parse(end).is_err());
        let Some(at) = script.facts.iter().position(|f| matches!(f, Fact::Quantum(_))) else { continue };
        let (mut lost, mut repeated) = (script.clone(), script.clone());
        lost.facts.remove(at);
        repeated.facts.insert(at, script.facts[at].clone());
        assert_eq!(counted(&text), fed(&script));
        assert_ne!(counted(&write(&lost)), fed(&script));
        assert_ne!(counted(&write(&repeated)), fed(&script));
        seen += 1;
    }
    assert!(seen > 10);
}

/// An output that takes a few bytes at a time and fails once after `budget` bytes.
#[derive(Debug)]
struct Failing {
    text: Vec<u8>,
    budget: usize,
    failed: bool,
}

impl io::Write for Failing {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if !self.failed && self.budget == 0 {
            self.failed = true;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let left = if self.failed { buf.len() } else { self.budget };
        let n = buf.len().min(left).min(7);
        self.text.extend_from_slice(&buf[..n]);
        self.budget -= n.min(self.budget);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Without what the reader derives from the event before, which may be lost.
fn timeless(event: &Event) -> Event {
    let mut event = event.clone();
    if let Event::Heartbeat(h) = &mut event {
        h.derived_interval_ns = None;
    }
    event
}

fn sample(format: Format) -> Script {
    // A fixed mix of everything.
    let mut g = quickcheck::Gen::from_size_and_seed(20, 7);
    loop {
        let s = <Script as quickcheck::Arbitrary>::arbitrary(&mut g);
        if s.format == format && s.header.is_some() && (16..24).contains(&s.facts.len()) {
            return s;
        }
    }
}

#[test]
fn an_output_that_fails_anywhere_repeats_nothing_and_says_what_was_lost() {
    for format in [Format::V2007, Format::OpenJ9] {
        let script = sample(format);
        let whole = write(&script);
        let intact = read_log(whole.as_bytes()).unwrap();
        let intact: Vec<&LoggedEvent> = intact.runs.iter().flat_map(|r| &r.events).collect();
        for budget in (0..whole.len()).step_by(11) {
            let out = Failing { text: Vec::new(), budget, failed: false };
            let mut w = LogWriter::new(out, script.format, script.options.clone());
            let (ns, facts) = script.header.as_ref().unwrap();
            let mut errors = usize::from(w.initialized(*ns, facts).is_err());
            for fact in &script.facts {
                errors += usize::from(feed(&mut w, fact).is_err());
            }
            // A failure of the end itself leaves no writer to go on with; a note before it is always written.
            let in_end = errors == 0;
            let note = w.note(*ns, &Note { text: "last".into() });
            assert!(note.is_ok() || in_end);
            let out = w.into_inner();
            let text = String::from_utf8_lossy(&out.text);
            assert!(
                text.lines().filter(|l| l.contains("<metronome-output-lost")).all(|l| l.starts_with('<'))
            );
            let log = read_log(&out.text[..]).unwrap();
            let mut whole_events = Vec::new();
            let mut lost = 0;
            for e in log.runs.iter().flat_map(|r| &r.events) {
                match &e.event {
                    Event::OutputLost(l) => lost += l.elements as usize,
                    _ if !e.partial => whole_events.push(e),
                    _ => {}
                }
            }
            if in_end {
                continue;
            }
            let note = whole_events.pop().unwrap();
            assert_eq!(note.event, Event::Note(Note { text: "last".into() }));
            assert!(lost > 0, "{budget}");
            // Quanta still pending are not in this log, so its end may be missing from the intact one.
            let mut rest = intact.iter();
            for e in &whole_events {
                assert!(
                    rest.any(|i| i.id == e.id && timeless(&i.event) == timeless(&e.event)),
                    "{budget}: {e:?} repeated or changed"
                );
            }
            assert!(whole_events.len() + lost + 1 >= intact.len(), "{budget}");
        }
    }
}
