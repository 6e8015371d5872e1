//! Random facts, and what a reader must see of them: an aggregation of its own, kept as plain as possible.
#![allow(dead_code)] // Each test file uses its part.

use metronome_verbosegc::model::*;
use metronome_verbosegc::writer::*;
use metronome_verbosegc::{LogTime, WallClock};
use quickcheck::{Arbitrary, Gen};
use std::io;

#[derive(Clone, Debug)]
pub(crate) enum Fact {
    TriggerStart(u64),
    TriggerEnd(u64),
    CycleStart(u64, CycleStartFacts),
    CycleEnd(u64, u64, CycleFacts),
    Quantum(QuantumFacts),
    Sync(SyncGcFacts),
    Oom(u64, OutOfMemory),
    Tracker(u64, TrackerOverflow),
    Clock(u64, NonMonotonicTime),
    Warning(String),
    Stop(u64, StopCancelled),
    Lost(u64, LostRecords),
    Departure(u64, Departure),
    Resize(u64, Resize),
    Thread(u64, Thread),
    Mmu(u64, Mmu),
    Summary(u64, Summary),
    Note(u64, Note),
}

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) format: Format,
    pub(crate) options: Options,
    pub(crate) header: Option<(u64, Initialized)>,
    pub(crate) facts: Vec<Fact>,
}

pub(crate) fn below(g: &mut Gen, n: u64) -> u64 {
    u64::arbitrary(g) % n
}

/// Small, medium and huge values alike.
fn size(g: &mut Gen) -> u64 {
    let bits = below(g, 48) as u32;
    u64::arbitrary(g) >> (63 - bits)
}

/// A duration that its own attribute holds exactly.
fn us(g: &mut Gen) -> u64 {
    size(g) / 1000 * 1000
}

fn text(g: &mut Gen) -> String {
    match below(g, 4) {
        0 => String::arbitrary(g),
        1 => "a<b>&\"'\n\t\r\u{1b}[31m\u{9b}\u{0}\u{fffe}]]>--".into(),
        _ => format!("worker-{}", below(g, 100)),
    }
}

fn ppm(g: &mut Gen) -> u32 {
    below(g, 1_000_001) as u32
}

fn opt(g: &mut Gen, f: fn(&mut Gen) -> u64) -> Option<u64> {
    bool::arbitrary(g).then(|| f(g))
}

/// Often 0, seldom huge.
fn few(g: &mut Gen) -> u64 {
    match below(g, 6) {
        0 => size(g),
        1 => u64::MAX,
        n => (n - 1) / 2,
    }
}

fn work(g: &mut Gen) -> WorkFacts {
    if below(g, 4) == 0 {
        return WorkFacts::default();
    }
    WorkFacts {
        soft_cleared: few(g),
        soft_threshold: few(g),
        soft_threshold_max: few(g),
        weak_cleared: few(g),
        phantom_cleared: few(g),
        finalizer_enqueued: few(g),
        references: References {
            weak_long_cleared: few(g),
            ephemerons_cleared: few(g),
            finalizers_run: few(g),
            finalizers_suppressed: few(g),
            finalizers_panicked: few(g),
            finalizer_backlog: few(g),
        },
    }
}

fn cycle_reason(g: &mut Gen) -> Option<CycleReason> {
    Some(match below(g, 10) {
        0 => CycleReason::Headroom,
        1 => CycleReason::Threshold,
        2 => CycleReason::Interval,
        3 => CycleReason::Explicit,
        4 => CycleReason::ExternalMemory,
        5 => CycleReason::LowMemory,
        6 => CycleReason::Regions,
        7 => CycleReason::OutOfMemory,
        8 => CycleReason::Other(format!("odd {}", text(g))),
        _ => return None,
    })
}

fn quantum(g: &mut Gen, start_ns: u64, end_ns: u64) -> QuantumFacts {
    QuantumFacts {
        start_ns,
        end_ns,
        phase: *g.choose(&QuantumPhase::ALL).unwrap(),
        exclusive_access_ns: below(g, 100_000),
        wakeup_ns: below(g, 100_000),
        planned_ns: below(g, 1_000_000),
        cpu_ns: opt(g, |g| below(g, 1_000_000)),
        work_ns: opt(g, |g| below(g, 1_000_000)),
        released_ns: opt(g, |g| below(g, 1_000_000)).map(|ns| start_ns + ns),
        heap_free_bytes: size(g),
        immortal_free_bytes: opt(g, size),
        work: work(g),
        overflow_packets: below(g, 8) / 7,
        overflow_objects: below(g, 8) / 7,
        gc_thread_priority: below(g, 12),
        longest_step_ns: below(g, 10_000),
        longest_step: g.choose(&["", "mark.slots", "sweep.region"]).unwrap(),
    }
}

