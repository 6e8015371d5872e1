//! References, finalizers, immortal memory, reasons, resizing, threads: as text in both generations, and what the
//! reader makes of them when the text is not as this project writes it.

use metronome_verbosegc::WallClock;
use metronome_verbosegc::model::*;
use metronome_verbosegc::reader::{Log, read_log};
use metronome_verbosegc::writer::*;

const MS: u64 = 1_000_000;

fn writer(format: Format) -> LogWriter<Vec<u8>> {
    // 2026-08-31 13:43:08 UTC.
    let clock = WallClock { monotonic_ns: 0, unix_ns: 1_788_183_788_000_000_000, offset_seconds: 0 };
    LogWriter::new(Vec::new(), format, Options::new("0.1.0", clock))
}

fn text(w: LogWriter<Vec<u8>>) -> String {
    String::from_utf8(w.finish().unwrap()).unwrap()
}

/// A quantum of half a millisecond in the weak phase.
fn quantum(at_ms: u64, immortal: Option<u64>, work: WorkFacts) -> QuantumFacts {
    QuantumFacts {
        start_ns: at_ms * MS,
        end_ns: at_ms * MS + MS / 2,
        phase: QuantumPhase::Postcollect,
        immortal_free_bytes: immortal,
        work,
        longest_step: "weak.entry",
        ..QuantumFacts::default()
    }
}

fn contract(format: Format) -> String {
    let mut w = writer(format);
    let run = |w: &mut LogWriter<Vec<u8>>| -> std::io::Result<()> {
        let reason = Some(CycleReason::ExternalMemory);
        w.cycle_start(MS, &CycleStartFacts { heap_free_bytes: 9, reason })?;
        let clearing = WorkFacts {
            soft_cleared: 5,
            soft_threshold: 29,
            soft_threshold_max: 32,
            weak_cleared: 3,
            phantom_cleared: 2,
            finalizer_enqueued: 7,
            references: References {
                weak_long_cleared: 1,
                ephemerons_cleared: 4,
                finalizers_run: 6,
                finalizers_suppressed: 2,
                finalizers_panicked: 1,
                finalizer_backlog: 40,
            },
        };
        w.quantum(&quantum(2, Some(1000), clearing.clone()))?;
        // Knows of no thresholds: the known ones stay. No immortal memory told: the mean is of the others.
        let fewer = References { finalizer_backlog: 30, ..References::default() };
        w.quantum(&quantum(
            3,
            None,
            WorkFacts { soft_cleared: 1, references: fewer, ..WorkFacts::default() },
        ))?;
        w.quantum(&quantum(4, Some(997), WorkFacts::default()))?;
        w.cycle_end(5 * MS, 19, &CycleFacts::default())?;
        let sync = |start_ns: u64, reason: SyncReason| SyncGcFacts {
            start_ns,
            end_ns: start_ns + MS,
            reason,
            requested_bytes: 64,
            ..SyncGcFacts::default()
        };
        w.sync_gc(&SyncGcFacts {
            immortal_before_bytes: Some(500),
            immortal_after_bytes: Some(501),
            work: clearing,
            ..sync(6 * MS, SyncReason::OutOfMemory)
        })?;
        w.sync_gc(&sync(7 * MS, SyncReason::Explicit))?;
        w.sync_gc(&sync(8 * MS, SyncReason::LowMemory))?;
        w.departure(
            9 * MS,
            &Departure {
                reason: "out of memory".into(),
                window_ns: 10 * MS,
                target_ppm: 700_000,
                achieved_ppm: 0,
                // (1 + 0.12)(m + 2A).
                enough_heap_bytes: Some(336_000),
                live_bytes: Some(100_000),
                allocation_bytes: Some(100_000),
                fragmentation_ppm: Some(120_000),
            },
        )?;
        w.resize(
            10 * MS,
            &Resize {
                direction: ResizeDirection::Trim,
                from_bytes: 1 << 20,
                to_bytes: 1 << 20,
                returned_bytes: 1 << 16,
                reason: "idle".into(),
                total_bytes: Some(983_040),
                limit_bytes: Some(1 << 24),
            },
        )?;
        w.thread(
            11 * MS,
            &Thread {
                name: "control <1>".into(),
                kind: ThreadKind::NoHeap,
                priority_asked: 80,
                priority_had: Some(0),
                cpu: Some(3),
                refused: Some("SCHED_FIFO: \"Operation not permitted\"".into()),
            },
        )?;
        w.sync_gc(&sync(12 * MS, SyncReason::Shutdown))
    };
    run(&mut w).unwrap();
    text(w)
}

