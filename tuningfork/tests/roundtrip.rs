//! Random traces come back as they were written; cut or damaged ones never panic and lose nothing before the damage.

use metronome_tuningfork::{Attribute, Attributes, Error, Event, EventType, Item, Reader, Writer, read_all};
use quickcheck::{Arbitrary, Gen, quickcheck};

/// Types, and events by index of a type, feedlet and attributes that fit it.
#[derive(Clone, Debug)]
struct Trace {
    types: Vec<EventType>,
    events: Vec<(i32, i64, i32, Attributes)>,
}

const FEEDLETS: i32 = 3;

fn some<T: Arbitrary>(g: &mut Gen, most: usize) -> Vec<T> {
    (0..usize::arbitrary(g) % (most + 1)).map(|_| T::arbitrary(g)).collect()
}

impl Arbitrary for Trace {
    fn arbitrary(g: &mut Gen) -> Trace {
        let list = |g: &mut Gen| -> Vec<Attribute> {
            let names: Vec<(String, String)> = some(g, 3);
            names.into_iter().map(|(name, description)| Attribute { name, description }).collect()
        };
        let types: Vec<EventType> = (0..1 + i32::arbitrary(g).rem_euclid(4))
            .map(|i| EventType {
                id: i * 7 - 3,
                name: String::arbitrary(g),
                description: String::arbitrary(g),
                ints: list(g),
                longs: list(g),
                doubles: list(g),
                strings: list(g),
            })
            .collect();
        let count = usize::arbitrary(g) % 200;
        let events = (0..count)
            .map(|_| {
                let t = &types[usize::arbitrary(g) % types.len()];
                let a = Attributes {
                    ints: t.ints.iter().map(|_| i32::arbitrary(g)).collect(),
                    longs: t.longs.iter().map(|_| i64::arbitrary(g)).collect(),
                    // Comparable ones.
                    doubles: t.doubles.iter().map(|_| f64::from(i32::arbitrary(g)) / 8.0).collect(),
                    strings: t.strings.iter().map(|_| String::arbitrary(g)).collect(),
                };
                (i32::arbitrary(g).rem_euclid(FEEDLETS), i64::arbitrary(g), t.id, a)
            })
            .collect();
        Trace { types, events }
    }
}

impl Trace {
    fn write(&self) -> Vec<u8> {
        let mut w = Writer::new(Vec::new()).unwrap();
        for f in 0..FEEDLETS {
            w.add_feedlet(f, &[("name", "f")]).unwrap();
        }
        w.event_types(&self.types).unwrap();
        for (i, (f, time, t, a)) in self.events.iter().enumerate() {
            w.event(*f, *time, *t, a).unwrap();
            // Several chunks for each feedlet.
            if i % 50 == 49 {
                w.flush().unwrap();
            }
        }
        w.finish().unwrap()
    }

    /// A feedlet's events, without their chunks' numbers.
    fn of(&self, feedlet: i32) -> Vec<(i64, i32, Attributes)> {
        let own = self.events.iter().filter(|e| e.0 == feedlet);
        own.map(|(_, time, t, a)| (*time, *t, a.clone())).collect()
    }
}

fn events(items: &[Item]) -> Vec<&Event> {
    items
        .iter()
        .filter_map(|i| match i {
            Item::Event(e) => Some(e),
            _ => None,
        })
        .collect()
}

/// What can be read before the first error.
fn prefix(bytes: &[u8]) -> (Vec<Item>, Option<Error>) {
    match Reader::new(bytes) {
        Err(e) => (Vec::new(), Some(e)),
        Ok(mut r) => {
            let mut items = Vec::new();
            loop {
                match r.read() {
                    Ok(Some(item)) => items.push(item),
                    Ok(None) => return (items, None),
                    Err(e) => {
                        assert!(r.read().unwrap().is_none(), "nothing follows an error");
                        return (items, Some(e));
                    }
                }
            }
        }
    }
}

quickcheck! {
    fn what_was_written_is_read(trace: Trace) -> bool {
        let items = read_all(&trace.write()[..]).unwrap();
        let types: Vec<&EventType> = items.iter().filter_map(|i| match i { Item::EventType(t) => Some(t), _ => None }).collect();
        let events = events(&items);
        types == trace.types.iter().collect::<Vec<_>>()
            && events.len() == trace.events.len()
            && (0..FEEDLETS).all(|f| {
                let own: Vec<&&Event> = events.iter().filter(|e| e.feedlet == f).collect();
                let numbers: Vec<i32> = own.iter().map(|e| e.sequence).collect();
                // Chunks are numbered from 0 without gaps.
                let steps = numbers.windows(2).all(|p| p[1] == p[0] || p[1] == p[0] + 1);
                steps && numbers.first().is_none_or(|n| *n == 0)
                    && own.iter().map(|e| (e.time, e.type_id, e.attributes.clone())).collect::<Vec<_>>() == trace.of(f)
            })
    }

    fn a_cut_trace_gives_what_is_whole_and_says_that_it_is_torn(trace: Trace, at: usize) -> bool {
        let bytes = trace.write();
        let (whole, none) = prefix(&bytes);
        assert!(none.is_none());
        let at = at % bytes.len();
        let (items, error) = prefix(&bytes[..at]);
        // Between two chunks nothing tells that more was to come.
        let fine = match error {
            None => at >= 20,
            Some(Error::NotATrace) => at < 20,
            Some(Error::Torn { offset }) => offset < at as u64,
            Some(_) => false,
        };
        fine && whole.starts_with(&items)
    }

    fn damage_never_panics(trace: Trace, at: usize, byte: u8) -> bool {
        let mut bytes = trace.write();
        let at = at % bytes.len();
        bytes[at] = byte;
        let (items, _) = prefix(&bytes);
        // Each item takes some bytes: nothing is made up.
        items.len() <= bytes.len()
    }

    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) -> bool {
        let mut all = Writer::new(Vec::new()).unwrap().finish().unwrap();
        all.extend(&bytes);
        prefix(&all).0.len() <= all.len()
    }
}