fn fact(g: &mut Gen, now: &mut u64) -> Fact {
    // One script in a few has a clock that goes back now and then.
    let back = below(g, 60) == 0;
    let step = below(g, 400_000_000);
    *now = if back { now.saturating_sub(step) } else { *now + step };
    let ns = *now;
    match below(g, 44) {
        0 => Fact::TriggerStart(ns),
        1 => Fact::TriggerEnd(ns),
        2 | 3 => Fact::CycleStart(ns, CycleStartFacts { heap_free_bytes: size(g), reason: cycle_reason(g) }),
        4 | 5 => Fact::CycleEnd(
            ns,
            size(g),
            CycleFacts {
                quanta: size(g),
                collector_ns: us(g),
                predicted_collector_ns: opt(g, us),
                cpu_ns: opt(g, us),
                allocated_bytes: size(g),
                predicted_allocated_bytes: opt(g, size),
                live_bytes: opt(g, size),
                floating_objects: opt(g, size),
                floating_bytes: opt(g, size),
                handles_ns: opt(g, us),
            },
        ),
        6 => {
            let start_ns = ns;
            *now += below(g, 90_000_000);
            Fact::Sync(SyncGcFacts {
                start_ns,
                end_ns: *now,
                reason: match below(g, 9) {
                    0 => SyncReason::OutOfMemory,
                    1 => SyncReason::Explicit,
                    2 => SyncReason::Shutdown,
                    3 => SyncReason::TimeTriggered,
                    4 => SyncReason::WorkTriggered,
                    5 => SyncReason::Unknown,
                    6 => SyncReason::LowMemory,
                    7 => SyncReason::Trim,
                    _ => SyncReason::Other(format!("headroom {}", text(g))),
                },
                requested_bytes: size(g),
                free_before_bytes: size(g),
                free_after_bytes: size(g),
                exclusive_access_ns: us(g),
                priority: below(g, 12),
                cpu_ns: opt(g, us),
                immortal_before_bytes: opt(g, size),
                immortal_after_bytes: opt(g, size),
                work: work(g),
            })
        }
        7 => Fact::Oom(ns, OutOfMemory { space: Some(text(g)), address: Some(size(g)) }),
        8 => Fact::Tracker(
            ns,
            TrackerOverflow { tracker: Some(size(g)), array: Some(size(g)), cursor: Some(below(g, 100)) },
        ),
        9 => Fact::Clock(
            ns,
            NonMonotonicTime { timer: Some(text(g)), from_ns: opt(g, size), to_ns: opt(g, size) },
        ),
        10 => Fact::Warning(text(g)),
        11 => Fact::Stop(
            ns,
            StopCancelled {
                mutator: text(g),
                waited_ns: us(g),
                budget_ns: us(g),
                missing_mutators: below(g, 9),
            },
        ),
        12 => Fact::Lost(ns, LostRecords { count: size(g), total: size(g) }),
        13 => Fact::Departure(
            ns,
            Departure {
                reason: text(g),
                window_ns: us(g),
                target_ppm: ppm(g),
                achieved_ppm: ppm(g),
                enough_heap_bytes: opt(g, size),
                live_bytes: opt(g, size),
                allocation_bytes: opt(g, size),
                fragmentation_ppm: bool::arbitrary(g).then(|| ppm(g)),
            },
        ),
        14 => Fact::Mmu(
            ns,
            Mmu {
                window_ns: us(g),
                charged_ppm: ppm(g),
                wall_ppm: opt(g, |g| u64::from(ppm(g))).map(|v| v as u32),
            },
        ),
        15 => Fact::Summary(
            ns,
            Summary {
                cycles: size(g),
                quanta: size(g),
                longest_quantum_ns: us(g),
                longest_stop_ns: us(g),
                collector_ns: us(g),
                run_ns: us(g),
                sync_gcs: size(g),
                stops_cancelled: size(g),
                departures: size(g),
                lost_records: size(g),
            },
        ),
        16 => Fact::Note(ns, Note { text: text(g) }),
        17 => Fact::Resize(
            ns,
            Resize {
                direction: *g
                    .choose(&[
                        ResizeDirection::Grow,
                        ResizeDirection::Shrink,
                        ResizeDirection::Trim,
                        ResizeDirection::Unknown,
                    ])
                    .unwrap(),
                from_bytes: size(g),
                to_bytes: size(g),
                returned_bytes: size(g),
                reason: text(g),
                total_bytes: opt(g, size),
                limit_bytes: opt(g, size),
            },
        ),
        18 => Fact::Thread(
            ns,
            Thread {
                name: text(g),
                kind: *g.choose(&[ThreadKind::Realtime, ThreadKind::NoHeap, ThreadKind::Unknown]).unwrap(),
                priority_asked: below(g, 100),
                priority_had: opt(g, |g| below(g, 100)),
                cpu: opt(g, |g| below(g, 1024)),
                refused: bool::arbitrary(g).then(|| text(g)),
            },
        ),
        _ => {
            // Equal lengths too, so that the first of the longest matters.
            *now += if bool::arbitrary(g) { 700_000 } else { below(g, 2_000_000) };
            Fact::Quantum(quantum(g, ns, *now))
        }
    }
}