/// Without the lines that are the same as everywhere.
fn told(text: &str) -> String {
    let common = ["<metronome-quanta ", "<metronome-sync ", "<metronome-cycle "];
    text.lines()
        .filter(|l| !l.trim().is_empty() && !common.iter().any(|c| l.contains(c)))
        .fold(String::new(), |all, l| all + l + "\n")
}

const V2007: &str = r#"<?xml version="1.0" ?>
<verbosegc version="0.1.0-Metronome">
<gc type="cycle start" id="1" timestamp="Mon Aug 31 13:43:08 2026" intervalms="0.000" heapfreebytes="9" metronome-reason="external memory" />
<gc type="heartbeat" id="1" timestamp="Mon Aug 31 13:43:08 2026" intervalms="2.500">
  <summary quantumcount="3">
    <quantum minms="0.500" meanms="0.500" maxms="0.500" />
    <exclusiveaccess minms="0.000" meanms="0.000" maxms="0.000" />
    <refs_cleared soft="6" threshold="29" maxThreshold="32" weak="3" phantom="2" />
    <finalization objectsqueued="7" />
    <heap minfree="0" meanfree="0" maxfree="0" />
    <immortal minfree="997" meanfree="998" maxfree="1000" />
    <gcthreadpriority max="0" min="0" />
    <metronome-references weakLongCleared="1" ephemeronsCleared="4" finalizersRun="6" finalizersSuppressed="2" finalizersPanicked="1" finalizerBacklog="40" />
  </summary>
</gc>
<gc type="cycle end" id="1" timestamp="Mon Aug 31 13:43:08 2026" intervalms="4.000" heapfreebytes="19" />
<gc type="synchgc" id="1" timestamp="Mon Aug 31 13:43:08 2026" intervalms="0.000">
  <details reason="out of memory" requested_bytes="64" />
  <duration timems="1.000" />
  <refs_cleared soft="5" threshold="29" maxThreshold="32" weak="3" phantom="2" />
  <finalization objectsqueued="7" />
  <heap freebytesbefore="0" />
  <heap freebytesafter="0" />
  <immortal freebytesbefore="500" />
  <immortal freebytesafter="501" />
  <synchronousgcpriority value="0" />
  <metronome-references weakLongCleared="1" ephemeronsCleared="4" finalizersRun="6" finalizersSuppressed="2" finalizersPanicked="1" finalizerBacklog="40" />
</gc>
<gc type="synchgc" id="2" timestamp="Mon Aug 31 13:43:08 2026" intervalms="1.000">
  <details reason="system garbage collect" />
  <duration timems="1.000" />
  <heap freebytesbefore="0" />
  <heap freebytesafter="0" />
  <synchronousgcpriority value="0" />
</gc>
<gc type="synchgc" id="3" timestamp="Mon Aug 31 13:43:08 2026" intervalms="1.000">
  <details reason="low memory" />
  <duration timems="1.000" />
  <heap freebytesbefore="0" />
  <heap freebytesafter="0" />
  <synchronousgcpriority value="0" />
</gc>
<metronome-departure timestamp="Mon Aug 31 13:43:08 2026" reason="out of memory" windowMs="10.000" targetPercent="70.0000" achievedPercent="0.0000" enoughHeapBytes="336000" liveBytes="100000" allocationBytes="100000" fragmentationPercent="12.0000" />
<metronome-resize timestamp="Mon Aug 31 13:43:08 2026" direction="trim" fromBytes="1048576" toBytes="1048576" returnedBytes="65536" reason="idle" totalBytes="983040" limitBytes="16777216" />
<metronome-thread timestamp="Mon Aug 31 13:43:08 2026" name="control &lt;1&gt;" kind="no-heap" priorityAsked="80" priorityHad="0" cpu="3" refused="SCHED_FIFO: &quot;Operation not permitted&quot;" />
<gc type="synchgc" id="4" timestamp="Mon Aug 31 13:43:08 2026" intervalms="4.000">
  <details reason="VM shut down" />
  <duration timems="1.000" />
  <heap freebytesbefore="0" />
  <heap freebytesafter="0" />
  <synchronousgcpriority value="0" />
