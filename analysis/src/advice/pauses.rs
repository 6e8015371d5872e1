//! Rules of pauses and of utilization.

use super::words::Knob;
use super::{Desk, Severity, count, memory, ms, percent};
use crate::figures::RunFigures;
use crate::stat::{Distribution, Trend};
use metronome_verbosegc::model::QuantumPhase;

/// A quantum of more beats than this is an outlier.
const LONG_BEATS: u64 = 2;
/// The same for the longest of this project's, where the host's part is told apart.
const OWN_LONG_BEATS: u64 = 4;
/// Heartbeats from which on growth is judged.
const GROWTH_BEATS: u64 = 20;
/// Share of the variance that growth must explain.
const GROWTH_R_SQUARED: f64 = 0.5;
/// Time to stop above this part of a beat is slow.
const STOP_PARTS: u64 = 3;
/// Stops given up from which on a straggler is more than an accident.
const STRAGGLES: u64 = 5;
/// Who is waited for in vain in this part of all quanta, at least, does not poll.
const DEAF_PARTS: u64 = 20;
/// Fewer stops than this may be given up by chance.
const DEAF_STOPS: u64 = 10;
/// Released mutators that wait longer than this part of a beat on average wait for a processor.
const RESUME_PARTS: u64 = 4;
/// The title of O1 where one mutator is to blame.
pub(super) const DOES_NOT_POLL: &str = "a mutator does not poll";
/// What to do about mutators that stop late.
const LATE: &str = "threads come by pause points too seldom, or wait for a processor: call poll() in loops, wrap system calls \
                    in blocking(..), run no more threads than processors";
/// Wall time lost to the system above this, in percent of quanta's, is preemption.
const PREEMPTED_PERCENT: u64 = 33;
/// Quanta from which on shares are judged.
const MANY_QUANTA: u64 = 20;
/// Values of which a hundredth is more than one.
const MANY_VALUES: u64 = 200;
/// Collector time before marking above this part is a matter of roots, in percent.
const ROOTS_PERCENT: u128 = 30;
/// A utilization below the target by no more than this, in parts per million, is the grain of printed times: two
/// milliseconds of a window of 60.
const GRAIN_PPM: u32 = 34_000;
/// In wall time a window may have this much less than the target before it is worth a word, in parts per million: a busy
/// system takes as much now and then.
const FAR_PPM: u32 = 200_000;
/// Names shown.
const NAMES: usize = 4;

pub(super) fn rules(d: &mut Desk<'_>) {
    long_quanta(d);
    growth(d);
    slow_stops(d);
    share(d);
    allocator_sweep(d);
    overdue(d);
    stragglers(d);
    preempted(d);
    late_resumptions(d);
    roots(d);
    in_wall_time(d);
}

/// R5.
fn long_quanta(d: &mut Desk<'_>) {
    let run = d.run;
    // What released mutators wait for has a rule of its own: the collector's own end counts where the log tells it.
    let told = run.own.collector_peak.line > 0;
    let peak = if told { run.own.collector_peak } else { run.quantum_peak };
    let limit = d.beat_ns.saturating_mul(if d.own() { OWN_LONG_BEATS } else { LONG_BEATS });
    let often = d.own()
        && !told
        && run.quantum.stat.count >= MANY_QUANTA
        && high(&run.quantum) > d.beat_ns.saturating_mul(LONG_BEATS);
    if peak.value <= limit && !often {
        return;
    }
    let phase = run.phases.iter().find(|p| p.peak == peak || (told && p.peak.line == peak.line));
    let row = run.heartbeats.rows.iter().find(|r| r.line == peak.line);
    let name = phase.map(|p| p.phase).or(row.and_then(|r| r.phase));
    let stop = row.and_then(|r| r.stop_max_ns).unwrap_or(0);
    let (why, advice) = cause(d, name, phase.is_some_and(|p| p.longest_is_first > 0), stop);
    let evidence = format!(
        "the longest of {} took {}, line {} (phase {}; beat {}): {why}",
        count(run.quanta, "quantum").replace("quantums", "quanta"),
        ms(peak.value),
        peak.line,
        name.map_or("unknown", QuantumPhase::name),
        d.beat_words(),
    );
    d.find("R5", Severity::Risk, "a quantum far longer than planned", evidence, &[peak.line], advice);
}

