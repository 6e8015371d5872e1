//! Logs that are long, many in a file, torn, or written while the clock was set: the figures and findings of the same logs
//! without that.

use metronome_analysis::advice::{Advice, Finding, advise};
use metronome_analysis::{Analysis, RunFigures, analyze};
use std::collections::BTreeSet;
use std::fmt::Write;

fn read(log: &str) -> Analysis {
    analyze(log.as_bytes()).unwrap()
}

fn rules(a: &Advice) -> BTreeSet<&'static str> {
    a.findings.iter().map(|f| f.rule).collect()
}

fn found<'a>(a: &'a Advice, rule: &str) -> &'a Finding {
    a.findings.iter().find(|f| f.rule == rule).unwrap_or_else(|| panic!("no {rule}: {:#?}", a.findings))
}

const MS: u64 = 1_000_000;
const OPENJ9: &str = "abc_CMPRSS";
const OWN: &str = "metronome-gc 0.1.0";

/// Writes the OpenJ9 form, event by event, as its writers do.
struct Log {
    text: String,
    /// Time since the run's start, and by how much the wall clock is ahead of it.
    now_ms: u64,
    ahead_ms: i64,
    id: u64,
    cycle: u64,
    started_ms: u64,
}

impl Log {
    /// A heap of 1 GiB, target 70 %.
    fn new(version: &str) -> Self {
        let (beat, window) = if version == OWN { (500, 10_000) } else { (3_000, 60_000) };
        let text = format!("<?xml version=\"1.0\" ?>\n\n<verbosegc xmlns=\"x\" version=\"{version}\">\n\n");
        let mut log = Self { text, now_ms: 0, ahead_ms: 0, id: 0, cycle: 0, started_ms: 0 };
        let head = log.event("initialized");
        let _ = writeln!(
            log.text,
            "<{head}>\n<attribute name=\"gcPolicy\" value=\"-Xgcpolicy:metronome\" />\n<attribute name=\"maxHeapSize\" \
             value=\"0x40000000\" />\n<metronome>\n<attribute name=\"beatsPerMeasure\" value=\"{beat}\" />\n<attribute \
             name=\"timeInterval\" value=\"{window}\" />\n<attribute name=\"targetUtilization\" value=\"70\" />\n\
             </metronome>\n</initialized>"
        );
        log
    }

    fn time(&self) -> String {
        let ms = 1_800_000 + i64::try_from(self.now_ms).unwrap() + self.ahead_ms + 86_400_000;
        let (day, ms) = (ms / 86_400_000, ms % 86_400_000);
        let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        format!("2026-03-{:02}T{h:02}:{m:02}:{s:02}.{:03}", day + 1, ms % 1_000)
    }

    fn event(&mut self, tag: &str) -> String {
        self.id += 1;
        format!("{tag} id=\"{}\" timestamp=\"{}\"", self.id, self.time())
    }

    fn line(&mut self, tag: &str) {
        let e = self.event(tag);
        let _ = writeln!(self.text, "<{e} />");
    }

    fn cycle_start(&mut self) {
        let since = self.now_ms - self.started_ms;
        self.started_ms = self.now_ms;
        let e = self.event("cycle-start");
        self.cycle = self.id;
        let _ = writeln!(self.text, "<{e} type=\"global\" contextid=\"0\" intervalms=\"{since}.000\" />");
    }

    fn cycle_end(&mut self) {
        let e = self.event("cycle-end");
        let _ = writeln!(self.text, "<{e} type=\"global\" contextid=\"{}\" />", self.cycle);
    }

    /// A heartbeat `after_ms` the last event: quanta of a phase, mean and longest in µs, free bytes.
    fn beat(
        &mut self,
        after_ms: u64,
        phase: &str,
        quanta: u64,
        us: (u64, u64),
        free: (u64, u64),
        more: &str,
    ) {
        self.now_ms += after_ms;
        let e = self.event("gc-op");
        let ms = |us: u64| format!("{}.{:03}", us / 1_000, us % 1_000);
        let least = ms(if quanta == 1 { us.1 } else { us.0 / 2 });
        let _ = writeln!(
            self.text,
            "<{e} type=\"heartbeat\" contextid=\"{}\">\n<quanta quantumCount=\"{quanta}\" quantumType=\"{phase}\" \
             minTimeMs=\"{least}\" meanTimeMs=\"{}\" maxTimeMs=\"{}\" maxTimestampMs=\"1.000\" />\n<exclusiveaccess-info \
             minTimeMs=\"0.006\" meanTimeMs=\"0.062\" maxTimeMs=\"0.147\" />\n{more}<free-mem type=\"heap\" \
             minBytes=\"{}\" meanBytes=\"{}\" maxBytes=\"{}\" />\n</gc-op>",
            self.cycle,
            ms(us.0),
            ms(us.1),
            free.0,
            free.0,
            free.1
        );
    }

    fn collection(&mut self, reason: &str, ms: u64, before: u64, after: u64) {
        self.now_ms += ms;
        let e = self.event("gc-op");
        let _ = writeln!(
            self.text,
            "<{e} type=\"syncgc\" timems=\"{ms}.000\" contextid=\"{}\">\n<syncgc-info reason=\"{reason}\" \
             exclusiveaccessTimeMs=\"0.009\" threadPriority=\"11\" />\n<free-mem-delta type=\"heap\" \
             bytesBefore=\"{before}\" bytesAfter=\"{after}\" />\n</gc-op>",
            self.cycle
        );
    }

    /// A healthy cycle of 2 s and 10 s of idle time.
    fn cycle(&mut self) {
        self.cycle_of(SWEPT, 3_100, "");
    }

    fn cycle_of(&mut self, swept: (u64, u64), longest_us: u64, more: &str) {
        self.line("trigger-start");
        self.cycle_start();
        self.beat(1_000, "mark", 95, (3_000, longest_us), MARKED, more);
        self.beat(1_000, "sweep", 95, (2_900, 3_100), swept, more);
        self.cycle_end();
        self.line("trigger-end");
        self.now_ms += 10_000;
    }

