//! Each element as text: what the writer writes, byte for byte, and what the reader makes of the forms that
//! only other writers use.

use metronome_verbosegc::model::*;
use metronome_verbosegc::reader::read_log;
use metronome_verbosegc::writer::*;
use metronome_verbosegc::{LogTime, WallClock};

const MS: u64 = 1_000_000;

fn free(heap_free_bytes: u64) -> CycleStartFacts {
    CycleStartFacts { heap_free_bytes, ..CycleStartFacts::default() }
}

fn written(format: Format) -> String {
    // 2026-08-31 13:43:08 UTC, printed two hours ahead.
    let clock = WallClock { monotonic_ns: 0, unix_ns: 1_788_183_788_000_000_000, offset_seconds: 7200 };
    let mut w = LogWriter::new(Vec::new(), format, Options::new("0.1.0", clock));
    let header = Initialized {
        heap_max_bytes: Some(1 << 26),
        heap_initial_bytes: Some(1 << 26),
        gc_threads: Some(1),
        region_bytes: Some(65_536),
        region_count: Some(1024),
        leaf_bytes: Some(2048),
        beat_ns: Some(500_500),
        window_ns: Some(10 * MS),
        target_ppm: Some(705_000),
        trigger_bytes: Some(1 << 25),
        headroom_bytes: Some(1 << 20),
        physical_memory_bytes: Some(8 << 30),
        cpus: Some(2),
        architecture: Some("x86_64".into()),
        os: Some("Linux".into()),
        os_version: Some("6.1".into()),
        vmargs: vec![("spread".into(), Some("even".into())), ("lock".into(), None)],
        attributes: vec![
            Attribute { section: Section::Main, name: "pageSize".into(), value: "0x1000".into() },
            Attribute { section: Section::Own, name: "alarm".into(), value: "SCHED_FIFO 60".into() },
        ],
        ..Initialized::default()
    };
    let mark = QuantumFacts {
        start_ns: 1001 * MS,
        end_ns: 1001 * MS + 500_000,
        phase: QuantumPhase::Mark,
        exclusive_access_ns: 21_000,
        wakeup_ns: 40_000,
        planned_ns: 400_000,
        cpu_ns: Some(450_000),
        heap_free_bytes: 900,
        work: WorkFacts { weak_cleared: 2, ..WorkFacts::default() },
        overflow_packets: 1,
        overflow_objects: 3,
        gc_thread_priority: 11,
        longest_step_ns: 9_000,
        longest_step: "mark.slots",
        ..QuantumFacts::default()
    };
    let sweep = QuantumFacts {
        start_ns: 1003 * MS,
        end_ns: 1003 * MS + 600_000,
        phase: QuantumPhase::Sweep,
        exclusive_access_ns: 11_000,
        wakeup_ns: 20_000,
        planned_ns: 600_000,
        heap_free_bytes: 1101,
        work: WorkFacts { finalizer_enqueued: 2, ..WorkFacts::default() },
        gc_thread_priority: 10,
        longest_step_ns: 4_000,
        longest_step: "sweep.region",
        ..QuantumFacts::default()
    };
    let run = |w: &mut LogWriter<Vec<u8>>| -> std::io::Result<()> {
        w.initialized(0, &header)?;
        w.trigger_start(1000 * MS)?;
        w.cycle_start(1000 * MS + 100_000, &free(1000))?;
        w.quantum(&mark)?;
        let straggler = StopCancelled {
            mutator: "io \"<7>\u{7}\"".into(),
            waited_ns: 2 * MS,
            budget_ns: MS,
            missing_mutators: 1,
        };
        w.stop_cancelled(1002 * MS, &straggler)?;
        w.quantum(&sweep)?;
        let cycle = CycleFacts {
            quanta: 2,
            collector_ns: MS + 100_000,
            predicted_collector_ns: Some(MS),
            allocated_bytes: 77,
            live_bytes: Some(12),
            floating_objects: Some(3),
            floating_bytes: Some(4),
            ..CycleFacts::default()
        };
        w.cycle_end(1004 * MS, 2000, &cycle)?;
        w.trigger_end(1004 * MS)?;
        w.sync_gc(&SyncGcFacts {
            start_ns: 1005 * MS,
            end_ns: 1015 * MS,
            reason: SyncReason::OutOfMemory,
            requested_bytes: 32,
            free_before_bytes: 8,
            free_after_bytes: 16,
            exclusive_access_ns: 9_000,
            priority: 11,
            cpu_ns: Some(9 * MS),
            work: WorkFacts { weak_cleared: 1, finalizer_enqueued: 4, ..WorkFacts::default() },
            ..SyncGcFacts::default()
        })?;
        w.out_of_memory(1016 * MS, &OutOfMemory { space: Some("heap".into()), address: Some(4096) })?;
        let tracker = TrackerOverflow { tracker: Some(16), array: Some(32), cursor: Some(100) };
        w.tracker_overflow(1016 * MS, &tracker)?;
        let clock = NonMonotonicTime { timer: None, from_ns: Some(5), to_ns: Some(4) };
        w.clock_error(1016 * MS, &clock)?;
        w.cycle_start(900 * MS, &free(7))?;
        w.lost_records(1017 * MS, &LostRecords { count: 1, total: 2 })?;
        w.departure(
            1017 * MS,
            &Departure {
                reason: "headroom".into(),
                window_ns: 10 * MS,
                target_ppm: 700_000,
                achieved_ppm: 612_345,
                ..Departure::default()
            },
        )?;
        for window_ns in [MS, 10 * MS, 100 * MS] {
            let mmu = Mmu { window_ns, charged_ppm: 500_000, wall_ppm: (window_ns > MS).then_some(1) };
            w.mmu(1018 * MS, &mmu)?;
        }
        w.summary(1018 * MS, &Summary { cycles: 1, quanta: 2, ..Summary::default() })?;
        w.warning("careful")?;
        w.note(1018 * MS, &Note { text: "x".into() })
    };
    run(&mut w).unwrap();
    String::from_utf8(w.finish().unwrap()).unwrap()
}

