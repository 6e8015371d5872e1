//! Every rule on a log that breaks it, and none on healthy logs.

use metronome_analysis::advice::{Advice, Severity, advise};
use metronome_analysis::analyze;
use metronome_analysis::contract::allocation;
use std::collections::BTreeSet;
use std::fmt::Write;

fn advice(text: &str) -> Advice {
    advise(&analyze(text.as_bytes()).unwrap())
}

fn rules(a: &Advice) -> BTreeSet<&'static str> {
    a.findings.iter().chain(&a.explanations).map(|f| f.rule).collect()
}

/// An OpenJ9 log: a header and cycles of two heartbeats, one of marking and one of sweeping, a second each.
struct Log {
    header: bool,
    own: bool,
    vmargs: &'static [&'static str],
    target: u32,
    cycles: u64,
    /// Idle seconds after each cycle.
    idle: u64,
    /// Quanta of a heartbeat, their mean and most in ms.
    quanta: u64,
    mean: f64,
    max: Box<dyn Fn(u64) -> f64>,
    /// Most to stop, in ms.
    stop: f64,
    /// Free at the end of a cycle, in MiB of 1024; while marking 300 less.
    free: Box<dyn Fn(u64) -> u64>,
    priority: &'static str,
    /// More children of each heartbeat.
    children: &'static str,
    /// After each cycle; after them all.
    after_cycle: &'static str,
    tail: &'static str,
    /// No trigger lines between cycles.
    one_trigger: bool,
    end: bool,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            header: true,
            own: false,
            vmargs: &[],
            target: 70,
            cycles: 8,
            idle: 10,
            quanta: 250,
            mean: 1.0,
            max: Box::new(|_| 2.9),
            stop: 0.1,
            // Up and down, on no line.
            free: Box::new(|i| 600 + i % 2 * 3),
            priority: "maxPriority=\"11\" minPriority=\"11\"",
            children: "",
            after_cycle: "",
            tail: "",
            one_trigger: false,
            end: true,
        }
    }
}

impl Log {
    fn text(&self) -> String {
        let mut t = String::new();
        let mut id = 0;
        let mut ms = 0;
        // The last cycle's start: what a cycle start's interval counts from.
        let mut start = 0;
        let mut at = |t: &mut String, after_ms: u64, form: &str| {
            id += u64::from(form.contains("ID"));
            ms += after_ms;
            let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
            let time = format!("2026-08-31T{h:02}:{m:02}:{s:02}.{:03}", ms % 1000);
            let since = ms - start;
            if form.contains("SINCE") {
                start = ms;
            }
            let form = form.replace("SINCE", &format!("{since}.000"));
            // Quanta of this project's heartbeats, which last a second.
            let mono = |ms: u64| format!("{}000000", ms + 5_000);
            let form = form.replace("MONO0", &mono(ms.saturating_sub(999))).replace("MONO1", &mono(ms));
            *t += &form.replace("ID", &id.to_string()).replace("TIME", &time);
            t.push('\n');
        };
        if self.header {
            let version = if self.own { "metronome-gc 0.1.0" } else { "1d8018dce_CMPRSS" };
            writeln!(t, "<?xml version=\"1.0\" ?>\n<verbosegc xmlns=\"x\" version=\"{version}\">").unwrap();
            let (beat, window) = if self.own { (500, 10_000) } else { (3_000, 60_000) };
            let args: String = self.vmargs.iter().map(|a| format!("<vmarg name=\"{a}\" />")).collect();
            let head = format!(
                "<initialized id=\"ID\" timestamp=\"TIME\">\
                 <attribute name=\"gcPolicy\" value=\"-Xgcpolicy:metronome\" />\
                 <attribute name=\"maxHeapSize\" value=\"0x40000000\" />\
                 <metronome><attribute name=\"beatsPerMeasure\" value=\"{beat}\" />\
                 <attribute name=\"timeInterval\" value=\"{window}\" />\
                 <attribute name=\"targetUtilization\" value=\"{}\" /></metronome>\
                 <vmargs>{args}</vmargs></initialized>",
                self.target
            );
            at(&mut t, 0, &head);
        }
        for i in 0..self.cycles {
            if !self.one_trigger || i == 0 {
                at(&mut t, 0, "<trigger-start id=\"ID\" timestamp=\"TIME\" />");
            }
            at(
                &mut t,
                0,
                "<cycle-start id=\"ID\" type=\"global\" contextid=\"0\" timestamp=\"TIME\" intervalms=\"SINCE\" />",
            );
            let free = (self.free)(i) << 20;
            for (phase, low, high) in
                [("mark", free - (300 << 20), free), ("sweep", free - (300 << 20), free)]
            {
                let max = (self.max)(i);
                let beat = format!(
                    "<gc-op id=\"ID\" type=\"heartbeat\" contextid=\"0\" timestamp=\"TIME\">\n\
                     <quanta quantumCount=\"{}\" quantumType=\"{phase}\" minTimeMs=\"0.200\" meanTimeMs=\"{:.3}\" \
                     maxTimeMs=\"{max:.3}\" maxTimestampMs=\"9.000\" />\n\
                     <exclusiveaccess-info minTimeMs=\"0.010\" meanTimeMs=\"0.020\" maxTimeMs=\"{:.3}\" />\n{}\n\
                     <free-mem type=\"heap\" minBytes=\"{low}\" meanBytes=\"{low}\" maxBytes=\"{high}\" />\n\
                     <thread-priority {} />\n</gc-op>",
                    self.quanta, self.mean, self.stop, self.children, self.priority
                );
                at(&mut t, 1_000, &beat);
            }
            at(&mut t, 0, "<cycle-end id=\"ID\" type=\"global\" contextid=\"0\" timestamp=\"TIME\" />");
            if !self.one_trigger {
                at(&mut t, 0, "<trigger-end id=\"ID\" timestamp=\"TIME\" />");
            }
            if !self.after_cycle.is_empty() {
                at(&mut t, 0, self.after_cycle);
            }
            at(&mut t, self.idle * 1_000, "");
        }
        if !self.tail.is_empty() {
            at(&mut t, 0, self.tail);
        }
        // Elements that take no number do not end in one: count anew would be an error of this test.
        if self.end { t + "</verbosegc>\n" } else { t }
    }
}