    fn done(mut self) -> String {
        self.text += "</verbosegc>\n";
        self.text
    }
}

const MARKED: (u64, u64) = (480_000_000, 500_000_000);
const SWEPT: (u64, u64) = (500_000_000, 600_000_000);

fn healthy(cycles: u64) -> Log {
    let mut log = Log::new(OPENJ9);
    for _ in 0..cycles {
        log.cycle();
    }
    log
}

/// 13,467 cycles, of which the last fourth leaks.
#[test]
fn a_leak_that_begins_after_ten_thousand_cycles_is_found() {
    let mut log = Log::new(OWN);
    let live = |i: u64| (13 << 20) + i.saturating_sub(10_000) * 11_500 + i % 3 * 1_000;
    for i in 0..13_467 {
        log.cycle_start();
        log.beat(50, "mark", 20, (450, 500), (900_000_000, 940_000_000), "");
        log.cycle_end();
        let time = log.time();
        let _ = writeln!(
            log.text,
            "<metronome-cycle timestamp=\"{time}\" quanta=\"20\" collectorMs=\"9.000\" allocatedBytes=\"1000000\" \
             liveBytes=\"{}\" />",
            live(i)
        );
        log.now_ms += 500;
    }
    let a = read(&log.done());
    let r = &a.runs.rows[0];
    assert_eq!(r.cycle_rows.total(), 13_467);
    assert!(r.cycle_rows.omitted > 0 && r.cycle_rows.rows.len() <= 10_001);
    let allocated: u64 = r.series.buckets.iter().map(|b| b.allocated_bytes).sum();
    assert_eq!(allocated, 13_467_000_000);
    let last = r.series.buckets.iter().rposition(|b| b.allocated_bytes > 0).unwrap();
    assert!(last as u64 * r.series.bucket_ns > r.span_ns / 100 * 98, "the last cycles are in the picture");
    let advice = advise(&a);
    let leak = found(&advice, "R10");
    assert!(leak.evidence.contains("cycles on a line"), "{leak:#?}");
    let contract = advice.contracts[0].1.as_ref().unwrap();
    assert_eq!(
        (contract.cycles, contract.measured.live_bytes),
        (13_467, (0..13_467).map(live).max().unwrap())
    );
}

#[test]
fn the_longest_of_twelve_thousand_collections_may_be_the_last() {
    let mut log = healthy(4);
    for i in 0..12_000 {
        log.cycle_start();
        log.collection("out of memory", if i == 11_998 { 900 } else { 300 }, 100, 500_000_000);
        log.cycle_end();
        log.now_ms += 5_000;
    }
    let a = read(&log.done());
    let r = &a.runs.rows[0];
    assert_eq!(r.synchronous.total(), 12_000);
    assert!(r.synchronous.rows.iter().any(|s| s.ns == Some(900 * MS)), "the longest is kept");
    let last = &r.synchronous.rows.last().unwrap();
    assert!(last.at_ns > r.synchronous.rows[r.synchronous.rows.len() / 2].at_ns && last.ns == Some(300 * MS));
    let places: Vec<u64> = r.synchronous.rows.iter().map(|s| s.at_ns).collect();
    assert!(places.is_sorted());
    let spread = |from: usize| places[from + 1_000] - places[from];
    assert!(spread(0).abs_diff(spread(places.len() - 1_001)) < spread(0) / 10, "evenly over the run");
    assert!(found(&advise(&a), "R1").evidence.contains("900.000 ms"), "{:?}", advise(&a).findings);
}

#[test]
fn every_run_of_very_many_is_judged() {
    let (well, sick) = (healthy(1).done(), {
        let mut log = healthy(1);
        log.collection("out of memory", 300, 100, 5_000_000);
        log.done()
    });
    let mut text = String::new();
    for i in 0..1_500 {
        text += if i == 1_200 || i == 1_499 { &sick } else { &well };
    }
    let a = read(&text);
    assert_eq!((a.runs.rows.len(), a.runs.total()), (1_000, 1_500));
    assert_eq!((a.beyond.judged, a.beyond.sick), (500, 2));
    let runs: Vec<usize> = advise(&a).findings.iter().filter(|f| f.rule == "R1").map(|f| f.run).collect();
    assert_eq!(runs, [1_200, 1_499]);
    // As many findings as there are runs: the last run's is there.
    let a = read(&sick.repeat(2_100));
    assert!(a.beyond.findings.omitted > 0);
    assert!(advise(&a).findings.iter().any(|f| f.run == 2_099));
}

/// Twenty cycles; the wall clock is set by so many ms before the cycle, or within it.
fn set_clock(step_ms: i64, within: bool) -> String {
    let mut log = Log::new(OPENJ9);
    for i in 0..20 {
        let set = i == 10;
        if set && !within {
            log.ahead_ms += step_ms;
        }
        log.line("trigger-start");
        log.cycle_start();
        log.beat(1_000, "mark", 95, (3_000, 3_100), MARKED, "");
        if set && within {
            log.ahead_ms += step_ms;
        }
        log.beat(1_000, "sweep", 95, (2_900, 3_100), SWEPT, "");
        log.cycle_end();
        log.line("trigger-end");
        log.now_ms += 10_000;
    }
    log.done()
}

fn lengths(r: &RunFigures) -> [u64; 6] {
    let (c, g) = (&r.cycle_length.stat, &r.cycle_gap.stat);
    [c.min, c.max, g.min, g.max, r.span_ns, r.share.ppm().map_or(0, u64::from)]
}

