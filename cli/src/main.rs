//! The `metronome` command: run workloads on the collector, check a host, print the options.
//!
//! **Architecture invariant:** this crate uses the library's public API only, and no unsafe code.
#![forbid(unsafe_code)]

mod args;
mod calibrate;
mod check;
mod output;
mod quantity;
mod run;
mod signals;
mod workload;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    signals::errors_at_file_size_limit();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return args::explain(&e),
    };
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Options => output::print(&metronome_gc::config::options_markdown()),
    }
}
