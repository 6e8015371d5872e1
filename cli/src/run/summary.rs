//! The summary that a person reads.

use super::notices::listed;
use super::picture::{bar, histogram};
use super::task::PERIOD_NS;
use super::{Contract, Outcome};
use crate::quantity::{bytes, grouped, time};
use metronome_gc::Distribution;
use metronome_gc::config::Exhaustion;

/// Width of bars in the pictures.
const WIDTH: usize = 32;

struct Text(String);

impl Text {
    fn row(&mut self, name: &str, value: impl AsRef<str>) {
        self.0.push_str(&format!("  {name:<17} {}\n", value.as_ref()));
    }

    fn head(&mut self, title: &str) {
        self.0.push_str(&format!("\n{title}\n"));
    }
}

/// The whole summary.
pub(super) fn text(o: &Outcome, verbose: bool) -> String {
    let s = &o.stats;
    let seconds = s.elapsed_ns as f64 / 1e9;
    let mut t = Text(format!(
        "metronome run: {}, {} threads, {seconds:.1} s, heap {}{}\n",
        o.workload,
        o.mutators,
        bytes(s.heap_bytes),
        if o.interrupted { ", ended early by the user" } else { "" }
    ));
    for line in &o.plan {
        t.0.push_str(&format!("  {line}\n"));
    }
    utilization(&mut t, o);
    times(&mut t, o, verbose);
    task(&mut t, o);
    memory(&mut t, o, seconds);
    departures(&mut t, o);
    if verbose {
        t.head("Configuration");
        for (name, value) in o.config.pairs() {
            t.row(name, if value.is_empty() { "(none)" } else { &value });
        }
    }
    results(&mut t, o);
    t.0
}

fn utilization(t: &mut Text, o: &Outcome) {
    let s = &o.stats;
    let target = s.target_ppm / 10_000;
    t.head(&format!(
        "Minimum utilization: the least that the program kept of any window (target {target} % of {})",
        time(s.window_ns)
    ));
    for m in &s.mmu {
        let share = |ppm: u32| format!("{:.1} %", f64::from(ppm) / 10_000.0);
        let row = match m.charged_ppm {
            // No bar: an empty one would look like 0 %.
            None => "no full window measured".into(),
            Some(ppm) => format!(
                "{} {} (in wall time {})",
                bar(f64::from(ppm) / 1e6, WIDTH),
                share(ppm),
                m.wall_ppm.map_or("-".into(), share)
            ),
        };
        t.row(&time(m.window_ns), row);
    }
    let below = format!(
        "{} windows below the target by the collector, {} in wall time",
        grouped(s.violations),
        grouped(s.violations_wall)
    );
    t.row(
        "contract",
        match Contract::of(s) {
            Contract::Kept => format!("kept: {below}"),
            Contract::Broken => format!("BROKEN: {below}"),
            Contract::NotMeasured => "no quantum ended a full window after the start".into(),
            Contract::Unknown => format!("not known: {} events were lost", grouped(s.lost_events)),
        },
    );
    if s.elapsed_ns > 0 {
        let average = 1.0 - (s.collector_ns as f64 / s.elapsed_ns as f64).min(1.0);
        t.row(
            "on average",
            format!("{:.1} %, over {} cycles and {} quanta", average * 100.0, s.cycles, grouped(s.quanta)),
        );
    }
}

fn distribution(d: &Distribution) -> String {
    if d.count == 0 {
        return "none".into();
    }
    format!("p50 {}, p99 {}, p99.9 {}, max {}", time(d.p50), time(d.p99), time(d.p999), time(d.max))
}