const V2007: &str = r#"<?xml version="1.0" ?>

<verbosegc version="0.1.0-Metronome">

<initialized timestamp="Mon Aug 31 15:43:08 2026">
  <attribute name="gcPolicy" value="-Xgcpolicy:metronome" />
  <attribute name="maxHeapSize" value="0x4000000" />
  <attribute name="initialHeapSize" value="0x4000000" />
  <attribute name="gcthreads" value="1" />
  <attribute name="pageSize" value="0x1000" />
  <region>
    <attribute name="regionSize" value="65536" />
    <attribute name="regionCount" value="1024" />
    <attribute name="arrayletLeafSize" value="2048" />
  </region>
  <metronome>
    <attribute name="beatsPerMeasure" value="500" />
    <attribute name="timeInterval" value="10000" />
    <attribute name="targetUtilization" value="70" />
    <attribute name="trigger" value="0x2000000" />
    <attribute name="headRoom" value="0x100000" />
  </metronome>
  <system>
    <attribute name="physicalMemory" value="8589934592" />
    <attribute name="numCPUs" value="2" />
    <attribute name="architecture" value="x86_64" />
    <attribute name="os" value="Linux" />
    <attribute name="osVersion" value="6.1" />
  </system>
  <vmargs>
    <vmarg name="spread" value="even" />
    <vmarg name="lock" />
  </vmargs>
  <metronome-attributes>
    <attribute name="beatNs" value="500500" />
    <attribute name="windowNs" value="10000000" />
    <attribute name="targetUtilizationPercent" value="70.5000" />
    <attribute name="alarm" value="SCHED_FIFO 60" />
  </metronome-attributes>
</initialized>

<gc type="trigger start" id="1" timestamp="Mon Aug 31 15:43:09 2026" intervalms="1000.000" />

<gc type="cycle start" id="1" timestamp="Mon Aug 31 15:43:09 2026" intervalms="1000.100" heapfreebytes="1000" />

<metronome-stop-cancelled timestamp="Mon Aug 31 15:43:09 2026" mutator="io &quot;&lt;7&gt;�&quot;" waitedMs="2.000" budgetMs="1.000" missingMutators="1" />