</gc>
</verbosegc>
"#;

const OPENJ9: &str = r#"<?xml version="1.0" ?>
<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="0.1.0">
<cycle-start id="1" type="global" contextid="0" timestamp="2026-08-31T13:43:08.001" intervalms="0.000" metronome-heapFreeBytes="9" metronome-reason="external memory" />
<gc-op id="2" type="heartbeat" contextid="1" timestamp="2026-08-31T13:43:08.004">
  <quanta quantumCount="3" quantumType="postcollect" minTimeMs="0.500" meanTimeMs="0.500" maxTimeMs="0.500" maxTimestampMs="0.000" />
  <exclusiveaccess-info minTimeMs="0.000" meanTimeMs="0.000" maxTimeMs="0.000" />
  <references type="soft" cleared="6" dynamicThreshold="29" maxThreshold="32" />
  <references type="weak" cleared="3" />
  <references type="phantom" cleared="2" />
  <finalization enqueued="7" />
  <free-mem type="heap" minBytes="0" meanBytes="0" maxBytes="0" />
  <thread-priority maxPriority="0" minPriority="0" />
  <metronome-references weakLongCleared="1" ephemeronsCleared="4" finalizersRun="6" finalizersSuppressed="2" finalizersPanicked="1" finalizerBacklog="40" />
  <metronome-immortal minBytes="997" meanBytes="998" maxBytes="1000" />
</gc-op>
<cycle-end id="3" type="global" contextid="1" timestamp="2026-08-31T13:43:08.005" metronome-heapFreeBytes="19" />
<gc-op id="4" type="syncgc" timems="1.000" contextid="0" timestamp="2026-08-31T13:43:08.007">
  <syncgc-info reason="out of memory" totalBytesRequested="64" exclusiveaccessTimeMs="0.000" threadPriority="0" />
  <free-mem-delta type="heap" bytesBefore="0" bytesAfter="0" />
  <references type="soft" cleared="5" dynamicThreshold="29" maxThreshold="32" />
  <references type="weak" cleared="3" />
  <references type="phantom" cleared="2" />
  <finalization enqueued="7" />
  <metronome-references weakLongCleared="1" ephemeronsCleared="4" finalizersRun="6" finalizersSuppressed="2" finalizersPanicked="1" finalizerBacklog="40" />
  <metronome-immortal bytesBefore="500" bytesAfter="501" />
</gc-op>
<gc-op id="5" type="syncgc" timems="1.000" contextid="0" timestamp="2026-08-31T13:43:08.008">
  <syncgc-info reason="system GC" exclusiveaccessTimeMs="0.000" threadPriority="0" />
  <free-mem-delta type="heap" bytesBefore="0" bytesAfter="0" />
</gc-op>
<gc-op id="6" type="syncgc" timems="1.000" contextid="0" timestamp="2026-08-31T13:43:08.009">
  <syncgc-info reason="low memory" exclusiveaccessTimeMs="0.000" threadPriority="0" />
  <free-mem-delta type="heap" bytesBefore="0" bytesAfter="0" />
</gc-op>
<metronome-departure timestamp="2026-08-31T13:43:08.009" reason="out of memory" windowMs="10.000" targetPercent="70.0000" achievedPercent="0.0000" enoughHeapBytes="336000" liveBytes="100000" allocationBytes="100000" fragmentationPercent="12.0000" />
<metronome-resize timestamp="2026-08-31T13:43:08.010" direction="trim" fromBytes="1048576" toBytes="1048576" returnedBytes="65536" reason="idle" totalBytes="983040" limitBytes="16777216" />
<metronome-thread timestamp="2026-08-31T13:43:08.011" name="control &lt;1&gt;" kind="no-heap" priorityAsked="80" priorityHad="0" cpu="3" refused="SCHED_FIFO: &quot;Operation not permitted&quot;" />
<gc-op id="7" type="syncgc" timems="1.000" contextid="0" timestamp="2026-08-31T13:43:08.013">
  <syncgc-info reason="VM shut down" exclusiveaccessTimeMs="0.000" threadPriority="0" />
  <free-mem-delta type="heap" bytesBefore="0" bytesAfter="0" />
