//! Response times of a no-heap thread beside a busy collector, and of the same thread with no heap in the process:
//! `cargo bench --bench no_heap -- --seconds 10 --rounds 5`. See README.md in this folder.

#[path = "no_heap/args.rs"]
mod args;
#[path = "no_heap/load.rs"]
mod load;
#[path = "common/number.rs"]
mod number;
#[path = "no_heap/report.rs"]
mod report;
#[path = "no_heap/task.rs"]
mod task;

use args::Args;
use load::Load;
use metronome_gc::Heap;
use report::{Arm, Segment};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use task::Task;

/// Time between the start of the load and the first measured period.
const WARM_UP: Duration = Duration::from_millis(500);

/// A heap in which a cycle starts as soon as one has ended.
fn busy_heap() -> Result<Heap, String> {
    Heap::builder().heap_bytes(64 << 20).set("trigger", "1%").build().map_err(|e| e.to_string())
}

/// Runs the task for a segment in the given company.
fn segment(arm: Arm, args: &Args, task: &Task) -> Result<Segment, String> {
    let heap = busy_heap()?;
    let go = Arc::new(AtomicBool::new(false));
    let thread = {
        let (go, task, seconds) = (Arc::clone(&go), task.clone(), args.seconds);
        let mailbox = task::mailbox(&heap)?;
        let measured = move |n: &metronome_gc::NoHeap| {
            while !go.load(Relaxed) {
                n.sleep_until(n.now_ns() + 1_000_000);
            }
            task.measure(n, mailbox, seconds)
        };
        heap.spawn_no_heap(args.options(), measured).map_err(|e| e.to_string())?
    };
    let refusals = thread.refusals().to_vec();
    // The thread outlives its heap: without one, no thread of the collector exists any more.
    let heap = match arm {
        Arm::Collector => Some(heap),
        Arm::Nothing | Arm::Load => {
            drop(heap);
            None
        }
    };
    let load = match (&heap, arm) {
        (Some(heap), _) => Load::in_heap(heap, args.threads, task),
        (None, Arm::Load) => Load::outside(args.threads, task),
        (None, _) => Load::none(),
    };
    std::thread::sleep(WARM_UP);
    let before = heap.as_ref().map(Heap::stats);
    load.measure(true);
    go.store(true, Relaxed);
    // A panic of the measuring thread has been printed.
    let times = thread.join().map_err(|_| "the measuring thread panicked".to_owned())?;
    load.measure(false);
    let after = heap.as_ref().map(Heap::stats);
    let beside = load.stop()?;
    let collector = before.zip(after).map(|(b, a)| report::Collector::between(&b, &a));
    Ok(Segment { times, beside, collector, refusals })
}

fn run(args: &Args) -> Result<(), String> {
    let task = Task::calibrated();
    println!("{}", args.describe());
    println!(
        "work: {} rounds of arithmetic over a table of 16 KiB, {} us when alone",
        task.rounds(),
        task.alone_us()
    );
    let mut all = report::Report::default();
    for round in 0..args.rounds {
        // Rotated, so that none is always the first.
        for k in 0..Arm::ALL.len() {
            let arm = Arm::ALL[(round + k) % Arm::ALL.len()];
            all.add(arm, segment(arm, args, &task)?);
        }
        println!("round {} of {}", round + 1, args.rounds);
    }
    print!("{all}");
    if all.cycles() == 0 {
        return Err(
            "no cycle ended beside the task, so there was nothing to compare: choose more --seconds".into()
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            eprintln!("no_heap: {e}\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("no_heap: {e}");
            ExitCode::FAILURE
        }
    }
}