<gc type="heartbeat" id="1" timestamp="Mon Aug 31 15:43:09 2026" intervalms="3.600">
  <summary quantumcount="2">
    <quantum minms="0.500" meanms="0.550" maxms="0.600" />
    <exclusiveaccess minms="0.011" meanms="0.016" maxms="0.021" />
    <refs_cleared soft="0" threshold="0" maxThreshold="0" weak="2" phantom="0" />
    <finalization objectsqueued="2" />
    <warning details="overflow occured" packetCount="1" directObjectCount="3" />
    <heap minfree="900" meanfree="1000" maxfree="1101" />
    <gcthreadpriority max="11" min="10" />
    <metronome-quanta firstStartNs="1001000000" lastEndNs="1003600000" minWakeupMs="0.020" meanWakeupMs="0.030" maxWakeupMs="0.040" maxPlannedMs="0.600" overPlan="1" maxOverPlanMs="0.100" cpuQuanta="1" cpuMs="0.450" cpuWallMs="0.500" longestStepMs="0.009" longestStep="mark.slots" />
  </summary>
</gc>

<gc type="cycle end" id="1" timestamp="Mon Aug 31 15:43:09 2026" intervalms="3.900" heapfreebytes="2000" />

<metronome-cycle timestamp="Mon Aug 31 15:43:09 2026" quanta="2" collectorMs="1.100" predictedCollectorMs="1.000" allocatedBytes="77" liveBytes="12" floatingObjects="3" floatingBytes="4" />

<gc type="trigger end" id="1" timestamp="Mon Aug 31 15:43:09 2026" intervalms="4.000" />

<gc type="synchgc" id="1" timestamp="Mon Aug 31 15:43:09 2026" intervalms="0.000">
  <details reason="out of memory" requested_bytes="32" />
  <duration timems="10.000" />
  <refs_cleared soft="0" threshold="0" maxThreshold="0" weak="1" phantom="0" />
  <finalization objectsqueued="4" />
  <heap freebytesbefore="8" />
  <heap freebytesafter="16" />
  <synchronousgcpriority value="11" />
  <metronome-sync startNs="1005000000" endNs="1015000000" exclusiveAccessMs="0.009" cpuMs="9.000" />
</gc>

<event details="out of memory" timestamp="Mon Aug 31 15:43:09 2026" memoryspace="heap" J9MemorySpace="0x1000" />

<event details="utilization tracker overflow" timestamp="Mon Aug 31 15:43:09 2026" utilizationTrackerAddress="0x10" timeSliceDurationArrayAddress="0x20" timeSliceCursor="100" />

<event details="non-monotonic time acknowledged" timerDesc="CLOCK_MONOTONIC" timestamp="Mon Aug 31 15:43:09 2026" metronome-fromNs="5" metronome-toNs="4" />

<warning details="clock error detected, following timing may be inaccurate" />
<gc type="cycle start" id="2" timestamp="Mon Aug 31 15:43:08 2026" intervalms="0.000" heapfreebytes="7" />

<metronome-lost-records timestamp="Mon Aug 31 15:43:09 2026" count="1" total="2" />

<metronome-departure timestamp="Mon Aug 31 15:43:09 2026" reason="headroom" windowMs="10.000" targetPercent="70.0000" achievedPercent="61.2345" />

<metronome-mmu timestamp="Mon Aug 31 15:43:09 2026" windowMs="1.000" chargedPercent="50.0000" />

<metronome-mmu timestamp="Mon Aug 31 15:43:09 2026" windowMs="10.000" chargedPercent="50.0000" wallPercent="0.0001" />

<metronome-mmu timestamp="Mon Aug 31 15:43:09 2026" windowMs="100.000" chargedPercent="50.0000" wallPercent="0.0001" />

<metronome-summary timestamp="Mon Aug 31 15:43:09 2026" cycles="1" quanta="2" longestQuantumMs="0.000" longestStopMs="0.000" collectorMs="0.000" runMs="0.000" syncGcs="0" stopsCancelled="0" departures="0" lostRecords="0" />

<warning details="careful" />

<metronome-note timestamp="Mon Aug 31 15:43:09 2026" text="x" />

</verbosegc>
"#;

const OPENJ9: &str = r#"<?xml version="1.0" ?>

<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="0.1.0">