const OOM: &str = "<gc-op id=\"ID\" type=\"syncgc\" timems=\"40.000\" contextid=\"0\" timestamp=\"TIME\">\n\
    <syncgc-info reason=\"out of memory\" totalBytesRequested=\"1048576\" exclusiveaccessTimeMs=\"0.010\" threadPriority=\"11\" />\n\
    <free-mem-delta type=\"heap\" bytesBefore=\"500\" bytesAfter=\"600000000\" />\n</gc-op>";
const OOM_TWICE: &str = "<gc-op type=\"syncgc\" timems=\"40.000\" timestamp=\"TIME\">\
    <syncgc-info reason=\"out of memory\" totalBytesRequested=\"16\" exclusiveaccessTimeMs=\"0.010\" threadPriority=\"11\" /></gc-op>\
    <gc-op type=\"syncgc\" timems=\"40.000\" timestamp=\"TIME\">\
    <syncgc-info reason=\"out of memory\" totalBytesRequested=\"16\" exclusiveaccessTimeMs=\"0.010\" threadPriority=\"11\" /></gc-op>";
const ASKED: &str = "<gc-op id=\"ID\" type=\"syncgc\" timems=\"40.000\" contextid=\"0\" timestamp=\"TIME\">\n\
    <syncgc-info reason=\"system GC\" exclusiveaccessTimeMs=\"0.010\" threadPriority=\"11\" />\n</gc-op>";
const SHUTDOWN: &str = "<gc-op id=\"ID\" type=\"syncgc\" timems=\"40.000\" contextid=\"0\" timestamp=\"TIME\">\n\
    <syncgc-info reason=\"VM shut down\" exclusiveaccessTimeMs=\"0.010\" threadPriority=\"11\" />\n</gc-op>";

#[test]
fn a_healthy_log_has_no_finding() {
    let a = advice(&Log::default().text());
    assert!(a.findings.is_empty() && a.explanations.is_empty(), "{:#?}", a.findings);
    assert!(a.not_enough_data.is_empty(), "{:#?}", a.not_enough_data);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../verbosegc-samples/");
    for name in ["index-openj9.xml", "index-2007.xml", "churn-even.xml"] {
        let a = advice(&std::fs::read_to_string(format!("{folder}{name}")).unwrap());
        assert!(a.findings.is_empty(), "{name}: {:#?}", a.findings);
    }
}

