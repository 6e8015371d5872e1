//! Writes a trace.

use crate::bytes::{put_i32, put_len, put_string};
use crate::model::{Attribute, Attributes, EventType, GENERIC_SPACE};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Bytes of a feedlet's events that make a chunk.
pub const FLUSH_BYTES: usize = 64 << 10;

/// Strings and attributes of an event at most, so that a record fits the largest chunk that readers take.
const ATTRIBUTES_MAX: usize = 64;

/// Writer of a trace. Events wait in a buffer for each feedlet until it holds [`FLUSH_BYTES`], or until
/// [`flush`](Writer::flush); everything else is written at once.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    types: BTreeMap<i32, EventType>,
    feedlets: BTreeMap<i32, Feedlet>,
}

#[derive(Debug, Default)]
struct Feedlet {
    sequence: i32,
    events: Vec<u8>,
}

fn refuse(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

impl<W: io::Write> Writer<W> {
    /// Begins a trace of generic events.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(out: W) -> io::Result<Writer<W>> {
        Writer::in_space(out, GENERIC_SPACE.0, GENERIC_SPACE.1)
    }

    /// Begins a trace whose event types belong to another space.
    ///
    /// # Errors
    /// Those of the output.
    pub fn in_space(out: W, name: &str, version: i32) -> io::Result<Writer<W>> {
        let mut w = Writer { out, types: BTreeMap::new(), feedlets: BTreeMap::new() };
        let mut header = crate::MAGIC.to_vec();
        header.extend(0x2bad_4dfbu32.to_be_bytes());
        for n in [1, 4, 0] {
            put_i32(&mut header, n);
        }
        w.out.write_all(&header)?;
        let mut body = Vec::new();
        put_string(&mut body, name);
        put_i32(&mut body, version);
        w.chunk(3, &body)?;
        Ok(w)
    }

    fn chunk(&mut self, kind: i32, body: &[u8]) -> io::Result<()> {
        let len = i32::try_from(body.len())
            .map_err(|_| refuse(format!("a chunk of {} bytes is too long", body.len())))?;
        let mut all = 0xdead_beefu32.to_be_bytes().to_vec();
        all.extend(0xcafe_babeu32.to_be_bytes());
        put_i32(&mut all, len);
        put_i32(&mut all, kind);
        all.extend_from_slice(body);
        // One write: a reader of a socket sees whole chunks.
        self.out.write_all(&all)
    }

    /// Properties of the trace, such as `Tick Frequency`.
    ///
    /// # Errors
    /// Those of the output.
    pub fn properties(&mut self, all: &[(impl AsRef<str>, impl AsRef<str>)]) -> io::Result<()> {
        let mut body = Vec::new();
        put_len(&mut body, all.len());
        for (key, value) in all {
            put_string(&mut body, key.as_ref());
            put_string(&mut body, value.as_ref());
        }
        self.chunk(1, &body)
    }

    /// A feedlet begins; `about` has its `name`, `description` and `tid` as far as they are known.
    ///
    /// # Errors
    /// Those of the output, and for an index that is in use.
    pub fn add_feedlet(&mut self, index: i32, about: &[(&str, &str)]) -> io::Result<()> {
        if self.feedlets.contains_key(&index) {
            return Err(refuse(format!("feedlet {index} has begun already")));
        }
        let mut body = Vec::new();
        put_len(&mut body, 1 + about.len());
        put_i32(&mut body, 1);
        put_i32(&mut body, index);
        for (key, value) in about {
            put_i32(&mut body, 3);
            put_i32(&mut body, index);
            put_string(&mut body, key);
            put_string(&mut body, value);
        }
        self.chunk(2, &body)?;
        self.feedlets.insert(index, Feedlet::default());
        Ok(())
    }

    /// A feedlet ends: its events are written out.
    ///
    /// # Errors
    /// Those of the output, and for a feedlet that has not begun.
    pub fn remove_feedlet(&mut self, index: i32) -> io::Result<()> {
        self.flush_one(index)?;
        self.feedlets.remove(&index).ok_or_else(|| refuse(format!("feedlet {index} has not begun")))?;
        let mut body = Vec::new();
        for n in [1, 2, index] {
            put_i32(&mut body, n);
        }
        self.chunk(2, &body)
    }

    /// Declares event types, before the first event of each.
    ///
    /// # Errors
    /// Those of the output, and for a number that has another meaning already.
    pub fn event_types(&mut self, all: &[EventType]) -> io::Result<()> {
        let mut body = Vec::new();
        put_len(&mut body, all.len());
        let mut seen = BTreeSet::new();
        for t in all {
            if !seen.insert(t.id) || self.types.contains_key(&t.id) {
                return Err(refuse(format!("event type {} is declared twice", t.id)));
            }
            let lists = [&t.ints, &t.longs, &t.doubles, &t.strings];
            if lists.iter().any(|l| l.len() > ATTRIBUTES_MAX) {
                return Err(refuse(format!("event type {} has more than {ATTRIBUTES_MAX} attributes", t.id)));
            }
            put_i32(&mut body, t.id);
            put_string(&mut body, &t.name);
            put_string(&mut body, &t.description);
            lists.iter().for_each(|l| put_len(&mut body, l.len()));
            for Attribute { name, description } in lists.into_iter().flatten() {
                put_string(&mut body, name);
                put_string(&mut body, description);
            }
        }
        self.chunk(4, &body)?;
        self.types.extend(all.iter().map(|t| (t.id, t.clone())));
        Ok(())
    }

    /// Entries of the string table.
    ///
    /// # Errors
    /// Those of the output.
    pub fn strings(&mut self, all: &[(i32, &str)]) -> io::Result<()> {
        let mut body = Vec::new();
        put_len(&mut body, all.len());
        for (index, text) in all {
            put_i32(&mut body, *index);
            put_string(&mut body, text);
        }
        self.chunk(6, &body)
    }

    /// An event of `feedlet` at `time`. Its times should not go back within a feedlet.
    ///
    /// # Errors
    /// Those of the output; and (INV-FORK-DECLARED) for a feedlet that has not begun, a type that was not declared, or
    /// attributes that are not those of the type. Nothing is written then.
    pub fn event(&mut self, feedlet: i32, time: i64, type_id: i32, a: &Attributes) -> io::Result<()> {
        let fits = self.types.get(&type_id).map(|t| t.fits(a));
        let f = self
            .feedlets
            .get_mut(&feedlet)
            .ok_or_else(|| refuse(format!("feedlet {feedlet} has not begun")))?;
        match fits {
            None => return Err(refuse(format!("event type {type_id} was not declared"))),
            Some(false) => {
                return Err(refuse(format!("an event has other attributes than its type {type_id}")));
            }
            Some(true) => {}
        }
        let out = &mut f.events;
        out.extend_from_slice(&time.to_be_bytes());
        put_i32(out, type_id);
        a.ints.iter().for_each(|v| put_i32(out, *v));
        a.longs.iter().for_each(|v| out.extend_from_slice(&v.to_be_bytes()));
        a.doubles.iter().for_each(|v| out.extend_from_slice(&v.to_be_bytes()));
        a.strings.iter().for_each(|v| put_string(out, v));
        if out.len() >= FLUSH_BYTES { self.flush_one(feedlet) } else { Ok(()) }
    }

    fn flush_one(&mut self, index: i32) -> io::Result<()> {
        let Some(f) = self.feedlets.get_mut(&index).filter(|f| !f.events.is_empty()) else { return Ok(()) };
        let mut body = Vec::with_capacity(8 + f.events.len());
        put_i32(&mut body, index);
        put_i32(&mut body, f.sequence);
        // Before the output can fail: what could not be written is lost, and the numbers show it.
        body.append(&mut f.events);
        f.sequence = f.sequence.wrapping_add(1);
        self.chunk(5, &body)
    }

    /// Writes out all events that wait.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        let all: Vec<i32> = self.feedlets.keys().copied().collect();
        all.into_iter().try_for_each(|i| self.flush_one(i))?;
        self.out.flush()
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }
}
