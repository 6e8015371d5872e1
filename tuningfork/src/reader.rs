//! Reads a trace.

use crate::bytes::Body;
use crate::model::{Attribute, Attributes, Event, EventType, FeedletChange, Item, Property};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Read};

/// The longest body that is believed, in bytes.
const BODY_MAX: usize = 64 << 20;

/// Why a trace cannot be read, or not to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The input failed.
    Input(io::Error),
    /// It does not begin as a trace does.
    NotATrace,
    /// It is of another version.
    Version {
        /// Major version.
        major: i32,
        /// Minor version.
        minor: i32,
    },
    /// It ends within a chunk, as a trace does whose writer died or is still at work.
    Torn {
        /// Where the chunk began, in bytes from the start.
        offset: u64,
    },
    /// What stands where a chunk should begin is none.
    NotAChunk {
        /// Where, in bytes from the start.
        offset: u64,
    },
    /// A chunk does not hold what its type says.
    Malformed {
        /// The chunk's type.
        chunk: i32,
        /// Where, in bytes from the start.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(e) => write!(f, "the trace cannot be read: {e}"),
            Error::NotATrace => {
                f.write_str("this is no Tuning Fork trace: it does not begin with cafefeed 2bad4dfb")
            }
            Error::Version { major, minor } => {
                write!(f, "this trace has version {major}.{minor}; versions 1.x can be read")
            }
            Error::Torn { offset } => {
                write!(
                    f,
                    "the trace ends within the chunk at byte {offset}: its writer died or is still at work"
                )
            }
            Error::NotAChunk { offset } => {
                write!(f, "no chunk begins at byte {offset}: the trace is damaged")
            }
            Error::Malformed { chunk, offset, what } => {
                write!(f, "chunk of type {chunk}, byte {offset}: {what}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Input(e) => Some(e),
            _ => None,
        }
    }
}

/// Streaming reader; an iterator that ends after its first error. It holds one chunk and the event types.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    offset: u64,
    types: BTreeMap<i32, EventType>,
    ready: VecDeque<Item>,
    /// Of a chunk that is well-formed only at its beginning: after what was.
    pending: Option<Error>,
    ended: bool,
}

