//! Real logs, where they are at hand beside the repository or in the folder that FIELD_LOGS names; else the tests say that they were skipped.

use metronome_verbosegc::LogTime;
use metronome_verbosegc::model::*;
use metronome_verbosegc::reader::{DiagnosticKind, Log, read_log};
use std::fs;
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

fn read(name: &str) -> Option<(String, Log)> {
    let bytes = fs::read(folder()?.join(name)).unwrap();
    let log = read_log(&bytes[..]).unwrap();
    assert_no_loss(name, &bytes, &log);
    Some((String::from_utf8_lossy(&bytes).into_owned(), log))
}

/// Counts top-level tags by their spelling alone and compares with the events.
fn assert_no_loss(name: &str, bytes: &[u8], log: &Log) {
    let text = String::from_utf8_lossy(bytes);
    let tops = ["gc ", "gc-op ", "initialized", "trigger-start", "trigger-end", "cycle-start", "cycle-end"];
    let counted: usize = tops.iter().map(|t| text.matches(&format!("<{t}")).count()).sum();
    let events: Vec<&LoggedEvent> = log.runs.iter().flat_map(|r| &r.events).collect();
    // Every event that has a start tag of its own; the others are fragments without one.
    let whole = events.iter().filter(|e| e.timestamp.is_some()).count();
    assert_eq!(counted, whole, "{name}: {log:#?}");
    // Children: those whose last attribute is there must all have arrived in their fields.
    let with = |tag: &str, last: &str| {
        let slices = text.split('<').filter(|s| s.starts_with(tag));
        slices.filter(|s| s.split(last).nth(1).is_some_and(|rest| rest.contains('"'))).count()
    };
    let beats = heartbeats(log);
    let fields = |f: fn(&Heartbeat) -> bool| beats.iter().filter(|h| f(h)).count();
    let quanta = with("quanta ", "maxTimeMs=\"") + with("quantum ", "maxms=\"");
    assert_eq!(fields(|h| h.quantum.is_some()), quanta, "{name}");
    let counts = with("quanta ", "quantumCount=\"") + with("summary ", "quantumcount=\"");
    assert_eq!(fields(|h| h.quantum_count.is_some()), counts, "{name}");
    let stops = with("exclusiveaccess-info ", "maxTimeMs=\"");
    assert_eq!(fields(|h| h.exclusive_access.is_some()), stops, "{name}");
    let free = with("free-mem ", "maxBytes=\"") + with("heap ", "maxfree=\"");
    assert_eq!(fields(|h| h.heap_free.is_some()), free, "{name}");
    let priorities = with("thread-priority ", "minPriority=\"") + with("gcthreadpriority ", "min=\"");
    assert_eq!(fields(|h| h.priority_min.is_some()), priorities, "{name}");
}

fn heartbeats(log: &Log) -> Vec<&Heartbeat> {
    let events = log.runs.iter().flat_map(|r| &r.events);
    events.filter_map(|e| if let Event::Heartbeat(h) = &e.event { Some(&**h) } else { None }).collect()
}

fn shares(log: &Log) -> Vec<u32> {
    heartbeats(log).iter().filter_map(|h| h.collector_share_ppm()).map(|ppm| (ppm + 500) / 1000).collect()
}

fn kinds(log: &Log) -> Vec<DiagnosticKind> {
    log.diagnostics.iter().map(|d| d.kind).collect()
}

#[test]
fn websphere_real_time_2007_is_read_whole() {
    let Some((_, log)) = read("real-2007-developerworks-listing1.xml") else { return };
    assert!(log.complete && log.diagnostics.is_empty(), "{log:#?}");
    assert_eq!(log.generation, Some(Generation::V2007));
    let run = &log.runs[0];
    assert_eq!(run.start.version.as_deref(), Some("200702_15-Metronome"));
    assert_eq!(run.events.len(), 5);
    let Event::SyncGc(gc) = &run.events[0].event else { panic!() };
    assert_eq!((gc.reason.clone(), gc.duration_ns), (Some(SyncReason::Explicit), Some(30_023_000)));
    assert_eq!((gc.free_before_bytes, gc.free_after_bytes), (Some(535_265_280), Some(535_838_720)));
    assert_eq!((gc.immortal_before_bytes, gc.priority), (Some(15_591_288), Some(11)));
    assert_eq!(gc.start, LogTime::parse("2007-03-13T15:17:18"));
    let beats = heartbeats(&log);
    assert_eq!(
        beats[0].immortal_free,
        Some(ByteStats { min_bytes: 14_570_208, mean_bytes: 14_570_208, max_bytes: 14_570_208 })
    );
    assert_eq!(beats[1].quantum_count, Some(363));
    assert_eq!(beats[1].quantum.unwrap().max_ns, 1_473_000);
    // Per mille: 477 * 0.503 / 1003.413 and 363 * 0.474 / 677.316.
    assert_eq!(shares(&log), [239, 254]);
    assert_eq!(run.events[4].event, Event::TriggerEnd { interval_ns: Some(1_682_816_000) });
}