</gc-op>
</verbosegc>
"#;

#[test]
fn every_element_of_the_contract_as_text() {
    for (format, want) in [(Format::V2007, V2007), (Format::OpenJ9, OPENJ9)] {
        let got = told(&contract(format));
        for (n, (got, want)) in got.lines().zip(want.lines()).enumerate() {
            assert_eq!(got, want, "{format:?}, line {}", n + 1);
        }
        assert_eq!(got, want);
    }
}

#[test]
fn both_texts_are_well_formed_and_read_without_complaint() {
    for format in [Format::V2007, Format::OpenJ9] {
        let text = contract(format);
        let xml = roxmltree::Document::parse(&text).unwrap();
        let thread = xml.descendants().find(|n| n.tag_name().name() == "metronome-thread").unwrap();
        assert_eq!(thread.attribute("name"), Some("control <1>"));
        assert_eq!(thread.attribute("refused"), Some("SCHED_FIFO: \"Operation not permitted\""));
        let log = read_log(text.as_bytes()).unwrap();
        assert!(log.complete && log.diagnostics.is_empty(), "{log:#?}");
        // The heap is (1 + f)(m + 2A), from the figures beside it.
        let d = events(&log).find_map(|e| if let Event::Departure(d) = &e.event { Some(d) } else { None });
        let d = d.unwrap();
        let [enough, m, a] = [d.enough_heap_bytes, d.live_bytes, d.allocation_bytes].map(Option::unwrap);
        assert_eq!(enough * 1_000_000, (m + 2 * a) * (1_000_000 + u64::from(d.fragmentation_ppm.unwrap())));
    }
}

fn events(log: &Log) -> impl Iterator<Item = &LoggedEvent> {
    log.runs.iter().flat_map(|r| &r.events)
}

fn heartbeats(text: &str) -> Vec<Heartbeat> {
    let log = read_log(text.as_bytes()).unwrap();
    let beat = |e: &LoggedEvent| if let Event::Heartbeat(h) = &e.event { Some((**h).clone()) } else { None };
    events(&log).filter_map(beat).collect()
}

/// What was said of a text besides that it has no end.
fn said(log: &Log) -> Vec<&str> {
    let said = log.diagnostics.iter().map(|d| d.text.as_str());
    said.filter(|t| !t.contains("without </verbosegc>")).collect()
}

#[test]
fn the_soft_count_is_our_own_and_that_of_other_writers_is_not_believed() {
    for format in [Format::V2007, Format::OpenJ9] {
        let beats = heartbeats(&contract(format));
        assert_eq!(beats.len(), 1);
        assert_eq!((beats[0].soft_cleared(), beats[0].work.weak_cleared), (Some(6), Some(3)), "{format:?}");
    }
    let beats = heartbeats(
        r#"<gc-op id="1" type="heartbeat" contextid="0" timestamp="2026-08-31T13:43:08.004">
  <quanta quantumCount="1" quantumType="mark" minTimeMs="1.0" meanTimeMs="1.0" maxTimeMs="1.0" maxTimestampMs="0.000" />
  <references type="soft" cleared="4" dynamicThreshold="29" maxThreshold="32" />
  <references type="weak" cleared="4" />
</gc-op>
<gc type="heartbeat" id="1" timestamp="Mon Aug 31 13:43:08 2026" intervalms="2.500">
  <summary quantumcount="1"><refs_cleared soft="4" threshold="29" maxThreshold="32" weak="3" phantom="2" /></summary>
</gc>"#,
    );
    let printed: Vec<_> = beats.iter().map(|h| h.work.soft.and_then(|s| s.cleared)).collect();
    assert_eq!(printed, [Some(4), Some(4)], "as printed");
    assert_eq!(beats.iter().map(Heartbeat::soft_cleared).collect::<Vec<_>>(), [None, Some(4)]);
}

