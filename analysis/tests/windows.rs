//! The least utilization of windows from logs of other collectors that tell quanta one by one, against tables made by hand.

use metronome_analysis::advice::advise;
use metronome_analysis::{Analysis, analyze};
use std::fmt::Write;

fn read(text: &str) -> Analysis {
    analyze(text.as_bytes()).unwrap()
}

/// One quantum of the 2007 form: `after` the last one's end, both in µs.
fn beat(log: &mut String, id: u64, second: u64, after: u64, length: u64) {
    let ms = |us: u64| format!("{}.{:03}", us / 1000, us % 1000);
    let l = ms(length);
    let _ = writeln!(
        log,
        "<gc type=\"heartbeat\" id=\"{id}\" timestamp=\"Tue Mar 13 15:17:{second:02} 2007\" intervalms=\"{}\"> <summary \
         quantumcount=\"1\"> <quantum minms=\"{l}\" meanms=\"{l}\" maxms=\"{l}\" /> <gcthreadpriority max=\"11\" min=\"11\" /> \
         </summary></gc>",
        ms(after + length)
    );
}

/// Quanta of 1 ms, 4 ms apart, and one of 9 ms among them: by hand, a window of 10 ms has at the least 1 ms (the long one
/// and nothing else), one of 20 ms the long one and two others and a piece of a third: 20 - 9 - 2 = 9 ms (45 %).
fn even_2007() -> String {
    let mut log = String::from(
        "<?xml version=\"1.0\" ?><verbosegc version=\"x-Metronome\">\n\
         <gc type=\"trigger start\" id=\"1\" timestamp=\"Tue Mar 13 15:17:45 2007\" intervalms=\"0.000\" />\n",
    );
    for i in 0..40 {
        beat(&mut log, i + 1, 45, 4_000, if i == 20 { 9_000 } else { 1_000 });
    }
    log + "<gc type=\"trigger end\" id=\"1\" timestamp=\"Tue Mar 13 15:17:45 2007\" intervalms=\"208.000\"/></verbosegc>\n"
}

#[test]
fn quanta_of_2007_give_the_curve_to_the_microsecond() {
    let a = read(&even_2007());
    let r = &a.runs.rows[0];
    assert_eq!((r.quanta, r.single.quanta), (40, 40));
    for (window_ms, percent) in [
        // Within the long quantum nothing is left.
        (1, 0.0),
        (5, 0.0),
        // 9 ms of 10.
        (10, 10.0),
        // The long one (9 ms), and 11 ms beside it: two quanta with their gaps are 10 ms on either side, so 2 ms of them.
        (20, 45.0),
        // 41 ms beside it: eight quanta, and the piece of 1 ms is a ninth if it lies right: 4 ms before the long one is
        // free, then quanta 5 ms apart, of which (50 - 9) / 5 = 8.
        (50, 100.0 - 100.0 * (9.0 + 8.0) / 50.0),
        // 91 ms beside it: 18 quanta.
        (100, 100.0 - 100.0 * (9.0 + 18.0) / 100.0),
    ] {
        let least = r.least_ppm(window_ms * 1_000_000).unwrap();
        assert!((f64::from(least) / 1e4 - percent).abs() < 0.001, "{window_ms} ms: {least} ppm, {percent} %");
    }
    // The run took 208 ms.
    assert_eq!(r.least_ppm(500_000_000), None);
    // (9 + 10) / 60 ms: 31.7 % more than 30 %, within the grain; no rule is broken.
    assert_eq!(r.least_ppm(60_000_000), Some(683_333));
    assert!(advise(&a).findings.iter().all(|f| f.rule != "R9"), "{:#?}", advise(&a).findings);
}