/// Reads a whole trace.
///
/// # Errors
/// [`Error`]; what was whole before it is lost: use [`Reader`] to keep it.
pub fn read_all(input: impl Read) -> Result<Vec<Item>, Error> {
    Reader::new(input)?.collect()
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`Error::NotATrace`], [`Error::Version`] and those of the input.
    pub fn new(input: R) -> Result<Reader<R>, Error> {
        let mut r = Reader {
            input,
            offset: 0,
            types: BTreeMap::new(),
            ready: VecDeque::new(),
            pending: None,
            ended: false,
        };
        let header = r.bytes(20)?;
        if header.len() < 20 {
            return Err(Error::NotATrace);
        }
        let mut body = Body::new(&header, 0, 0);
        let mut word = || body.i32().map_err(|_| Error::NotATrace);
        if (word()?.cast_unsigned(), word()?.cast_unsigned()) != (0xcafe_feed, 0x2bad_4dfb) {
            return Err(Error::NotATrace);
        }
        match (word()?, word()?) {
            (1, _) => Ok(r),
            (major, minor) => Err(Error::Version { major, minor }),
        }
    }

    /// Up to `n` bytes; fewer at the end of the input.
    fn bytes(&mut self, n: usize) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        self.input.by_ref().take(n as u64).read_to_end(&mut out).map_err(Error::Input)?;
        self.offset += out.len() as u64;
        Ok(out)
    }

    /// The next item.
    ///
    /// # Errors
    /// [`Error`]; nothing follows it.
    pub fn read(&mut self) -> Result<Option<Item>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.ended {
                return self.pending.take().map_or(Ok(None), Err);
            }
            match self.chunk() {
                Ok(true) => {}
                Ok(false) => self.ended = true,
                Err(e) => (self.ended, self.pending) = (true, Some(e)),
            }
        }
    }

    /// Reads a chunk; whether there was one.
    fn chunk(&mut self) -> Result<bool, Error> {
        let start = self.offset;
        let head = self.bytes(16)?;
        if head.is_empty() {
            return Ok(false);
        }
        let torn = Error::Torn { offset: start };
        if head.len() < 16 {
            return Err(torn);
        }
        let mut words = Body::new(&head, 0, start);
        let magic = (words.i32()?.cast_unsigned(), words.i32()?.cast_unsigned());
        let (len, kind) = (words.i32()?, words.i32()?);
        let len = usize::try_from(len).ok().filter(|n| *n <= BODY_MAX);
        let (Some(len), (0xdead_beef, 0xcafe_babe)) = (len, magic) else {
            return Err(Error::NotAChunk { offset: start });
        };
        let at = self.offset;
        let bytes = self.bytes(len)?;
        if bytes.len() < len {
            return Err(torn);
        }
        let mut body = Body::new(&bytes, kind, at);
        match kind {
            1 => self.properties(&mut body)?,
            2 => self.feedlets(&mut body)?,
            3 => {
                let name = body.string()?;
                self.ready.push_back(Item::Space { name, version: body.i32()? });
            }
            4 => self.event_types(&mut body)?,
            5 => return self.events(&mut body).map(|()| true),
            6 => {
                for _ in 0..body.count(8)? {
                    let index = body.i32()?;
                    self.ready.push_back(Item::String { index, text: body.string()? });
                }
            }
            chunk => {
                self.ready.push_back(Item::Unknown { chunk, bytes: len });
                return Ok(true);
            }
        }
        // INV-FORK-CHUNK
        if body.is_empty() {
            Ok(true)
        } else {
            Err(body.error("there is more in the chunk than its records"))
        }
    }

    fn properties(&mut self, body: &mut Body<'_>) -> Result<(), Error> {
        for _ in 0..body.count(8)? {
            let key = body.string()?;
            self.ready.push_back(Item::Property(Property { key, value: body.string()? }));
        }
        Ok(())
    }

    fn feedlets(&mut self, body: &mut Body<'_>) -> Result<(), Error> {
        for _ in 0..body.count(8)? {
            let (op, index) = (body.i32()?, body.i32()?);
            self.ready.push_back(Item::Feedlet(match op {
                1 => FeedletChange::Add { index },
                2 => FeedletChange::Remove { index },
                3 => FeedletChange::Describe { index, key: body.string()?, value: body.string()? },
                _ => return Err(body.error("an operation on feedlets is none of 1, 2, 3")),
            }));
        }
        Ok(())
    }

    fn event_types(&mut self, body: &mut Body<'_>) -> Result<(), Error> {
        for _ in 0..body.count(28)? {
            let (id, name, description) = (body.i32()?, body.string()?, body.string()?);
            let mut counts = [0; 4];
            for n in &mut counts {
                *n = body.count(8)?;
            }
            let mut list = |n: usize| -> Result<Vec<Attribute>, Error> {
                (0..n).map(|_| Ok(Attribute { name: body.string()?, description: body.string()? })).collect()
            };
            let t = EventType {
                id,
                name,
                description,
                ints: list(counts[0])?,
                longs: list(counts[1])?,
                doubles: list(counts[2])?,
                strings: list(counts[3])?,
            };
            self.types.insert(id, t.clone());
            self.ready.push_back(Item::EventType(t));
        }
        Ok(())
    }

    fn events(&mut self, body: &mut Body<'_>) -> Result<(), Error> {
        let (feedlet, sequence) = (body.i32()?, body.i32()?);
        while !body.is_empty() {
            let (time, type_id) = (body.i64()?, body.i32()?);
            // INV-FORK-DECLARED: without it nobody knows how long the event is.
            let t = self
                .types
                .get(&type_id)
                .ok_or_else(|| body.error("an event is of a type that was not declared"))?;
            let attributes = Attributes {
                ints: t.ints.iter().map(|_| body.i32()).collect::<Result<_, _>>()?,
                longs: t.longs.iter().map(|_| body.i64()).collect::<Result<_, _>>()?,
                doubles: t.doubles.iter().map(|_| body.f64()).collect::<Result<_, _>>()?,
                strings: t.strings.iter().map(|_| body.string()).collect::<Result<_, _>>()?,
            };
            self.ready.push_back(Item::Event(Event { feedlet, sequence, time, type_id, attributes }));
        }
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