#[test]
fn every_reason_of_a_collection_in_every_form() {
    for (words, want) in [
        ("out of memory", SyncReason::OutOfMemory),
        ("system GC", SyncReason::Explicit),
        ("system garbage collect", SyncReason::Explicit),
        ("VM shut down", SyncReason::Shutdown),
        ("time triggered", SyncReason::TimeTriggered),
        ("work triggered", SyncReason::WorkTriggered),
        ("low memory", SyncReason::LowMemory),
        ("trim", SyncReason::Trim),
        ("unknown", SyncReason::Unknown),
        ("System GC", SyncReason::Other("System GC".into())),
    ] {
        let old = format!(
            r#"<gc type="synchgc" id="1" timestamp="Mon Aug 31 13:43:08 2026" intervalms="0.000"><details reason="{words}" /></gc>"#
        );
        let new = format!(
            r#"<gc-op id="1" type="syncgc" timems="1.0" contextid="0" timestamp="2026-08-31T13:43:08.007"><syncgc-info reason="{words}" /></gc-op>"#
        );
        for text in [old, new] {
            let log = read_log(text.as_bytes()).unwrap();
            assert!(said(&log).is_empty(), "{text}: {log:#?}");
            let Event::SyncGc(gc) = &log.runs[0].events[0].event else { panic!("{text}") };
            assert_eq!(gc.reason.as_ref(), Some(&want), "{text}");
        }
    }
}

#[test]
fn every_reason_of_a_cycle() {
    for (words, want) in [
        ("headroom", CycleReason::Headroom),
        ("threshold", CycleReason::Threshold),
        ("interval", CycleReason::Interval),
        ("explicit", CycleReason::Explicit),
        ("external memory", CycleReason::ExternalMemory),
        ("low memory", CycleReason::LowMemory),
        ("regions", CycleReason::Regions),
        ("out of memory", CycleReason::OutOfMemory),
        ("Headroom", CycleReason::Other("Headroom".into())),
    ] {
        assert_eq!(want.to_string(), words);
        for format in [Format::V2007, Format::OpenJ9] {
            let mut w = writer(format);
            w.cycle_start(0, &CycleStartFacts { heap_free_bytes: 1, reason: Some(want.clone()) }).unwrap();
            let text = text(w);
            assert!(text.contains(&format!(" metronome-reason=\"{words}\" ")), "{text}");
            let log = read_log(text.as_bytes()).unwrap();
            let Event::CycleStart(edge) = &log.runs[0].events[0].event else { panic!("{text}") };
            assert_eq!(edge.reason.as_ref(), Some(&want));
        }
    }
    // Only a start has a reason; elsewhere it is not swallowed.
    for end in [
        r#"<cycle-end id="1" type="global" contextid="0" timestamp="2026-08-31T13:43:08.001" metronome-reason="x" />"#,
        r#"<gc type="cycle end" id="1" timestamp="Mon Aug 31 13:43:08 2026" intervalms="1.000" metronome-reason="x" />"#,
    ] {
        let log = read_log(end.as_bytes()).unwrap();
        assert!(said(&log).iter().any(|t| t.contains("metronome-reason=\"x\" not understood")), "{log:#?}");
    }
}

#[test]
fn words_that_are_not_known_are_told_and_nothing_is_made_up() {
    let log = read_log(
        &br#"<metronome-resize timestamp="2026-08-31T13:43:08.010" direction="sideways" fromBytes="1" toBytes="2" returnedBytes="0" reason="" />
<metronome-thread timestamp="2026-08-31T13:43:08.011" name="a" priorityAsked="80" />"#[..],
    )
    .unwrap();
    let said = said(&log);
    assert_eq!(said.len(), 2, "{log:#?}");
    assert!(said[0].contains("direction \"sideways\" unknown"), "{said:?}");
    assert!(said[1].contains("attribute kind missing"), "{said:?}");
    let Event::Resize(r) = &log.runs[0].events[0].event else { panic!("{log:#?}") };
    let unknown = ResizeDirection::Unknown;
    assert_eq!((r.direction, r.to_bytes, r.total_bytes, r.limit_bytes), (unknown, 2, None, None));
    let Event::Thread(t) = &log.runs[0].events[1].event else { panic!("{log:#?}") };
    assert_eq!((t.kind, t.priority_had, t.cpu, &t.refused), (ThreadKind::Unknown, None, None, &None));
}