fn times(t: &mut Text, o: &Outcome, verbose: bool) {
    let s = &o.stats;
    t.head("Collector");
    t.row("pause", distribution(&s.pause_ns));
    t.row("quantum CPU", distribution(&s.quantum_cpu_ns));
    t.row("time to stop", distribution(&s.time_to_stop_ns));
    t.row("resume", distribution(&s.resume_ns));
    t.row("step (wall)", distribution(&s.step_ns));
    t.row("over budget", distribution(&s.overshoot_ns));
    if verbose {
        for kind in &s.step_kinds {
            t.row(
                &format!("  {}", kind.name),
                format!("{}; {} steps", distribution(&kind.cpu_ns), grouped(kind.cpu_ns.count)),
            );
        }
    }
    t.row("longest step", format!("{} in {}", time(s.longest_step_ns), s.longest_step));
    if s.interrupted_steps > 0 {
        let lost = time(s.interrupted_ns);
        t.row(
            "interrupted",
            format!("{} steps, for {lost} beyond what a step can take: not charged", s.interrupted_steps),
        );
    }
    t.row(
        "alarm lateness",
        format!("{}; {} beats missed", distribution(&s.alarm_lateness_ns), grouped(s.alarm_missed)),
    );
}

fn task(t: &mut Text, o: &Outcome) {
    let Some(task) = &o.task else { return };
    let h = &task.response;
    t.head(&format!(
        "Task: every {}, response from the intended start (histogram, logarithmic)",
        time(PERIOD_NS)
    ));
    for row in histogram(h, WIDTH) {
        t.0.push_str(&format!("  {row}\n"));
    }
    t.row("response", distribution(&super::json::distribution_of(h)));
    t.row(
        "missed",
        format!("{} of {} responses took longer than the period", grouped(task.missed), grouped(h.len())),
    );
}

fn memory(t: &mut Text, o: &Outcome, seconds: f64) {
    let s = &o.stats;
    t.head("Memory");
    let rate = s.allocated_bytes as f64 / seconds.max(1e-9);
    t.row("allocated", format!("{} ({}/s)", bytes(s.allocated_bytes), bytes(rate as u64)));
    t.row(
        "live, in use",
        format!("{}, {} of {}", bytes(s.live_bytes), bytes(s.used_bytes), bytes(s.heap_bytes)),
    );
    if s.remarked_cycles > 0 {
        let (last, total) = (s.floating, s.floating_total);
        t.row(
            "floating",
            format!(
                "{} objects, {} in the last of {} cycles that were marked again; {} on average",
                grouped(last.objects),
                bytes(last.bytes),
                grouped(s.remarked_cycles),
                bytes(total.bytes / s.remarked_cycles)
            ),
        );
    }
    if s.max_heap_bytes > s.heap_bytes || o.told.grown + o.told.trimmed > 0 {
        t.row(
            "size",
            format!(
                "{} now, {} at most; grew {} times, shrank or gave memory back {} times ({})",
                bytes(s.heap_bytes),
                bytes(s.max_heap_bytes),
                grouped(o.told.grown),
                grouped(o.told.trimmed),
                bytes(o.told.returned_bytes)
            ),
        );
    }
    if s.resident_bytes > 0 {
        t.row(
            "resident",
            format!("{} of the system's memory in the heap's regions", bytes(s.resident_bytes)),
        );
    }
    if s.external_bytes > 0 {
        t.row("external", format!("{} announced", bytes(s.external_bytes)));
    }
    let r = &s.references;
    let cleared = counted(&[
        (r.weak_cleared, "weak"),
        (r.soft_cleared, "soft"),
        (r.long_cleared, "long weak"),
        (r.ephemerons_cleared, "ephemerons"),
    ]);
    if !cleared.is_empty() {
        t.row("cleared", cleared);
    }
    let f = &s.finalizers;
    let ends = counted(&[
        (f.run, "run"),
        (f.backlog, "waiting"),
        (f.suppressed, "suppressed"),
        (r.deaths_noted, "deaths noted"),
        (s.reaped, "dropped"),
    ]);
    if !ends.is_empty() {
        t.row("finalizers", ends);
    }
    if let Some(rss) = o.peak_rss_bytes {
        t.row("peak resident", bytes(rss));
    }
}

/// What is not zero: `1 weak, 3 soft`.
fn counted(counts: &[(u64, &str)]) -> String {
    let some = counts.iter().filter(|(n, _)| *n > 0);
    some.map(|(n, name)| format!("{} {name}", grouped(*n))).collect::<Vec<_>>().join(", ")
}

