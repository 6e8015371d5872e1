//! Rules of memory: collections for want of it, leaks, room, cycles that follow each other.

use super::words::Knob;
use super::{Desk, Severity, bytes, count, ms, percent};
use crate::figures::{CYCLES_PER_TRIGGER, RunFigures, SyncRow};
use crate::stat::{Stat, Trend};

/// A failed request of which this many times were free is a matter of fragmentation.
const FRAGMENTED: u64 = 4;
/// Requests below this find room in any region.
const LARGE_BYTES: u64 = 64 << 10;
/// Cycles that a leak must be seen in.
const LEAK_CYCLES: u64 = 5;
/// The same for one that begins late in the run.
const LATE_CYCLES: usize = 50;
/// Share of the variance that a leak's line explains.
const LEAK_R_SQUARED: f64 = 0.8;
/// Growth over the time seen, against the line's beginning, from which on it is a leak.
const LEAK_GROWTH: f64 = 0.1;
/// Least growth in parts of the heap.
const LEAK_HEAP_PARTS: f64 = 50.0;
/// Free memory below this part of the heap is no head room.
const HEADROOM_PARTS: u64 = 10;
/// The same for this project's pacing, which uses the heap nearly up by plan.
const OWN_HEADROOM_PARTS: u64 = 50;
/// Cycles in crowded triggers are a habit from this part of all on.
const CROWDED_PARTS: u64 = 3;
/// More free than this part of the heap at the least leaves room for a higher trigger.
const SPARE_PARTS: u64 = 3;
/// Cycles from which on their gaps are judged.
const GAPS: u64 = 3;
/// More free than this part of the heap all the time is worth explaining, in percent.
const NEVER_USED_PERCENT: u64 = 45;

pub(super) fn rules(d: &mut Desk<'_>) {
    out_of_memory(d);
    asked_for(d);
    leak(d);
    room(d);
    at_once(d);
}

fn is_oom(row: &SyncRow) -> bool {
    row.reason == "out of memory"
}

/// R1, R2.
fn out_of_memory(d: &mut Desk<'_>) {
    let run = d.run;
    let stat = run.synchronous_by_reason.get("out of memory").copied().unwrap_or_default();
    let rows: Vec<&SyncRow> = run.synchronous.rows.iter().filter(|r| is_oom(r)).collect();
    if stat.count > 0 || !rows.is_empty() {
        let longest = rows.iter().max_by_key(|r| r.ns);
        let mut evidence = format!(
            "{} for want of memory, the longest of {}",
            count(stat.count.max(rows.len() as u64), "synchronous collection"),
            ms(stat.max)
        );
        // Of very many, the first may not be among those kept.
        let first = rows.first().filter(|_| run.synchronous.omitted == 0);
        if let Some((first, free)) = first.and_then(|r| Some((r, r.free_before_bytes?))) {
            evidence += &format!("; the first at line {} with {} free", first.line, bytes(free));
        }
        let torn = rows.iter().find(|r| {
            let (want, free) = (r.requested_bytes.unwrap_or(0), r.free_before_bytes.unwrap_or(0));
            want >= LARGE_BYTES && free / FRAGMENTED > want
        });
        let lower = format!(", or lower {} (70, 60, 50)", d.flag(Knob::Target));
        let mut advice = String::from("the collector lost the race: ");
        advice += &more_room(d, &lower);
        if let Some(row) = torn {
            evidence += &format!(
                "; at line {} {} were asked for while {} were free",
                row.line,
                bytes(row.requested_bytes.unwrap_or(0)),
                bytes(row.free_before_bytes.unwrap_or(0))
            );
            advice += "; where far more is free than asked for, a large array found no contiguous room: make large \
                       arrays smaller";
            if d.held_up().is_none() {
                advice += ", more heap helps only in part";
            }
        }
        if let Some(trigger) = fixed_trigger(d) {
            evidence += &format!("; trigger {trigger}");
        }
        let lines = [first.map_or(0, |r| r.line), longest.map_or(0, |r| r.line)];
        d.find("R1", Severity::Broken, "out of memory: the program stood still", evidence, &lines, advice);
    }
    let (row, errors) = (run.synchronous_in_a_row, run.trouble.out_of_memory);
    let failed = run.own.failed;
    if row.value < 2 && errors == 0 && failed == 0 {
        return;
    }
    let mut evidence = Vec::new();
    if row.value >= 2 {
        evidence.push(format!("{} collections right after each other up to line {}", row.value, row.line));
    }
    if errors > 0 {
        evidence.push(format!(
            "{} for good, first at line {}",
            count(errors, "failed allocation"),
            run.trouble.out_of_memory_line
        ));
    }
    if failed > 0 {
        let n = count(failed, "allocation");
        evidence.push(format!("{n} returned an error to the program, first at line {}", run.own.failed_line));
    }
    let last = rows.last().and_then(|r| r.free_after_bytes);
    let mut advice = match d.first_words() {
        Some(first) => format!("{first}; if allocations fail even so, take a heap dump"),
        None => format!(
            "the live data do not fit, or allocation comes in bursts: raise {}; take a heap dump",
            d.flag(Knob::Heap)
        ),
    };
    match (last, run.heap_bytes) {
        (Some(after), Some(heap)) if after > heap / 4 => {
            advice += &format!(
                "; after the last collection {} were free, so it is a burst of allocation, not live data",
                bytes(after)
            );
        }
        (Some(after), _) => {
            advice +=
                &format!("; after the last collection only {} were free: live data or a leak", bytes(after));
        }
        _ => {}
    }
    let lines = [row.line, run.trouble.out_of_memory_line, run.own.failed_line];
    d.find(
        "R2",
        Severity::Broken,
        "allocations failed, or were about to",
        evidence.join("; "),
        &lines,
        advice,
    );
}