/// Quanta as OpenJ9 writes them with a heartbeat for each: `(end in ms, length in µs, count)`.
fn openj9(rows: impl IntoIterator<Item = (u64, u64, u64)>) -> String {
    let mut log = String::from(
        "<verbosegc xmlns=\"http://www.ibm.com/j9/verbosegc\" version=\"1d8018dce_CMPRSS\">\n\
         <initialized id=\"1\" timestamp=\"2026-08-31T13:43:00.000\"><attribute name=\"gcPolicy\" \
         value=\"-Xgcpolicy:metronome\" /><metronome><attribute name=\"timeInterval\" value=\"60000\" /><attribute \
         name=\"targetUtilization\" value=\"70\" /></metronome></initialized>\n\
         <cycle-start id=\"2\" type=\"global\" contextid=\"0\" timestamp=\"2026-08-31T13:43:00.000\" intervalms=\"1.000\" />\n",
    );
    for (i, (end, us, count)) in rows.into_iter().enumerate() {
        let l = format!("{}.{:03}", us / 1000, us % 1000);
        let _ = writeln!(
            log,
            "<gc-op id=\"{}\" type=\"heartbeat\" contextid=\"2\" timestamp=\"2026-08-31T13:43:{:02}.{:03}\"><quanta \
             quantumCount=\"{count}\" quantumType=\"mark\" minTimeMs=\"{l}\" meanTimeMs=\"{l}\" maxTimeMs=\"{l}\" \
             maxTimestampMs=\"0.000\" /></gc-op>",
            i + 3,
            end / 1000,
            end % 1000
        );
    }
    log
}

#[test]
fn quanta_of_openj9_are_judged_to_the_grain_of_its_times_and_a_full_window_is_found() {
    // 3 ms every 10 ms: 18 ms of 60 are the collector's, the target of 70 %.
    let a = read(&openj9((1..=40).map(|i| (i * 10, 3_000, 1))));
    let r = &a.runs.rows[0];
    assert_eq!((r.single.quanta, r.least_ppm(60_000_000)), (40, Some(700_000)));
    assert!(advise(&a).findings.iter().all(|f| f.rule != "R9"));
    // And from the twentieth on every 4 ms: 15 quanta in a window, 45 ms of 60. On average over all 40: 120 ms of 280, but
    // no heartbeat is as long as a window.
    let a = read(&openj9((1..=40).map(|i| (if i <= 20 { i * 10 } else { 200 + (i - 20) * 4 }, 3_000, 1))));
    assert_eq!(a.runs.rows[0].least_ppm(60_000_000), Some(250_000));
    let found = advise(&a).findings;
    let f = found.iter().find(|f| f.rule == "R9").unwrap();
    assert!(f.evidence.contains("60.000 ms") && f.evidence.contains("25.0 %"), "{f:?}");
}

#[test]
fn heartbeats_that_sum_quanta_up_give_no_curve() {
    let a = read(&openj9((1..=40).map(|i| (i * 100, 3_000, 9))));
    assert_eq!((a.runs.rows[0].single.quanta, a.runs.rows[0].windows().len()), (0, 0));
    // One in ten may; windows over it are not judged.
    let a = read(&openj9((1..=100).map(|i| (i * 10, 3_000, if i == 50 { 2 } else { 1 }))));
    let r = &a.runs.rows[0];
    assert_eq!((r.quanta, r.single.quanta, r.least_ppm(60_000_000)), (101, 99, Some(700_000)));
    assert_eq!(r.least_ppm(1_000_000_000), None, "no stretch is that long");
    let a = read(&openj9((1..=100).map(|i| (i * 10, 3_000, if i % 3 == 0 { 2 } else { 1 }))));
    assert!(a.runs.rows[0].windows().is_empty());
}

/// A collection that stops everything is collector time; a lost event makes a gap.
#[test]
fn collections_count_and_lost_events_do_not_pass_for_idle_time() {
    let quanta = |from: u64| (from + 1..=from + 30).map(|i| (i * 10, 1_000, 1));
    let sync = "<gc-op id=\"33\" type=\"syncgc\" timems=\"40.000\" contextid=\"2\" timestamp=\"2026-08-31T13:43:00.345\">\
                <syncgc-info reason=\"system GC\" exclusiveaccessTimeMs=\"0.009\" threadPriority=\"11\"/></gc-op>\n";
    let a = read(&(openj9(quanta(0)) + sync));
    // 20 ms are left: of them two quanta of 1 ms end 5 and 15 ms before the collection begins.
    assert_eq!(a.runs.rows[0].least_ppm(60_000_000), Some(300_000));
    let log = openj9(quanta(0));
    let torn: String = log.lines().filter(|l| !l.contains("id=\"17\"")).map(|l| format!("{l}\n")).collect();
    let r = &read(&torn).runs.rows[0];
    assert_eq!((r.single.quanta, r.least_ppm(200_000_000)), (29, None), "stretches of 140 and 150 ms");
}