#[test]
fn steps_of_the_clock_are_found_by_the_intervals_and_taken_out() {
    let plain = read(&set_clock(0, false));
    let expected = lengths(&plain.runs.rows[0]);
    assert_eq!(expected[..4], [2_000 * MS, 2_000 * MS, 10_000 * MS, 10_000 * MS]);
    assert!(advise(&plain).findings.is_empty() && plain.diagnostics.total() == 0);
    for step in [3_600_000, -3_600_000, 300_000, -300_000, 9_000_000, -20_000] {
        for within in [false, true] {
            let a = read(&set_clock(step, within));
            let r = &a.runs.rows[0];
            assert_eq!(lengths(r), expected, "{step} {within}");
            assert_eq!(rules(&advise(&a)), BTreeSet::from(["R17"]), "{step} {within}");
            let said = a.diagnostics.rows.iter().any(|d| d.text.contains("the clock was set"));
            assert!(said, "{step} {within}: {:?}", a.diagnostics);
            assert!(r.last_time >= r.first_time);
        }
    }
    // A step that is shorter than what lies between events is found, but not its place: nothing is taken from there.
    for step in [700, -400] {
        let a = read(&set_clock(step, true));
        let r = &a.runs.rows[0];
        assert_eq!(r.trouble.clock_errors, 1, "{step}");
        let [min, max, gap_min, gap_max, ..] = lengths(r);
        assert_eq!([min, max, gap_min, gap_max], expected[..4], "{step}");
    }
}

#[test]
fn missing_lines_are_no_step_of_the_clock() {
    let text = healthy(30).done();
    // Every eleventh element between the header and the end.
    let (head, rest) = text.split_at(text.find("<trigger-start").unwrap());
    let mut kept = head.to_owned();
    let mut n = 0;
    let mut inside = false;
    let mut drop = false;
    for line in rest.lines() {
        if !inside {
            n += 1;
            drop = n % 11 == 0;
        }
        if line.starts_with("<gc-op") {
            inside = true;
        }
        if line.starts_with("</gc-op") {
            inside = false;
        }
        if !drop || line.starts_with("</verbosegc") {
            kept += line;
            kept.push('\n');
        }
    }
    let (whole, torn) = (read(&text), read(&kept));
    let (w, t) = (&whole.runs.rows[0], &torn.runs.rows[0]);
    assert!(t.quanta < w.quanta && t.cycles < w.cycles);
    assert_eq!(t.trouble.clock_errors, 0, "{:?}", torn.diagnostics);
    assert_eq!(t.share.ppm().unwrap() / 10_000, w.share.ppm().unwrap() / 10_000);
    assert_eq!((t.cycle_length.stat.min, t.cycle_length.stat.max), (2_000 * MS, 2_000 * MS));
    assert_eq!((t.cycle_gap.stat.min, t.cycle_gap.stat.max), (10_000 * MS, 10_000 * MS));
    assert!(advise(&torn).findings.is_empty(), "{:#?}", advise(&torn).findings);
}

#[test]
fn impossible_times_do_not_end_time() {
    let text = healthy(2).done();
    for wrong in ["9999-12-31T23:59:59.999", "1969-12-31T00:00:00.000"] {
        let at = text.match_indices("timestamp=\"").nth(4).unwrap().0 + 11;
        let mut t = text.clone();
        t.replace_range(at..at + 23, wrong);
        let r = &read(&t).runs.rows[0];
        assert!(r.span_ns < 60_000 * MS, "{wrong}: {}", r.span_ns);
        assert!(r.last_time >= r.first_time && r.trouble.clock_errors > 0, "{wrong}");
    }
}

/// Own heartbeats have exact times: a cycle of 1.4 ms is no cycle of 1 or 2 ms.
#[test]
fn exact_times_count_where_the_log_has_them() {
    let mut log = Log::new(OWN);
    for i in 0..20_u64 {
        // The wall clock prints the millisecond; 1.41 ms from the first quantum's start to the last one's end.
        let at = log.now_ms * MS + 5_000_000_000 + 700_000;
        let detail = |from: u64, to: u64| {
            format!("<metronome-quanta firstStartNs=\"{from}\" lastEndNs=\"{to}\" longestStep=\"mark\" />\n")
        };
        log.cycle_start();
        log.beat(1, "mark", 1, (500, 500), MARKED, &detail(at, at + 500_000));
        if i == 7 {
            // The wall clock is half a second slow from here on.
            log.ahead_ms -= 500;
        }
        log.beat(1, "sweep", 1, (400, 400), MARKED, &detail(at + 1_010_000, at + 1_410_000));
        log.cycle_end();
        log.now_ms += 98;
    }
    let a = read(&log.done());
    let r = &a.runs.rows[0];
    let (length, gap) = (&r.cycle_length.stat, &r.cycle_gap.stat);
    assert_eq!((length.count, length.min, length.max), (20, 1_410_000, 1_410_000));
    assert_eq!((gap.count, gap.min, gap.max), (19, 98_590_000, 98_590_000));
    // From the end of one quantum to the end of the next; the first one of a cycle has no such time.
    assert_eq!(r.share.ppm(), Some((400_000_u64 * 1_000_000 / 910_000) as u32));
    assert!(!r.lengths_rough && !r.gaps_rough && !r.share.rough);
    assert_eq!(r.trouble.clock_errors, 1);
    assert!(read(&healthy(3).done()).runs.rows[0].lengths_rough);
}

#[test]
fn the_worst_heartbeat_is_in_the_picture_of_a_long_run() {
    let mut log = Log::new(OPENJ9);
    for i in 0..6_000 {
        log.cycle_start();
        let mean = if i == 3_333 { 9_600 } else { 300 };
        log.beat(1_000, "mark", 100, (mean, mean), MARKED, "");
        log.cycle_end();
        log.now_ms += 30_000;
    }
    let a = read(&log.done());
    let r = &a.runs.rows[0];
    let worst = r.series.buckets.iter().filter_map(|b| b.share_max_ppm).max();
    assert_eq!(worst, Some(960_000));
    assert!(r.series.bucket_ns > 10_000 * MS, "a heartbeat is a small part of a bucket");
}

