//! A whole log in memory, for tools that need to look back.

use super::{Diagnostic, Item, OtherPolicy, Reader, RunStart};
use crate::model::{Generation, LoggedEvent};
use std::io::{self, BufRead};

/// Diagnostics kept; the rest are counted.
const MAX_DIAGNOSTICS: usize = 10_000;

/// A log with one or more runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The generation of all runs; `None` if they differ or none could be told.
    pub generation: Option<Generation>,
    /// There is a run, and every one has its end tag.
    pub complete: bool,
    /// What is not as it should be, the first ten thousand.
    pub diagnostics: Vec<Diagnostic>,
    /// Diagnostics beyond those.
    pub more_diagnostics: u64,
    /// The runs.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its beginning.
    pub start: RunStart,
    /// Its generation, as far as it became known.
    pub generation: Option<Generation>,
    /// Its events.
    pub events: Vec<LoggedEvent>,
    /// Its end tag was there.
    pub complete: bool,
    /// Set if it is another policy's: then do not judge it by its (few or no) events.
    pub refused: Option<OtherPolicy>,
}

/// Reads all of a log. Memory is proportional to its events.
///
/// # Errors
/// Those of the input; content is never an error.
pub fn read_log(input: impl BufRead) -> io::Result<Log> {
    let mut log = Log::default();
    let mut reader = Reader::new(input);
    while let Some(item) = reader.read()? {
        match item {
            Item::RunStart(start) => {
                let generation = start.generation;
                log.runs.push(Run { start, generation, events: Vec::new(), complete: false, refused: None });
            }
            Item::Diagnostic(d) if log.diagnostics.len() < MAX_DIAGNOSTICS => log.diagnostics.push(d),
            Item::Diagnostic(_) => log.more_diagnostics += 1,
            other => {
                // The reader starts a run before anything that belongs to one.
                let Some(run) = log.runs.last_mut() else { continue };
                match other {
                    Item::Event(event) => run.events.push(event),
                    Item::Refused(policy) => run.refused = Some(policy),
                    Item::RunEnd(end) => (run.complete, run.generation) = (end.complete, end.generation),
                    Item::RunStart(_) | Item::Diagnostic(_) => {}
                }
            }
        }
    }
    let first = log.runs.first().and_then(|r| r.generation);
    log.generation = first.filter(|_| log.runs.iter().all(|r| r.generation == first));
    log.complete = !log.runs.is_empty() && log.runs.iter().all(|r| r.complete);
    Ok(log)
}