<initialized id="1" timestamp="2026-08-31T15:43:08.000">
  <attribute name="gcPolicy" value="-Xgcpolicy:metronome" />
  <attribute name="maxHeapSize" value="0x4000000" />
  <attribute name="initialHeapSize" value="0x4000000" />
  <attribute name="gcthreads" value="1" />
  <attribute name="pageSize" value="0x1000" />
  <region>
    <attribute name="regionSize" value="65536" />
    <attribute name="regionCount" value="1024" />
    <attribute name="arrayletLeafSize" value="2048" />
  </region>
  <metronome>
    <attribute name="beatsPerMeasure" value="500" />
    <attribute name="timeInterval" value="10000" />
    <attribute name="targetUtilization" value="70" />
    <attribute name="trigger" value="0x2000000" />
    <attribute name="headRoom" value="0x100000" />
  </metronome>
  <system>
    <attribute name="physicalMemory" value="8589934592" />
    <attribute name="numCPUs" value="2" />
    <attribute name="architecture" value="x86_64" />
    <attribute name="os" value="Linux" />
    <attribute name="osVersion" value="6.1" />
  </system>
  <vmargs>
    <vmarg name="spread" value="even" />
    <vmarg name="lock" />
  </vmargs>
  <metronome-attributes>
    <attribute name="beatNs" value="500500" />
    <attribute name="windowNs" value="10000000" />
    <attribute name="targetUtilizationPercent" value="70.5000" />
    <attribute name="alarm" value="SCHED_FIFO 60" />
  </metronome-attributes>
</initialized>

<trigger-start id="2" timestamp="2026-08-31T15:43:09.000" />
<cycle-start id="3" type="global" contextid="0" timestamp="2026-08-31T15:43:09.000" intervalms="1000.100" metronome-heapFreeBytes="1000" />
<metronome-stop-cancelled timestamp="2026-08-31T15:43:09.002" contextid="3" mutator="io &quot;&lt;7&gt;�&quot;" waitedMs="2.000" budgetMs="1.000" missingMutators="1" />
<gc-op id="4" type="heartbeat" contextid="3" timestamp="2026-08-31T15:43:09.001">
  <quanta quantumCount="1" quantumType="mark" minTimeMs="0.500" meanTimeMs="0.500" maxTimeMs="0.500" maxTimestampMs="0.000" />
  <exclusiveaccess-info minTimeMs="0.021" meanTimeMs="0.021" maxTimeMs="0.021" />
  <references type="weak" cleared="2" />
  <work-packet-overflow packetCount="1" directObjectCount="3" />
  <free-mem type="heap" minBytes="900" meanBytes="900" maxBytes="900" />
  <thread-priority maxPriority="11" minPriority="11" />
  <metronome-quanta firstStartNs="1001000000" lastEndNs="1001500000" minWakeupMs="0.040" meanWakeupMs="0.040" maxWakeupMs="0.040" maxPlannedMs="0.400" overPlan="1" maxOverPlanMs="0.100" cpuQuanta="1" cpuMs="0.450" cpuWallMs="0.500" longestStepMs="0.009" longestStep="mark.slots" />
</gc-op>
<gc-op id="5" type="heartbeat" contextid="3" timestamp="2026-08-31T15:43:09.003">
  <quanta quantumCount="1" quantumType="sweep" minTimeMs="0.600" meanTimeMs="0.600" maxTimeMs="0.600" maxTimestampMs="0.000" />
  <exclusiveaccess-info minTimeMs="0.011" meanTimeMs="0.011" maxTimeMs="0.011" />
  <finalization enqueued="2" />
  <free-mem type="heap" minBytes="1101" meanBytes="1101" maxBytes="1101" />
  <thread-priority maxPriority="10" minPriority="10" />
  <metronome-quanta firstStartNs="1003000000" lastEndNs="1003600000" minWakeupMs="0.020" meanWakeupMs="0.020" maxWakeupMs="0.020" maxPlannedMs="0.600" overPlan="0" maxOverPlanMs="0.000" cpuQuanta="0" cpuMs="0.000" cpuWallMs="0.000" longestStepMs="0.004" longestStep="sweep.region" />
</gc-op>
<cycle-end id="6" type="global" contextid="3" timestamp="2026-08-31T15:43:09.004" metronome-heapFreeBytes="2000" />
<metronome-cycle timestamp="2026-08-31T15:43:09.004" contextid="3" quanta="2" collectorMs="1.100" predictedCollectorMs="1.000" allocatedBytes="77" liveBytes="12" floatingObjects="3" floatingBytes="4" />
<trigger-end id="7" timestamp="2026-08-31T15:43:09.004" />

