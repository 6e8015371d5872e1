//! A recording: one record for each line, as JSON.

use super::Sink;
use crate::model::Record;
use std::io::{self, Write};

/// Writes a recording, which [`crate::input::open`] reads and [`crate::serve_file`] replays.
#[derive(Debug)]
pub struct Lines<W: Write> {
    out: io::BufWriter<W>,
}

impl<W: Write> Lines<W> {
    /// A recording that goes to `out`.
    pub fn new(out: W) -> Lines<W> {
        Lines { out: io::BufWriter::new(out) }
    }
}

impl<W: Write> Sink for Lines<W> {
    fn take(&mut self, record: &Record) -> io::Result<()> {
        self.out.write_all(record.json().as_bytes())?;
        self.out.write_all(b"\n")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