#[test]
fn what_collections_leave_counts_as_live() {
    let mut log = healthy(5);
    for _ in 0..3 {
        log.cycle_start();
        log.collection("out of memory", 300, 100, 5_000_000);
        log.cycle_end();
    }
    let advice = advise(&read(&log.done()));
    let contract = advice.contracts[0].1.as_ref().unwrap();
    assert_eq!(contract.measured.live_bytes, (1 << 30) - 5_000_000);
    assert!(contract.heap_for_target.is_none_or(|h| h > 1 << 30));
    let r1 = found(&advice, "R1");
    assert!(!r1.advice.contains("large enough"), "{r1:#?}");
}

#[test]
fn only_heartbeats_in_which_memory_fell_starve() {
    // Few quanta, but memory becomes free.
    let mut log = Log::new(OPENJ9);
    for _ in 0..8 {
        log.cycle_start();
        log.beat(1_000, "mark", 95, (3_000, 3_100), MARKED, "");
        log.beat(1_000, "sweep", 40, (2_900, 3_100), (500_000_000, 900_000_000), "");
        log.cycle_end();
        log.now_ms += 10_000;
    }
    assert!(!rules(&advise(&read(&log.done()))).contains("R8"));
    // Starved while marking (9 %); a sweep has less (1 %), but frees.
    let mut log = Log::new(OPENJ9);
    log.cycle_start();
    log.beat(1_000, "mark", 30, (3_000, 3_100), MARKED, "");
    log.beat(1_000, "sweep", 4, (2_500, 3_100), (500_000_000, 900_000_000), "");
    log.cycle_end();
    let advice = advise(&read(&log.done()));
    let r8 = found(&advice, "R8");
    assert!(r8.evidence.contains("9.0 %") && !r8.evidence.contains("1.0 %"), "{r8:#?}");
}

#[test]
fn classes_are_counted_by_cycles() {
    let unload = "<classunload-info classloadersunloaded=\"1\" classesunloaded=\"20\" />\n";
    let mut log = Log::new(OPENJ9);
    for _ in 0..30 {
        log.cycle_of(SWEPT, 3_100, unload);
    }
    let a = advise(&read(&log.done()));
    assert!(found(&a, "R20").evidence.contains("in 30 of 30 cycles"), "{:#?}", a.findings);
    // In ten of thirty only, twice in each.
    let mut log = Log::new(OPENJ9);
    for i in 0..30 {
        log.cycle_of(SWEPT, 3_100, if i % 3 == 0 { unload } else { "" });
    }
    assert!(!rules(&advise(&read(&log.done()))).contains("R20"));
}

#[test]
fn quanta_of_one_phase_that_grow_are_found_beside_others() {
    let mut log = Log::new(OPENJ9);
    for i in 0..40 {
        log.cycle_of(SWEPT, 3_100 + i * 100, "");
    }
    let advice = advise(&read(&log.done()));
    let r6 = found(&advice, "R6");
    assert!(r6.evidence.contains("phase mark"), "{r6:#?}");
}

#[test]
fn caches_that_fill_are_no_leak() {
    let free = |i: u64| 600_000_000 - i.min(5) * 24_000_000;
    let mut log = Log::new(OPENJ9);
    for i in 0..9 {
        log.cycle_of((500_000_000, free(i).max(500_000_001)), 3_100, "");
    }
    assert!(!rules(&advise(&read(&log.done()))).contains("R10"));
}

#[test]
fn advice_does_not_contradict_itself() {
    // Cycles at once, with little memory: starting later makes it worse.
    let mut log = Log::new(OPENJ9);
    log.line("trigger-start");
    for _ in 0..8 {
        log.cycle_start();
        log.beat(1_000, "mark", 95, (3_000, 3_100), (180_000_000, 200_000_000), "");
        log.beat(1_000, "sweep", 95, (2_900, 3_100), (200_000_000, 300_000_000), "");
        log.cycle_end();
        log.now_ms += 10;
    }
    let advice = advise(&read(&log.done()));
    let r12 = found(&advice, "R12");
    assert!(!r12.advice.contains("-XXgc:trigger"), "{r12:#?}");
    // By the contract this heap is large enough: no reason to tell a smaller one beside "raise".
    for f in &advice.findings {
        assert!(!f.advice.contains("large enough"), "{f:#?}");
    }
}

fn own_run(note: &str, facts: &str, detail: &str, cycles: u64) -> String {
    let mut log = Log::new(OWN);
    for _ in 0..cycles {
        log.cycle_start();
        log.beat(50, "mark", 20, (450, 500), (900_000_000, 940_000_000), detail);
        log.cycle_end();
        let time = log.time();
        let _ = writeln!(
            log.text,
            "<metronome-cycle timestamp=\"{time}\" quanta=\"20\" collectorMs=\"9.000\" cpuMs=\"9.000\" \
             allocatedBytes=\"1000000\" liveBytes=\"13000000\" {facts}/>"
        );
        log.now_ms += 500;
    }
    if !note.is_empty() {
        let time = log.time();
        let _ = writeln!(log.text, "<metronome-note timestamp=\"{time}\" text=\"{note}\" />");
    }
    log.done()
}

#[test]
fn steps_over_handles_are_counted_by_their_time() {
    let advice = |facts: &str| advise(&read(&own_run("", facts, "", 10)));
    assert!(found(&advice("handlesMs=\"5.000\" "), "O3").evidence.contains("55.6 %"));
    assert_eq!(rules(&advice("handlesMs=\"0.200\" ")), BTreeSet::new());
    // The longest step of a heartbeat does not tell what its quanta did.
    let roots = "<metronome-quanta longestStepMs=\"0.002\" longestStep=\"roots\" />\n";
    assert_eq!(rules(&advise(&read(&own_run("", "", roots, 10)))), BTreeSet::new());
    // Torn: nothing of nothing is no share.
    let torn = "<metronome-quanta cpuQuanta=\"20\" longestStep=\"roots\" />\n";
    assert_eq!(rules(&advise(&read(&own_run("", "", torn, 10)))), BTreeSet::new());
}

