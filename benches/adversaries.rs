//! Programs that are as bad for a collector as we could make them, on the real heap with real threads, a row of figures for each:
//! `cargo bench --bench adversaries -- [--sample] [all|flat|NAME...]`. See guide/verification/adversaries.md.

#[path = "adversaries/args.rs"]
mod args;
#[path = "adversaries/flat.rs"]
mod flat;
#[path = "adversaries/graphs.rs"]
mod graphs;
#[path = "adversaries/large.rs"]
mod large;
#[path = "adversaries/program.rs"]
mod program;
#[path = "adversaries/references.rs"]
mod references;
#[path = "adversaries/report.rs"]
mod report;
#[path = "adversaries/run.rs"]
mod run;
#[path = "adversaries/threads.rs"]
mod threads;

use args::Args;
use program::{PROGRAMS, Program};
use report::Report;
use std::process::ExitCode;

/// Runs what was asked for; the number of programs whose oracle failed.
fn work(args: &Args) -> Result<usize, String> {
    println!("{}", report::machine());
    let mut report = Report::new(args.csv.as_deref())?;
    let mut failed = 0;
    let chosen = |p: &&Program| args.all || args.names.iter().any(|n| n == p.name);
    for p in PROGRAMS.iter().filter(chosen) {
        for control in [false, true] {
            match run::run(p, args.sample, control) {
                Ok(run::Outcome::Row(row)) => report.row(&row)?,
                Ok(run::Outcome::Skipped(why)) => println!("{}: skipped: {why}", p.name),
                Err(e) => {
                    failed += 1;
                    println!("{}: FAILED: {e}", p.name);
                }
            }
        }
    }
    report.legend();
    if args.flat {
        flat::flat(args)?;
    }
    Ok(failed)
}

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{}", args::help());
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            eprintln!("adversaries: {e}\n{}", args::help());
            return ExitCode::from(2);
        }
    };
    match work(&args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(n) => {
            eprintln!("adversaries: the oracles of {n} runs failed");
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("adversaries: {e}");
            ExitCode::FAILURE
        }
    }
}