fn header(g: &mut Gen) -> Initialized {
    let mut attributes: Vec<Attribute> = Vec::new();
    for section in [Section::Main, Section::Region, Section::Metronome, Section::System, Section::Own] {
        for n in 0..below(g, 3) {
            attributes.push(Attribute { section, name: format!("extra{n} {}", text(g)), value: text(g) });
        }
    }
    Initialized {
        policy: Some("-Xgcpolicy:metronome".into()),
        heap_max_bytes: opt(g, size),
        heap_initial_bytes: opt(g, size),
        gc_threads: opt(g, size),
        region_bytes: opt(g, size),
        region_count: opt(g, size),
        leaf_bytes: opt(g, size),
        beat_ns: opt(g, size),
        window_ns: opt(g, size),
        target_ppm: bool::arbitrary(g).then(|| ppm(g)),
        trigger_bytes: opt(g, size),
        headroom_bytes: opt(g, size),
        physical_memory_bytes: opt(g, size),
        cpus: opt(g, size),
        architecture: bool::arbitrary(g).then(|| text(g)),
        os: bool::arbitrary(g).then(|| text(g)),
        os_version: bool::arbitrary(g).then(|| text(g)),
        vmargs: (0..below(g, 4)).map(|_| (text(g), bool::arbitrary(g).then(|| text(g)))).collect(),
        attributes,
    }
}

impl Arbitrary for Script {
    fn arbitrary(g: &mut Gen) -> Self {
        let mut now = below(g, 1 << 40);
        let clock = WallClock {
            monotonic_ns: below(g, 1 << 41),
            unix_ns: 1_700_000_000_000_000_000 + i128::from(below(g, 1 << 60)),
            offset_seconds: i32::arbitrary(g) % 50_000,
        };
        let mut options = Options::new(text(g), clock);
        options.heartbeat_interval_ns = *g.choose(&[0, 1, 500_000_000, 1_000_000_000]).unwrap();
        let header = bool::arbitrary(g).then(|| (now, header(g)));
        let count = below(g, 120);
        Self {
            format: *g.choose(&[Format::V2007, Format::OpenJ9]).unwrap(),
            options,
            header,
            facts: (0..count).map(|_| fact(g, &mut now)).collect(),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let base = self.clone();
        Box::new((0..self.facts.len()).map(move |i| {
            let mut smaller = base.clone();
            smaller.facts.remove(i);
            smaller
        }))
    }
}

/// Feeds one fact to a writer.
pub(crate) fn feed<W: io::Write>(w: &mut LogWriter<W>, fact: &Fact) -> io::Result<()> {
    match fact {
        Fact::TriggerStart(ns) => w.trigger_start(*ns),
        Fact::TriggerEnd(ns) => w.trigger_end(*ns),
        Fact::CycleStart(ns, f) => w.cycle_start(*ns, f),
        Fact::CycleEnd(ns, free, f) => w.cycle_end(*ns, *free, f),
        Fact::Quantum(f) => w.quantum(f),
        Fact::Sync(f) => w.sync_gc(f),
        Fact::Oom(ns, f) => w.out_of_memory(*ns, f),
        Fact::Tracker(ns, f) => w.tracker_overflow(*ns, f),
        Fact::Clock(ns, f) => w.clock_error(*ns, f),
        Fact::Warning(text) => w.warning(text),
        Fact::Stop(ns, f) => w.stop_cancelled(*ns, f),
        Fact::Lost(ns, f) => w.lost_records(*ns, f),
        Fact::Departure(ns, f) => w.departure(*ns, f),
        Fact::Resize(ns, f) => w.resize(*ns, f),
        Fact::Thread(ns, f) => w.thread(*ns, f),
        Fact::Mmu(ns, f) => w.mmu(*ns, f),
        Fact::Summary(ns, f) => w.summary(*ns, f),
        Fact::Note(ns, f) => w.note(*ns, f),
    }
}

/// Writes a script to memory.
pub(crate) fn write(script: &Script) -> String {
    let mut w = LogWriter::new(Vec::new(), script.format, script.options.clone());
    if let Some((ns, facts)) = &script.header {
        w.initialized(*ns, facts).unwrap();
    }
    for fact in &script.facts {
        feed(&mut w, fact).unwrap();
    }
    String::from_utf8(w.finish().unwrap()).unwrap()
}

/// What XML can hold of a text.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| {
            let kept = matches!(c, '\t' | '\n' | '\r');
            let bad = (c.is_control() && !kept) || c == '\u{fffe}' || c == '\u{ffff}';
            if bad { '\u{fffd}' } else { c }
        })
        .collect()
}

/// Cut to microseconds.
pub(crate) fn cut(ns: u64) -> u64 {
    ns - ns % 1000
}

/// An event without its place.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) id: Option<u64>,
    pub(crate) context: Option<u64>,
    pub(crate) time: Option<LogTime>,
    pub(crate) clock_error: bool,
    pub(crate) event: Event,
}
