//! Any bytes, read whole and in small pieces: no error, no panic, the same log, and nothing passed over in silence. Then
//! its figures and advice: bounded, and of the same events.

use metronome_analysis::advice::advise;
use metronome_analysis::{Analyzer, MAX_BUCKETS};
use metronome_verbosegc::reader::{Reader, read_log};
use std::io::BufReader;

pub(crate) fn run(data: &[u8]) {
    let log = read_log(data).expect("memory can be read");
    let piece = 1 + data.first().map_or(0, |&b| usize::from(b) % 17);
    let pieces = read_log(BufReader::with_capacity(piece, data)).expect("memory can be read");
    assert_eq!(log, pieces, "read in pieces of {piece}");
    let blank = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data).iter().all(u8::is_ascii_whitespace);
    let events = log.runs.iter().map(|r| r.events.len()).sum::<usize>();
    assert!(blank || events > 0 || !log.diagnostics.is_empty(), "bytes were passed over in silence");

    let mut analyzer = Analyzer::new();
    for (i, item) in Reader::new(data).enumerate() {
        analyzer.push(&item.expect("memory can be read"));
        // A log that is still being written is looked at now and then.
        if i % 64 == 63 {
            advise(&analyzer.so_far());
        }
    }
    let figures = analyzer.finish();
    advise(&figures);
    assert_eq!((figures.events, figures.complete), (events as u64, log.complete));
    assert_eq!(figures.runs.total(), log.runs.len() as u64);
    // The figures object to times as well.
    assert!(figures.diagnostics.total() >= log.diagnostics.len() as u64 + log.more_diagnostics);
    assert!(figures.runs.rows.iter().all(|r| r.series.buckets.len() <= MAX_BUCKETS));
}
