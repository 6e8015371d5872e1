//! Any bytes, read whole and in small pieces: no error, no panic, the same log, and nothing passed over in silence.

use metronome_verbosegc::reader::read_log;
use std::io::BufReader;

pub(crate) fn run(data: &[u8]) {
    let log = read_log(data).expect("memory can be read");
    let piece = 1 + data.first().map_or(0, |&b| usize::from(b) % 17);
    let pieces = read_log(BufReader::with_capacity(piece, data)).expect("memory can be read");
    assert_eq!(log, pieces, "read in pieces of {piece}");
    let blank = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data).iter().all(u8::is_ascii_whitespace);
    let events = log.runs.iter().map(|r| r.events.len()).sum::<usize>();
    assert!(blank || events > 0 || !log.diagnostics.is_empty(), "bytes were passed over in silence");
}