#[test]
fn each_rule_finds_its_fault_and_no_other_does() {
    let d = Log::default;
    let cases: Vec<(&str, Severity, Log)> = vec![
        ("R1", Severity::Broken, Log { tail: OOM, ..d() }),
        (
            "R2",
            Severity::Broken,
            Log {
                tail: "<out-of-memory id=\"ID\" timestamp=\"TIME\" memorySpaceName=\"Metronome\" memorySpaceAddress=\"0\" />",
                ..d()
            },
        ),
        ("R3", Severity::Risk, Log { tail: ASKED, ..d() }),
        ("R4", Severity::Explain, Log { tail: SHUTDOWN, ..d() }),
        ("R5", Severity::Risk, Log { max: Box::new(|i| if i == 4 { 9.5 } else { 2.9 }), ..d() }),
        ("R7", Severity::Risk, Log { stop: 1.5, ..d() }),
        ("R8", Severity::Risk, Log { quanta: 20, ..d() }),
        ("R9", Severity::Broken, Log { quanta: 400, ..d() }),
        ("R10", Severity::Risk, Log { free: Box::new(|i| 900 - i * 40), ..d() }),
        ("R11", Severity::Note, Log { free: Box::new(|i| 350 + i % 2 * 3), ..d() }),
        ("R13", Severity::Note, Log { idle: 1, ..d() }),
        ("R14", Severity::Explain, Log { free: Box::new(|i| 900 + i % 2 * 3), ..d() }),
        ("R16", Severity::Risk, Log { priority: "maxPriority=\"11\" minPriority=\"5\"", ..d() }),
        (
            "R17",
            Severity::Risk,
            Log {
                tail: "<non-monotonic-time timerDescription=\"clock\" id=\"ID\" timestamp=\"TIME\" />",
                ..d()
            },
        ),
        (
            "R18",
            Severity::Note,
            Log { children: "<work-packet-overflow packetCount=\"3\" directObjectCount=\"1\" />", ..d() },
        ),
        (
            "R19",
            Severity::Note,
            Log {
                children: "<nondeterministic-sweep maxTimeMs=\"1.200\" totalRegions=\"5\" maxRegions=\"2\" />",
                ..d()
            },
        ),
        (
            "R20",
            Severity::Note,
            Log { children: "<classunload-info classloadersunloaded=\"1\" classesunloaded=\"9\" />", ..d() },
        ),
        ("R21", Severity::Note, Log { children: "<finalization enqueued=\"2525\" />", ..d() }),
        ("R22", Severity::Note, Log { vmargs: &["-Xgc:verbosegcCycleTime=10"], ..d() }),
        (
            "R24",
            Severity::Explain,
            Log { vmargs: &["-Xgc:targetPausetime=3", "-Xgc:timeInterval=60"], ..d() },
        ),
        ("R25", Severity::Note, Log { target: 81, quanta: 150, ..d() }),
    ];
    for (rule, severity, log) in cases {
        let a = advice(&log.text());
        assert_eq!(rules(&a), BTreeSet::from([rule]), "{rule}: {:#?}", a.findings);
        let f = a.findings.iter().chain(&a.explanations).next().unwrap();
        assert_eq!(f.severity, severity, "{rule}");
        assert!(!f.evidence.is_empty() && !f.advice.is_empty() && !f.title.is_empty(), "{rule}");
    }
}

/// Faults that come together, or that other rules see, too.
#[test]
fn rules_that_come_in_company() {
    let d = Log::default;
    let cases: Vec<(&[&str], Log)> = vec![
        (&["R1", "R2"], Log { tail: OOM_TWICE, ..d() }),
        (&["R5", "R6"], Log { cycles: 20, max: Box::new(|i| 2.0 + i as f64 * 0.5), ..d() }),
        (&["R12", "R13"], Log { idle: 0, ..d() }),
        (&["R12"], Log { one_trigger: true, ..d() }),
    ];
    for (expected, log) in cases {
        let a = advice(&log.text());
        assert_eq!(rules(&a), expected.iter().copied().collect(), "{:#?}", a.findings);
    }
    // A log that ends inside a cycle.
    let text = Log { end: false, ..d() }.text()
        + "<cycle-start id=\"900\" type=\"global\" contextid=\"0\" timestamp=\"2026-08-31T00:01:50.000\" intervalms=\"9.0\" />\n";
    assert_eq!(rules(&advice(&text)), BTreeSet::from(["R23"]));
}

