//! The figures of real logs, where they are at hand beside the repository or in the folder that FIELD_LOGS names, against tables made by hand from the files.

use metronome_analysis::{Analysis, Writer, analyze};
use metronome_verbosegc::model::QuantumPhase;
use std::path::PathBuf;

fn folder() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/logs");
    let path = std::env::var_os("FIELD_LOGS").map_or(beside, PathBuf::from);
    if path.is_dir() {
        Some(path)
    } else {
        println!("skipped: no real logs at {}", path.display());
        None
    }
}

fn read(name: &str) -> Option<Analysis> {
    let bytes = std::fs::read(folder()?.join(name)).unwrap();
    Some(analyze(&bytes[..]).unwrap())
}

/// A heartbeat: quanta, phase, share in tenths of a percent.
type Beat = (Option<u64>, Option<QuantumPhase>, Option<u32>);
/// Quanta: least, weighted mean, most, in µs.
type Quanta = (u64, f64, u64);

/// What a person reads off a file.
struct Table {
    name: &'static str,
    writer: Writer,
    complete: bool,
    quanta: u64,
    quantum_us: Option<Quanta>,
    cycles: (u64, u64),
    triggers_us: &'static [u64],
    /// Reason, µs.
    synchronous: &'static [(&'static str, u64)],
    heartbeats: &'static [Beat],
    free: Option<(u64, u64)>,
    finalization: u64,
    priority: Option<(u64, u64)>,
    diagnostics: bool,
}

const MARK: Option<QuantumPhase> = Some(QuantumPhase::Mark);
const SWEEP: Option<QuantumPhase> = Some(QuantumPhase::Sweep);

const TABLES: [Table; 7] = [
    Table {
        name: "real-2007-developerworks-listing1.xml",
        writer: Writer::Ibm2007,
        complete: true,
        quanta: 840,
        // (477 * 0.503 + 363 * 0.474) / 840.
        quantum_us: Some((24, 490.468, 1_909)),
        cycles: (0, 0),
        triggers_us: &[1_682_816],
        synchronous: &[("system garbage collect", 30_023)],
        heartbeats: &[(Some(477), None, Some(239)), (Some(363), None, Some(254))],
        free: Some((261_767_168, 433_242_112)),
        finalization: 0,
        priority: Some((11, 11)),
        diagnostics: false,
    },
    Table {
        name: "real-2011-ibm-docs-systemgc-syncgc.xml",
        writer: Writer::OpenJ9,
        complete: false,
        quanta: 0,
        quantum_us: None,
        cycles: (0, 0),
        triggers_us: &[],
        synchronous: &[("VM shut down", 6_439)],
        heartbeats: &[],
        free: Some((126_082_300, 156_085_440)),
        finalization: 34,
        priority: Some((11, 11)),
        diagnostics: true,
    },
    Table {
        name: "real-2011-ibm-sdk8-docs-triggered-cycle.xml",
        writer: Writer::OpenJ9,
        complete: false,
        quanta: 321,
        quantum_us: Some((367, 524.0, 1_878)),
        cycles: (0, 1),
        triggers_us: &[],
        synchronous: &[],
        heartbeats: &[(Some(321), MARK, Some(238))],
        free: Some((99_143_592, 134_182_032)),
        finalization: 0,
        priority: Some((11, 11)),
        diagnostics: true,
    },
    Table {
        name: "real-2019-openj9-issue4769-first-heartbeat.xml",
        writer: Writer::OpenJ9,
        complete: false,
        quanta: 168,
        quantum_us: Some((824, 1_112.0, 8_581)),
        cycles: (0, 1),
        triggers_us: &[],
        synchronous: &[],
        heartbeats: &[(Some(168), MARK, Some(186))],
        free: None,
        finalization: 0,
        priority: None,
        diagnostics: true,
    },
    Table {
        name: "real-2019-openj9-issue4769-cycle-quanta-only.xml",
        writer: Writer::OpenJ9,
        complete: false,
        quanta: 233,
        // (106 * 1.186 + 127 * 1.077) / 233.
        quantum_us: Some((916, 1_126.588, 12_149)),
        cycles: (0, 1),
        triggers_us: &[],
        synchronous: &[],
        heartbeats: &[(Some(106), MARK, None), (Some(127), MARK, None), (None, None, None)],
        free: None,
        finalization: 0,
        priority: None,
        diagnostics: true,
    },
    Table {
        name: "real-2026-openj9-issue24674-a-header.xml",
        writer: Writer::OpenJ9,
        complete: false,
        quanta: 0,
        quantum_us: None,
        cycles: (0, 0),
        triggers_us: &[],
        synchronous: &[],
        heartbeats: &[],
        free: None,
        finalization: 0,
        priority: None,
        diagnostics: true,
    },
    Table {
        name: "real-2026-openj9-issue24674-b-cycles-with-console-noise.xml",
        writer: Writer::OpenJ9,
        complete: false,
        quanta: 16,
        // (9 * 3.145 + 7 * 2.646) / 16.
        quantum_us: Some((549, 2_926.688, 3_368)),
        cycles: (1, 1),
        triggers_us: &[],
        synchronous: &[],
        heartbeats: &[(None, None, None), (Some(9), MARK, Some(31)), (Some(7), SWEEP, Some(17))],
        free: Some((952_038_184, 1_766_852_864)),
        finalization: 2_525,
        priority: Some((11, 11)),
        diagnostics: true,
    },
];

