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

/// Of all repeats: the least maximum and the least p99.9.
type Least = BTreeMap<(Point, &'static str), (u64, u64, &'static str)>;

fn compare(what: &str, least: &Least, a: Point, b: Point) {
    println!("\n{what}: {a:?} and {b:?}");
    println!("| kind of quantum | max | max | ratio | p99.9 | p99.9 | ratio | |");
    println!("|---|---|---|---|---|---|---|---|");
    for p in PHASES {
        let (Some(x), Some(y)) = (least.get(&(a, p)), least.get(&(b, p))) else { continue };
        let ratio = |x: u64, y: u64| y as f64 / x.max(1) as f64;
        let (max, p999) = (ratio(x.0, y.0), ratio(x.1, y.1));
        println!(
            "| {p} | {:.1} ({}) | {:.1} ({}) | {max:.2} | {:.1} | {:.1} | {p999:.2} | {} |",
            x.0 as f64 / 1e3,
            x.2,
            y.0 as f64 / 1e3,
            y.2,
            x.1 as f64 / 1e3,
            y.1 as f64 / 1e3,
            if max > LIMIT { "not flat" } else { "flat" }
        );
    }
}

pub(crate) fn flat(args: &Args) -> Result<(), String> {
    let small = Point { live_mib: if args.sample { 1 } else { 16 }, cycles: 4 };
    let large = Point { live_mib: small.live_mib * 100, ..small };
    let old = Point { cycles: small.cycles * 100, ..small };
    let needed = large.live_mib * 2 + 512;
    let fits = available_mib().is_none_or(|mib| mib > needed);
    let mut least = Least::new();
    for repeat in 0..args.repeats {
        for point in [small, large, old] {
            if point == large && !fits {
                continue;
            }
            let stats = once(point)?;
            for p in PHASES.into_iter().filter_map(|p| phase(&stats, p)) {
                let now = (p.longest_ns.max, p.longest_ns.p999, p.longest_step);
                let l = least.entry((point, p.phase)).or_insert(now);
                if now.0 < l.0 {
                    (l.0, l.2) = (now.0, now.2);
                }
                l.1 = l.1.min(now.1);
            }
        }
        println!("flat: repeat {} of {}", repeat + 1, args.repeats);
    }
    println!(
        "longest steps, CPU time in us, at most 200; the least of {} repeats, as the host takes time",
        args.repeats
    );
    if fits {
        compare("live set x100", &least, small, large);
    } else {
        println!("live set x100: skipped: needs {needed} MiB of available memory");
    }
    compare("cycles x100", &least, small, old);
    Ok(())
}
