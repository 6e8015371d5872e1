//! The command line.

use crate::number::number;
use metronome_gc::NoHeapOptions;

pub(crate) const HELP: &str = "\
usage: cargo bench --bench no_heap -- [--seconds S] [--rounds N] [--threads T] [--priority P] [--cpu C]
  --seconds   length of a segment, 1 to 600 (10)
  --rounds    segments of each kind, 1 to 100 (5)
  --threads   busy threads beside the task, 1 to 64 (one for each CPU)
  --priority  SCHED_FIFO priority of the no-heap thread, 12 to 99, or 0 for none (20)
  --cpu       CPU that it is pinned to (any)";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) seconds: u64,
    pub(crate) rounds: usize,
    pub(crate) threads: usize,
    priority: u8,
    cpu: Option<usize>,
}

impl Args {
    /// Reads the arguments; `None` if help was asked for.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(64);
        let mut args = Args { seconds: 10, rounds: 5, threads, priority: 20, cpu: None };
        let (mut benchmark, mut given) = (false, false);
        while let Some(word) = words.next() {
            match word.as_str() {
                // What Cargo adds.
                "--bench" => {
                    benchmark = true;
                    continue;
                }
                "--help" | "-h" => return Ok(None),
                "--seconds" => args.seconds = number("--seconds", words.next(), 1, 600)?,
                "--rounds" => args.rounds = number("--rounds", words.next(), 1, 100)?,
                "--threads" => args.threads = number("--threads", words.next(), 1, 64)?,
                "--priority" => args.priority = number("--priority", words.next(), 0, 99)?,
                "--cpu" => args.cpu = Some(number("--cpu", words.next(), 0, 1023)?),
                other => return Err(format!("unknown argument {other}")),
            }
            given = true;
        }
        if !benchmark && !given {
            // As `cargo test --benches` runs it: only whether it works.
            (args.seconds, args.rounds) = (1, 1);
        }
        Ok(Some(args))
    }

    pub(crate) fn options(&self) -> NoHeapOptions {
        NoHeapOptions {
            priority: self.priority,
            cpu: self.cpu,
            name: "bench-no-heap".into(),
            ..NoHeapOptions::default()
        }
    }

    pub(crate) fn describe(&self) -> String {
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        format!(
            "{} rounds of {} s; {} busy threads on {cpus} CPUs; no-heap thread at priority {}, {}",
            self.rounds,
            self.seconds,
            self.threads,
            self.priority,
            self.cpu.map_or("on any CPU".into(), |c| format!("on CPU {c}"))
        )
    }
}