/// What more than one value in a hundred exceeds, and more than one at all.
fn high(d: &Distribution) -> u64 {
    if d.stat.count >= MANY_VALUES { d.p99 } else { d.p90 }
}

fn cause(d: &Desk<'_>, phase: Option<QuantumPhase>, first: bool, stop: u64) -> (String, String) {
    let early = matches!(phase, Some(QuantumPhase::Precollect | QuantumPhase::Mark));
    if stop > d.beat_ns {
        return (
            format!("of it up to {} passed until all threads had stopped", ms(stop)),
            "threads are slow to stop: look for long native or critical sections and for loops that do not poll".into(),
        );
    }
    if d.own() {
        return (
            "work steps are bounded, so the host took the rest".into(),
            format!("the collector was preempted: see `metronome check`; give it {}", d.processor_words()),
        );
    }
    if first && early {
        return (
            "the first quantum of its heartbeat was the longest, as when roots are scanned".into(),
            "deep stacks or many threads: a stack is scanned in one quantum; see -Xtgc:rootscantime, and make stacks \
             shallower or threads fewer"
                .into(),
        );
    }
    match phase {
        Some(QuantumPhase::ClassUnload) => (
            "unloading classes".into(),
            "classes are unloaded in one piece: -Xnoclassgc, or fewer class loaders".into(),
        ),
        Some(QuantumPhase::Sweep) => {
            ("sweeping".into(), format!("regions are swept in one piece: lower {}", d.flag(Knob::Region)))
        }
        _ => (
            "no phase of its own: the collector's thread was probably preempted".into(),
            format!(
                "look for more threads than processors, a CPU quota, {}; a real-time kernel helps; deep stacks are the \
                 other cause (-Xtgc:rootscantime)",
                d.flag(Knob::Priority)
            ),
        ),
    }
}

/// R6, by phase: what grows in one does not show beside the others.
fn growth(d: &mut Desk<'_>) {
    let run = d.run;
    let seconds = run.span_ns as f64 / 1e9;
    let grown = |t: &Trend| t.slope().unwrap_or(0.0) * seconds;
    let grows = |t: &Trend| {
        t.count() >= GROWTH_BEATS && t.r_squared() >= GROWTH_R_SQUARED && grown(t) >= d.beat_ns as f64 / 2.0
    };
    let growing = run.phases.iter().filter(|p| grows(&p.growth));
    let Some(p) = growing.max_by(|a, b| grown(&a.growth).total_cmp(&grown(&b.growth))) else { return };
    let evidence = format!(
        "the longest quantum of a heartbeat{} grew by {} over {seconds:.0} s, {} heartbeats on a line (r2 {:.2})",
        if run.phases.len() > 1 { format!(" (phase {})", p.phase.name()) } else { String::new() },
        ms(grown(&p.growth) as u64),
        p.growth.count(),
        p.growth.r_squared()
    );
    let line = p.peak.line;
    let advice = if d.own() {
        "something that one step has to do grows with the program: see the longest steps".to_owned()
    } else {
        format!(
            "fragmentation or the collector's own lists: OpenJ9 before May 2019 counted free regions at each cycle's start, \
             so upgrade; or set {} to 128K or 256K",
            d.flag(Knob::Region)
        )
    };
    d.find("R6", Severity::Risk, "quanta grow with the run's age", evidence, &[line], advice);
}

/// R7.
fn slow_stops(d: &mut Desk<'_>) {
    let run = d.run;
    let limit = d.beat_ns / STOP_PARTS;
    // On a host of ours single stops are late by the host's doing; stops given up have a rule of their own.
    let measured = if d.own() { high(&run.stop) } else { run.stop_peak.value };
    if measured <= limit || (d.own() && run.stop.stat.count < MANY_QUANTA) {
        return;
    }
    let evidence = format!(
        "up to {} to stop all threads, line {} (a third of the beat is {}; mean {})",
        ms(run.stop_peak.value),
        run.stop_peak.line,
        ms(limit),
        ms(run.stop.stat.mean().unwrap_or(0.0) as u64)
    );
    let advice = if d.own() {
        LATE
    } else {
        "threads are slow to reach a safepoint: look for JNI critical sections and long loops without one, and for more \
         threads than processors"
    };
    d.find("R7", Severity::Risk, "threads are slow to stop", evidence, &[run.stop_peak.line], advice.into());
}