#[test]
fn failed_allocations_are_told_with_words_and_one_heap() {
    let note = "1 allocation returned an error to the program (1 in all); by what was measured a heap of 1200000000 bytes \
                would have been enough";
    let advice = advise(&read(&own_run(note, "", "", 10)));
    let r2 = found(&advice, "R2");
    assert!(r2.evidence.contains("1 allocation returned") && !r2.evidence.contains("1200000000"), "{r2:#?}");
}

/// One quantum in fifty is the host's doing.
#[test]
fn one_outlier_is_no_habit() {
    let mut log = Log::new(OWN);
    for i in 0..50 {
        log.cycle_start();
        let us = if i == 20 { 1_400 } else { 450 };
        log.beat(50, "mark", 1, (us, us), (900_000_000, 940_000_000), "");
        log.cycle_end();
        log.now_ms += 500;
    }
    assert_eq!(rules(&advise(&read(&log.done()))), BTreeSet::new());
}

#[test]
fn few_values_have_exact_quantiles() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../verbosegc-samples/churn-even.xml");
    let a = read(&std::fs::read_to_string(sample).unwrap());
    let d = &a.runs.rows[0].cycle_length;
    assert_eq!((d.stat.count, d.p50, d.p99), (2, d.stat.min, d.stat.max));
}

#[test]
fn wall_time_that_misses_the_target_is_told() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../verbosegc-samples/trees-degrade.xml");
    let advice = advise(&read(&std::fs::read_to_string(sample).unwrap()));
    let o8 = found(&advice, "O8");
    assert!(o8.evidence.contains("43.2 %") && o8.evidence.contains("70.6 %"), "{o8:#?}");
}

fn sample(name: &str) -> Analysis {
    let path = format!("{}/../verbosegc-samples/{name}", env!("CARGO_MANIFEST_DIR"));
    read(&std::fs::read_to_string(path).unwrap())
}

/// The first quantum waits for the straggler: that time is the cycle's, and not the gap's.
#[test]
fn a_cycle_that_waits_for_a_mutator_is_as_long_as_its_stamps_say() {
    let a = sample("straggler.xml");
    let r = &a.runs.rows[0];
    // Lines 68 to 102: 01.989 to 02.241.
    let length = |line: u64| r.cycle_rows.rows.iter().find(|c| c.line == line).unwrap().length_ns;
    assert_eq!(length(102), Some(252 * MS));
    assert_eq!(r.cycle_length.stat.max / MS, 330);
    assert!(r.lengths_rough && r.cycle_gap.stat.max < 150 * MS, "{:?}", r.cycle_gap.stat);
    // Where both clocks agree, the exact one counts.
    assert!(r.cycle_rows.rows.iter().any(|c| c.length_ns.is_some_and(|ns| ns % MS > 0)));
}

/// Single quanta of 0.5 ms, three of them each 100 ms: the collector had 1.5 %, and 30 % where it was at work.
#[test]
fn a_quantum_is_no_share_of_its_own_length() {
    let mut log = Log::new(OWN);
    let (beat, quantum, cycles) = (1_700_000, 500_000_u64, 50);
    for _ in 0..cycles {
        let at = log.now_ms * MS + 5_000_000_000;
        let detail = |n: u64| {
            let (from, to) = (at + n * beat, at + n * beat + quantum);
            format!("<metronome-quanta firstStartNs=\"{from}\" lastEndNs=\"{to}\" longestStep=\"mark\" />\n")
        };
        log.cycle_start();
        for (n, phase) in [(0, "precollect"), (1, "mark"), (2, "sweep")] {
            log.beat(n.min(1) * 2, phase, 1, (500, 500), MARKED, &detail(n));
        }
        log.cycle_end();
        log.now_ms += 96;
    }
    let time = log.time();
    let _ = writeln!(
        log.text,
        "<metronome-summary timestamp=\"{time}\" cycles=\"50\" quanta=\"150\" longestQuantumMs=\"0.5\" \
         longestStopMs=\"0.1\" collectorMs=\"75.000\" runMs=\"5000.000\" syncGcs=\"0\" stopsCancelled=\"0\" departures=\"0\" \
         lostRecords=\"0\" />"
    );
    let a = read(&log.done());
    let r = &a.runs.rows[0];
    assert_eq!(r.share.ppm(), Some((quantum * 1_000_000 / beat) as u32));
    assert_eq!(r.share.peak_of_all_ppm, (quantum * 1_000_000 / beat) as u32);
    assert_eq!(r.run_utilization_ppm(), Some(985_000));
    let shares: Vec<_> = r.heartbeats.rows.iter().take(3).map(|h| h.share_ppm).collect();
    assert_eq!(shares, [None, Some(294_117), Some(294_117)]);
    // All of the time is in the picture, and no bucket is the collector's alone.
    let all: u64 = r.series.buckets.iter().map(|b| b.collector_ns).sum();
    assert_eq!(all, 3 * cycles * quantum);
    let taken = |b: &metronome_analysis::Bucket| b.collector_ns as f64 / r.series.bucket_ns as f64;
    assert!(r.series.buckets.iter().all(|b| taken(b) < 0.4));
}

