//! `metronome run`: a workload, the periodic task beside it, and the report of what they felt.

pub(crate) mod env;
mod json;
mod picture;
mod progress;
mod straggler;
mod summary;
mod task;

use crate::args::{RunArgs, WorkloadKind};
use crate::output::{USAGE, one_line, say, write_out};
use crate::workload::churn::Churn;
use crate::workload::gcbench::GcBench;
use crate::workload::index::Index;
use crate::workload::trees::Trees;
use crate::workload::{Tally, Workload};
use env::{Env, Failure};
use metronome_gc::config::Config;
use metronome_gc::{BuildError, Heap, Mutator, Stats};
use progress::Progress;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use task::TaskReport;

/// Replacement rate of `churn` in bytes per second.
const DEFAULT_RATE: u64 = 64 << 20;
/// How often the main thread looks around.
const LOOK: Duration = Duration::from_millis(100);

/// Set when the user wants the run to end (Ctrl-C, SIGTERM).
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Everything that a run has found out.
pub(crate) struct Outcome {
    workload: &'static str,
    plan: Vec<String>,
    facts: serde_json::Value,
    config: Config,
    mutators: u32,
    stats: Stats,
    tally: Tally,
    task: Option<TaskReport>,
    /// What the system refused.
    refusals: Vec<String>,
    /// What went wrong, in words; a run with an empty list is verified.
    problems: Vec<String>,
    interrupted: bool,
    peak_rss_bytes: Option<u64>,
}