/// R8, R9.
fn share(d: &mut Desk<'_>) {
    let run = d.run;
    let (s, left) = (&run.share, 1_000_000 - u64::from(d.target_ppm.min(1_000_000)));
    let departed: u64 = run.own.departures.values().sum();
    let least = run.window_ns().and_then(|window| Some((window, run.least_ppm(window)?)));
    // What single quanta tell of another's log is as exact as their printed times.
    let grain = if d.own() { 0 } else { GRAIN_PPM };
    let broken = least.filter(|(_, ppm)| ppm.saturating_add(grain) < d.target_ppm);
    let quiet = departed == 0 && least.is_none();
    if s.heartbeats == 0 && quiet && run.heartbeats.total() > 0 {
        d.lacks("R8, R9", "no heartbeat has an interval, so the collector's share is not known");
    } else if s.long_heartbeats == 0 && quiet && run.own.mmu.is_empty() && run.heartbeats.total() > 0 {
        d.lacks("R8, R9", "all heartbeats are too short to compare their shares with the target");
    }
    if s.starved > 0 {
        let low = s.starved_low.map_or(0, |l| l.value);
        let evidence = format!(
            "{} in which free memory fell, while the collector had {} at the least (it may have {}), first at line {}",
            count(s.starved, "heartbeat"),
            percent(low),
            percent(left),
            s.starved_line
        );
        let advice = if d.own() {
            format!(
                "the collector does not get its processor, or a thread comes by no safepoint: see `metronome check`; give \
                 it {}",
                d.processor_words()
            )
        } else {
            format!(
                "the collector's threads do not get processors: look for other load, an affinity or CPU quota (cgroup), and \
                 {} below the number of processors",
                d.flag(Knob::Threads)
            )
        };
        let lines = [s.starved_line, s.starved_low.map_or(0, |l| l.line)];
        d.find("R8", Severity::Risk, "the collector is starved", evidence, &lines, advice);
    }
    if departed > 0 || broken.is_some() {
        let mut evidence = Vec::new();
        if departed > 0 {
            let why: Vec<String> = run.own.departures.iter().map(|(r, n)| format!("{r} ({n})")).collect();
            evidence.push(format!("the target was left {}: {}", count(departed, "time"), why.join(", ")));
        }
        if let Some(low) = run.own.departure_low {
            evidence.push(format!(
                "by plan as little as {} of a window remained to the program, line {}",
                percent(low.value),
                low.line
            ));
        }
        if let Some((window, ppm)) = least.filter(|_| broken.is_some() || departed > 0) {
            evidence.push(format!(
                "least utilization of {} windows {} (target {})",
                ms(window),
                percent(u64::from(ppm)),
                percent(u64::from(d.target_ppm))
            ));
        }
        let advice = match d.first_words() {
            Some(first) => format!(
                "{first}; judge {} and {} by a run without that",
                d.flag(Knob::Heap),
                d.flag(Knob::Target)
            ),
            None => format!(
                "the program allocates faster than the collector frees: {}",
                memory::more_room(
                    d,
                    &format!(", or lower {} or the rate of allocation", d.flag(Knob::Target))
                )
            ),
        };
        let lines = [run.own.departure_low.map_or(0, |l| l.line), run.own.enough_heap.line];
        d.find(
            "R9",
            Severity::Broken,
            "the utilization target was left",
            evidence.join("; "),
            &lines,
            advice,
        );
    } else if s.above_target > 0 && !d.own() {
        let evidence = format!(
            "{} with more than the target leaves ({}), the highest {} at line {}",
            count(s.above_target, "heartbeat"),
            percent(left),
            percent(s.peak_ppm.value),
            s.peak_ppm.line
        );
        let advice = format!(
            "the guarantee is broken: a wrong clock, or more slices than the tracker holds (overflows in this log: {}); check \
             {} against {}",
            run.trouble.tracker_overflows,
            d.flag(Knob::Window),
            d.flag(Knob::Beat)
        );
        let line = s.peak_ppm.line;
        d.find("R9", Severity::Broken, "the collector took more than its share", evidence, &[line], advice);
    }
}

