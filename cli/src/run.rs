//! `metronome run`: a workload, the periodic task beside it, and the report of what they felt.

pub(crate) mod env;
pub(crate) mod files;
mod json;
mod notices;
mod picture;
mod plan;
mod progress;
mod straggler;
mod summary;
mod task;

use crate::args::RunArgs;
use crate::output::{USAGE, one_line, say, write_out};
use crate::signals::Signals;
use crate::view::Outputs;
use crate::workload::{Tally, Workload};
use env::{Env, Failure};
use metronome_gc::config::Config;
use metronome_gc::{BuildError, Heap, Mutator, Stats};
use metronome_live::Output;
use notices::{Listener, Told};
use progress::Progress;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use task::TaskReport;

/// How often the main thread looks around.
const LOOK: Duration = Duration::from_millis(100);

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
    told: Told,
    /// Whether what did not happen is said too.
    tell_all: bool,
    /// What the system refused.
    refusals: Vec<String>,
    /// What went wrong, in words; a run with an empty list is verified.
    problems: Vec<String>,
    /// Why there was nothing to compare.
    nothing: Option<String>,
    interrupted: bool,
    /// The problems, if any, are only that the user ended the run early.
    unfinished: bool,
    peak_rss_bytes: Option<u64>,
    /// Files that were asked for and are not complete, in words.
    outputs_lost: Vec<String>,
}

impl Outcome {
    /// Whether everything that was computed agrees with the independent implementation.
    fn verified(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether there was nothing to verify.
    fn compared_nothing(&self) -> bool {
        self.nothing.is_some() && self.verified()
    }
}

/// What can be said of the utilization target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contract {
    Kept,
    Broken,
    /// No quantum ended a whole window after the start: the run was too short, or nothing had to be collected (or the
    /// collector never got a CPU).
    NotMeasured,
    /// Events were lost: none that are left tell of a broken window, but those might have.
    Unknown,
}