<gc-op id="8" type="syncgc" timems="10.000" contextid="0" timestamp="2026-08-31T15:43:09.015">
  <syncgc-info reason="out of memory" totalBytesRequested="32" exclusiveaccessTimeMs="0.009" threadPriority="11" />
  <free-mem-delta type="heap" bytesBefore="8" bytesAfter="16" />
  <references type="weak" cleared="1" />
  <finalization enqueued="4" />
  <metronome-sync startNs="1005000000" endNs="1015000000" exclusiveAccessMs="0.009" cpuMs="9.000" />
</gc-op>
<out-of-memory id="9" timestamp="2026-08-31T15:43:09.016" memorySpaceName="heap" memorySpaceAddress="1000" />
<utilization-tracker-overflow id="10" timestamp="2026-08-31T15:43:09.016" utilizationTrackerAddress="0x10" timeSliceDurationArrayAddress="0x20" timeSliceCursor="100" />
<non-monotonic-time timerDescription="CLOCK_MONOTONIC" id="11" timestamp="2026-08-31T15:43:09.016" metronome-fromNs="5" metronome-toNs="4" />
<warning details="clock error detected, following timing may be inaccurate" />
<cycle-start id="12" type="global" contextid="0" timestamp="2026-08-31T15:43:08.900" intervalms="0.000" metronome-heapFreeBytes="7" />
<metronome-lost-records timestamp="2026-08-31T15:43:09.017" contextid="12" count="1" total="2" />
<metronome-departure timestamp="2026-08-31T15:43:09.017" contextid="12" reason="headroom" windowMs="10.000" targetPercent="70.0000" achievedPercent="61.2345" />
<metronome-mmu timestamp="2026-08-31T15:43:09.018" contextid="12" windowMs="1.000" chargedPercent="50.0000" />
<metronome-mmu timestamp="2026-08-31T15:43:09.018" contextid="12" windowMs="10.000" chargedPercent="50.0000" wallPercent="0.0001" />
<metronome-mmu timestamp="2026-08-31T15:43:09.018" contextid="12" windowMs="100.000" chargedPercent="50.0000" wallPercent="0.0001" />
<metronome-summary timestamp="2026-08-31T15:43:09.018" contextid="12" cycles="1" quanta="2" longestQuantumMs="0.000" longestStopMs="0.000" collectorMs="0.000" runMs="0.000" syncGcs="0" stopsCancelled="0" departures="0" lostRecords="0" />
<warning details="careful" />
<metronome-note timestamp="2026-08-31T15:43:09.018" contextid="12" text="x" />
</verbosegc>
"#;

fn assert_lines(got: &str, want: &str) {
    for (n, (got, want)) in got.lines().zip(want.lines()).enumerate() {
        assert_eq!(got, want, "line {}", n + 1);
    }
    assert_eq!(got, want);
}

#[test]
fn every_element_of_2007_as_text() {
    assert_lines(&written(Format::V2007), V2007);
}

#[test]
fn every_element_of_openj9_as_text() {
    assert_lines(&written(Format::OpenJ9), OPENJ9);
}

#[test]
fn the_golden_texts_are_well_formed_and_read_without_complaint_but_for_the_clock() {
    for text in [V2007, OPENJ9] {
        roxmltree::Document::parse(text).unwrap();
        let log = read_log(text.as_bytes()).unwrap();
        let said: Vec<String> = log.diagnostics.iter().map(ToString::to_string).collect();
        // The second cycle begins at an earlier time and has no end.
        assert_eq!(said.len(), 2, "{said:#?}");
        assert!(said[0].contains("goes back") && said[1].contains("inside a cycle"), "{said:#?}");
        let Event::Initialized(i) = &log.runs[0].events[0].event else { panic!() };
        assert_eq!((i.beat_ns, i.window_ns, i.target_ppm), (Some(500_500), Some(10 * MS), Some(705_000)));
    }
}

/// The one event of a snippet, which must be read without a complaint about anything in it.
fn one(text: &str) -> LoggedEvent {
    let log = read_log(text.as_bytes()).unwrap();
    let said: Vec<_> = log.diagnostics.iter().filter(|d| !d.text.contains("without </verbosegc>")).collect();
    assert!(said.is_empty(), "{said:#?}");
    assert_eq!(log.runs.len(), 1);
    assert_eq!(log.runs[0].events.len(), 1);
    log.runs[0].events[0].clone()
}