#[test]
fn documentation_2011_collection_on_request() {
    let Some((_, log)) = read("real-2011-ibm-docs-systemgc-syncgc.xml") else { return };
    assert_eq!(kinds(&log), [DiagnosticKind::Truncated]);
    let e = &log.runs[0].events[0];
    assert_eq!((e.id, e.context_id, e.partial), (Some(9), Some(8), false));
    let Event::SyncGc(gc) = &e.event else { panic!() };
    assert_eq!(gc.reason, Some(SyncReason::Shutdown));
    assert_eq!(gc.end, LogTime::parse("2011-07-12T09:41:40.808"));
    assert_eq!(gc.start, LogTime::parse("2011-07-12T09:41:40.801"));
    assert_eq!((gc.exclusive_access_ns, gc.priority), (Some(9_000), Some(11)));
    assert_eq!((gc.free_before_bytes, gc.free_after_bytes), (Some(126_082_300), Some(156_085_440)));
    assert_eq!(
        gc.work,
        Work {
            class_unload: Some(ClassUnload { loaders: Some(14), classes: Some(276), anonymous: None }),
            soft: Some(SoftReferences { cleared: Some(154), threshold: Some(29), threshold_max: Some(32) }),
            weak_cleared: Some(53),
            phantom_cleared: None,
            finalizer_enqueued: Some(34),
            overflow: None,
            references: None,
        }
    );
}

#[test]
fn documentation_2011_triggered_cycle_with_a_broken_line_and_end() {
    let Some((_, log)) = read("real-2011-ibm-sdk8-docs-triggered-cycle.xml") else { return };
    assert_eq!(shares(&log), [238]);
    let h = heartbeats(&log)[0];
    assert_eq!(h.longest_at, Some(LongestAt::InRun(598_704_070_000)));
    assert_eq!(h.exclusive_access.unwrap().mean_ns, 62_000);
    assert!(kinds(&log).contains(&DiagnosticKind::Structure), "{log:#?}");
}

#[test]
fn issue_2019_heartbeat_with_markdown_in_its_tag() {
    let Some((_, log)) = read("real-2019-openj9-issue4769-first-heartbeat.xml") else { return };
    assert_eq!(shares(&log), [186]);
    let h = heartbeats(&log)[0];
    assert_eq!(h.longest_at, Some(LongestAt::InHeartbeat(0)));
    assert_eq!(h.quantum.unwrap().max_ns, 8_581_000);
    assert!(log.runs[0].events[2].partial);
    assert!(log.diagnostics.iter().any(|d| d.text.contains("**")), "{log:#?}");
}

#[test]
fn issue_2019_quanta_without_their_heartbeats() {
    let Some((_, log)) = read("real-2019-openj9-issue4769-cycle-quanta-only.xml") else { return };
    let beats = heartbeats(&log);
    assert_eq!(beats.iter().map(|h| h.quantum_count).collect::<Vec<_>>(), [Some(106), Some(127), None]);
    assert_eq!(beats[0].longest_at, Some(LongestAt::InRun(112_797_717_096_000)));
    assert!(log.runs[0].events[1..].iter().all(|e| e.partial));
}

#[test]
fn a_root_scan_trace_is_not_taken_for_a_log() {
    let Some(folder) = folder() else { return };
    let text = fs::read(folder.join("real-2019-openj9-issue4769-tgc-rootscan.xml")).unwrap();
    let log = read_log(&text[..]).unwrap();
    assert!(log.runs.is_empty() && !log.complete);
    let tags = text.windows(2).filter(|w| w[0] == b'<' && w[1].is_ascii_alphabetic()).count();
    let said = kinds(&log).iter().filter(|k| **k == DiagnosticKind::UnknownElement).count();
    assert!(said >= tags, "{log:#?}");
}