#[test]
fn immortal_memory_tells_what_a_fragment_was() {
    for (child, sync) in [
        (r#"<metronome-immortal bytesBefore="1" bytesAfter="2" />"#, true),
        (r#"<metronome-immortal minBytes="1" meanBytes="1" maxBytes="2" />"#, false),
    ] {
        let log = read_log(child.as_bytes()).unwrap();
        assert_eq!(events(&log).count(), 1);
        let e = &log.runs[0].events[0];
        assert!(e.partial, "{log:#?}");
        match &e.event {
            Event::SyncGc(gc) if sync => {
                assert_eq!((gc.immortal_before_bytes, gc.immortal_after_bytes), (Some(1), Some(2)));
            }
            Event::Heartbeat(h) if !sync => assert_eq!(h.immortal_free.map(|b| b.max_bytes), Some(2)),
            other => panic!("{child}: {other:?}"),
        }
    }
}

/// What released mutators wait for is told apart from what the collector took, and no quantum is over plan by it.
#[test]
fn the_collector_s_own_end_is_told() {
    let q = |at_ms: u64, released_us: u64, end_us: u64| QuantumFacts {
        end_ns: at_ms * MS + end_us * 1000,
        released_ns: Some(at_ms * MS + released_us * 1000),
        planned_ns: 500_000,
        cpu_ns: Some(250_000),
        work_ns: Some(300_000),
        ..quantum(at_ms, None, WorkFacts::default())
    };
    let detail = |quanta: &[QuantumFacts]| {
        let mut w = writer(Format::OpenJ9);
        quanta.iter().for_each(|q| w.quantum(q).unwrap());
        let log = read_log(text(w).as_bytes()).unwrap();
        let beat = log.runs[0].events.iter().find_map(|e| match &e.event {
            Event::Heartbeat(h) => h.detail.clone(),
            _ => None,
        });
        *beat.unwrap()
    };
    let d = detail(&[q(1, 400, 1_400), q(3, 520, 720)]);
    assert_eq!((d.over_plan, d.over_plan_max_ns), (1, 20_000));
    assert_eq!((d.cpu_ns, d.work_wall_ns, d.cpu_wall_ns), (500_000, Some(600_000), 2_120_000));
    let collector = (d.collector_min_ns, d.collector_mean_ns, d.collector_max_ns);
    assert_eq!(collector, (Some(400_000), Some(460_000), Some(520_000)));
    assert_eq!((d.resume_mean_ns, d.resume_max_ns), (Some(600_000), Some(1_000_000)));
    // Where one quantum does not tell, nothing is told of all.
    let d = detail(&[q(1, 400, 1_400), QuantumFacts { released_ns: None, ..q(3, 520, 720) }]);
    assert_eq!((d.collector_max_ns, d.resume_max_ns, d.over_plan), (None, None, 1));
}

/// A line that names another collector tells whose log it is, unless a Metronome log follows.
#[test]
fn a_line_before_a_log_is_some_program_s_output() {
    let log = contract(Format::OpenJ9);
    let plain = read_log(log.as_bytes()).unwrap();
    for before in ["Using G1\n", "starting\r\nUsing Parallel\r\n"] {
        let read = read_log(format!("{before}{log}").as_bytes()).unwrap();
        assert!(read.runs.iter().all(|r| r.refused.is_none()), "{:?}", read.runs[0].refused);
        assert_eq!(read.runs.len(), plain.runs.len());
        assert_eq!(read.runs[0].events.len(), plain.runs[0].events.len());
        let told = &read.diagnostics[0];
        assert!((told.line, told.text.contains("bytes of other text")) == (1, true), "{told:?}");
    }
    for alone in ["Using G1\n", "Using G1\n<html>\n", "Using G1\n<?xml version=\"1.0\" ?>\n"] {
        let read = read_log(alone.as_bytes()).unwrap();
        let told = read.runs[0].refused.as_ref().unwrap().to_string();
        assert!(told.contains("but one of G1 of HotSpot (the line"), "{told}");
    }
    // Where collections were logged it is that collector's log, whatever follows.
    let read =
        read_log(format!("[0.1s][info][gc] GC(3) Pause Young (Normal) 3.5ms\n{log}").as_bytes()).unwrap();
    assert!(read.runs[0].refused.is_some());
}