#[test]
fn every_log_gives_what_a_person_reads_off_it() {
    for t in &TABLES {
        let Some(a) = read(t.name) else { return };
        let name = t.name;
        assert_eq!((a.writer, a.complete, a.runs.total()), (Some(t.writer), t.complete, 1), "{name}");
        assert_eq!(a.diagnostics.total() > 0, t.diagnostics, "{name}");
        let r = &a.runs.rows[0];
        assert_eq!(r.quanta, t.quanta, "{name}");
        let q = &r.quantum.stat;
        let quantum = q.mean().map(|mean| (q.min / 1000, (mean / 1e3 * 1e3).round() / 1e3, q.max / 1000));
        assert_eq!(quantum, t.quantum_us, "{name}");
        assert_eq!((r.cycles, r.cycles_incomplete), t.cycles, "{name}");
        let triggers: Vec<u64> = r.triggers_ns.rows.iter().map(|ns| ns / 1000).collect();
        assert_eq!(triggers, t.triggers_us, "{name}");
        let sync: Vec<(&str, u64)> =
            r.synchronous.rows.iter().map(|s| (s.reason.as_str(), s.ns.unwrap() / 1000)).collect();
        assert_eq!(sync, t.synchronous, "{name}");
        let tenths = |ppm: u32| (ppm + 500) / 1000;
        let beats: Vec<Beat> =
            r.heartbeats.rows.iter().map(|h| (h.quanta, h.phase, h.share_ppm.map(tenths))).collect();
        assert_eq!(beats, t.heartbeats, "{name}");
        assert_eq!(r.free.map(|f| (f.min, f.max)), t.free, "{name}");
        assert_eq!(r.work.finalizer_enqueued, t.finalization, "{name}");
        assert_eq!(r.priority.map(|p| (p.min, p.max)), t.priority, "{name}");
    }
}

#[test]
fn a_root_scan_trace_has_no_figures() {
    let Some(a) = read("real-2019-openj9-issue4769-tgc-rootscan.xml") else { return };
    assert_eq!((a.runs.total(), a.events, a.complete, a.writer), (0, 0, false, None));
    assert!(a.diagnostics.total() > 0);
}

