//! Any bytes as a Tuning Fork trace, read whole and in small pieces: no panic, the same items and the same error, no more
//! items than bytes can hold. What was read can be written and read back.

use metronome_tuningfork::{Event, EventType, Item, Reader, Writer, read_all};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

/// Bytes of the shortest item, an unknown chunk apart: a property of two empty strings.
const ITEM_MIN: usize = 8;

/// An input that gives a few bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(buffer.len());
        self.0.read(&mut buffer[..n])
    }
}

/// The items before the end or the first error, and that error in words.
fn items(input: impl Read) -> (Vec<Item>, Option<String>) {
    let mut out = Vec::new();
    let reader = match Reader::new(input) {
        Ok(reader) => reader,
        Err(e) => return (out, Some(e.to_string())),
    };
    for item in reader {
        match item {
            Ok(item) => out.push(item),
            Err(e) => return (out, Some(e.to_string())),
        }
    }
    (out, None)
}

/// A number that is none is equal to itself here.
fn bits(e: &Event) -> impl PartialEq + std::fmt::Debug + use<> {
    let a = &e.attributes;
    let doubles: Vec<u64> = a.doubles.iter().map(|d| d.to_bits()).collect();
    (e.feedlet, e.time, e.type_id, a.ints.clone(), a.longs.clone(), doubles, a.strings.clone())
}

fn events(items: &[Item]) -> impl Iterator<Item = &Event> {
    items.iter().filter_map(|item| match item {
        Item::Event(e) => Some(e),
        _ => None,
    })
}

pub(crate) fn run(data: &[u8]) {
    let (whole, error) = items(data);
    let piece = 1 + data.first().map_or(0, |&b| usize::from(b) % 17);
    let (pieces, pieces_error) = items(Pieces(data, piece));
    // By their words: numbers that are none are not equal to themselves.
    assert_eq!(
        (format!("{whole:?}"), &error),
        (format!("{pieces:?}"), &pieces_error),
        "read in pieces of {piece}"
    );
    assert!(whole.len() <= data.len() / ITEM_MIN, "{} items in {} bytes", whole.len(), data.len());
    assert_eq!(read_all(data).is_ok(), error.is_none());
    assert!(error.is_none_or(|e| !e.trim().is_empty()));
    written_back(&whole);
}

fn written_back(items: &[Item]) {
    let mut types: BTreeMap<i32, &EventType> = BTreeMap::new();
    let mut w = Writer::new(Vec::new()).expect("memory can be written");
    let mut feedlets = BTreeSet::new();
    for item in items {
        match item {
            Item::Property(p) => w.properties(&[(&p.key, &p.value)]).expect("a property that was read fits"),
            Item::String { index, text } => {
                w.strings(&[(*index, text)]).expect("a string that was read fits")
            }
            Item::EventType(t) => {
                if types.insert(t.id, t).is_some() {
                    // A reader takes the later one of two; a writer refuses it.
                    return assert!(w.event_types(std::slice::from_ref(t)).is_err());
                }
                w.event_types(std::slice::from_ref(t)).expect("a type that was read fits");
            }
            Item::Event(e) => {
                if feedlets.insert(e.feedlet) {
                    w.add_feedlet(e.feedlet, &[]).expect("it has not begun");
                }
                assert!(types[&e.type_id].fits(&e.attributes));
                w.event(e.feedlet, e.time, e.type_id, &e.attributes).expect("an event that was read fits");
            }
            _ => {}
        }
    }
    let again =
        read_all(&w.finish().expect("memory can be written")[..]).expect("what was written is a trace");
    // Chunks of events are written feedlet by feedlet: the order is kept within each.
    for feedlet in feedlets {
        let of =
            |items: &[Item]| -> Vec<_> { events(items).filter(|e| e.feedlet == feedlet).map(bits).collect() };
        assert_eq!(of(&again), of(items), "events of feedlet {feedlet}");
    }
    let rest = |items: &[Item]| -> Vec<Item> {
        let kept = |i: &&Item| matches!(i, Item::Property(_) | Item::String { .. } | Item::EventType(_));
        items.iter().filter(kept).cloned().collect()
    };
    assert_eq!(rest(&again), rest(items));
}
