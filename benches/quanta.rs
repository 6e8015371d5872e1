//! Short quanta: steps, overshoot, time to stop and resume, with as many mutators as CPUs, each beside a control without a
//! collector; and what an idle heap costs. `cargo bench --bench quanta -- --seconds 5 --rounds 5`. See README.md in this folder.

#[path = "quanta/control.rs"]
mod control;
#[path = "quanta/idle.rs"]
mod idle;
#[path = "quanta/program.rs"]
mod program;
#[path = "quanta/report.rs"]
mod report;

use report::Segment;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo bench --bench quanta -- [--seconds S] [--rounds N] [--threads T] [--quantum US] [--idle S]
  --seconds   length of a segment, 1 to 600 (5)
  --rounds    segments of each kind, 1 to 100 (5)
  --threads   mutators, 1 to 256 (one for each CPU)
  --quantum   in microseconds, 50 to 1000 (100); the window is ten times as long
  --idle      seconds for which idle heaps are watched, 0 to 600 (20)";

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args {
    pub(crate) seconds: u64,
    rounds: u64,
    pub(crate) threads: usize,
    pub(crate) quantum_us: u64,
    idle: u64,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut args = Args { seconds: 5, rounds: 5, threads, quantum_us: 100, idle: 20 };
        let (mut benchmark, mut given) = (false, false);
        while let Some(word) = words.next() {
            if word == "--bench" {
                benchmark = true;
                continue;
            }
            if word == "--help" {
                return Ok(None);
            }
            given = true;
            let mut number = |range: std::ops::RangeInclusive<u64>| {
                let n = words.next().and_then(|text| text.parse::<u64>().ok()).filter(|n| range.contains(n));
                n.ok_or_else(|| format!("{word} needs a number from {} to {}", range.start(), range.end()))
            };
            match word.as_str() {
                "--seconds" => args.seconds = number(1..=600)?,
                "--rounds" => args.rounds = number(1..=100)?,
                "--threads" => args.threads = number(1..=256)? as usize,
                "--quantum" => args.quantum_us = number(50..=1000)?,
                "--idle" => args.idle = number(0..=600)?,
                _ => return Err(format!("unknown argument {word}")),
            }
        }
        if !benchmark && !given {
            // As a test: does it run at all?
            args = Args { seconds: 1, rounds: 1, idle: 0, ..args };
        }
        Ok(Some(args))
    }
}

fn run(args: &Args) -> Result<(), String> {
    println!(
        "{} mutators, quantum {} us, window {} us, target 70 %; {} rounds of {} s of each kind, in turn",
        args.threads,
        args.quantum_us,
        args.quantum_us * 10,
        args.rounds,
        args.seconds
    );
    let (mut heap, mut control) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        control.push(control::segment(args)?);
        heap.push(program::segment(args)?);
    }
    println!("{}", Segment::table("with the collector", &heap, "control", &control));
    if args.idle > 0 {
        println!("{}", idle::table(args.idle)?);
    }
    Ok(())
}

fn main() -> ExitCode {
    let done = match Args::parse(std::env::args().skip(1)) {
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Some(args)) => run(&args),
        Err(e) => Err(format!("{e}\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("quanta: {e}");
            ExitCode::FAILURE
        }
    }
}