/// What is not in all logs, again as a person reads it off the files.
#[test]
fn what_few_logs_tell() {
    let run = |name: &str| read(name).map(|a| a.runs.rows[0].clone());
    let Some(r) = run("real-2007-developerworks-listing1.xml") else { return };
    // The listing: 30.023 ms for the collection; 840 quanta, 0.490 ms in the mean; 1.003413 s and 0.677316 s of heartbeats.
    assert_eq!(format!("{:.3}", r.quantum.stat.mean().unwrap() / 1e6), "0.490");
    assert_eq!(r.share.interval_ns, 1_680_729_000);
    assert_eq!(r.share.collector_ns, 477 * 503_000 + 363 * 474_000);
    assert_eq!(r.immortal_free.map(|f| (f.min, f.max)), Some((14_570_208, 15_591_288)));
    assert_eq!((r.free_low.unwrap().value, r.stop.stat.count, r.windows().len()), (261_767_168, 0, 0));
    let s = &r.synchronous.rows[0];
    assert_eq!((s.free_before_bytes, s.free_after_bytes), (Some(535_265_280), Some(535_838_720)));
    assert_eq!(s.time.unwrap().to_string(), "2007-03-13T15:17:18");
    let Some(r) = run("real-2011-ibm-docs-systemgc-syncgc.xml") else { return };
    let w = &r.work;
    assert_eq!((w.soft_cleared, w.weak_cleared, w.phantom_cleared), (154, 53, 0));
    assert_eq!((w.classes_unloaded, w.finalizer_enqueued), (276, 34));
    // Stop, in µs: least, most.
    let stop = |r: &metronome_analysis::RunFigures| (r.stop.stat.min / 1000, r.stop.stat.max / 1000);
    let Some(r) = run("real-2011-ibm-sdk8-docs-triggered-cycle.xml") else { return };
    assert_eq!((stop(&r), r.trigger_open, r.cycle_open), ((6, 147), true, true));
    let Some(r) = run("real-2026-openj9-issue24674-b-cycles-with-console-noise.xml") else { return };
    assert_eq!((stop(&r), r.work.weak_cleared, r.partial), ((21, 1_758), 185, 2));
    // From the end of the first cycle, 13:43:22.804, to the next one's start, 13:43:28.918.
    assert_eq!((r.cycle_gap.stat.count, r.cycle_gap.stat.max), (1, 6_114_000_000));
    let Some(r) = run("real-2026-openj9-issue24674-a-header.xml") else { return };
    assert_eq!((r.heap_bytes, r.version.as_deref()), (Some(0x7c05_0000), Some("1d8018dce_CMPRSS")));
}

/// Policy of each log of another collector.
const OTHERS: [(&str, &str); 4] = [
    ("SampleIBMJ9_5_0af-global-200811_07.txt", "optthruput"),
    ("SampleIBMJ9_R27_SR1_full_header.txt", "gencon"),
    ("SampleIBMJ9_R28_af_global.txt", "optthruput"),
    ("SampleIBMJ9_R28_concurrentMinimal.txt", "optavgpause"),
];

#[test]
fn other_collectors_are_refused_by_name() {
    for (name, policy) in OTHERS {
        let Some(a) = read(&format!("other-policy/{name}")) else { return };
        assert!(a.is_all_refused() && a.events == 0 && a.writer.is_none(), "{name}");
        assert!(a.refused.rows[0].policy.contains(policy), "{name}: {}", a.refused.rows[0]);
    }
}

/// No log is without its table.
#[test]
fn every_log_has_a_table() {
    let Some(folder) = folder() else { return };
    let names = |folder: PathBuf, end: &str| -> Vec<String> {
        let all = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<String> = all.filter(|n| n.ends_with(end) && n != "SOURCE.txt").collect();
        all.sort();
        all
    };
    let sorted = |mut all: Vec<&'static str>| {
        all.sort_unstable();
        all
    };
    let tables = TABLES.iter().map(|t| t.name).chain(["real-2019-openj9-issue4769-tgc-rootscan.xml"]);
    assert_eq!(names(folder.clone(), ".xml"), sorted(tables.collect()));
    assert_eq!(names(folder.join("other-policy"), ".txt"), sorted(OTHERS.iter().map(|o| o.0).collect()));
}

#[test]
fn all_logs_in_one_file_keep_their_figures() {
    let Some(folder) = folder() else { return };
    let mut all = Vec::new();
    // Those with a root element of their own; a fragment would continue the run before it.
    let names = ["real-2007-developerworks-listing1.xml", "other-policy/SampleIBMJ9_R27_SR1_full_header.txt"];
    for name in names.iter().cycle().take(6) {
        all.extend(std::fs::read(folder.join(name)).unwrap());
        all.push(b'\n');
    }
    let a = analyze(&all[..]).unwrap();
    assert_eq!((a.runs.total(), a.refused.total(), a.events, a.writer), (6, 3, 15, None));
    assert!(!a.is_all_refused());
    for r in a.runs.rows.iter().filter(|r| r.refused.is_none()) {
        assert_eq!((r.quanta, r.quantum.stat.max), (840, 1_909_000));
    }
}