fn heartbeat(text: &str) -> Heartbeat {
    match one(text).event {
        Event::Heartbeat(h) => *h,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_heartbeat_of_2007_with_everything() {
    let h = heartbeat(
        r#"<gc type="heartbeat" id="1" timestamp="Mar 25 22:40:24 2010" intervalms="1000.000">
  <summary quantumcount="10">
    <quantum minms="0.100" meanms="0.200" maxms="0.300" />
    <exclusiveaccess minms="0.001" meanms="0.002" maxms="0.003" />
    <classunloading classloaders="1" classes="2" />
    <refs_cleared soft="3" threshold="4" maxThreshold="5" weak="6" phantom="7" />
    <finalization objectsqueued="8" />
    <warning details="overflow occured" packetCount="9" directObjectCount="10" />
    <nondeterministicsweep  maxms="0.011" totalregions="12" maxregions="13" />
    <heap minfree="14" meanfree="15" maxfree="515396075520" />
    <immortal minfree="17" meanfree="18" maxfree="19" />
    <gcthreadpriority max="20" min="11" />
  </summary>
</gc>"#,
    );
    let stats = |min_ns, mean_ns, max_ns| Some(DurationStats { min_ns, mean_ns, max_ns });
    let want = Heartbeat {
        interval_ns: Some(1_000_000_000),
        quantum_count: Some(10),
        quantum: stats(100_000, 200_000, 300_000),
        exclusive_access: stats(1000, 2000, 3000),
        heap_free: Some(ByteStats { min_bytes: 14, mean_bytes: 15, max_bytes: 480 << 30 }),
        immortal_free: Some(ByteStats { min_bytes: 17, mean_bytes: 18, max_bytes: 19 }),
        work: Work {
            class_unload: Some(ClassUnload { loaders: Some(1), classes: Some(2), anonymous: None }),
            soft: Some(SoftReferences { cleared: Some(3), threshold: Some(4), threshold_max: Some(5) }),
            weak_cleared: Some(6),
            phantom_cleared: Some(7),
            finalizer_enqueued: Some(8),
            overflow: Some(QueueOverflow { packets: Some(9), objects: Some(10) }),
            references: None,
        },
        allocator_sweep: Some(AllocatorSweep {
            max_ns: Some(11_000),
            total_regions: Some(12),
            max_regions: Some(13),
        }),
        priority_max: Some(20),
        priority_min: Some(11),
        ..Heartbeat::default()
    };
    assert_eq!(h, want);
    assert_eq!((h.collector_ns(), h.collector_share_ppm()), (Some(2 * MS), Some(2000)));
}

#[test]
fn a_heartbeat_of_openj9_with_everything() {
    let h = heartbeat(
        r#"<gc-op id="5" type="heartbeat" contextid="2" timestamp="2026-08-31T13:43:29.821">
  <quanta quantumCount="9" quantumType="classunload" minTimeMs="3.008" meanTimeMs="3.145" maxTimeMs="3.368" maxTimestampMs="164.839" />
  <classunload-info classloadersunloaded="1" classesunloaded="2" anonymousclassesunloaded="3" />
  <references type="soft" cleared="4" dynamicThreshold="29" maxThreshold="32" />
  <references type="weak" cleared="4" />
  <references type="phantom" cleared="5" />
  <finalization enqueued="6" />
  <work-packet-overflow packetCount="7" directObjectCount="8" />
  <nondeterministic-sweep maxTimeMs="0.009" totalRegions="10" maxRegions="11" />
  <free-mem type="heap" minBytes="12" meanBytes="13" maxBytes="14" />
  <thread-priority maxPriority="15" minPriority="10" />
</gc-op>"#,
    );
    assert_eq!(h.phase, Some(QuantumPhase::ClassUnload));
    // A run's age or an offset in the heartbeat? Not to be told from this alone.
    assert_eq!(h.longest_at, Some(LongestAt::Unclear(164_839_000)));
    assert_eq!(
        h.work,
        Work {
            class_unload: Some(ClassUnload { loaders: Some(1), classes: Some(2), anonymous: Some(3) }),
            soft: Some(SoftReferences { cleared: Some(4), threshold: Some(29), threshold_max: Some(32) }),
            weak_cleared: Some(4),
            phantom_cleared: Some(5),
            finalizer_enqueued: Some(6),
            overflow: Some(QueueOverflow { packets: Some(7), objects: Some(8) }),
            references: None,
        }
    );
    assert_eq!(
        h.allocator_sweep,
        Some(AllocatorSweep { max_ns: Some(9000), total_regions: Some(10), max_regions: Some(11) })
    );
    assert_eq!((h.priority_max, h.priority_min), (Some(15), Some(10)));
}

#[test]
fn the_two_meanings_of_the_longest_quantum_s_time() {
    let text = |ms: &str| {
        format!(
            r#"<cycle-start id="1" type="global" contextid="1" timestamp="2019-03-08T07:17:30.000" intervalms="1.000" />
<gc-op id="2" type="heartbeat" contextid="1" timestamp="2019-03-08T07:17:31.000">
  <quanta quantumCount="1" quantumType="mark" minTimeMs="1.000" meanTimeMs="1.000" maxTimeMs="1.000" maxTimestampMs="{ms}" />
</gc-op></verbosegc>"#
        )
    };
    for (ms, want) in [
        ("0.000", LongestAt::InHeartbeat(0)),
        ("999.000", LongestAt::InHeartbeat(999 * MS)),
        ("3000.000", LongestAt::InHeartbeat(3000 * MS)),
        ("3000.001", LongestAt::InRun(3000 * MS + 1000)),
        ("393154372.976", LongestAt::InRun(393_154_372_976_000)),
    ] {
        let log = read_log(text(ms).as_bytes()).unwrap();
        let Event::Heartbeat(h) = &log.runs[0].events[1].event else { panic!() };
        assert_eq!((h.longest_at, h.derived_interval_ns), (Some(want), Some(1000 * MS)), "{ms}");
    }
}

#[test]
fn elements_that_only_others_write() {
    let e =
        one(r#"<heap-fixup timems="1.500" reason="class unloading" timestamp="2026-08-31T13:43:29.821" />"#);
    let want = Event::HeapFixup { duration_ns: Some(1_500_000), reason: Some("class unloading".into()) };
    assert_eq!((e.event, e.timestamp), (want, LogTime::parse("2026-08-31T13:43:29.821")));
    let e = one(
        r#"<gc type="synchgc" id="3" timestamp="Tue Mar 13 15:17:18 2007" intervalms="0.000"><details reason="system garbage collect"/><duration timems="30.023"/><immortal freebytesbefore="5"/><immortal freebytesafter="6"/></gc>"#,
    );
    let Event::SyncGc(gc) = e.event else { panic!() };
    assert_eq!((gc.immortal_before_bytes, gc.immortal_after_bytes), (Some(5), Some(6)));
    assert_eq!((gc.reason, gc.interval_ns), (Some(SyncReason::Explicit), Some(0)));
    let e = one(r#"<initialized id="1" timestamp="2026-08-31T13:43:08.754">
  <attribute name="gcPolicy" value="-Xgcpolicy:metronome" />
  <attribute name="softMx" value="0x10" />
  <metronome>
    <attribute name="beatsPerMeasure" value="3000" />
    <attribute name="timeInterval" value="60000" />
    <attribute name="targetUtilization" value="70" />
  </metronome>
  <system>
    <attribute name="numCPUs active" value="4" />
  </system>
  <vmargs>
    <vmarg name="-Xmx2g" />
    <vmarg name="exit" value="0x7f00" />
  </vmargs>
</initialized>"#);
    let Event::Initialized(i) = e.event else { panic!() };
    assert_eq!((i.beat_ns, i.window_ns, i.target_ppm), (Some(3 * MS), Some(60 * MS), Some(700_000)));
    assert_eq!(i.vmargs, [("-Xmx2g".into(), None), ("exit".into(), Some("0x7f00".into()))]);
    assert_eq!(
        i.attributes,
        [
            Attribute { section: Section::Main, name: "softMx".into(), value: "0x10".into() },
            Attribute { section: Section::System, name: "numCPUs active".into(), value: "4".into() },
        ]
    );
}
