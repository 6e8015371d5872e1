//! Rules of priorities, clocks, references, options, and of logs that break off.

use super::words::Knob;
use super::{Desk, Severity, count, ms, option, percent};

/// The priority that the Java collectors print for their threads.
const JAVA_PRIORITY: u64 = 11;
/// Objects handed to finalization at once that are many.
const MANY_FINALIZERS: u64 = 1_000;
/// Interval of heartbeats below which writing them costs, in ms.
const LOG_INTERVAL_MS: u64 = 1_000;
/// Utilization targets that the documentation recommends, in ppm.
const TARGETS: std::ops::RangeInclusive<u32> = 500_000..=800_000;
/// Heap from which on compressed references are a matter.
const COMPRESSED_LIMIT: u64 = 25 << 30;
/// Cycles from which on repeated unloading is judged.
const UNLOAD_CYCLES: u64 = 3;

pub(super) fn rules(d: &mut Desk<'_>) {
    priority(d);
    clock(d);
    work(d);
    options(d);
    end(d);
    own(d);
    if d.run.heartbeats.total() + d.run.synchronous.total() == 0 {
        d.lacks("R1 to R21", "the log has neither heartbeats nor synchronous collections");
    }
}

/// R16.
fn priority(d: &mut Desk<'_>) {
    let Some(p) = d.run.priority else { return };
    let low = if d.own() { p.min == 0 } else { p.min < JAVA_PRIORITY };
    if !low && p.min == p.max {
        return;
    }
    let evidence = if p.min == p.max {
        format!("the collector's thread ran at priority {}", p.min)
    } else {
        format!("the collector's thread ran at priorities {} to {}", p.min, p.max)
    };
    let advice = format!(
        "it was lowered, or never had what it asked for: check {}, the limits for real-time priorities, and who changes them",
        d.flag(Knob::Priority)
    );
    d.find("R16", Severity::Risk, "the collector's priority is low or changes", evidence, &[], advice);
}

/// R17.
fn clock(d: &mut Desk<'_>) {
    let t = d.run.trouble;
    if t.clock_errors == 0 {
        return;
    }
    let evidence =
        format!("the clock went wrong in {}, first at line {}", count(t.clock_errors, "event"), t.clock_line);
    let advice = "intervals near these events are not to be trusted: look for steps of NTP, a migrated virtual machine, or a \
                  bad clock source";
    d.find("R17", Severity::Risk, "the clock went wrong", evidence, &[t.clock_line], advice.into());
}

/// R18, R20, R21.
fn work(d: &mut Desk<'_>) {
    let w = d.run.work;
    if w.overflows > 0 {
        let evidence = format!("{}, first at line {}", count(w.overflows, "overflow"), w.overflow_line);
        let heap = if d.held_up().is_some() { String::new() } else { format!("{} or ", d.flag(Knob::Heap)) };
        let advice = format!(
            "cycles take longer than they need to: raise {heap}{}; very deep structures cause it",
            d.flag(Knob::Threads)
        );
        d.find("R18", Severity::Note, "the mark queue overflowed", evidence, &[w.overflow_line], advice);
    }
    let cycles = d.run.cycles;
    if cycles >= UNLOAD_CYCLES && w.class_unload_cycles.saturating_mul(2) > cycles {
        let evidence = format!(
            "{} unloaded, in {} of {cycles} cycles",
            count(w.classes_unloaded, "class").replace("classs", "classes"),
            w.class_unload_cycles.min(cycles)
        );
        let advice = "classes come and go all the time: keep class loaders, or -Xnoclassgc; unloading makes long quanta";
        d.find(
            "R20",
            Severity::Note,
            "classes are unloaded again and again",
            evidence,
            &[w.class_unload_line],
            advice.into(),
        );
    }
    let backlog = w.finalizer_backlog;
    if backlog.value > MANY_FINALIZERS {
        let evidence = format!("{} objects waited for their finalizer, line {}", backlog.value, backlog.line);
        let advice =
            "the finalizer thread does not keep up: do less in finalizers, or release things explicitly";
        d.find("R21", Severity::Note, "a backlog of finalizers", evidence, &[backlog.line], advice.into());
    } else if w.finalizer_peak.value > MANY_FINALIZERS {
        let p = w.finalizer_peak;
        let evidence = format!(
            "{} objects handed to finalization at once, line {} ({} in all)",
            p.value, p.line, w.finalizer_enqueued
        );
        let advice =
            "finalizers keep objects alive for a cycle more and may pile up: close things explicitly instead";
        d.find("R21", Severity::Note, "many finalizers", evidence, &[p.line], advice.into());
    }
    let oom = d.run.synchronous_by_reason.contains_key("out of memory");
    if w.soft_cleared > 0 && oom {
        let evidence =
            format!("{} soft references cleared, and collections for want of memory", w.soft_cleared);
        let raise =
            if d.held_up().is_some() { String::new() } else { format!(", or raise {}", d.flag(Knob::Heap)) };
        let advice = format!("caches are emptied because memory is short: bound them{raise}");
        d.find("R21", Severity::Note, "soft caches are emptied", evidence, &[], advice);
    }
}

