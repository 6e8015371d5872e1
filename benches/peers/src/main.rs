//! Metronome beside its peers: see README.md in this folder.

mod child;
mod cli;
mod contestant;
mod family;
mod parent;
mod program;

use clap::Parser;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// For all contestants in Rust, so that none has a slower allocator beneath it than another.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match cli::perform(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("peers: {e}");
            ExitCode::FAILURE
        }
    }
}
