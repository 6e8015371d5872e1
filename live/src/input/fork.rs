//! A Tuning Fork trace: this project's own, whose records come back whole, or any other one as far as its generic events
//! tell.

use super::InputError;
use crate::model::{Begin, Event, Record};
use crate::sink;
use metronome_tuningfork as fork;
use std::collections::BTreeMap;
use std::io::Read;

/// What an event type means.
enum Meaning {
    Quantum,
    Record,
    Start(String),
    Stop(String),
    Point(String),
    Bookmark,
    Nothing,
}

fn meaning(t: &fork::EventType) -> Meaning {
    let name = t.name.strip_prefix("Feedlet ").unwrap_or(&t.name);
    let rest = |prefix: &str| name.strip_prefix(prefix).map(str::to_owned);
    match name {
        sink::QUANTUM => Meaning::Quantum,
        sink::RECORD => Meaning::Record,
        _ => rest("Interval Start: ")
            .map(Meaning::Start)
            .or_else(|| rest("Interval Stop: ").map(Meaning::Stop))
            .or_else(|| rest("Point: ").map(Meaning::Point))
            .or_else(|| rest("Bookmark: ").map(|_| Meaning::Bookmark))
            .unwrap_or(Meaning::Nothing),
    }
}

/// Collects the events of a trace.
#[derive(Default)]
struct Collected {
    meanings: BTreeMap<i32, Meaning>,
    /// Whole records, by number.
    own: Vec<(i32, Record)>,
    /// What the generic events tell.
    generic: Vec<Record>,
    open: BTreeMap<(i32, String), u64>,
    source: Option<String>,
    frequency: Option<f64>,
    first: Option<i64>,
}

impl Collected {
    fn take(&mut self, item: fork::Item) {
        match item {
            fork::Item::Property(p) if p.key == "Source" => self.source = Some(p.value),
            fork::Item::Property(p) if p.key == "Tick Frequency" => {
                self.frequency = p.value.trim().parse().ok().filter(|f| *f > 0.0);
            }
            fork::Item::EventType(t) => {
                self.meanings.insert(t.id, meaning(&t));
            }
            fork::Item::Event(e) => self.event(e),
            _ => {}
        }
    }

    fn event(&mut self, e: fork::Event) {
        let first = *self.first.get_or_insert(e.time);
        let ticks = e.time.saturating_sub(first).max(0).cast_unsigned();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "another clock's ticks, for a picture"
        )]
        let ns = match self.frequency {
            Some(f) if f != 1e9 => (ticks as f64 * (1e9 / f)) as u64,
            _ => ticks,
        };
        let number = e.attributes.ints.first().copied().unwrap_or(0);
        match self.meanings.get(&e.type_id) {
            Some(Meaning::Quantum) => {
                if let Some(q) = sink::quantum(&e.attributes) {
                    self.own.push((number, Record { ns: q.end_ns, event: Event::Quantum(q) }));
                }
            }
            Some(Meaning::Record) => {
                let text = e.attributes.strings.first().map_or("", String::as_str);
                let unreadable = |e: serde_json::Error| Record {
                    ns,
                    event: Event::Note { text: format!("a record of the trace cannot be read: {e}") },
                };
                self.own.push((number, serde_json::from_str(text).unwrap_or_else(unreadable)));
            }
            Some(Meaning::Start(name)) => {
                self.open.insert((e.feedlet, name.clone()), ns);
            }
            Some(Meaning::Stop(name)) => {
                if let Some(start_ns) = self.open.remove(&(e.feedlet, name.clone())) {
                    let event = Event::Interval { name: name.clone(), start_ns };
                    self.generic.push(Record { ns, event });
                }
            }
            Some(Meaning::Point(name)) => {
                if let Some(value) = e.attributes.doubles.first() {
                    let event = Event::Point { name: name.clone(), value: *value };
                    self.generic.push(Record { ns, event });
                }
            }
            Some(Meaning::Bookmark) => {
                let text = e.attributes.strings.into_iter().next().unwrap_or_default();
                self.generic.push(Record { ns, event: Event::Bookmark { text } });
            }
            Some(Meaning::Nothing) | None => {}
        }
    }

    fn records(mut self) -> Vec<Record> {
        if !self.own.is_empty() {
            self.own.sort_by_key(|(number, _)| *number);
            return self.own.into_iter().map(|(_, r)| r).collect();
        }
        self.generic.sort_by_key(|r| r.ns);
        let source = self.source.unwrap_or_else(|| "Tuning Fork trace".into());
        let begin = Event::Begin(Begin { source, version: crate::model::VERSION, ..Begin::default() });
        let mut all = vec![Record { ns: 0, event: begin }];
        all.append(&mut self.generic);
        all
    }
}

/// Reads all of a trace. What a tear or damage leaves is given, and then the error.
pub(super) fn records(input: impl Read + Send + 'static) -> Result<super::Records, InputError> {
    let mut reader = fork::Reader::new(input).map_err(InputError::TuningFork)?;
    let mut all = Collected::default();
    let error = loop {
        match reader.read() {
            Ok(Some(item)) => all.take(item),
            Ok(None) => break None,
            Err(fork::Error::Input(e)) => return Err(InputError::Read(e)),
            Err(e) => break Some(Err(InputError::TuningFork(e))),
        }
    };
    let own = !all.own.is_empty();
    let records = all.records();
    let ended = records.last().is_some_and(|r| matches!(r.event, Event::End | Event::BreakOff));
    let breaks_off = Err(InputError::BreaksOff { line: records.len() as u64 });
    let end = Some(breaks_off).filter(|_| own && !ended && error.is_none());
    Ok(Box::new(records.into_iter().map(Ok).chain(error).chain(end)))
}