#[test]
fn our_own_logs_have_rules_and_words_of_their_own() {
    let own = || Log {
        own: true,
        mean: 0.45,
        quanta: 400,
        max: Box::new(|_| 0.6),
        priority: "maxPriority=\"10\" minPriority=\"10\"",
        ..Log::default()
    };
    let quanta = "<metronome-quanta firstStartNs=\"MONO0\" lastEndNs=\"MONO1\" minWakeupMs=\"0.010\" meanWakeupMs=\"0.010\" \
                  maxWakeupMs=\"0.020\" maxPlannedMs=\"0.500\" overPlan=\"1\" maxOverPlanMs=\"0.100\" cpuQuanta=\"400\" \
                  cpuMs=\"CPU\" cpuWallMs=\"180.000\" longestStepMs=\"0.041\" longestStep=\"STEP\" />";
    let quanta = |cpu: &str, step: &str| &*quanta.replace("CPU", cpu).replace("STEP", step).leak();
    assert_eq!(rules(&advice(&Log { children: quanta("170.000", "mark"), ..own() }.text())), BTreeSet::new());
    let straggler = "<metronome-stop-cancelled timestamp=\"TIME\" mutator=\"busy\" waitedMs=\"0.490\" budgetMs=\"0.450\" \
                     missingMutators=\"1\" />";
    let many: &'static str = straggler.repeat(30).leak();
    let departure = "<metronome-departure timestamp=\"TIME\" reason=\"out of memory\" windowMs=\"10.000\" \
                     targetPercent=\"70.0000\" achievedPercent=\"35.0000\" enoughHeapBytes=\"2147483648\" />";
    let thread = "<metronome-thread timestamp=\"TIME\" name=\"audio\" kind=\"realtime\" priorityAsked=\"5\" \
                  priorityHad=\"0\" refused=\"not permitted\" />";
    let lost = "<metronome-lost-records timestamp=\"TIME\" count=\"4\" total=\"4\" />";
    let handles = "<metronome-cycle timestamp=\"TIME\" quanta=\"800\" collectorMs=\"360.000\" cpuMs=\"350.000\" \
                   handlesMs=\"200.000\" allocatedBytes=\"1000000\" liveBytes=\"10000000\" />";
    let output = "<metronome-output-lost elements=\"2\" />";
    let cases: Vec<(&str, &str, Log)> = vec![
        ("O1", "busy", Log { after_cycle: many, ..own() }),
        ("O2", "--gc-cpu", Log { children: quanta("90.000", "mark"), ..own() }),
        ("O3", "handles", Log { after_cycle: handles, ..own() }),
        ("O4", "rtprio", Log { tail: thread, ..own() }),
        ("O5", "--event-ring", Log { tail: lost, ..own() }),
        ("O6", "--verbose-gc", Log { tail: output, ..own() }),
        ("R9", "2.0 GiB", Log { tail: departure, ..own() }),
        ("R16", "--gc-priority", Log { priority: "maxPriority=\"0\" minPriority=\"0\"", ..own() }),
    ];
    for (rule, word, log) in cases {
        let a = advice(&log.text());
        assert_eq!(rules(&a), BTreeSet::from([rule]), "{:#?}", a.findings);
        let f = &a.findings[0];
        assert!(f.advice.contains(word) || f.evidence.contains(word), "{rule}: {f:#?}");
        assert!(!f.advice.contains("-X"), "flags of another collector: {f:#?}");
    }
    // A collector that does not run needs its processor, not a larger heap.
    let a = advice(&Log { children: quanta("90.000", "mark"), tail: departure, ..own() }.text());
    assert_eq!(rules(&a), BTreeSet::from(["O2", "R9"]));
    let r9 = a.findings.iter().find(|f| f.rule == "R9").unwrap();
    assert!(r9.advice.contains("see O2") && !r9.advice.contains("2.0 GiB"), "{r9:#?}");
    let log = analyze(Log { tail: departure, ..own() }.text().as_bytes()).unwrap();
    assert_eq!(a.small_heap(0, &log.runs.rows[0]), None);
    assert_eq!(a.causes(0)[0].rule, "O2");
    assert_eq!(advise(&log).small_heap(0, &log.runs.rows[0]), Some((1 << 30, 2 << 30)));
    let late = quanta("170.000", "mark").replace("overPlan=\"1\"", "overPlan=\"300\"");
    let a = advice(&Log { children: late.leak(), ..own() }.text());
    assert_eq!(rules(&a), BTreeSet::from(["O7"]));
}

