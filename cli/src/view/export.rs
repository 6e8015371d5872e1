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
    Inputs may be compressed (gzip). What breaks off or is damaged is exported as far as it can be read, with status 2.\n\
    Status: 0 all was read and written; 2 something was not; 3 a log of another collector."
)]
pub(crate) struct ExportArgs {
    /// Verbose GC logs, recordings or Tuning Fork traces, one run after the other
    #[arg(required = true, value_name = "FILE")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    files: Files,
}

/// Damage that is told in full.
const TOLD_MAX: usize = 3;

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
        if let Some(Err(e)) = records.next_if(|r| r.as_ref().is_err_and(|e| !e.goes_on())) {
            return Err(wrong(path, &e));
        }
        inputs.push((path, records));
    }
    let mut outputs = args.files.create().map_err(usage)?;
    let mut result = Ok(());
    for (path, records) in inputs {
        match copy(path, records, &mut outputs) {
            Ok(None) => {}
            // All is said; the next one is read all the same.
            Ok(Some(damage)) => result = result.and(Err(usage(damage))),
            Err(e) => {
                result = Err(e);
                break;
            }
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

/// Copies what can be read; gives what could not, in words.
fn copy(
    path: &Path,
    records: impl Iterator<Item = Result<Record, InputError>>,
    outputs: &mut [Output],
) -> Result<Option<String>, (u8, String)> {
    let (mut ns, mut damage, mut lines) = (0, Vec::new(), 0);
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(e) if e.goes_on() => {
                if let InputError::Line { count, .. } = e {
                    lines += count;
                }
                if damage.len() < TOLD_MAX {
                    damage.push(e.to_string());
                }
                e.stand_in(ns)
            }
            Err(e) => return Err(wrong(path, &e)),
        };
        ns = record.ns;
        for (name, sink) in outputs.iter_mut() {
            sink.take(&record).map_err(|e| (USAGE, format!("{name}: {e}")))?;
        }
    }
    let left_out = (lines > 1).then(|| format!("{lines} lines in all are left out"));
    damage.extend(left_out);
    Ok((!damage.is_empty()).then(|| format!("{}: {}", path.display(), damage.join("; "))))
}
