//! Which workload runs, with which sizes; and the size of the heap, where that follows from the workload.

use crate::args::{RunArgs, WorkloadKind};
use crate::output::{one_line, say};
use crate::quantity::bytes;
use crate::signals::Signals;
use crate::workload::Workload;
use crate::workload::churn::Churn;
use crate::workload::contract::{self, Program, Shape};
use crate::workload::gcbench::GcBench;
use crate::workload::index::{Index, Note};
use crate::workload::trees::Trees;
use metronome_gc::config::Config;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Replacement rate of `churn` in bytes per second.
const DEFAULT_RATE: u64 = 64 << 20;
/// The workload that was asked for; with `--heap-factor`, after measuring it, `config` gets the size of its heap.
///
/// # Errors
/// What to change, in one line.
pub(super) fn plan(
    args: &RunArgs,
    config: &mut Config,
    signals: &Signals,
) -> Result<Arc<dyn Workload>, String> {
    use WorkloadKind::{
        Churn as ChurnKind, Contract as ContractKind, Gcbench, Index as IndexKind, Trees as TreesKind,
    };
    let (kind, heap, n) = (args.workload, config.heap, args.mutators);
    for (flag, given, of) in [
        ("--input", args.input.is_some(), &[IndexKind][..]),
        ("--live", args.live.is_some(), &[TreesKind, ChurnKind, ContractKind]),
        ("--alloc-rate", args.alloc_rate.is_some(), &[ChurnKind, ContractKind]),
        ("--heap-factor", args.heap_factor.is_some(), &[ContractKind]),
    ] {
        if given && !of.contains(&kind) {
            say(format_args!("metronome run: {flag} has no effect on this workload"));
        }
    }
    Ok(match kind {
        IndexKind => {
            let dir = args.input.as_deref().unwrap_or(Path::new("."));
            let mut noted = |path: &Path, note: Note| {
                if args.verbose {
                    say(format_args!("{note}: {}", one_line(&path.display().to_string())));
                }
            };
            // Relaxed: a flag that carries no data.
            let stop = || signals.interrupted.load(Relaxed);
            Arc::new(Index::new(dir, heap, n, &stop, &mut noted)?)
        }
        TreesKind => {
            let live = args.live.unwrap_or(heap / 64);
            fits("--live", live, heap)?;
            Arc::new(Trees::new(heap, live, n))
        }
        Gcbench => Arc::new(GcBench::new(heap, n)),
        ChurnKind => {
            let rate = args.alloc_rate.unwrap_or(DEFAULT_RATE);
            Arc::new(Churn::new(heap, args.live.unwrap_or(heap / 4), rate, n)?)
        }
        ContractKind => Arc::new(contract_program(args, config, signals)?),
    })
}

/// The program of the `contract` workload; sets the heap's size if that is to follow from it.
fn contract_program(args: &RunArgs, config: &mut Config, signals: &Signals) -> Result<Program, String> {
    let live = args.live.unwrap_or(contract::DEFAULT_LIVE);
    let rate = args.alloc_rate.unwrap_or(contract::DEFAULT_RATE);
    if rate == 0 {
        return Err(
            "--alloc-rate 0: a contract is about a program that allocates; give a rate such as 50M".into()
        );
    }
    let Some(factor) = args.heap_factor else {
        fits("--live", live, config.heap)?;
        return Ok(Program::new(Shape::new(live, rate, args.mutators), None));
    };
    if live > contract::CALIBRATED_MAX {
        return Err(format!("--live {}: --heap-factor can measure up to 256G", bytes(live)));
    }
    say("metronome run: measuring the program, for --heap-factor");
    let shape = Shape::new(live, rate, args.mutators);
    let calibration = contract::calibrate::calibrate(config, shape, factor, &signals.interrupted)
        .map_err(|e| format!("--heap-factor: {e}"))?;
    config.heap = calibration.heap_bytes();
    config.validate().map_err(|e| format!("--heap-factor makes the heap {}: {e}", bytes(config.heap)))?;
    Ok(Program::new(shape, Some(calibration)))
}

/// Refuses a live set that leaves next to nothing of the heap.
fn fits(flag: &str, live: u64, heap: u64) -> Result<(), String> {
    if live <= heap / 100 * 95 {
        return Ok(());
    }
    Err(format!(
        "{flag} {} does not fit into a heap of {}: set {flag} lower, or --heap to {} or more",
        bytes(live),
        bytes(heap),
        bytes(live.saturating_mul(2))
    ))
}
