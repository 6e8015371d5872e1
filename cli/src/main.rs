//! The `metronome` command: run workloads on the collector, check a host, print the options, read
//! verbose GC logs.
//!
//! **Architecture invariant:** this crate uses the libraries' public API only, and no unsafe code.
#![forbid(unsafe_code)]

mod advise;
mod args;
mod calibrate;
mod check;
mod logs;
mod output;
mod quantity;
mod report;
mod run;
mod signals;
mod view;
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
        Command::Report(args) => report::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Live(args) => view::live(&args),
        Command::Top(args) => view::top(&args),
        Command::Export(args) => view::export(&args),
        Command::Options => output::print(&metronome_gc::config::options_markdown()),
    }
}
