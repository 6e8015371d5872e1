//! Reads logs of both generations, as they are found in the field.
//!
//! Logs are torn, pasted, grepped, concatenated and mixed with other output. [`Reader`] takes any bytes, never
//! panics, uses constant memory, and turns whatever it cannot take as an event into a [`Diagnostic`]: nothing
//! is dropped in silence. A log of another collector's policy is named and refused ([`Item::Refused`]).

mod assemble;
mod events;
mod init;
mod log;
mod op;
mod policy;
mod run;
mod scan;
mod work;

pub use log::{Log, Run, read_log};

use crate::model::{Generation, LoggedEvent};
use assemble::Assembler;
use scan::Scanner;
use std::fmt;
use std::io::{self, BufRead};

/// What the reader gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// A run begins. Everything until the next one belongs to it.
    RunStart(RunStart),
    /// An event.
    Event(LoggedEvent),
    /// Something that is not as it should be.
    Diagnostic(Diagnostic),
    /// The run is not one of a Metronome collector; its elements are counted, not read.
    Refused(OtherPolicy),
    /// The run ends.
    RunEnd(RunEnd),
}

/// Beginning of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Line of its first tag, from 1.
    pub line: u64,
    /// Its generation; `None` if that cannot be told yet.
    pub generation: Option<Generation>,
    /// Version of the root element.
    pub version: Option<String>,
    /// There is no root element: a fragment.
    pub fragment: bool,
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Line, from 1.
    pub line: u64,
    /// Its generation, as far as it became known.
    pub generation: Option<Generation>,
    /// The root element's end tag was there.
    pub complete: bool,
}

/// A policy that is not Metronome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherPolicy {
    /// Line of the evidence, from 1.
    pub line: u64,
    /// Its name, or the names it may have where no header tells.
    pub policy: String,
    /// What told.
    pub evidence: String,
}

impl fmt::Display for OtherPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: not a Metronome log but one of {}{} ({}); this reader cannot judge its pauses",
            self.line,
            // Only IBM's and OpenJ9's policies are called so; the others are known by their lines.
            if policy::is_by_text(&self.evidence) { "" } else { "the policy " },
            self.policy,
            self.evidence
        )
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line, from 1.
    pub line: u64,
    /// Byte column, from 1.
    pub column: u64,
    /// Sort.
    pub kind: DiagnosticKind,
    /// What was found.
    pub text: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

/// Sorts of diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// Text between the elements: other output in the same file.
    ForeignText,
    /// An element that this reader does not know.
    UnknownElement,
    /// Attributes torn, missing, malformed or not understood.
    Attributes,
    /// An element without its start or its end.
    Structure,
    /// Numbers missing, repeated or restarted; starts without ends.
    Order,
    /// The clock went wrong.
    Clock,
    /// The run has no end tag.
    Truncated,
    /// The run is another policy's.
    OtherPolicy,
    /// The input is not text.
    Unreadable,
}

/// Streaming reader; an iterator of [`Item`]s. Takes nothing more from the input after its first error.
#[derive(Debug)]
pub struct Reader<R> {
    scanner: Scanner<R>,
    assembler: Assembler,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// A reader of `input`. A byte-order mark and CRLF line ends are fine; compressed input is refused
    /// (the module `files`, a feature, decompresses it).
    pub const fn new(input: R) -> Self {
        Self { scanner: Scanner::new(input), assembler: Assembler::new(), ended: false }
    }

    /// The next item; `None` at the end.
    ///
    /// # Errors
    /// The first one of the input (interruptions are retried). What was read before it still comes with the next
    /// calls, and then the end: a live log needs an input that blocks.
    pub fn read(&mut self) -> io::Result<Option<Item>> {
        loop {
            if let Some(item) = self.assembler.pop() {
                return Ok(Some(item));
            }
            if self.ended {
                return Ok(None);
            }
            match self.scanner.next() {
                Ok(Some(token)) => self.assembler.take(token),
                Ok(None) => {
                    self.ended = true;
                    self.assembler.end(self.scanner.place(), None);
                }
                Err(e) => {
                    self.ended = true;
                    self.assembler.end(self.scanner.place(), Some(&e));
                    return Err(e);
                }
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
