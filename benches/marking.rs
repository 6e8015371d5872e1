//! How fast the collector marks, beside the limit that this machine sets: the same objects chased by a bare loop, and by two
//! at once: `cargo bench --bench marking -- [--nodes N] [--rounds R] [--threads T] [--csv FILE] [GRAPH...]`.
//!
//! All kinds of a graph run by turns in one process over one and the same heap. The *limit* is a loop that knows what each
//! object looks like: no types, no arrays behind spines, one flat bitmap, the collector's order and prefetch depth. *Two
//! limits* are two threads, each with a bitmap and a half of the graph of its own: what a second CPU is worth here.
//! The collector's own marking is that of its steps, with the clock read after each one as in a quantum.

#[path = "marking/args.rs"]
mod args;
#[path = "marking/chase.rs"]
mod chase;
#[path = "marking/graphs.rs"]
mod graphs;
#[path = "common/number.rs"]
mod number;
#[path = "marking/report.rs"]
mod report;

use args::Args;
use graphs::{Graph, Shape};
use metronome_gc::Config;
use metronome_gc::testing::TestHeap;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::Instant;

/// What is measured, in the order of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Limit,
    TwoLimits,
    /// The collector with so many threads.
    Collector(u32),
}

/// Nanoseconds of one run of one kind; every object must have been found.
fn run(kind: Kind, graph: &Graph, heap: &TestHeap) -> Result<u64, String> {
    let (ns, found) = match kind {
        Kind::Limit => {
            let mut bits = graph.bitmap();
            let begin = Instant::now();
            let found = graph.chase(&mut bits, &[0, 1]);
            (begin.elapsed().as_nanos() as u64, found)
        }
        Kind::TwoLimits => {
            let ready = Barrier::new(2);
            let half = |n: usize| {
                let mut bits = graph.bitmap();
                ready.wait();
                let begin = Instant::now();
                let found = graph.chase(&mut bits, &[n]);
                (begin.elapsed().as_nanos() as u64, found)
            };
            let (a, b) = std::thread::scope(|s| {
                let other = s.spawn(|| half(1));
                (half(0), other.join().unwrap_or_default())
            });
            (a.0.max(b.0), a.1 + b.1)
        }
        Kind::Collector(threads) => {
            let begin = Instant::now();
            let run = heap.mark_all(threads, || begin.elapsed().as_nanos() as u64);
            (run.ns, run.scanned)
        }
    };
    if found == graph.objects {
        return Ok(ns);
    }
    Err(format!("{kind:?} on {}: {found} objects instead of {}", graph.shape.name(), graph.objects))
}

fn measure(args: &Args, shape: Shape, report: &mut report::Report) -> Result<(), String> {
    let mut kinds = vec![Kind::Limit, Kind::TwoLimits];
    kinds.extend((1..=args.threads).map(Kind::Collector));
    let config = Config {
        heap: (args.nodes * 32 * 2).next_multiple_of(64 << 20) + (64 << 20),
        verify: Some(metronome_gc::Verify::OFF),
        gc_threads: Some(args.threads),

        ..Config::default()
    };
    let heap = TestHeap::with_queue(config, 1 << 17).map_err(|e| e.to_string())?;
    let graph = Graph::build(&heap, shape, args.nodes as usize)?;
    let mut times = vec![Vec::new(); kinds.len()];
    // The first round warms the caches and the page tables.
    for round in 0..=args.rounds {
        for (kind, times) in kinds.iter().zip(&mut times) {
            let ns = run(*kind, &graph, &heap)?;
            if round > 0 {
                times.push(ns);
            }
        }
    }
    report.graph(&graph, &kinds, &times)
}

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            eprintln!("{e}\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    let work = || {
        let mut report = report::Report::new(args.csv.as_deref())?;
        args.shapes.iter().try_for_each(|&shape| measure(&args, shape, &mut report))
    };
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("marking: {e}");
            ExitCode::FAILURE
        }
    }
}