impl Contract {
    fn of(s: &Stats) -> Contract {
        let measured = s.mmu.iter().any(|m| m.window_ns == s.window_ns && m.charged_ppm.is_some());
        match (s.violations, s.lost_events, measured) {
            (1.., ..) => Contract::Broken,
            (0, 1.., _) => Contract::Unknown,
            (0, 0, false) => Contract::NotMeasured,
            (0, 0, true) => Contract::Kept,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Contract::Kept => "kept",
            Contract::Broken => "broken",
            Contract::NotMeasured => "not measured",
            Contract::Unknown => "unknown",
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let signals = Signals::watch();
    match perform(args, &signals) {
        Ok(code) => code,
        Err(refusal) => {
            say(format_args!("metronome run: {}", one_line(&refusal)));
            ExitCode::from(signals.status().unwrap_or(USAGE))
        }
    }
}

/// The whole command; an error is the user's to mend, in one line.
fn perform(args: &RunArgs, signals: &Signals) -> Result<ExitCode, String> {
    let mut config = configure(args)?;
    let json_file = args.json.as_deref().filter(|path| path.as_os_str() != "-");
    let named = [
        ("--config", args.config.as_deref()),
        ("--json", json_file),
        ("--verbose-gc", config.verbose_gc.as_deref()),
    ];
    let named = named.into_iter().filter_map(|(flag, path)| Some((flag, path?)));
    let stdout = Path::new("/dev/stdout");
    let redirected = std::fs::metadata(stdout).is_ok_and(|there| there.is_file());
    let stdout = redirected.then_some(("standard output", stdout));
    let named = named.into_iter().chain(args.view.files.named());
    files::distinct(&stdout.into_iter().chain(named).collect::<Vec<_>>())?;
    let refuse = |path: &Path, e: &dyn std::fmt::Display| {
        format!("--json {}: {e}; choose a file that can be written", path.display())
    };
    let results = match json_file {
        Some(path) => Some((path, files::Results::prepare(path).map_err(|e| refuse(path, &e))?)),
        None => None,
    };
    let workload = plan::plan(args, &mut config, signals)?;
    let outputs = args.view.files.create()?;
    let outcome = measure(args, config, workload, outputs, signals)?;
    let text = summary::text(&outcome, args.verbose);
    let value = format!("{:#}\n", json::value(&outcome));

    // First what others read: it must not be lost because nobody reads the summary.
    let mut lost = outcome.outputs_lost.clone();
    if let Some((path, results)) = results {
        lost.extend(results.write(&value).err().map(|e| refuse(path, &e)));
    }
    let to_stdout = args.json.is_some() && json_file.is_none();
    let written = write_out(if to_stdout { &value } else { &text });
    lost.extend(written.err().map(|e| format!("cannot write to standard output: {e}")));
    if to_stdout {
        say(text.trim_end());
    }
    let log = outcome.stats.log_error.as_ref();
    lost.extend(
        log.map(|e| format!("the verbose GC log is not complete: {e}; give --verbose-gc a file with room")),
    );
    for line in outcome.problems.iter().chain(&lost) {
        say(format_args!("metronome run: {}", one_line(line)));
    }
    let status = match (outcome.verified() || outcome.unfinished, lost.is_empty(), signals.status()) {
        (false, ..) => 1,
        (true, false, _) => USAGE,
        (true, true, Some(status)) => status,
        (true, true, None) => u8::from(!outcome.verified()),
    };
    Ok(ExitCode::from(status))
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
    if config.verbose_gc.as_deref() == Some(Path::new("-")) {
        return Err(
            "--verbose-gc needs a file: its text cannot go to standard output; give a file name".into()
        );
    }
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

fn measure(
    args: &RunArgs,
    config: Config,
    workload: Arc<dyn Workload>,
    outputs: Vec<Output>,
    signals: &Signals,
) -> Result<Outcome, String> {
    let heap = Heap::builder().config(config.clone()).build().map_err(|e| match e {
        BuildError::Memory(e) => {
            format!("the heap of {} bytes cannot be had: {e}; lower --heap", config.heap)
        }
        e => e.to_string(),
    })?;
    let listener = Listener::of(&heap);
    let outputs = Outputs::start(&args.view, outputs, &heap)?;
    let mut refusals = heap.refusals().to_vec();
    let env = Arc::new(Env::new(heap, Arc::clone(&signals.interrupted)).with_threads(args.mutators));
    outputs.bookmark(&env.heap, &format!("{} begins", workload.name()));
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
    outputs.bookmark(&env.heap, &format!("{} has ended", workload.name()));
    env.quit();

    let mut tally = Tally::default();
    let mut problems = Vec::new();
    let mut failures = Failures::default();
    for worker in workers {
        let name = worker.thread().name().unwrap_or("worker").to_owned();
        match worker.join() {
            Ok(Ok(t)) => tally.merge(t),
            Ok(Err(failure)) => failures.add(name, failure),
            Err(_) => problems.push(format!("{name} panicked")),
        }
    }
    problems.extend(tally.differences());
    let task = task.join().ok();
    match &task {
        None => problems.push("the task panicked".into()),
        Some(report) => {
            if let Some(failure) = report.failure.clone() {
                failures.add("task".into(), failure);
            }
            problems.extend(report.difference.clone());
            refusals.extend(report.refused.as_ref().map(|e| format!("task: {e}")));
        }
    }
    if let Some(Err(_)) = straggler.map(JoinHandle::join) {
        problems.push("the straggler panicked".into());
    }
    let unfinished = problems.is_empty() && failures.memory.is_empty();
    problems.extend(failures.words(|| larger(&config, args, &*workload)));
    let stats = env.heap.stats();
    // The last clone: closes the heap and finishes its log.
    drop(env);
    let outputs_lost = outputs.finish();
    Ok(Outcome {
        workload: workload.name(),
        plan: workload.plan(),
        facts: workload.facts(),
        config,
        mutators: args.mutators,
        stats,
        tally,
        task,
        // After closing: nothing follows.
        told: listener.told(),
        tell_all: workload.tells_all_departures(),
        refusals,
        problems,
        nothing: workload.nothing(),
        // Relaxed: a flag that carries no data.
        interrupted: signals.interrupted.load(Relaxed),
        unfinished,
        outputs_lost,
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

/// Threads that could not do their work, by reason: one reason is said once, however many threads had it.
#[derive(Debug, Default)]
struct Failures {
    memory: Vec<(String, Failure)>,
    interrupted: Vec<(String, Failure)>,
}

impl Failures {
    fn add(&mut self, thread: String, failure: Failure) {
        let of = match failure {
            Failure::NoMemory(_) => &mut self.memory,
            Failure::Interrupted => &mut self.interrupted,
        };
        of.push((thread, failure));
    }

    fn words(&self, advice: impl Fn() -> String) -> Vec<String> {
        let line = |of: &[(String, Failure)]| {
            let (first, failure) = of.first()?;
            Some(match of.len() {
                1 => format!("{first}: {failure}"),
                n => format!("{first} and {} more threads: {failure}", n - 1),
            })
        };
        let memory = line(&self.memory).map(|words| format!("{words}; {}", advice()));
        memory.into_iter().chain(line(&self.interrupted)).collect()
    }
}

/// Advice on the heap's size: twice what is alive and the allowance for fragmentation, the regions that each thread
/// holds, one for each size class it uses, and more than it was.
fn larger(config: &Config, args: &RunArgs, workload: &dyn Workload) -> String {
    const MIB: u64 = 1 << 20;
    const REGION: u64 = 64 << 10;
    // Two generations: what one thread gives back in one class cannot be had at once in another.
    let held = (u64::from(args.mutators) * workload.size_classes() + 8) * REGION * 2;
    let fragmented = |bytes: u64| bytes / 100 * (100 + u64::from(config.fragmentation_percent));
    let live = fragmented(workload.live_estimate().saturating_mul(2));
    // Without --live, the live set grows with the heap: as much room is needed beside its share.
    let needed = match args.live {
        Some(_) => live + held,
        None => match config.heap.checked_sub(live).filter(|free| *free > config.heap / 8) {
            Some(free) => (u128::from(held) * u128::from(config.heap) / u128::from(free)) as u64,
            None => live + held,
        },
    };
    let mib = needed.max(config.heap + config.heap / 2).div_ceil(MIB);
    format!("set --heap to {mib}M or more")
}

/// Most memory that this process had resident, from the kernel.
fn peak_rss_bytes() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    u64::try_from(usage.max_rss()).ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metronome_gc::{AllocError, Mmu};

    #[test]
    fn the_contract_is_kept_only_if_it_was_measured_and_nothing_was_lost() {
        let stats = |violations, lost_events, charged_ppm| {
            let mut s = Stats::default();
            (s.violations, s.lost_events, s.window_ns) = (violations, lost_events, 10);
            // Another window that was measured does not count.
            s.mmu.push(Mmu { window_ns: 1, charged_ppm: Some(1), wall_ppm: None });
            s.mmu.push(Mmu { window_ns: 10, charged_ppm, wall_ppm: None });
            s
        };
        for (s, expected) in [
            (stats(0, 0, Some(800_000)), "kept"),
            (stats(0, 0, None), "not measured"),
            (stats(0, 3, Some(800_000)), "unknown"),
            (stats(2, 3, Some(0)), "broken"),
        ] {
            assert_eq!(Contract::of(&s).word(), expected, "{s:?}");
        }
    }

    #[test]
    fn one_reason_is_said_once() {
        let mut failures = Failures::default();
        let no_memory = |requested_bytes| {
            Failure::NoMemory(AllocError::Exhausted { requested_bytes, used_bytes: 1, heap_bytes: 2 })
        };
        for i in 0..5 {
            failures.add(format!("churn-{i}"), no_memory(100 + i));
        }
        failures.add("index-0".into(), Failure::Interrupted);
        let words = failures.words(|| "do this".into());
        assert_eq!(words.len(), 2, "{words:?}");
        assert!(words[0].starts_with("churn-0 and 4 more threads: ") && words[0].ends_with("; do this"));
        assert!(words[1].starts_with("index-0: interrupted"), "{words:?}");
    }
}
