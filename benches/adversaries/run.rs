//! Runs a program and takes its figures.

use crate::program::{Done, Program, Size};
use metronome_gc::{Heap, Stats};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The figures of one run.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) control: bool,
    pub(crate) done: Done,
    pub(crate) stats: Stats,
    pub(crate) watched: Watched,
    pub(crate) wall: Duration,
    pub(crate) fragmentation_percent: u32,
}

pub(crate) enum Outcome {
    Row(Box<Row>),
    Skipped(String),
}

/// What a thread beside the program saw, a look each millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// The most bytes in allocated cells.
    pub(crate) peak_bytes: u64,
    /// The most that was allocated between the last look before a cycle and the first one after it.
    pub(crate) allocated_in_cycle: u64,
}

/// Memory that the system has for us, in MiB.
pub(crate) fn available_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib >> 10)
}

fn watch(heap: &Heap, stop: &AtomicBool) -> Watched {
    let mut w = Watched::default();
    let (mut cycles, mut start) = (0, 0);
    // Relaxed: the thread is joined.
    while !stop.load(Relaxed) {
        let now = heap.glance();
        w.peak_bytes = w.peak_bytes.max(now.used_bytes);
        if now.cycles > cycles {
            w.allocated_in_cycle = w.allocated_in_cycle.max(now.allocated_bytes - start);
            (cycles, start) = (now.cycles, now.allocated_bytes);
        }
        if now.phase == "idle" {
            start = now.allocated_bytes;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    w
}

/// The program in its heap, or as a control in one in which no cycle runs.
pub(crate) fn run(p: &Program, sample: bool, control: bool) -> Result<Outcome, String> {
    let mib = if control { p.control_mib } else { p.heap_mib }[usize::from(sample)];
    if let Some(available) = available_mib()
        && available < mib + mib / 2
    {
        return Ok(Outcome::Skipped(format!("needs {} MiB, {available} MiB are available", mib + mib / 2)));
    }
    let mut builder = Heap::builder().heap_bytes(mib << 20).set("event-ring", "65536");
    if control {
        builder = builder.set("trigger", "99%");
    }
    let heap = builder.build().map_err(|e| e.to_string())?;
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let (done, watched, wall) = std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&heap, &stop));
        let done = (p.run)(&heap, Size { sample, control });
        let wall = begun.elapsed();
        // Relaxed: only to end.
        stop.store(true, Relaxed);
        watcher.join().map(|w| (done, w, wall)).map_err(|_| "the watching thread panicked")
    })?;
    let stats = heap.stats();
    let done = done?;
    if control && stats.cycles > 0 {
        return Err(format!("{} cycles in the control: its heap of {mib} MiB is too small", stats.cycles));
    }
    if !control && stats.cycles == 0 {
        return Err(format!("no cycle ran: the heap of {mib} MiB is too large for the program"));
    }
    if stats.lost_events > 0 {
        return Err(format!("{} events were lost, so the figures are not complete", stats.lost_events));
    }
    let fragmentation_percent = heap.config().fragmentation_percent;
    Ok(Outcome::Row(Box::new(Row {
        name: p.name,
        control,
        done,
        stats,
        watched,
        wall,
        fragmentation_percent,
    })))
}