/// The heap that would have been enough, where the log or the contract tells.
pub(super) fn heap_words(d: &Desk<'_>) -> String {
    if d.run.own.enough_heap.value > 0 {
        return format!(
            "; the collector itself computed that {} would be enough",
            bytes(d.run.own.enough_heap.value)
        );
    }
    let Some(heap) = d.contract.and_then(|c| c.heap_for_target) else { return String::new() };
    let target = percent(u64::from(d.target_ppm));
    format!("; by the contract (1+f)(m+2A), as measured here, {} of heap keep {target}", bytes(heap))
}

/// What to do where the heap is too small, or would not be if cycles began earlier; `else_words` come before the heap that
/// is enough. Where the collector was held up, that comes first, and no heap is named.
pub(super) fn more_room(d: &Desk<'_>, else_words: &str) -> String {
    if let Some(first) = d.first_words() {
        return first + &fixed_trigger(d).map_or_else(String::new, |_| earlier(d));
    }
    let heap = d.flag(Knob::Heap);
    let told = d.run.own.enough_heap.value;
    let enough = d.contract.and_then(|c| c.heap_for_target).filter(|_| told == 0);
    if let Some((enough, size)) = enough.zip(d.run.heap_bytes).filter(|(enough, size)| size >= enough) {
        return format!(
            "cycles start too late: by the contract (1+f)(m+2A), as measured here, {} of heap keep {}, and there are {}{}; \
             where that does not help, allocation comes in bursts: raise {heap}{else_words}",
            bytes(enough),
            percent(u64::from(d.target_ppm)),
            bytes(size),
            earlier(d)
        );
    }
    format!("raise {heap}{else_words}{}{}", earlier(d), heap_words(d))
}

/// The same where a smaller heap than the run's would say nothing.
fn small_words(d: &Desk<'_>) -> String {
    let enough = d.contract.and_then(|c| c.heap_for_target);
    if enough.zip(d.run.heap_bytes).is_some_and(|(enough, heap)| heap >= enough) {
        String::new()
    } else {
        heap_words(d)
    }
}

/// How cycles start earlier, if they do not by themselves.
fn earlier(d: &Desk<'_>) -> String {
    if !d.own() {
        return format!(", or start earlier by a lower {}", d.flag(Knob::Trigger));
    }
    match fixed_trigger(d) {
        Some(_) => format!(
            ", or set {} to paced: then cycles start as early as the program needs",
            d.flag(Knob::Trigger)
        ),
        None => String::new(),
    }
}

/// A trigger of this project's that is not paced, if there is one.
fn fixed_trigger<'a>(d: &Desk<'a>) -> Option<&'a str> {
    let args = &d.config().filter(|_| d.own())?.vmargs;
    let (_, value) = args.iter().find(|(name, _)| name == "--trigger")?;
    value.as_deref().filter(|v| *v != "paced")
}

/// R3, R4.
fn asked_for(d: &mut Desk<'_>) {
    let run = d.run;
    let of = |reasons: &[&str]| {
        let mut sum = Stat::default();
        for stat in reasons.iter().filter_map(|r| run.synchronous_by_reason.get(*r)) {
            sum.add_group(stat.count, stat.min, stat.mean().unwrap_or(0.0) as u64, stat.max);
        }
        let rows = run.synchronous.rows.iter().filter(|row| reasons.contains(&row.reason.as_str()));
        let lines: Vec<u64> = rows.map(|row| row.line).take(5).collect();
        (sum, lines)
    };
    let (stat, lines) = of(&["system GC", "system garbage collect"]);
    if stat.count > 0 {
        let advice = if d.own() {
            format!(
                "find the caller: {}; a collection in the background does not stop the program",
                d.flag(Knob::Explicit)
            )
        } else {
            format!("find the caller of System.gc(), or switch it off by {}", d.flag(Knob::Explicit))
        };
        let evidence = format!(
            "{} that the program asked for, the longest of {}",
            count(stat.count, "synchronous collection"),
            ms(stat.max)
        );
        d.find("R3", Severity::Risk, "the program asked for full collections", evidence, &lines, advice);
    }
    let (stat, lines) = of(&["VM shut down"]);
    if stat.count > 0 {
        let evidence = format!("{} of {} at shutdown", count(stat.count, "collection"), ms(stat.max));
        let advice = "the program was ending: leave it out of statistics of pauses".into();
        d.find("R4", Severity::Explain, "a collection at shutdown", evidence, &lines, advice);
    }
}

