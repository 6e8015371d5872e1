//! Writing to standard output and standard error, where a reader that went away is no error.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Status for errors of the user: bad flags, unreadable input, impossible sizes.
pub(crate) const USAGE: u8 = 2;

/// Writes one line to standard error. If that is gone too, nobody is left to be told.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes text to standard output; success also if the reader has closed the pipe, having seen enough.
pub(crate) fn print(text: &str) -> ExitCode {
    match write_out(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("metronome: cannot write to standard output: {e}"));
            ExitCode::from(USAGE)
        }
    }
}

/// [`print()`] for those who go on afterwards.
pub(crate) fn write_out(text: &str) -> io::Result<()> {
    stream_out(|out| out.write_all(text.as_bytes()))
}

/// [`write_out`] of what is made as it is written.
pub(crate) fn stream_out(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The text on one line, without control characters (what a user gave may hold any).
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
