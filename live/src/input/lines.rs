//! A recording: one record for each line.

use super::InputError;
use crate::model::{Event, Record, VERSION};
use std::io::{BufRead, Read};

/// The longest line that is taken for a record.
const LINE_MAX: u64 = 1 << 20;

pub(super) struct Records<R> {
    input: R,
    line: u64,
    ended: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R) -> Records<R> {
        Records { input, line: 0, ended: false }
    }

    fn read(&mut self) -> Result<Option<Record>, InputError> {
        loop {
            let mut text = Vec::new();
            let mut limited = (&mut self.input).take(LINE_MAX);
            if limited.read_until(b'\n', &mut text).map_err(InputError::Read)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let whole = text.ends_with(b"\n");
            match serde_json::from_slice::<Record>(&text) {
                Ok(Record { event: Event::Begin(b), .. }) if b.version > VERSION => {
                    return Err(InputError::Version { found: b.version });
                }
                Ok(record) => return Ok(Some(record)),
                // The last line of a recording whose writer died, or is still at work.
                Err(e) if !whole && e.is_eof() && (text.len() as u64) < LINE_MAX => return Ok(None),
                Err(source) => return Err(InputError::Line { line: self.line, source }),
            }
        }
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