/// What did not go to plan: shown only where there is something to show, or where that is what the run is about.
fn departures(t: &mut Text, o: &Outcome) {
    let s = &o.stats;
    let mut rows: Vec<(&str, String)> = Vec::new();
    if s.stops_cancelled > 0 {
        rows.push(("stops cancelled", grouped(s.stops_cancelled)));
    }
    for (name, n) in &s.stragglers {
        rows.push(("straggler", format!("{name}, {} times", grouped(*n))));
    }
    if s.synchronous_collections > 0 || o.tell_all {
        rows.push(("synchronous", format!("{} collections", grouped(s.synchronous_collections))));
    }
    if s.departures > 0 {
        let why = s.last_departure.unwrap_or("unknown");
        let mut text = format!("{} times, the last one because: {why}", grouped(s.departures));
        if o.told.departures.len() > 1 {
            text.push_str(&format!(" (told: {})", listed(&o.told.departures)));
        }
        rows.push(("left the plan", text));
    } else if o.tell_all {
        rows.push(("left the plan", "never".into()));
    }
    if let Some(enough) = o.told.enough_heap_bytes {
        rows.push(("enough heap", format!("{}, by what was measured then", bytes(enough))));
    }
    if s.failed_allocations > 0 || o.tell_all {
        let fail = o.config.exhaustion == Exhaustion::Fail;
        let name = if fail { "failed" } else { "waits for memory" };
        let lost = if s.out_of_memory > 0 && !fail {
            format!(", {} of them in vain", grouped(s.out_of_memory))
        } else {
            String::new()
        };
        rows.push((name, format!("{} allocations{lost}", grouped(s.failed_allocations))));
    }
    if o.told.headroom_low > 0 {
        rows.push(("headroom low", format!("{} times", grouped(o.told.headroom_low))));
    }
    if o.told.low_memory > 0 {
        let last = o.told.low_memory_last.as_deref().unwrap_or("unknown");
        rows.push(("low memory", format!("{} times, last: {last}", grouped(o.told.low_memory))));
    }
    let f = &s.finalizers;
    let trouble = counted(&[
        (f.panicked, "finalizers panicked"),
        (f.stuck, "stuck"),
        (s.reaper_panics, "destructors panicked"),
        (s.listener_panics, "listeners panicked"),
    ]);
    if !trouble.is_empty() {
        rows.push(("program's code", trouble));
    }
    if s.lost_events > 0 {
        rows.push(("events lost", format!("{} (raise --event-ring)", grouped(s.lost_events))));
    }
    if let Some(e) = &s.log_error {
        rows.push(("verbose log", e.clone()));
    }
    for r in &o.refusals {
        rows.push(("refused", r.clone()));
    }
    if rows.is_empty() {
        return;
    }
    t.head("Departures");
    rows.iter().for_each(|(name, value)| t.row(name, value));
}

fn results(t: &mut Text, o: &Outcome) {
    t.head("Results");
    let counts: Vec<String> =
        o.tally.counts.iter().map(|(name, n)| format!("{} {name}", grouped(*n))).collect();
    if !counts.is_empty() {
        t.row("done", counts.join(", "));
    }
    if let Some(nothing) = &o.nothing {
        t.row("compared", format!("nothing ({nothing})"));
    }
    t.row("checksum", format!("{:#018x}", o.tally.checksum));
    if let Some(checks) = o.config.verify.filter(|v| v.is_on()) {
        let (verified, cycles) = (grouped(o.stats.verified_cycles), grouped(o.stats.cycles));
        t.row("heap", format!("verified in {verified} of {cycles} cycles ({checks})"));
    }
    for problem in &o.problems {
        t.row("problem", problem);
    }
    t.0.push_str(&if o.compared_nothing() {
        "verified: nothing was compared\n".to_owned()
    } else {
        format!("verified: {}\n", o.verified())
    });
}
