//! The logs in `verbosegc-samples/`, which runs of this project wrote, are read back whole and without a complaint.

use metronome_gc::verbosegc::model::Event;
use metronome_gc::verbosegc::reader::read_log;
use std::io::BufReader;
use std::path::Path;

#[test]
fn samples_are_complete_and_clean() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("verbosegc-samples");
    let mut seen = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "xml") {
            continue;
        }
        seen += 1;
        let log = read_log(BufReader::new(std::fs::File::open(&path).unwrap())).unwrap();
        assert!(log.complete, "{}", path.display());
        // A heap may be closed in the middle of a cycle; that is all that a reader may remark.
        let remarks: Vec<_> =
            log.diagnostics.iter().filter(|d| d.text != "the run ends inside a cycle").collect();
        assert!(remarks.is_empty(), "{}: {remarks:?}", path.display());
        assert_eq!(log.runs.len(), 1, "{}", path.display());
        let events: Vec<&Event> = log.runs[0].events.iter().map(|e| &e.event).collect();
        let count = |f: fn(&Event) -> bool| events.iter().filter(|e| f(e)).count();
        let starts = count(|e| matches!(e, Event::CycleStart(_)));
        let ends = count(|e| matches!(e, Event::CycleEnd(_)));
        assert!(
            starts >= ends && starts <= ends + 1,
            "{}: {starts} cycles began, {ends} ended",
            path.display()
        );
        assert!(count(|e| matches!(e, Event::Heartbeat(_))) > 0, "{}", path.display());
    }
    assert!(seen >= 5, "only {seen} samples in {}", dir.display());
}