/// Each cycle takes the used memory from 50 to 16 MiB; buckets are longer than cycles.
#[test]
fn a_bucket_tells_how_the_heap_was_first_and_last() {
    let mut log = Log::new(OWN);
    for _ in 0..6_000 {
        log.cycle_start();
        log.beat(5, "mark", 3, (450, 500), (14_000_000, 20_000_000), "");
        log.beat(5, "sweep", 3, (450, 500), (14_000_000, 48_000_000), "");
        log.cycle_end();
        log.now_ms += 990;
    }
    let a = read(&log.done());
    let s = &a.runs.rows[0].series;
    assert!(s.bucket_ns > 1_000 * MS);
    let known: Vec<_> = s.buckets.iter().filter_map(|b| b.free_ends_bytes).collect();
    // But for the cycles that a bucket's end cuts.
    let whole = known.iter().filter(|e| **e == (20_000_000, 48_000_000)).count();
    assert!(known.len() > 1_000 && whole > known.len() / 10 * 9, "{whole} of {}", known.len());
}

#[test]
fn what_lies_over_a_step_of_unknown_place_is_left_out() {
    let plain = read(&set_clock(0, false));
    let share =
        |r: &RunFigures| r.heartbeats.rows.iter().filter_map(|h| h.share_ppm).collect::<BTreeSet<_>>();
    let expected = share(&plain.runs.rows[0]);
    for step in [100, 500, 1_000, 2_000, 5_000, -300, -900] {
        let a = read(&set_clock(step, true));
        let r = &a.runs.rows[0];
        assert_eq!(rules(&advise(&a)), BTreeSet::from(["R17"]), "{step}: {:#?}", advise(&a).findings);
        assert_eq!(r.trouble.clock_errors, 1, "{step}");
        assert_eq!(share(r), expected, "{step}");
        let (c, g) = (&r.cycle_length.stat, &r.cycle_gap.stat);
        assert_eq!((c.count, c.min, c.max), (19, 2_000 * MS, 2_000 * MS), "{step}");
        assert_eq!((g.min, g.max), (10_000 * MS, 10_000 * MS), "{step}");
        assert!(r.cycle_rows.rows.iter().all(|c| c.length_ns.is_none_or(|ns| ns == 2_000 * MS)), "{step}");
        assert!(r.triggers_ns.rows.iter().all(|ns| *ns == 2_000 * MS), "{step}: {:?}", r.triggers_ns);
        assert!(r.triggers_ns.total() >= 18 && r.heartbeats.total() == 40, "{step}");
        let worst = r.series.buckets.iter().filter_map(|b| b.share_max_ppm).max();
        assert_eq!(worst, expected.last().copied(), "{step}");
    }
}

/// Lines cut out of the middle of two heartbeats, which become one.
#[test]
fn what_is_left_of_two_heartbeats_is_no_step_of_the_clock() {
    for (name, from, to) in [("index-openj9.xml", 307, 329), ("churn-even.xml", 75, 94)] {
        let path = format!("{}/../verbosegc-samples/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        for shift in 0..6 {
            let lines =
                text.lines().enumerate().filter(|(i, _)| !(from + shift..=to + shift).contains(&(i + 1)));
            let cut: Vec<&str> = lines.map(|l| l.1).collect();
            let a = read(&cut.join("\n"));
            let r = &a.runs.rows[0];
            assert_eq!(r.trouble.clock_errors, 0, "{name} {shift}: {:?}", a.diagnostics);
            assert!(a.diagnostics.rows.iter().any(|d| d.text.contains("missing")), "{name} {shift}");
            assert!(!rules(&advise(&a)).contains("R17"), "{name} {shift}");
            assert!(r.heartbeats.rows.iter().all(|h| h.share_ppm.is_none_or(|s| s <= 1_000_000)), "{name}");
        }
    }
}

#[test]
fn more_than_all_of_the_time_is_no_share() {
    let mut log = healthy(4);
    log.line("trigger-start");
    log.cycle_start();
    log.beat(1_000, "mark", 4_000_000, (1_000, 2_000), MARKED, "");
    log.cycle_end();
    log.line("trigger-end");
    let a = read(&log.done());
    let r = &a.runs.rows[0];
    assert_eq!(r.share, read(&healthy(4).done()).runs.rows[0].share);
    assert_eq!(r.heartbeats.rows.last().unwrap().share_ppm, None);
    assert_eq!(r.cycle_rows.rows.last().unwrap().collector_ns, 0);
    assert!(!rules(&advise(&a)).contains("R9"), "{:#?}", advise(&a).findings);
}

#[test]
fn many_values_have_quantiles_of_three_digits() {
    let mut log = Log::new(OPENJ9);
    for i in 0..1_500 {
        log.cycle_start();
        log.beat(10_000, "mark", 95, (3_000, 3_100), MARKED, "");
        log.cycle_end();
        log.now_ms += 10_000 + i % 7;
    }
    let d = &read(&log.done()).runs.rows[0].cycle_gap;
    assert!(!d.exact && d.p50.abs_diff(10_003 * MS) < 11 * MS, "{d:?}");
}

#[test]
fn one_cycle_of_many_does_not_make_the_contract() {
    let burst = |n: u64, of: u64| {
        let mut log = Log::new(OPENJ9);
        for i in 0..of {
            log.cycle_start();
            let least = if i < n { 1_000 } else { MARKED.0 };
            log.beat(1_000, "mark", 95, (3_000, 3_100), (least, MARKED.1), "");
            log.beat(1_000, "sweep", 95, (2_900, 3_100), (500_000_000, 900_000_000), "");
            log.cycle_end();
            log.now_ms += 10_000;
        }
        let advice = advise(&read(&log.done()));
        advice.contracts[0].1.clone().unwrap()
    };
    let (none, one) = (burst(0, 30), burst(1, 30));
    assert_eq!((one.measured, one.heap_for_target), (none.measured, none.heap_for_target));
    let left = one.burst.unwrap();
    assert!(none.burst.is_none() && left.rate > 20 * one.measured.allocation_rate && left.line > 0);
    // Two are a habit, and so is one of few.
    for c in [burst(2, 30), burst(1, 5)] {
        assert_eq!((c.burst, c.measured.allocation_rate), (None, left.rate));
    }
}