impl Outcome {
    /// Whether everything that was computed agrees with the independent implementation.
    fn verified(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    match perform(args) {
        Ok(code) => code,
        Err(refusal) => {
            say(format_args!("metronome run: {}", one_line(&refusal)));
            ExitCode::from(USAGE)
        }
    }
}

/// The whole command; an error is the user's to mend, in one line.
fn perform(args: &RunArgs) -> Result<ExitCode, String> {
    let config = configure(args)?;
    // Opened now, so that a run is not lost for a name that cannot be written.
    let mut json = match &args.json {
        Some(path) if path.as_os_str() != "-" => Some(
            File::create(path)
                .map_err(|e| format!("--json {}: {e}; choose a file that can be written", path.display()))?,
        ),
        _ => None,
    };
    watch_signals();
    let workload = plan(args, &config)?;
    let outcome = measure(args, config, workload)?;
    let text = summary::text(&outcome, args.verbose);
    let value = json::value(&outcome);
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if to_stdout {
        say(text.trim_end());
    }
    let out = if to_stdout { format!("{value:#}\n") } else { text };
    write_out(&out).map_err(|e| format!("cannot write to standard output: {e}"))?;
    if let (Some(file), Some(path)) = (&mut json, &args.json) {
        writeln!(file, "{value:#}").map_err(|e| format!("--json {}: {e}", path.display()))?;
    }
    for problem in &outcome.problems {
        say(format_args!("metronome run: {}", one_line(problem)));
    }
    Ok(if outcome.verified() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Defaults, then file, then environment, then flags.
fn configure(args: &RunArgs) -> Result<Config, String> {
    let mut config = Config::default();
    if let Some(path) = &args.config {
        config.merge_toml_file(path).map_err(|e| e.to_string())?;
    }
    config.merge_process_env().map_err(|e| e.to_string())?;
    args.heap.apply(&mut config).map_err(|e| format!("--{e}"))?;
    config.validate().map_err(|e| e.to_string())?;
    let threads = args.mutators as usize + 1 + usize::from(args.straggler.is_some());
    if threads > config.max_mutators {
        return Err(format!(
            "{threads} threads (--mutators {} and the task) are more than max-mutators {}: raise --max-mutators, or \
             lower --mutators",
            args.mutators, config.max_mutators
        ));
    }
    Ok(config)
}

/// The second Ctrl-C ends the process at once.
fn watch_signals() {
    let handler = || {
        // Relaxed: a flag that carries no data.
        if INTERRUPTED.swap(true, Relaxed) {
            std::process::exit(130);
        }
    };
    if let Err(e) = ctrlc::set_handler(handler) {
        say(format_args!("metronome run: Ctrl-C will end the run without a summary: {e}"));
    }
}

fn plan(args: &RunArgs, config: &Config) -> Result<Arc<dyn Workload>, String> {
    use WorkloadKind::{Churn as ChurnKind, Gcbench, Index as IndexKind, Trees as TreesKind};
    let (kind, heap, n) = (args.workload, config.heap, args.mutators);
    for (flag, given, of) in [
        ("--input", args.input.is_some(), &[IndexKind][..]),
        ("--live", args.live.is_some(), &[TreesKind, ChurnKind]),
        ("--alloc-rate", args.alloc_rate.is_some(), &[ChurnKind]),
    ] {
        if given && !of.contains(&kind) {
            say(format_args!("metronome run: {flag} has no effect on this workload"));
        }
    }
    Ok(match kind {
        IndexKind => {
            let dir = args.input.as_deref().unwrap_or(Path::new("."));
            let mut skipped = |path: &Path, why: &str| {
                if args.verbose {
                    say(format_args!("skipped ({why}): {}", one_line(&path.display().to_string())));
                }
            };
            // Relaxed: a flag that carries no data.
            let stop = || INTERRUPTED.load(Relaxed);
            Arc::new(Index::new(dir, heap, n, &stop, &mut skipped)?)
        }
        TreesKind => {
            let live = args.live.unwrap_or(heap / 8);
            if live > heap / 100 * 95 {
                return Err(format!(
                    "--live {} does not fit into the heap: set --live lower, or --heap to {} or more",
                    crate::quantity::bytes(live),
                    crate::quantity::bytes(live.saturating_mul(2))
                ));
            }
            Arc::new(Trees::new(heap, live, n))
        }
        Gcbench => Arc::new(GcBench::new(heap, n)),
        ChurnKind => {
            let rate = args.alloc_rate.unwrap_or(DEFAULT_RATE);
            Arc::new(Churn::new(heap, args.live.unwrap_or(heap / 4), rate, n)?)
        }
    })
}

/// Tells the main thread that a worker has ended, also if it panics.
struct Ended(mpsc::Sender<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

fn spawn<R: Send + 'static>(
    env: &Arc<Env>,
    name: String,
    ended: mpsc::Sender<()>,
    work: impl FnOnce(&Env, &mut Mutator<'_>) -> R + Send + 'static,
) -> Result<JoinHandle<R>, String> {
    let env = Arc::clone(env);
    std::thread::Builder::new()
        .name(name)
        .spawn(move || {
            let _ended = Ended(ended);
            let heap = env.heap.clone();
            heap.enter(|m| work(&env, m))
        })
        .map_err(|e| format!("cannot start a thread: {e}; lower --mutators or raise the limit (ulimit -u)"))
}

fn measure(args: &RunArgs, config: Config, workload: Arc<dyn Workload>) -> Result<Outcome, String> {
    let heap = Heap::builder().config(config.clone()).build().map_err(|e| match e {
        BuildError::Memory(e) => {
            format!("the heap of {} bytes cannot be had: {e}; lower --heap", config.heap)
        }
        e => e.to_string(),
    })?;
    let mut refusals = heap.refusals().to_vec();
    let env = Arc::new(Env::new(heap, &INTERRUPTED));
    let (send, ended) = mpsc::channel();
    let (unheard, _) = mpsc::channel();

    let threads = start(args, &env, &workload, &send, &unheard);
    drop(send);
    let (workers, task, straggler) = match threads {
        Ok(threads) => threads,
        Err(e) => {
            env.stop();
            env.quit();
            return Err(e);
        }
    };

    let mut progress = Progress::new(workload.name(), workload.round_name());
    let deadline = Instant::now() + args.seconds;
    let mut running = workers.len();
    while running > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            env.stop();
        }
        match ended.recv_timeout(if env.stopping() { LOOK } else { LOOK.min(left) }) {
            Ok(()) => running -= 1,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        progress.show(&env);
    }
    progress.end();
    env.quit();

    let mut tally = Tally::default();
    let mut problems = Vec::new();
    let failed = |name: &str, failure: &Failure| match failure {
        Failure::NoMemory(_) => {
            format!("{name}: {failure}; {}", larger(&config, args.mutators, workload.live_estimate()))
        }
        Failure::Interrupted => format!("{name}: {failure}"),
    };
    for worker in workers {
        let name = worker.thread().name().unwrap_or("worker").to_owned();
        match worker.join() {
            Ok(Ok(t)) => tally.merge(t),
            Ok(Err(Failure::NoMemory(e))) => {
                problems.push(format!(
                    "{name}: {e}; {}",
                    larger(&config, args.mutators, workload.live_estimate())
                ));
            }
            Ok(Err(e)) => problems.push(format!("{name}: {e}")),
            Err(_) => problems.push(format!("{name} panicked")),
        }
    }
    problems.extend(tally.differences());
    let task = task.join().ok();
    match &task {
        None => problems.push("the task panicked".into()),
        Some(report) => {
            problems.extend(report.failure.as_ref().map(|e| failed("task", e)));
            problems.extend(report.difference.clone());
            refusals.extend(report.refused.as_ref().map(|e| format!("task: {e}")));
        }
    }
    if let Some(Err(_)) = straggler.map(JoinHandle::join) {
        problems.push("the straggler panicked".into());
    }
    let stats = env.heap.stats();
    // The last clone: closes the heap and finishes its log.
    drop(env);
    Ok(Outcome {
        workload: workload.name(),
        plan: workload.plan(),
        facts: workload.facts(),
        config,
        mutators: args.mutators,
        stats,
        tally,
        task,
        refusals,
        problems,
        // Relaxed: a flag that carries no data.
        interrupted: INTERRUPTED.load(Relaxed),
        peak_rss_bytes: peak_rss_bytes(),
    })
}

type Threads = (Vec<JoinHandle<Result<Tally, Failure>>>, JoinHandle<TaskReport>, Option<JoinHandle<()>>);

/// Starts the workload's threads, the task and the straggler.
fn start(
    args: &RunArgs,
    env: &Arc<Env>,
    workload: &Arc<dyn Workload>,
    ended: &mpsc::Sender<()>,
    unheard: &mpsc::Sender<()>,
) -> Result<Threads, String> {
    let task = spawn(env, "task".into(), unheard.clone(), task::run)?;
    let straggler = args
        .straggler
        .map(|ms| spawn(env, "straggler-0".into(), unheard.clone(), move |env, m| straggler::run(env, m, ms)))
        .transpose()?;
    let workers = (0..args.mutators as usize)
        .map(|i| {
            let workload = Arc::clone(workload);
            spawn(env, workload.thread_name(i), ended.clone(), move |env, m| {
                let result = workload.run(env, i, m);
                if result.is_err() {
                    // Without this thread the run would show nothing.
                    env.stop();
                }
                result
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok((workers, task, straggler))
}

/// Advice on the heap's size: twice what is alive and the allowance for fragmentation, some regions for each thread,
/// and more than it was.
fn larger(config: &Config, mutators: u32, live: u64) -> String {
    const MIB: u64 = 1 << 20;
    let fragmented = |bytes: u64| bytes / 100 * (100 + u64::from(config.fragmentation_percent));
    let needed = fragmented(live.saturating_mul(2)) + (u64::from(mutators) + 2) * 2 * MIB;
    let mib = needed.max(config.heap + config.heap / 2).div_ceil(MIB);
    format!("set --heap to {mib}M or more")
}

/// Most memory that this process had resident, from the kernel.
fn peak_rss_bytes() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    u64::try_from(usage.max_rss()).ok().map(|kib| kib * 1024)
}