/// R10.
fn leak(d: &mut Desk<'_>) {
    let run = d.run;
    let points = used_points(run);
    let told = points.len() as u64;
    if told < LEAK_CYCLES {
        if run.cycles > 0 {
            d.lacks(
                "R10",
                format!("{told} of the {LEAK_CYCLES} cycles that are needed tell what was used after them"),
            );
        }
        return;
    }
    let heap = run.heap_bytes.unwrap_or(0) as f64;
    // The first third fills caches. A leak may begin late: then what is used must be beyond all that was before.
    let parts = [points.len() / 3, points.len() / 2, points.len() * 3 / 4];
    let Some((trend, slope, from_s, to_s)) = parts.into_iter().find_map(|skip| rises(&points, skip, heap))
    else {
        return;
    };
    let growth = slope * (to_s - from_s);
    let left = (heap - trend.at(to_s)).max(0.0);
    let mut evidence = format!(
        "used memory after cycles rose by {} in {:.1} s, over {} cycles on a line (r2 {:.2}): {}/s",
        bytes(growth as u64),
        to_s - from_s,
        trend.count(),
        trend.r_squared(),
        bytes(slope as u64)
    );
    if heap > 0.0 {
        evidence += &format!("; at this rate the heap is full after {:.0} s more", left / slope);
    }
    let lines: Vec<u64> = [run.cycle_rows.rows.first(), run.cycle_rows.rows.last()]
        .into_iter()
        .flatten()
        .map(|r| r.line)
        .collect();
    let advice = if d.own() {
        "the live data grow: look for maps and lists that are never emptied, and for handles (Root, Global) that are \
         never dropped; a run that only fills its caches stops growing"
    } else {
        "the live data grow: take a heap dump and compare; a larger heap only delays the end"
    };
    d.find("R10", Severity::Risk, "memory in use grows: a leak?", evidence, &lines, advice.into());
}

/// What was used after cycles, with the time in seconds.
fn used_points(run: &RunFigures) -> Vec<(f64, f64)> {
    let used = |row: &crate::figures::CycleRow| {
        row.live_bytes.or_else(|| run.heap_bytes?.checked_sub(row.free_end_bytes?))
    };
    run.cycle_rows.rows.iter().filter_map(|r| Some((r.end_ns as f64 / 1e9, used(r)? as f64))).collect()
}

/// The line through the points after so many, its slope and its ends, if it rises as a leak does: all along, and by much.
fn rises(points: &[(f64, f64)], skip: usize, heap: f64) -> Option<(Trend, f64, f64, f64)> {
    let (before, part) = points.split_at(skip);
    let late = skip > points.len() / 3;
    if part.len() < if late { LATE_CYCLES } else { LEAK_CYCLES as usize } {
        return None;
    }
    let line = |points: &[(f64, f64)]| {
        let mut trend = Trend::default();
        points.iter().for_each(|(x, y)| trend.add(*x, *y));
        trend
    };
    let trend = line(part);
    let slope = trend.slope().filter(|s| *s > 0.0)?;
    let (from, to) = (part.first()?.0, part.last()?.0);
    let (start, growth) = (trend.at(from).max(1.0), slope * (to - from));
    // What has stopped to rise was a cache that filled.
    let goes_on = line(&part[part.len() / 2..]).slope().is_some_and(|s| s * 2.0 >= slope);
    let most_before = before.iter().map(|p| p.1).fold(0.0, f64::max);
    let beyond = !late || trend.at(to) > most_before * (1.0 + LEAK_GROWTH);
    let much = growth >= start * LEAK_GROWTH && growth * LEAK_HEAP_PARTS >= heap;
    (trend.r_squared() >= LEAK_R_SQUARED && much && goes_on && beyond).then_some((trend, slope, from, to))
}