/// R19.
fn allocator_sweep(d: &mut Desk<'_>) {
    let peak = d.run.work.allocator_sweep;
    if peak.value <= d.beat_ns / STOP_PARTS {
        return;
    }
    let evidence = format!("an allocation swept for {} itself, line {}", ms(peak.value), peak.line);
    let raise =
        if d.held_up().is_some() { String::new() } else { format!("raise {}, or ", d.flag(Knob::Heap)) };
    let advice = format!("the heap is nearly full of partly free regions: {raise}make large arrays smaller");
    d.find("R19", Severity::Note, "allocation had to sweep", evidence, &[peak.line], advice);
}

/// O1.
fn stragglers(d: &mut Desk<'_>) {
    let own = &d.run.own;
    if own.stops_cancelled < STRAGGLES || own.stops_cancelled.saturating_mul(50) < d.run.quanta {
        return;
    }
    let mut names: Vec<_> = own.stragglers.iter().collect();
    names.sort_by_key(|(_, s)| std::cmp::Reverse(s.cancelled));
    let told: Vec<String> =
        names.iter().take(NAMES).map(|(n, s)| format!("{n} ({})", count(s.cancelled, "time"))).collect();
    let lines: Vec<u64> = names.iter().take(NAMES).map(|(_, s)| s.wait.line).collect();
    let evidence = format!(
        "{} given up beside {} quanta; waited for: {}",
        count(own.stops_cancelled, "stop"),
        d.run.quanta,
        told.join(", ")
    );
    // Who answers nearly all stops does poll, and is late for another reason now and then.
    let deaf = names.first().is_some_and(|(_, s)| {
        s.cancelled >= DEAF_STOPS
            && s.cancelled.saturating_mul(DEAF_PARTS) >= d.run.quanta
            && s.cancelled.saturating_mul(2) > own.stops_cancelled
    });
    let (title, advice) = if deaf {
        (
            DOES_NOT_POLL,
            "this thread does not come by pause points: call poll() in its loops, safepoint() where it holds no Gc, and \
             wrap system calls and waiting in blocking(..)",
        )
    } else {
        ("mutators come too late to stops", LATE)
    };
    d.find("O1", Severity::Risk, title, evidence, &lines, advice.into());
}

/// O9.
fn overdue(d: &mut Desk<'_>) {
    let mut names: Vec<_> = d.run.own.overdue.iter().collect();
    names.sort_by_key(|(_, peak)| std::cmp::Reverse(peak.value));
    if names.is_empty() {
        return;
    }
    let told = names.iter().take(NAMES).map(|(name, p)| format!("{name} ({} ms, line {})", p.value, p.line));
    let evidence =
        format!("polled without a safepoint while a cycle waited: {}", told.collect::<Vec<_>>().join(", "));
    let title = format!("a mutator comes by no safepoint, and cycles wait for it: {}", names[0].0);
    let lines: Vec<u64> = names.iter().take(NAMES).map(|(_, p)| p.line).collect();
    let advice = "a cycle ends only after every mutator has come by a safepoint: call safepoint() in this thread's loops where it \
                  holds no Gc, some times per second at least (poll() alone is none), and keep what it needs in a Root";
    d.find("O9", Severity::Risk, title, evidence, &lines, advice.into());
}

/// True if released mutators wait long, against what a quantum is planned to take and against what it takes.
fn resumes_late(d: &Desk<'_>) -> bool {
    let (resume, took) = (&d.run.own.resume, &d.run.own.collector);
    let all = resume.sum.saturating_add(took.sum);
    resume.count >= MANY_QUANTA
        && resume.mean().unwrap_or(0.0) as u64 > d.beat_ns / RESUME_PARTS
        && resume.sum.saturating_mul(100) >= all.saturating_mul(u128::from(PREEMPTED_PERCENT))
}

/// O10.
fn late_resumptions(d: &mut Desk<'_>) {
    if !resumes_late(d) {
        return;
    }
    let own = &d.run.own;
    let evidence = format!(
        "after a quantum the last mutator ran on {} later on average, and {} at the most, line {} (the quanta themselves took \
         {} on average)",
        ms(own.resume.mean().unwrap_or(0.0) as u64),
        ms(own.resume_peak.value),
        own.resume_peak.line,
        ms(own.collector.mean().unwrap_or(0.0) as u64)
    );
    let advice = "the collector had let them go: run no more threads than processors, look for other load and CPU quotas, or \
                  give the threads that matter a real-time priority below the collector's";
    let lines = [own.resume_peak.line];
    d.find(
        "O10",
        Severity::Risk,
        "mutators wait for a processor after quanta",
        evidence,
        &lines,
        advice.into(),
    );
}

