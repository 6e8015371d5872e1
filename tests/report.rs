//! What the collector reports about itself holds together: statistics, log, counts.
#![forbid(unsafe_code)]

#[path = "support/churn.rs"]
mod churn;

use churn::churn;
use metronome_gc::verbosegc::model::Event;
use metronome_gc::verbosegc::reader::read_log;
use metronome_gc::{Heap, Stats};
use std::io::BufReader;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Two mutators that allocate and poll while cycle follows cycle.
fn run(format: &str) -> (Stats, String) {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let n = RUNS.fetch_add(1, Relaxed);
    let log = std::env::temp_dir().join(format!("metronome-report-{}-{n}.xml", std::process::id()));
    let heap = Heap::builder()
        .set("heap", "16M")
        .set("cycle-interval", "5ms")
        .set("verbose-format", format)
        .set("verbose-gc", log.to_str().unwrap())
        .build()
        .unwrap();
    // Counts, not time: until enough quanta have run.
    churn(&heap, 40);
    let stats = heap.stats();
    drop(heap);
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    (stats, text)
}

#[test]
fn pauses_contain_what_they_consist_of() {
    let (stats, _) = run("openj9");
    assert!(stats.cycles >= 40 && stats.quanta >= stats.cycles);
    // A mutator that was stopped runs on later than it was released: that is seen, at least sometimes.
    assert!(stats.resume_ns.count > 0, "{stats:#?}");
    assert!(stats.pause_ns.max >= stats.quantum_charged_ns.max, "{stats:#?}");
    assert!(stats.pause_ns.p50 >= stats.quantum_charged_ns.p50 / 2, "{stats:#?}");
    for m in &stats.mmu {
        if let (Some(charged), Some(wall)) = (m.charged_ppm, m.wall_ppm) {
            assert!(wall <= charged, "{m:?}");
        }
    }
    assert!(stats.longest_step_ns > 0 && stats.step_ns.count >= stats.quanta);
}

#[test]
fn the_log_agrees_with_the_statistics_and_with_itself() {
    for (format, mark) in [("openj9", "<gc-op "), ("2007", "<gc type=\"heartbeat\"")] {
        let (stats, text) = run(format);
        assert!(text.contains(mark), "not the form asked for: {}", &text[..400]);
        let log = read_log(BufReader::new(text.as_bytes())).unwrap();
        assert!(log.complete);
        let (mut quanta, mut cpu, mut cycle_cpu, mut cycles) = (0, 0, 0, 0);
        let mut summary = None;
        for e in log.runs[0].events.iter().map(|e| &e.event) {
            match e {
                Event::Heartbeat(h) => {
                    quanta += h.quantum_count.unwrap_or(0);
                    cpu += h.detail.as_ref().map_or(0, |d| d.cpu_ns);
                }
                Event::Cycle(c) => {
                    cycles += 1;
                    cycle_cpu += c.cpu_ns.unwrap_or(0);
                }
                Event::Summary(s) => summary = Some(s),
                _ => {}
            }
        }
        let summary = summary.expect("a closed heap's log ends with a summary");
        assert_eq!(quanta, summary.quanta);
        assert_eq!(cycles, summary.cycles);
        assert!(summary.quanta >= stats.quanta && summary.cycles >= stats.cycles);
        // A cycle that was under way at the end has quanta, but no facts of its own. Rounding: a microsecond each.
        let slack = 1000 * (quanta + cycles);
        assert!(cycle_cpu <= cpu + slack, "{format}: cycles {cycle_cpu} ns, quanta {cpu} ns");
        assert!(cycle_cpu * 10 >= cpu * 9, "{format}: cycles {cycle_cpu} ns, quanta {cpu} ns");
    }
}
