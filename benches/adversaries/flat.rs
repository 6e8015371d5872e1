//! Whether the longest steps stay as long when the live set, or the number of cycles, grows a hundredfold.

use crate::args::Args;
use crate::program::{garbage, push, same, walk};
use crate::report::{PHASES, phase};
use crate::run::available_mib;
use metronome_gc::{Collect, Heap, Stats};
use std::collections::BTreeMap;

/// The most that may be between the two ends.
const LIMIT: f64 = 1.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    live_mib: u64,
    cycles: u64,
}

/// A list of that size and as many cycles, with garbage between them.
fn once(point: Point) -> Result<Stats, String> {
    let heap = Heap::builder()
        .heap_bytes((point.live_mib * 2 + 32) << 20)
        .set("event-ring", "65536")
        .set("memory-wait", "600s")
        .build()
        .map_err(|e| e.to_string())?;
    let n = (point.live_mib << 20) / 24;
    heap.enter(|m| {
        let mut head = None;
        push(m, &mut head, n, 0)?;
        for _ in 0..point.cycles {
            garbage(m, 1 << 20)?;
            m.collect(Collect::Cycle).map_err(|e| e.to_string())?;
        }
        let head = head.ok_or("the list is empty")?;
        same("nodes and sum of the list", walk(m, &head), (n, n * (n - 1) / 2))
    })?;
    let stats = heap.stats();
    if stats.lost_events > 0 {
        return Err(format!("{} events were lost, so the figures are not complete", stats.lost_events));
    }
    Ok(stats)
}

/// What the repeats of a kind of quantum showed: the least p99 and the least maximum, and the fewest quanta.
#[derive(Clone, Copy, Debug)]
struct Least {
    p99: u64,
    max: u64,
    step: &'static str,
    quanta: u64,
}

type Found = BTreeMap<(Point, &'static str), Least>;

/// A p99 of fewer quanta says nothing.
const QUANTA_MIN: u64 = 100;

/// Compares p99, which does not depend on how many quanta there were, as a maximum does. Whether all were flat.
fn compare(what: &str, found: &Found, a: Point, b: Point) -> bool {
    println!("\n{what}: {a:?} and {b:?}");
    println!("| kind of quantum | quanta | p99 | p99 | ratio | max | max | |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut all = true;
    for p in PHASES {
        let (Some(x), Some(y)) = (found.get(&(a, p)), found.get(&(b, p))) else { continue };
        let ratio = y.p99 as f64 / x.p99.max(1) as f64;
        let verdict = match x.quanta.min(y.quanta) {
            0..QUANTA_MIN => "too few to tell",
            _ if ratio > LIMIT => "not flat",
            _ => "flat",
        };
        all &= verdict != "not flat";
        let us = |ns: u64| ns as f64 / 1e3;
        println!(
            "| {p} | {}, {} | {:.1} | {:.1} | {ratio:.2} | {:.1} ({}) | {:.1} ({}) | {verdict} |",
            x.quanta,
            y.quanta,
            us(x.p99),
            us(y.p99),
            us(x.max),
            x.step,
            us(y.max),
            y.step,
        );
    }
    all
}

pub(crate) fn flat(args: &Args) -> Result<(), String> {
    let live_mib = if args.sample { 1 } else { 16 };
    let few = if args.sample { 1 } else { 6 };
    // About as many quanta for a hundredth of the live set.
    let small = Point { live_mib, cycles: few * 100 };
    let large = Point { live_mib: live_mib * 100, cycles: few };
    let young = Point { live_mib, cycles: few * 10 };
    let old = Point { live_mib, cycles: few * 1000 };
    let needed = large.live_mib * 2 + 512;
    let fits = available_mib().is_none_or(|mib| mib > needed);
    let mut found = Found::new();
    for repeat in 0..args.repeats {
        for point in [small, large, young, old] {
            if point == large && !fits {
                continue;
            }
            let stats = once(point)?;
            for p in PHASES.into_iter().filter_map(|p| phase(&stats, p)) {
                let d = &p.longest_ns;
                let now = Least { p99: d.p99, max: d.max, step: p.longest_step, quanta: d.count };
                let l = found.entry((point, p.phase)).or_insert(now);
                if now.max < l.max {
                    (l.max, l.step) = (now.max, now.step);
                }
                (l.p99, l.quanta) = (l.p99.min(now.p99), l.quanta.min(now.quanta));
            }
        }
        println!("flat: repeat {} of {}", repeat + 1, args.repeats);
    }
    println!(
        "longest step of each quantum, CPU time in us, at most 200; the least of {} repeats, as the host takes time",
        args.repeats
    );
    let mut all = true;
    if fits {
        all &= compare("live set x100", &found, small, large);
    } else {
        println!("live set x100: skipped: needs {needed} MiB of available memory");
    }
    all &= compare("cycles x100", &found, young, old);
    if all || args.sample { Ok(()) } else { Err(format!("a step grew by more than {LIMIT}")) }
}