/// R22, R24, R25.
fn options(d: &mut Desk<'_>) {
    let Some(config) = d.config() else {
        return d.lacks("R22, R24, R25", "the log has no header");
    };
    let line = d.run.line;
    let target = config.target_ppm;
    if let Some(target) = target.filter(|t| !TARGETS.contains(t)) {
        let evidence = format!("the target is {}", percent(u64::from(target)));
        let advice = format!(
            "{} is meant to lie between 50 and 80 % (90 with very little allocation): above, cycles take so long that the \
             heap must be very large; below, the program is slow",
            d.flag(Knob::Target)
        );
        d.find("R25", Severity::Note, "an unusual utilization target", evidence, &[line], advice);
    }
    if d.own() {
        return;
    }
    let interval = option(config, "-Xgc:verbosegcCycleTime=").and_then(|v| v.parse::<u64>().ok());
    if let Some(interval) = interval.filter(|ms| *ms < LOG_INTERVAL_MS) {
        let evidence = format!("-Xgc:verbosegcCycleTime={interval}");
        let advice = "writing the log lengthens pauses: 1000 ms or more".into();
        d.find("R22", Severity::Note, "heartbeats too often", evidence, &[line], advice);
    }
    let both = option(config, "-Xgc:targetPausetime=").zip(option(config, "-Xgc:timeInterval="));
    if let Some((pause, window)) = both {
        let evidence = format!("-Xgc:targetPausetime={pause} and -Xgc:timeInterval={window}");
        let advice = "fine: without the second, the window is 20 times the first".into();
        d.find("R24", Severity::Explain, "beat and window are both set", evidence, &[line], advice);
    }
    let threads = option(config, "-Xgc:threads").or_else(|| option(config, "-Xgc:threads="));
    if let Some(threads) = threads {
        let evidence = format!("-Xgc:threads{threads}");
        let advice = format!("the number of collector threads is set by {}", d.flag(Knob::Threads));
        d.find("R24", Severity::Explain, "an unusual option", evidence, &[line], advice);
    }
    if config.heap_max_bytes.is_some_and(|b| b > COMPRESSED_LIMIT) {
        let evidence = "the heap is larger than 25 GiB".into();
        let advice =
            "compressed references end near 32 GiB (25 in older builds): above, objects are larger".into();
        d.find("R24", Severity::Explain, "a very large heap", evidence, &[line], advice);
    }
}

/// R23.
fn end(d: &mut Desk<'_>) {
    let run = d.run;
    if run.complete || !run.cycle_open {
        return;
    }
    if run.fragment {
        return d
            .lacks("R23", "the run ends inside a cycle, but it is a fragment: it may have been cut there");
    }
    let last = run.last_time.map_or_else(|| "unknown".into(), |t| t.to_string());
    let evidence = format!("the log ends inside a cycle, without its end tag; last time {last}");
    let advice = "if the process still writes, all is well; if not, it crashed or was killed in a cycle, or the collector \
                  hangs (old OpenJ9 builds could)";
    let line = run.heartbeats.rows.last().map_or(run.line, |r| r.line);
    d.find("R23", Severity::Risk, "a cycle that never ends", evidence, &[line], advice.into());
}

/// O4 to O6.
fn own(d: &mut Desk<'_>) {
    let run = d.run;
    let refused = run.own.threads.rows.iter().find(|(_, t)| t.refused.is_some());
    if let Some((line, t)) = refused {
        let evidence =
            format!("line {line}: thread {}: {}", t.name, t.refused.as_deref().unwrap_or_default());
        let advice =
            "the thread runs without what it was promised: give the process rtprio (see `metronome check`)"
                .into();
        d.find(
            "O4",
            Severity::Risk,
            "a real-time thread was refused its priority",
            evidence,
            &[*line],
            advice,
        );
    }
    let lost = run.trouble.lost_records;
    if lost > 0 {
        let evidence = format!("{} lost", count(lost, "event record"));
        let advice = "the figures are incomplete: raise event_ring (--event-ring)".into();
        d.find("O5", Severity::Note, "events were lost", evidence, &[], advice);
    }
    let lost = run.trouble.output_lost;
    if lost > 0 {
        let evidence = format!("{} of the log did not reach the file", count(lost, "element"));
        let advice = "the log is incomplete: give --verbose-gc a file with room".into();
        d.find("O6", Severity::Note, "parts of the log were lost", evidence, &[], advice);
    }
    let late = run.own.wakeup_peak;
    let many = run.own.over_plan.saturating_mul(2) > run.quanta && run.quanta > 100;
    if many {
        let evidence = format!(
            "{} of {} quanta took longer than planned, by up to {} (line {}); latest wake-up {}",
            run.own.over_plan,
            run.quanta,
            ms(run.own.over_plan_peak.value),
            run.own.over_plan_peak.line,
            ms(late.value)
        );
        let advice = format!(
            "the host is slower than the plan assumes: raise {}, see `metronome check`",
            d.flag(Knob::Beat)
        );
        d.find(
            "O7",
            Severity::Note,
            "most quanta overrun their plan",
            evidence,
            &[run.own.over_plan_peak.line],
            advice,
        );
    }
}
