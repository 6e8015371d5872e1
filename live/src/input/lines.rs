//! A recording: one record for each line. A damaged line costs itself only, and is counted.

use super::InputError;
use crate::model::{Event, Record, VERSION};
use std::collections::VecDeque;
use std::io::{BufRead, Read};

/// The longest line that is taken for a record.
const LINE_MAX: u64 = 1 << 20;

/// Damaged lines, one after the other.
struct Damage {
    line: u64,
    count: u64,
    source: serde_json::Error,
}

pub(super) struct Records<R> {
    input: R,
    line: u64,
    damage: Option<Damage>,
    /// A record was there: this is a recording.
    known: bool,
    /// The last record was the last of its run, or there was none.
    whole: bool,
    ready: VecDeque<Result<Record, InputError>>,
    ended: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R) -> Records<R> {
        Records {
            input,
            line: 0,
            damage: None,
            known: false,
            whole: true,
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// The next line; empty at the end. One that is too long is cut, and the rest passed over.
    fn text(&mut self) -> Result<Vec<u8>, InputError> {
        let mut text = Vec::new();
        (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut text).map_err(InputError::Read)?;
        let mut rest = text.len() as u64 == LINE_MAX && !text.ends_with(b"\n");
        while rest {
            let mut more = Vec::new();
            (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut more).map_err(InputError::Read)?;
            rest = more.len() as u64 == LINE_MAX && !more.ends_with(b"\n");
        }
        self.line += 1;
        Ok(text)
    }

    fn damaged(&mut self, source: serde_json::Error) {
        let line = self.line;
        self.damage.get_or_insert(Damage { line, count: 0, source }).count += 1;
    }

    /// Tells of damage before what comes after it.
    fn tell(&mut self) {
        if let Some(Damage { line, count, source }) = self.damage.take() {
            self.ready.push_back(Err(InputError::Line { line, count, source, foreign: !self.known }));
        }
    }

    fn record(&mut self, record: Record) {
        self.known = true;
        self.tell();
        let begins = matches!(record.event, Event::Begin(_));
        if begins && !self.whole {
            self.ready.push_back(Err(InputError::BreaksOff { line: self.line - 1 }));
        }
        self.whole = matches!(record.event, Event::End | Event::BreakOff);
        self.ready.push_back(Ok(record));
    }

    /// Reads a line, or tells of the end.
    fn read(&mut self) -> Result<(), InputError> {
        let text = self.text()?;
        if text.is_empty() {
            self.ended = true;
            self.tell();
            if !self.whole {
                self.ready.push_back(Err(InputError::BreaksOff { line: self.line - 1 }));
            }
            return Ok(());
        }
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        match serde_json::from_slice::<Record>(&text) {
            Ok(Record { event: Event::Begin(b), .. }) if b.version > VERSION => {
                return Err(InputError::Version { found: b.version });
            }
            Ok(record) => self.record(record),
            // The last line of a recording whose writer died, or is still at work.
            Err(e) if !text.ends_with(b"\n") && e.is_eof() && self.known => self.whole = false,
            Err(source) => self.damaged(source),
        }
        Ok(())
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            if self.ended {
                return None;
            }
            if let Err(e) = self.read() {
                self.ended = true;
                self.tell();
                self.ready.push_back(Err(e));
            }
        }
    }
}