#[test]
fn what_is_missing_is_said_and_not_guessed() {
    let a = advice("<trigger-start id=\"1\" timestamp=\"2026-08-31T13:43:28.916\" />");
    assert!(a.findings.is_empty() && !a.not_enough_data.is_empty());
    let a = advice(&Log { header: false, cycles: 2, ..Log::default() }.text());
    let lacking: Vec<&str> = a.not_enough_data.iter().map(|n| n.rules).collect();
    for rules in ["R10", "R11, R14", "R22, R24, R25"] {
        assert!(lacking.contains(&rules), "{rules}: {lacking:?}");
    }
    assert!(a.contracts[0].1.is_err());
}

/// m, a, R, S by hand from the healthy log, and the formula in floating point.
#[test]
fn the_contract_is_that_of_the_numbers() {
    let a = advice(&Log::default().text());
    let c = a.contracts[0].1.as_ref().unwrap();
    let m = &c.measured;
    // The least free at a cycle's end is 600 MiB of 1024.
    assert_eq!(m.live_bytes, 424 << 20);
    // Eight cycles of 2 s, half of them marking.
    let log = analyze(Log::default().text().as_bytes()).unwrap();
    assert_eq!(allocation(&log.runs.rows[0]), Some((2_400 << 20, 8_000_000_000)));
    // 300 MiB in 1 s of which the collector had 250 quanta of 1 ms.
    assert_eq!(m.allocation_rate, 400 << 20);
    // Means of 422.5 MiB live in 0.25 s of marking; 1 GiB swept in 0.25 s.
    assert_eq!((m.trace_rate, m.sweep_rate), (1_772_093_440, 4 << 30));
    assert!(c.from_free_memory && !c.phases_unknown && c.cycles == 8);
    let heap = |u: f64| {
        let f = f64::from(m.fragmentation_ppm) / 1e6 + 1.0;
        let k = m.allocation_rate as f64 * u / (1.0 - u);
        let upper = f * m.live_bytes as f64 * (1.0 + 2.0 * k / m.trace_rate as f64);
        upper / (1.0 - 2.0 * k * f / m.sweep_rate as f64)
    };
    for (ppm, bytes) in c.curve.iter().filter(|(ppm, _)| *ppm <= 700_000) {
        let (got, expected) = (bytes.unwrap() as f64, heap(f64::from(*ppm) / 1e6));
        assert!((got - expected).abs() / expected < 1e-6, "{ppm}: {got} {expected}");
    }
    assert_eq!(c.heap_for_target, c.curve.iter().find(|(ppm, _)| *ppm == 700_000).unwrap().1);
    let u = f64::from(c.utilization_for_heap.unwrap()) / 1e6;
    assert!((heap(u) - (1_u64 << 30) as f64).abs() / 1e9 < 1e-3, "{u}");
    let planned = c.what_if.iter().find(|w| (w.quantum_ns, w.window_ns) == (3_000_000, 60_000_000)).unwrap();
    assert_eq!(planned.mmu_ppm, 700_000);
}

/// The reader tells the event after a warning of the clock, too.
#[test]
fn a_warning_of_the_clock_counts_once() {
    let text = r#"<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="x">
<trigger-start id="1" timestamp="2026-03-29T01:30:20.000" />
<warning details="clock error detected, following timing may be inaccurate" />
<cycle-start id="2" type="global" contextid="0" timestamp="2026-03-29T01:30:20.000" intervalms="20000.000" />
<warning details="clock error detected, following timing may be inaccurate" />
</verbosegc>
"#;
    let a = analyze(text.as_bytes()).unwrap();
    assert_eq!(a.runs.rows[0].trouble.clock_errors, 2);
}