/// CPU time and wall time of quanta: to the collector's own end where the log tells it.
const fn cpu_and_wall(run: &RunFigures) -> (u64, u64) {
    let own = &run.own;
    if own.work_wall_ns > 0 { (own.work_cpu_ns, own.work_wall_ns) } else { (own.cpu_ns, own.cpu_wall_ns) }
}

/// True if the system took much of the quanta's wall time.
pub(super) fn is_preempted(run: &RunFigures) -> bool {
    let (cpu, wall) = cpu_and_wall(run);
    run.own.cpu_quanta >= MANY_QUANTA
        && wall > 0
        && wall.saturating_sub(cpu).saturating_mul(100) >= wall.saturating_mul(PREEMPTED_PERCENT)
}

/// O2.
fn preempted(d: &mut Desk<'_>) {
    if !is_preempted(d.run) {
        return;
    }
    let own = &d.run.own;
    let (cpu, wall) = cpu_and_wall(d.run);
    let share = (u128::from(wall.saturating_sub(cpu)) * 1_000_000 / u128::from(wall.max(1))) as u64;
    let rough = if own.work_wall_ns > 0 {
        ""
    } else {
        ", with what mutators took to stop and to run on, which this log does not tell apart"
    };
    let evidence = format!(
        "{} of the wall time of {} quanta was not the collector's{rough}; most at line {} ({} for each quantum); latest wake-up {}",
        percent(share),
        own.cpu_quanta,
        own.preempted.line,
        ms(own.preempted.value),
        ms(own.wakeup_peak.value)
    );
    let advice = format!(
        "the collector's thread is preempted: give it {}; `metronome check` shows what this host takes",
        d.processor_words()
    );
    let lines = [own.preempted.line, own.wakeup_peak.line];
    d.find("O2", Severity::Risk, "the collector's thread is preempted", evidence, &lines, advice);
}

/// O3.
fn roots(d: &mut Desk<'_>) {
    if !d.own() {
        return;
    }
    let run = d.run;
    let (sum, all) = (run.own.handles_ns, run.own.stepped_ns);
    if all == 0 || run.quanta < MANY_QUANTA || sum * 100 < all * ROOTS_PERCENT {
        return;
    }
    let evidence = format!(
        "{} of the collector's time in cycles went to steps over handles (roots, globals): {} of {}",
        percent((sum * 1_000_000 / all) as u64),
        ms(u64::try_from(sum).unwrap_or(u64::MAX)),
        ms(u64::try_from(all).unwrap_or(u64::MAX))
    );
    let advice = "handle tables are deep: keep data in objects (slots, arrays) instead of one Root or Global each, and drop \
                  handles that are no longer needed";
    d.find("O3", Severity::Risk, "deep handle tables", evidence, &[], advice.into());
}

/// O8.
fn in_wall_time(d: &mut Desk<'_>) {
    let window = d.run.window_ns();
    let Some(mmu) = d.run.own.mmu.iter().find(|m| Some(m.window_ns) == window) else { return };
    let Some(wall) = mmu.wall_ppm.filter(|wall| wall.saturating_add(FAR_PPM) < d.target_ppm) else { return };
    if mmu.charged_ppm < d.target_ppm {
        // R9 says it.
        return;
    }
    let mut evidence = format!(
        "in wall time the program had {} of the worst {} (target {}); {} by the time that the collector itself took",
        percent(u64::from(wall)),
        ms(mmu.window_ns),
        percent(u64::from(d.target_ppm)),
        percent(u64::from(mmu.charged_ppm))
    );
    let can = d.contract.and_then(|c| c.utilization_for_heap).filter(|can| *can < d.target_ppm);
    if let Some(can) = can {
        evidence += &format!("; by the contract this heap keeps {} at most", percent(u64::from(can)));
    }
    let mut advice = if resumes_late(d) {
        "most of what is between the two passed while mutators that had been let go waited for a processor (see O10)".to_owned()
    } else {
        format!(
            "what is between the two was taken by the system: see `metronome check`; give the collector {}",
            d.processor_words()
        )
    };
    if can.is_some() && d.held_up().is_none() {
        advice +=
            &format!("; and the heap has no reserve: raise {}{}", d.flag(Knob::Heap), memory::heap_words(d));
    }
    d.find("O8", Severity::Note, "in wall time the target was missed", evidence, &[], advice);
}