/// Written intervals of own logs of the 2007 form count from a cycle's first quantum.
#[test]
fn written_intervals_that_begin_with_a_quantum_have_a_pause_as_well() {
    let r = &sample("trees-synchronous-2007.xml").runs.rows[0];
    // Line 72: three quanta, 1.026 ms in 2.056 ms, and two pauses between them.
    let first = r.heartbeats.rows.iter().find(|h| h.line == 72).unwrap();
    let expected = 1_026_000 * 1_000_000_u64 / (2_056_135 + (2_056_135 - 1_026_000) / 2);
    assert!(u64::from(first.share_ppm.unwrap()).abs_diff(expected) < 1_000, "{first:?} {expected}");
    let single = r.heartbeats.rows.iter().filter(|h| h.quanta == Some(1));
    assert!(single.filter_map(|h| h.share_ppm).all(|s| s < 950_000));
    // The run's own average and its heartbeats are of the same collector time.
    assert!(r.run_utilization_ppm().unwrap() > 900_000);
}

/// A quantum of 450 us whose mutators run on half a millisecond later, with and without the collector's own end.
fn resumed_late(work_ms: Option<&str>) -> String {
    let own = work_ms.map_or_else(String::new, |work| {
        format!(
            "workMs=\"{work}\" minCollectorMs=\"0.400\" meanCollectorMs=\"0.450\" maxCollectorMs=\"0.500\" \
             meanResumeMs=\"0.550\" maxResumeMs=\"3.000\" "
        )
    });
    let detail = format!(
        "<metronome-quanta minWakeupMs=\"0.010\" meanWakeupMs=\"0.010\" maxWakeupMs=\"0.020\" maxPlannedMs=\"0.500\" \
         overPlan=\"0\" maxOverPlanMs=\"0.000\" cpuQuanta=\"20\" cpuMs=\"8.000\" cpuWallMs=\"20.000\" {own}\
         longestStepMs=\"0.041\" longestStep=\"mark\" />\n<thread-priority maxPriority=\"11\" minPriority=\"11\" />\n"
    );
    let mut log = Log::new(OWN);
    for _ in 0..10 {
        log.cycle_start();
        log.beat(50, "mark", 20, (1_000, 3_500), (900_000_000, 940_000_000), &detail);
        log.cycle_end();
        log.now_ms += 500;
    }
    log.done()
}

#[test]
fn the_collector_is_not_blamed_for_what_released_mutators_wait_for() {
    let advice = |work| advise(&read(&resumed_late(work)));
    let waits = advice(Some("8.400"));
    assert_eq!(rules(&waits), BTreeSet::from(["O10"]), "{:#?}", waits.findings);
    let o10 = found(&waits, "O10");
    assert!(o10.evidence.contains("0.550 ms") && o10.evidence.contains("3.000 ms"), "{o10:#?}");
    // Half of the collector's own stretch was not its own; the priority that it has is no remedy.
    let preempted = advice(Some("16.000"));
    assert_eq!(rules(&preempted), BTreeSet::from(["O2", "O10"]));
    let o2 = found(&preempted, "O2");
    assert!(o2.evidence.starts_with("50.0 % of"), "{o2:#?}");
    assert!(!o2.advice.contains("--gc-priority") && o2.advice.contains("priority 11 already"), "{o2:#?}");
    // A log that does not tell them apart says so.
    let old = advice(None);
    assert_eq!(rules(&old), BTreeSet::from(["O2", "R5"]));
    assert!(found(&old, "O2").evidence.contains("does not tell apart"), "{:#?}", old.findings);
}

const OVERDUE: &str = "safepoint overdue: mutator trees has polled for 3 days-1 has polled for 250 ms without a safepoint; the \
                       cycle waits for it";

#[test]
fn a_mutator_that_a_cycle_waits_for_is_the_first_cause() {
    let text = own_run(OVERDUE, "handlesMs=\"5.000\" ", "", 10);
    let a = read(&text);
    let advice = advise(&a);
    assert_eq!(rules(&advice), BTreeSet::from(["O9", "O3"]));
    let o9 = advice.causes(0)[0];
    assert!(o9.rule == "O9" && o9.title.ends_with(": trees has polled for 3 days-1"), "{o9:#?}");
    assert!(o9.evidence.contains("250 ms, line ") && o9.advice.contains("safepoint()"), "{o9:#?}");
    assert!(text.lines().nth(o9.lines[0] as usize - 1).unwrap().contains("safepoint overdue"));
}