#[test]
fn issue_2026_header_cut_short() {
    let Some((_, log)) = read("real-2026-openj9-issue24674-a-header.xml") else { return };
    let run = &log.runs[0];
    assert_eq!(run.start.version.as_deref(), Some("1d8018dce_CMPRSS"));
    assert_eq!((run.generation, run.refused.clone()), (Some(Generation::OpenJ9), None));
    let Event::Initialized(i) = &run.events[0].event else { panic!() };
    assert!(run.events[0].partial);
    assert_eq!(i.policy.as_deref(), Some("-Xgcpolicy:metronome"));
    assert_eq!(i.heap_max_bytes, Some(0x7c05_0000));
    assert_eq!(i.attributes.len(), 7);
}

#[test]
fn issue_2026_cycles_with_other_output_between() {
    let Some((text, log)) = read("real-2026-openj9-issue24674-b-cycles-with-console-noise.xml") else {
        return;
    };
    let beats = heartbeats(&log);
    assert_eq!(beats.len(), 3);
    assert_eq!(beats[0].work.finalizer_enqueued, Some(2525));
    assert_eq!(beats[0].heap_free.unwrap().min_bytes, 1_766_852_864);
    // Starved: 9 * 3.145 / 903, then 7 * 2.646 / 1097 as far as it goes.
    assert_eq!(shares(&log), [31, 17]);
    let foreign = log.diagnostics.iter().find(|d| d.kind == DiagnosticKind::ForeignText).unwrap();
    let line = text.lines().position(|l| l.starts_with("0 / 200")).unwrap() as u64 + 1;
    assert!(foreign.line == line && foreign.text.ends_with("0 / 200 complete."), "{foreign}");
}

#[test]
fn other_policies_are_named_and_refused() {
    let Some(folder) = folder() else { return };
    for (name, policy) in [
        ("SampleIBMJ9_5_0af-global-200811_07.txt", "optthruput"),
        ("SampleIBMJ9_R27_SR1_full_header.txt", "gencon"),
        ("SampleIBMJ9_R28_af_global.txt", "optthruput"),
        ("SampleIBMJ9_R28_concurrentMinimal.txt", "optavgpause"),
    ] {
        let log = read_log(&fs::read(folder.join("other-policy").join(name)).unwrap()[..]).unwrap();
        let refused = log.runs[0].refused.as_ref().unwrap_or_else(|| panic!("{name}: {log:#?}"));
        assert!(refused.policy.contains(policy), "{name}: {refused}");
        assert!(log.runs[0].events.is_empty(), "{name}");
        assert!(kinds(&log).contains(&DiagnosticKind::OtherPolicy), "{name}");
    }
}

#[test]
fn all_logs_in_one_file_stay_apart() {
    let Some(folder) = folder() else { return };
    let mut all = Vec::new();
    let mut separate = 0;
    for name in [
        "real-2007-developerworks-listing1.xml",
        "real-2026-openj9-issue24674-a-header.xml",
        "other-policy/SampleIBMJ9_R27_SR1_full_header.txt",
        "real-2007-developerworks-listing1.xml",
        "other-policy/SampleIBMJ9_5_0af-global-200811_07.txt",
        "real-2011-ibm-sdk8-docs-triggered-cycle.xml",
    ] {
        let bytes = fs::read(folder.join(name)).unwrap();
        separate += read_log(&bytes[..]).unwrap().runs.iter().map(|r| r.events.len()).sum::<usize>();
        all.extend(bytes);
        all.push(b'\n');
    }
    let log = read_log(&all[..]).unwrap();
    let generations: Vec<_> = log.runs.iter().map(|r| r.generation).collect();
    let (old, new) = (Some(Generation::V2007), Some(Generation::OpenJ9));
    assert_eq!(generations, [old, new, new, old, old, new]);
    let refused: Vec<_> = log.runs.iter().map(|r| r.refused.is_some()).collect();
    assert_eq!(refused, [false, false, true, false, true, false]);
    assert_eq!(log.runs.iter().map(|r| r.events.len()).sum::<usize>(), separate);
    assert_eq!(log.generation, None);
}
