//! Reads recordings, Tuning Fork traces and verbose GC logs as one kind of records.

mod fork;
mod lines;
mod log;

use crate::model::Record;
use metronome_gc::verbosegc::reader::OtherPolicy;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Records in order; ends after its first error.
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
    /// A line of a recording is no record.
    Line {
        /// Which, from 1.
        line: u64,
        /// Why.
        source: serde_json::Error,
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
            InputError::Line { line, source } => write!(f, "line {line} of the recording is no record: {source}"),
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

/// Opens a file of any of the three kinds.
///
/// # Errors
/// [`InputError`]; what is wrong further on comes from the iterator.
pub fn open(path: &Path) -> Result<Records, InputError> {
    let file = File::open(path).map_err(|source| InputError::Open { path: path.into(), source })?;
    records(BufReader::with_capacity(1 << 16, file))
}

/// The records of any of the three kinds of input. Recordings and logs are read as they come, with bounded memory; a
/// Tuning Fork trace whole, since its feedlets have to be merged.
///
/// # Errors
/// As [`open`].
pub fn records(mut input: impl BufRead + Send + 'static) -> Result<Records, InputError> {
    let head = input.fill_buf().map_err(InputError::Read)?;
    if head.starts_with(&metronome_tuningfork::MAGIC) {
        return fork::records(input);
    }
    match head.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') => Ok(Box::new(lines::Records::new(input))),
        Some(_) => Ok(Box::new(log::Records::new(input))),
        None => Err(InputError::Unknown),
    }
}
