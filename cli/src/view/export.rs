//! `metronome export`: logs, recordings and traces as recordings and traces.

use super::{Files, status};
use crate::output::{USAGE, one_line, say};
use metronome_live::input::{self, InputError};
use metronome_live::{Output, Record};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `metronome export`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Verbose GC logs hold sums of quanta, recordings and traces of this collector each quantum.\n\
    Status: 0 all was read and written; 2 something was not; 3 a log of another collector."
)]
pub(crate) struct ExportArgs {
    /// Verbose GC logs, recordings or Tuning Fork traces, one run after the other
    #[arg(required = true, value_name = "FILE")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    files: Files,
}

/// Runs the command.
pub(crate) fn run(args: &ExportArgs) -> ExitCode {
    match perform(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err((status, text)) => {
            say(format_args!("metronome export: {}", one_line(&text)));
            ExitCode::from(status)
        }
    }
}

fn perform(args: &ExportArgs) -> Result<(), (u8, String)> {
    let usage = |text: String| (USAGE, text);
    let outputs = args.files.named();
    if outputs.is_empty() {
        return Err(usage("say what to write: --chrome, --tuning-fork or --record FILE".into()));
    }
    let inputs = args.inputs.iter().map(|p| ("an input", p.as_path()));
    // Inputs may be named twice, but no output may be one of them.
    for output in &outputs {
        for input in inputs.clone() {
            crate::run::files::distinct(&[input, *output]).map_err(usage)?;
        }
    }
    crate::run::files::distinct(&outputs).map_err(usage)?;
    // All inputs are looked at before an output is overwritten; each is opened once, as it may be a pipe.
    let mut inputs = Vec::new();
    for path in &args.inputs {
        let mut records = input::open(path).map_err(|e| wrong(path, &e))?.peekable();
        if let Some(Err(e)) = records.next_if(Result::is_err) {
            return Err(wrong(path, &e));
        }
        inputs.push((path, records));
    }
    let mut outputs = args.files.create().map_err(usage)?;
    let mut result = Ok(());
    for (path, records) in inputs {
        if let Err(e) = copy(path, records, &mut outputs) {
            result = Err(e);
            break;
        }
    }
    // What was read before an error is written whole.
    for (name, sink) in &mut outputs {
        if let Err(e) = sink.end() {
            result = result.and(Err(usage(format!("{name}: {e}"))));
        }
    }
    result
}

fn wrong(path: &Path, e: &InputError) -> (u8, String) {
    (status(e), format!("{}: {e}", path.display()))
}

fn copy(
    path: &Path,
    records: impl Iterator<Item = Result<Record, InputError>>,
    outputs: &mut [Output],
) -> Result<(), (u8, String)> {
    for record in records {
        let record = record.map_err(|e| wrong(path, &e))?;
        for (name, sink) in outputs.iter_mut() {
            sink.take(&record).map_err(|e| (USAGE, format!("{name}: {e}")))?;
        }
    }
    Ok(())
}
