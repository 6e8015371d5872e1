//! Reads recordings, Tuning Fork traces and verbose GC logs as one kind of records.

mod fork;
mod lines;
mod log;

use crate::model::{Event, Record};
use metronome_verbosegc::files::decompressed;
use metronome_verbosegc::reader::OtherPolicy;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The byte-order mark that editors put before UTF-8.
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// How the lines of a recording begin, after that of another one.
const RECORD: &[u8] = b"\n{\"ns\":";

/// Records in order. Ends after an error, unless that [goes on](InputError::goes_on).
pub type Records = Box<dyn Iterator<Item = Result<Record, InputError>> + Send>;

/// Why a file cannot be read, or not to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum InputError {
    /// The file cannot be opened.
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Reading it failed.
    Read(io::Error),
    /// It is a log of another collector.
    OtherPolicy(OtherPolicy),
    /// It is a Tuning Fork trace that cannot be read (on).
    TuningFork(metronome_tuningfork::Error),
    /// Lines of a recording, one after the other, are no records.
    Line {
        /// The first one, from 1.
        line: u64,
        /// How many.
        count: u64,
        /// Why the first one is none.
        source: serde_json::Error,
        /// No line at all is a record: then it is no recording.
        foreign: bool,
    },
    /// A recording or trace has no end: its writer died or is still at work.
    BreaksOff {
        /// The last line or record, from 1.
        line: u64,
    },
    /// A recording of a later version.
    Version {
        /// Its version.
        found: u32,
    },
    /// It is none of these kinds of file.
    Unknown,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputError::Open { path, source } => write!(f, "cannot open {}: {source}", path.display()),
            InputError::Read(e) => write!(f, "reading failed: {e}"),
            InputError::OtherPolicy(p) => p.fmt(f),
            InputError::TuningFork(e) => e.fmt(f),
            InputError::Line { line, count: 1, source, .. } => {
                write!(f, "line {line} of the recording is no record: {source}")
            }
            InputError::Line { line, count, source, .. } => {
                write!(f, "{count} lines of the recording from line {line} on are no records: {source}")
            }
            InputError::BreaksOff { line } => write!(
                f,
                "the recording breaks off after line {line}: its writer died or is still at work; what came before is used"
            ),
            InputError::Version { found } => write!(
                f,
                "the recording has version {found}, this program knows up to {}: use a later one",
                crate::model::VERSION
            ),
            InputError::Unknown => f.write_str(
                "this is no recording, no Tuning Fork trace and no verbose GC log: give a file that metronome or a \
                 Metronome collector wrote",
            ),
        }
    }
}

impl std::error::Error for InputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InputError::Open { source, .. } | InputError::Read(source) => Some(source),
            InputError::TuningFork(e) => Some(e),
            InputError::Line { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl InputError {
    /// Whether records may follow: what is damaged is passed over.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        matches!(self, InputError::Line { foreign: false, .. } | InputError::BreaksOff { .. })
    }

    /// The record that stands in the place of what is missing, after those up to `ns`.
    #[must_use]
    pub fn stand_in(&self, ns: u64) -> Record {
        let event = match self {
            InputError::Line { count, .. } => Event::Lost { count: *count, place: "recording".into() },
            InputError::BreaksOff { .. } => Event::BreakOff,
            other => Event::Note { text: format!("the file cannot be read on: {other}") },
        };
        Record { ns, event }
    }
}

/// Opens a file of any of the three kinds, compressed (gzip) or not.
///
/// # Errors
/// [`InputError`]; what is wrong further on comes from the iterator.
pub fn open(path: &Path) -> Result<Records, InputError> {
    let file = File::open(path).map_err(|source| InputError::Open { path: path.into(), source })?;
    records(BufReader::with_capacity(1 << 16, file))
}

/// The records of any of the three kinds of input, compressed (gzip) or not, after a byte-order mark or not. Recordings and logs are read as they come, with bounded memory; a
/// Tuning Fork trace whole, since its feedlets have to be merged.
///
/// # Errors
/// As [`open`].
pub fn records(input: impl BufRead + Send + 'static) -> Result<Records, InputError> {
    let mut input = decompressed(input).map_err(InputError::Read)?;
    if input.fill_buf().map_err(InputError::Read)?.starts_with(&BOM) {
        input.consume(BOM.len());
    }
    let head = input.fill_buf().map_err(InputError::Read)?;
    if head.starts_with(&metronome_tuningfork::MAGIC) {
        return fork::records(input);
    }
    match head.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') => Ok(Box::new(lines::Records::new(input))),
        // A recording whose first line is damaged.
        Some(_) if head.windows(RECORD.len()).any(|w| w == RECORD) => {
            Ok(Box::new(lines::Records::new(input)))
        }
        Some(_) => Ok(Box::new(log::Records::new(input))),
        None => Err(InputError::Unknown),
    }
}