/// All that a short heap shows, in a run in which cycles wait for a mutator or the collector for its processor.
#[test]
fn no_remedy_names_a_larger_heap_where_the_collector_was_held_up() {
    let sick = |held: &str, preempted: bool| {
        let mut log = Log::new(OWN);
        let cpu = if preempted { "4.000" } else { "8.400" };
        let detail = format!(
            "<metronome-quanta minWakeupMs=\"0.010\" meanWakeupMs=\"0.010\" maxWakeupMs=\"0.020\" maxPlannedMs=\"0.500\" \
             overPlan=\"0\" maxOverPlanMs=\"0.000\" cpuQuanta=\"20\" cpuMs=\"{cpu}\" cpuWallMs=\"9.000\" \
             workMs=\"8.500\" longestStepMs=\"0.041\" longestStep=\"mark\" />\n"
        );
        log.line("trigger-start");
        for _ in 0..10 {
            log.cycle_start();
            log.beat(50, "mark", 20, (450, 500), (1_000_000, 40_000_000), &detail);
            log.cycle_end();
            let time = log.time();
            let _ = writeln!(
                log.text,
                "<metronome-cycle timestamp=\"{time}\" quanta=\"20\" collectorMs=\"9.000\" cpuMs=\"9.000\" \
                 allocatedBytes=\"100000000\" liveBytes=\"900000000\" />\n<metronome-note timestamp=\"{time}\" \
                 text=\"1 allocation returned an error to the program (1 in all); by what was measured a heap of \
                 1200000000 bytes would have been enough\" />\n<metronome-departure timestamp=\"{time}\" reason=\"out of \
                 memory\" windowMs=\"10.000\" targetPercent=\"70.0000\" achievedPercent=\"35.0000\" \
                 enoughHeapBytes=\"2147483648\" />\n<metronome-mmu timestamp=\"{time}\" windowMs=\"10.000\" \
                 chargedPercent=\"71.0000\" wallPercent=\"20.0000\" />{held}"
            );
        }
        log.done()
    };
    let note = format!("\n<metronome-note text=\"{OVERDUE}\" />");
    let names = |f: &Finding| {
        f.advice.contains("raise heap")
            || f.advice.contains("would be enough")
            || f.advice.contains("of heap keep")
    };
    for (text, rule) in
        [(sick(&note, false), Some("O9")), (sick("", true), Some("O2")), (sick("", false), None)]
    {
        let a = read(&text);
        let advice = advise(&a);
        for other in ["R2", "R9", "R11", "R12", "O8"].into_iter().chain(rule) {
            found(&advice, other);
        }
        assert_eq!(advice.findings.iter().any(names), rule.is_none(), "{:#?}", advice.findings);
        assert_eq!(advice.small_heap(0, &a.runs.rows[0]).is_none(), rule.is_some());
        if let Some(rule) = rule {
            assert_eq!(advice.causes(0)[0].rule, rule);
            let r2 = found(&advice, "R2");
            assert!(r2.advice.contains(&format!("(see {rule})")), "{r2:#?}");
        }
    }
}

/// Triggers of so many cycles each, with so much free at a trigger's first cycle and after each.
fn triggers(cycles: &[u64], (first, after): (u64, u64)) -> Advice {
    let mut log = Log::new(OWN);
    for n in cycles {
        log.line("trigger-start");
        for i in 0..*n {
            let edge = |tag: &str, free: u64, log: &mut Log| {
                let from = log.text.len();
                if tag == "start" {
                    log.cycle_start()
                } else {
                    log.cycle_end()
                }
                let end = log.text[from..].find("/>").unwrap() + from;
                log.text.insert_str(end, &format!("metronome-heapFreeBytes=\"{free}\" "));
            };
            edge("start", if i == 0 { first } else { after }, &mut log);
            log.beat(50, "mark", 20, (450, 500), (900_000_000, 940_000_000), "");
            edge("end", after, &mut log);
            log.now_ms += 10;
        }
        log.line("trigger-end");
        log.now_ms += 2_000;
    }
    advise(&read(&log.done()))
}

#[test]
fn cycles_at_once_are_a_habit_and_their_reason_is_that_of_the_log() {
    let some = |n: usize, of: u64| [vec![of; n], vec![1; 60]].concat();
    // A burst or two in sixty cycles, and one of three among four.
    assert_eq!(rules(&triggers(&some(2, 4), (500_000_000, 900_000_000))), BTreeSet::new());
    // As much used as when the trigger began.
    let above = triggers(&[4; 8], (900_000_000, 900_000_000));
    assert!(
        found(&above, "R12")
            .advice
            .starts_with("what is used after a cycle is above the trigger already: raise")
    );
    // Far less, each time.
    let below = triggers(&[4; 8], (500_000_000, 900_000_000));
    let r12 = found(&below, "R12");
    assert!(!r12.advice.contains("above the trigger") && r12.advice.contains("bursts"), "{r12:#?}");
    assert!(r12.evidence.contains("32 of 32 cycles") && r12.evidence.contains("24 of 24 times"), "{r12:#?}");
}

#[test]
fn who_answers_nearly_all_stops_does_poll() {
    let stop = |name: &str, times: usize| {
        format!(
            "<metronome-stop-cancelled mutator=\"{name}\" waitedMs=\"0.490\" budgetMs=\"0.450\" missingMutators=\"1\" />\n"
        )
        .repeat(times)
    };
    // 50 quanta a cycle, ten cycles.
    let run = |stops: &str| {
        let mut log = Log::new(OWN);
        for i in 0..10 {
            log.cycle_start();
            log.beat(50, "mark", 50, (300, 310), (900_000_000, 940_000_000), "");
            log.cycle_end();
            if i == 0 {
                log.text += stops;
            }
            log.now_ms += 500;
        }
        advise(&read(&log.done()))
    };
    let busy = run(&(stop("a", 9) + &stop("b", 8)));
    let o1 = found(&busy, "O1");
    assert_eq!(o1.title, "mutators come too late to stops");
    assert!(o1.advice.contains("or wait for a processor"), "{o1:#?}");
    let deaf = run(&(stop("a", 40) + &stop("b", 8)));
    let o1 = found(&deaf, "O1");
    assert!(o1.title == "a mutator does not poll" && o1.evidence.contains("a (40 times)"), "{o1:#?}");
}

/// In a run whose collector is preempted, too, the mutator that does not poll comes first.
#[test]
fn a_straggler_comes_before_a_busy_host() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../verbosegc-samples/straggler.xml");
    let text = std::fs::read_to_string(sample).unwrap();
    let mut held = String::new();
    for line in text.lines() {
        // A tenth of the CPU time.
        match line.split_once(" cpuMs=\"").filter(|_| line.contains("metronome-quanta")) {
            Some((before, rest)) => {
                let _ = writeln!(held, "{before} cpuMs=\"0.001\"{}", &rest[rest.find('"').unwrap() + 1..]);
            }
            None => held = held + line + "\n",
        }
    }
    let advice = advise(&read(&held));
    let causes: Vec<&str> = advice.causes(0).iter().map(|f| f.rule).take(2).collect();
    assert_eq!(causes, ["O1", "O2"]);
}
