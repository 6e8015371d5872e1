//! Flags of each collector, and numbers for people.

use crate::figures::Writer;

/// What can be turned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Knob {
    Heap,
    Target,
    Trigger,
    Beat,
    Window,
    Explicit,
    Region,
    Threads,
    Priority,
}

/// The flag, in the words of the collector that wrote the log.
pub(super) const fn flag(writer: Writer, knob: Knob) -> &'static str {
    match (writer, knob) {
        (Writer::MetronomeGc, Knob::Heap) => "heap (--heap, METRONOME_HEAP)",
        (Writer::MetronomeGc, Knob::Target) => "target_utilization (--target-utilization)",
        (Writer::MetronomeGc, Knob::Trigger) => "trigger (--trigger)",
        (Writer::MetronomeGc, Knob::Beat) => "quantum (--quantum)",
        (Writer::MetronomeGc, Knob::Window) => "window (--window)",
        (Writer::MetronomeGc, Knob::Explicit) => "the calls of Heap::collect",
        (Writer::MetronomeGc, Knob::Region) => "the size of regions, which is fixed",
        (Writer::MetronomeGc, Knob::Threads) => "gc_cpu (--gc-cpu)",
        (Writer::MetronomeGc, Knob::Priority) => "gc_priority (--gc-priority)",
        (_, Knob::Heap) => "-Xmx",
        (_, Knob::Target) => "-Xgc:targetUtilization",
        (_, Knob::Trigger) => "-XXgc:trigger",
        (_, Knob::Beat) => "-Xgc:targetPausetime",
        (_, Knob::Window) => "-Xgc:timeInterval",
        (_, Knob::Explicit) => "-Xdisableexplicitgc",
        (_, Knob::Region) => "-Xgc:regionSize",
        (_, Knob::Threads) => "-Xgcthreads",
        (_, Knob::Priority) => "the priority of the GC threads (ulimit -r, rtprio in limits.conf)",
    }
}

/// Nanoseconds as milliseconds.
pub(crate) fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// Parts per million as a percentage.
pub(crate) fn percent(ppm: u64) -> String {
    format!("{:.1} %", ppm as f64 / 1e4)
}

/// Bytes with a binary unit.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// `1 cycle`, `2 cycles`.
pub(crate) fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}