/// R11, R14.
fn room(d: &mut Desk<'_>) {
    let run = d.run;
    let (Some(low), Some(heap)) = (run.free_low, run.heap_bytes) else {
        if run.free_low.is_some() {
            d.lacks("R11, R14", "the log does not tell the size of the heap");
        }
        return;
    };
    if run.synchronous_by_reason.contains_key("out of memory") {
        // R1 has said it.
        return;
    }
    let parts = if d.own() { OWN_HEADROOM_PARTS } else { HEADROOM_PARTS };
    if low.value < heap / parts {
        let mut evidence = format!(
            "{} of {} free at the least ({}), line {}",
            bytes(low.value),
            bytes(heap),
            percent(low.value.saturating_mul(1_000_000) / heap.max(1)),
            low.line
        );
        let rate = d.contract.map_or(0, |c| c.measured.allocation_rate);
        if let Some(us) = low.value.saturating_mul(1_000_000).checked_div(rate) {
            evidence += &format!("; at {}/s that lasts {:.1} ms", bytes(rate), us as f64 / 1e3);
        }
        let advice = format!("give it head room: {}", more_room(d, ""));
        d.find("R11", Severity::Note, "hardly any head room", evidence, &[low.line], advice);
    } else if !d.own() && run.heartbeats.total() > 0 && low.value > heap / 100 * NEVER_USED_PERCENT {
        let evidence = format!("never less than {} of {} free", bytes(low.value), bytes(heap));
        let advice = format!(
            "normal: by default a cycle starts at half of the heap; {} can be raised as long as there are no collections \
             for want of memory",
            d.flag(Knob::Trigger)
        );
        d.find("R14", Severity::Explain, "half of the heap is never used", evidence, &[low.line], advice);
    }
}

/// R12, R13.
fn at_once(d: &mut Desk<'_>) {
    let run = d.run;
    let (length, gap) = (&run.cycle_length, &run.cycle_gap);
    let most = run.cycles_per_trigger;
    let gap_p50 = if gap.stat.is_empty() { u64::MAX } else { gap.p50 };
    let at_once = gap.stat.count >= GAPS && gap_p50.saturating_mul(20) < length.p50;
    // One burst of allocation in a long run is no habit.
    let (crowded, triggers) = (run.crowded_cycles, run.crowded_triggers);
    let often = crowded.saturating_mul(CROWDED_PARTS) >= run.cycles
        && (triggers > 1 || crowded.saturating_mul(2) >= run.cycles);
    if (most.value >= CYCLES_PER_TRIGGER && often) || at_once {
        let mut evidence = if at_once {
            format!(
                "half of the cycles start within {} of the last one's end (cycles take {})",
                ms(gap.p50),
                ms(length.p50)
            )
        } else {
            format!(
                "{} cycles in one trigger, up to line {}, and {crowded} of {} cycles in triggers of {CYCLES_PER_TRIGGER} or more",
                most.value, most.line, run.cycles
            )
        };
        // A higher trigger starts cycles later: only where much is free even so.
        let low = run.free_low.map_or(0, |low| low.value);
        let spare = run.heap_bytes.is_some_and(|heap| low > heap / SPARE_PARTS);
        let later = if d.own() || !spare {
            String::new()
        } else {
            format!(" (or {}, as {} are free at the least)", d.flag(Knob::Trigger), bytes(low))
        };
        // Pacing has no fixed trigger: whether as much is used after a cycle as when the trigger began, the log tells.
        let (followers, above) = (run.followers, run.followers_above);
        let why = if followers == 0 && !d.own() || above.saturating_mul(2) > followers {
            "what is used after a cycle is above the trigger already"
        } else if followers == 0 {
            "cycles leave too little free for what is allocated during the next"
        } else {
            evidence += &format!(
                "; {} of {followers} times more was free before the next cycle than when the trigger began",
                followers - above
            );
            "the collector expects bursts of allocation, and begins the next cycle early: allocate more evenly"
        };
        let advice = match d.first_words() {
            Some(first) => format!("{why}; {first}"),
            None if why.ends_with("evenly") => {
                format!("{why}, or raise {}{}", d.flag(Knob::Heap), small_words(d))
            }
            None => format!("{why}: raise {}{later}{}", d.flag(Knob::Heap), small_words(d)),
        };
        d.find("R12", Severity::Note, "cycles follow each other at once", evidence, &[most.line], advice);
    }
    // By means: where events are missing there are more of the one than of the other.
    let mean = |s: &Stat| s.mean().unwrap_or(0.0);
    let (on, off) = (mean(&length.stat), mean(&gap.stat));
    if gap.stat.count >= GAPS && on > off {
        let share = on * 1e6 / (on + off).max(1.0);
        let evidence = format!(
            "a cycle is active {} of the time: {} on average, {} between cycles",
            percent(share as u64),
            ms(on as u64),
            ms(off as u64)
        );
        let what = match d.first_words() {
            Some(first) => first,
            None => format!("raise {}{}", d.flag(Knob::Heap), small_words(d)),
        };
        let advice = format!("the collector's share is lost for good, not from time to time: {what}");
        d.find("R13", Severity::Note, "the collector is at work most of the time", evidence, &[], advice);
    }
}
