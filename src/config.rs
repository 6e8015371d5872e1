//! Configuration: one options table behind the builder, TOML files, the environment and the command line.
//!
//! [`OPTIONS`] holds each option once; [`Config`] holds one value for each. What is set later wins; the usual order is
//! file, then environment, then command line:
//!
//! ```
//! use metronome_gc::config::Config;
//!
//! let mut config = Config::from_toml("heap = '64M'\ntarget-utilization = 80")?;
//! config.merge_env([("METRONOME_QUANTUM", "250us"), ("HOME", "/")])?;
//! config.set("trigger", "50%")?;
//! config.validate()?;
//! assert_eq!(config.get("quantum"), "250us");
//! assert_eq!(config.heap, 64 << 20);
//! # Ok::<(), metronome_gc::config::ConfigError>(())
//! ```
//!
//! Sizes are written `64k`, `256M`, `1G` (binary multiples) or as plain bytes; times `100ns`, `500us`, `1.5ms`, `1s`,
//! always with their unit.

mod error;
mod options;
mod serde_impl;
#[cfg(test)]
mod tests;
mod validate;
mod value;
mod verify;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use metronome_scheduler::Spread;

pub use error::ConfigError;
pub use options::{OPTIONS, OptionKind, OptionSpec};
pub use verify::Verify;

/// Prefix of the environment variables that [`Config::merge_env`] looks at.
pub const ENV_PREFIX: &str = "METRONOME_";

/// Variables with the prefix that belong to others: the seed, number and scope of randomised tests.
pub const FOREIGN_VARIABLES: &[&str] = &["METRONOME_SEED", "METRONOME_PROGRAMS", "METRONOME_MODEL"];

/// Names that are flags of `metronome run`, and options of no heap: an error says so instead of guessing.
const FLAGS_OF_RUN: &[&str] = &[
    "workload",
    "input",
    "seconds",
    "mutators",
    "live",
    "alloc-rate",
    "heap-factor",
    "straggler",
    "config",
    "json",
    "verbose",
    "serve",
    "token-file",
    "record",
    "tuning-fork",
    "chrome",
];

/// Largest configuration file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Size of a heap region in bytes.
const REGION_BYTES: u64 = 64 << 10;

/// Fewest regions that a heap can work with.
const MIN_HEAP_REGIONS: u64 = 16;

/// What happens when memory runs out before the cycle that will free some has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Exhaustion {
    /// The collector may take more than its allowance, the more the less memory is left.
    #[default]
    Degrade,
    /// The cycle is finished at once, with the mutators stopped.
    Synchronous,
    /// Allocation fails and utilization is kept.
    Fail,
}

/// When a cycle starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TriggerMode {
    /// When free memory falls to the allocation predicted for one cycle.
    #[default]
    Paced,
    /// When a fixed share of the heap is in use.
    Static {
        /// The share in percent, 1..=99.
        percent: u32,
    },
}

/// Generation of the verbose GC log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VerboseFormat {
    /// The first generation, of 2007.
    V2007,
    /// The generation that OpenJ9 writes.
    #[default]
    OpenJ9,
}

/// All options of a heap. Fields may be set directly; [`validate`](Self::validate) tells whether they fit together.
///
/// Feasible is what satisfies: `quantum <= window * (100 - target) / 100`, `beat <= window`, `stop budget <= quantum`,
/// `resume margin < quantum`, `alarm priority > gc priority` when both are set, and a heap of at least 16 regions.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `heap`: size of the heap in bytes.
    pub heap: u64,
    /// `target-utilization`: share of every window that belongs to the mutators, in percent.
    pub target_utilization: u32,
    /// `window`: length of the sliding window, in nanoseconds.
    pub window_ns: u64,
    /// `quantum`: longest slice of collector work, in nanoseconds.
    pub quantum_ns: u64,
    /// `beat`: period of the alarm, in nanoseconds.
    pub beat_ns: u64,
    /// `spread`: where quanta lie in a window.
    pub spread: Spread,
    /// `exhaustion`: what happens when memory runs out during a cycle.
    pub exhaustion: Exhaustion,
    /// `trigger`: when a cycle starts.
    pub trigger: TriggerMode,
    /// `stop-budget`: how long a stop waits for mutators before it is cancelled, in nanoseconds; `None` is automatic,
    /// see [`effective_stop_budget_ns`](Self::effective_stop_budget_ns).
    pub stop_budget_ns: Option<u64>,
    /// `resume-margin`: part of a quantum kept for its last step and for waking the mutators, in nanoseconds; `None` is
    /// automatic, see [`effective_resume_margin_ns`](Self::effective_resume_margin_ns).
    pub resume_margin_ns: Option<u64>,
    /// `fragmentation`: allowance for fragmentation, in percent.
    pub fragmentation_percent: u32,
    /// `memory-wait`: longest wait for memory at a safepoint, in nanoseconds.
    pub memory_wait_ns: u64,
    /// `verbose-gc`: file of the verbose GC log.
    pub verbose_gc: Option<PathBuf>,
    /// `verbose-format`: generation of the verbose GC log.
    pub verbose_format: VerboseFormat,
    /// `verbose-interval`: time that one summary in the log covers, in nanoseconds.
    pub verbose_interval_ns: u64,
    /// `gc-priority`: `SCHED_FIFO` priority of the collector's threads, 0 for none.
    pub gc_priority: u8,
    /// `alarm-priority`: `SCHED_FIFO` priority of the alarm thread, 0 for none.
    pub alarm_priority: u8,
    /// `gc-threads`: threads that mark, the collector's own among them; `None`: see
    /// [`effective_gc_threads`](Self::effective_gc_threads).
    pub gc_threads: Option<u32>,
    /// `concurrent`: whether helpers go on marking between quanta, on CPUs that no mutator uses. Needs the right to real-time
    /// priority.
    pub concurrent: bool,
    /// `gc-cpu`: CPU that the collector thread is pinned to.
    pub gc_cpu: Option<usize>,
    /// `alarm-cpu`: CPU that the alarm thread is pinned to.
    pub alarm_cpu: Option<usize>,
    /// `boost`: whether mutators that hold up a stop are helped with the collector's priority.
    pub boost: bool,
    /// `suppress-idle-ticks`: whether the alarm sleeps while no cycle is active.
    pub suppress_idle_ticks: bool,
    /// `prefault`: whether the heap's pages are touched at the start.
    pub prefault: bool,
    /// `lock-memory`: whether the heap is locked in memory.
    pub lock_memory: bool,
    /// `huge-pages`: whether the heap asks for huge pages.
    pub huge_pages: bool,
    /// `log-buffers`: number of barrier log buffers allocated at the start.
    pub log_buffers: usize,
    /// `max-mutators`: most threads that can be mutators at the same time.
    pub max_mutators: usize,
    /// `event-ring`: capacity of a ring of events, in records.
    pub event_ring: usize,
    /// `cycle-interval`: longest time from the end of a cycle to the start of the next, in nanoseconds.
    pub cycle_interval_ns: Option<u64>,
    /// `initial-heap`: size that the heap starts with, in bytes; `None` is `heap`.
    pub initial_heap: Option<u64>,
    /// `idle-trim`: time without a cycle after which a heap that has grown gives memory back, in nanoseconds.
    pub idle_trim_ns: Option<u64>,
    /// `immortal`: size of the immortal area in bytes.
    pub immortal: u64,
    /// `soft-age`: cycles for which an unused soft reference keeps its object in an empty heap.
    pub soft_age: u32,
    /// `finalizer-backlog`: waiting finalizers above which the backlog is reported.
    pub finalizer_backlog: u64,
    /// `finalizer-watchdog`: time after which a running finalizer is reported as stuck, in nanoseconds.
    pub finalizer_watchdog_ns: Option<u64>,
    /// `finalizer-drain`: longest wait for due finalizers when the heap is closed, in nanoseconds.
    pub finalizer_drain_ns: Option<u64>,
    /// `external-memory`: announced memory outside the heap that starts a cycle, in bytes; `None` is automatic, see
    /// [`effective_external_memory`](Self::effective_external_memory).
    pub external_memory: Option<u64>,
    /// `memory-watch`: whether the system is watched for low memory.
    pub memory_watch: bool,
    /// `memory-low`: share of the system's memory below which what is available counts as low, in percent.
    pub memory_low_percent: u32,
    /// `headroom-low`: share of the heap below which free memory is notified as low, in percent.
    pub headroom_low_percent: u32,
    /// `report-blocked`: whether mutators that sleep in the kernel outside `blocking` are looked for.
    pub report_blocked: bool,
    /// `verify`: checks of the heap at the edges of phases; `None`: what `METRONOME_VERIFY` says when the heap is built, else
    /// none. Others than none need the crate's feature `verify`. As text, `auto` is `None`.
    pub verify: Option<Verify>,
    /// `stress`: the stress modes that are on; none outside tests.
    pub stress: crate::stress::Stress,
}

impl Config {
    /// The defaults.
    pub const DEFAULT: Config = Config {
        heap: 256 << 20,
        target_utilization: 70,
        window_ns: 10_000_000,
        quantum_ns: 500_000,
        beat_ns: 500_000,
        spread: Spread::Eager,
        exhaustion: Exhaustion::Degrade,
        trigger: TriggerMode::Paced,
        stop_budget_ns: None,
        resume_margin_ns: None,
        fragmentation_percent: 12,
        memory_wait_ns: 10_000_000_000,
        verbose_gc: None,
        verbose_format: VerboseFormat::OpenJ9,
        verbose_interval_ns: 1_000_000_000,
        gc_priority: 10,
        alarm_priority: 11,
        gc_threads: None,
        concurrent: true,
        gc_cpu: None,
        alarm_cpu: None,
        boost: true,
        suppress_idle_ticks: false,
        prefault: false,
        lock_memory: false,
        huge_pages: false,
        log_buffers: 1024,
        max_mutators: 1024,
        event_ring: 8192,
        cycle_interval_ns: None,
        initial_heap: None,
        idle_trim_ns: Some(10_000_000_000),
        immortal: 1 << 20,
        soft_age: 32,
        finalizer_backlog: 10_000,
        finalizer_watchdog_ns: Some(10_000_000_000),
        finalizer_drain_ns: Some(2_000_000_000),
        external_memory: None,
        memory_watch: true,
        memory_low_percent: 5,
        headroom_low_percent: 10,
        report_blocked: false,
        verify: None,
        stress: crate::stress::Stress::NONE,
    };

    /// Sets one option from text.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such option or the value is not one it takes; the configuration is then unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let spec = OptionSpec::find(name).ok_or_else(|| match flag_of_run(name) {
            Some(flag) => ConfigError::FlagOfRun { name: name.to_owned(), flag },
            None => ConfigError::UnknownOption {
                name: name.to_owned(),
                nearest: OptionSpec::nearest(name, |spec| spec.name),
            },
        })?;
        spec.set(self, value)
    }

    /// [`set`](Self::set) for chains: `Config::default().with("heap", "1G")?.with("window", "20ms")?`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn with(mut self, name: &str, value: &str) -> Result<Config, ConfigError> {
        self.set(name, value)?;
        Ok(self)
    }

    /// One option as text that [`set`](Self::set) reads back to the same value (a file name that is not Unicode is
    /// written with replacement characters). Empty if there is no such option; see [`OPTIONS`] for those there are.
    pub fn get(&self, name: &str) -> String {
        OptionSpec::find(name).map(|spec| spec.get(self)).unwrap_or_default()
    }

    /// All options with their values as text, in the order of [`OPTIONS`].
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        OPTIONS.iter().map(|spec| (spec.name, spec.get(self)))
    }

    /// The defaults with what this TOML text sets. Keys are option names; values are strings, or numbers and booleans
    /// where the option takes one without a unit.
    ///
    /// # Errors
    /// [`ConfigError`], with the line.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        config.merge_toml(text)?;
        Ok(config)
    }

    /// Sets what this TOML text sets.
    ///
    /// # Errors
    /// [`ConfigError`], with the line; the configuration is then unchanged.
    pub fn merge_toml(&mut self, text: &str) -> Result<(), ConfigError> {
        *self = serde_impl::merge_toml(self.clone(), text)?;
        Ok(())
    }

    /// Sets what this TOML file sets: a regular file of at most 1 MiB.
    ///
    /// # Errors
    /// [`ConfigError`], with file and line, also for a file that is not regular (reading a pipe or device might never
    /// end) or is larger; the configuration is then unchanged.
    pub fn merge_toml_file(&mut self, path: impl AsRef<Path>) -> Result<(), ConfigError> {
        let path = path.as_ref();
        let text = read_file(path)
            .map_err(|error| ConfigError::File { path: path.to_owned(), reason: error.to_string() })?;
        self.merge_toml(&text).map_err(|error| error.at(path.display().to_string()))
    }

    /// Sets what these environment variables set. Those without the prefix [`ENV_PREFIX`] and the
    /// [`FOREIGN_VARIABLES`] are passed over; so are empty ones, which count as not set, but for options that take the empty
    /// text (`verbose-gc`).
    ///
    /// # Errors
    /// [`ConfigError`], with the variable, also for an unknown one that has the prefix: a misspelt variable must not be
    /// without effect. The configuration is then unchanged.
    pub fn merge_env<K: AsRef<str>, V: AsRef<str>>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), ConfigError> {
        let mut merged = self.clone();
        for (variable, value) in variables {
            let variable = variable.as_ref();
            if !variable.starts_with(ENV_PREFIX) || FOREIGN_VARIABLES.contains(&variable) {
                continue;
            }
            let spec = OPTIONS.iter().find(|spec| spec.env == variable).ok_or_else(|| {
                let name = variable[ENV_PREFIX.len()..].to_ascii_lowercase().replace('_', "-");
                match flag_of_run(&name) {
                    Some(flag) => ConfigError::FlagOfRun { name: variable.to_owned(), flag },
                    None => ConfigError::UnknownVariable {
                        variable: variable.to_owned(),
                        nearest: OptionSpec::nearest(variable, |spec| spec.env),
                    },
                }
            })?;
            let value = value.as_ref();
            if value.trim().is_empty() && spec.absent != Some("") {
                continue;
            }
            spec.set(&mut merged, value).map_err(|error| error.at(variable))?;
        }
        *self = merged;
        Ok(())
    }

    /// [`merge_env`](Self::merge_env) with the variables of this process.
    ///
    /// # Errors
    /// As [`merge_env`](Self::merge_env), and if a value is not Unicode.
    pub fn merge_process_env(&mut self) -> Result<(), ConfigError> {
        self.merge_os_env(std::env::vars_os())
    }

    /// [`merge_env`](Self::merge_env) with variables as the system has them.
    pub(crate) fn merge_os_env(
        &mut self,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<(), ConfigError> {
        // Variables of others may hold anything: only those with our prefix must be Unicode.
        let ours = variables
            .filter_map(|(variable, value)| {
                let variable = variable.into_string().ok().filter(|name| name.starts_with(ENV_PREFIX))?;
                Some(match value.into_string() {
                    Ok(value) => Ok((variable, value)),
                    Err(_) => Err(ConfigError::NotUnicode { variable }),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.merge_env(ours)
    }

    /// Whether every field is in its range and the fields can be kept together.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], or [`ConfigError::Infeasible`] with the inequality that fails, the numbers put in
    /// and the nearest value that works.
    pub fn validate(&self) -> Result<(), ConfigError> {
        validate::validate(self)
    }

    /// Collector time that the target leaves in each window, in nanoseconds: `window * (100 - target) / 100`.
    pub fn allowance_ns(&self) -> u64 {
        let percent = 100_u32.saturating_sub(self.target_utilization);
        // At most the window, hence fits.
        (u128::from(self.window_ns) * u128::from(percent) / 100) as u64
    }

    /// The stop budget in force: as set, or one quantum.
    pub fn effective_stop_budget_ns(&self) -> u64 {
        self.stop_budget_ns.unwrap_or(self.quantum_ns)
    }

    /// The initial size of the heap in force, in bytes: as set, or `heap`.
    pub fn effective_initial_heap(&self) -> u64 {
        self.initial_heap.unwrap_or(self.heap)
    }

    /// Threads that mark: those configured, else one for each CPU that the process may use, at most 4. While a quantum lasts the
    /// mutators are stopped, so their CPUs have nothing to do; what further threads gain has not been shown.
    pub fn effective_gc_threads(&self) -> u32 {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.gc_threads.unwrap_or_else(|| (cpus() as u32).clamp(1, 4))
    }

    /// The announced external memory that starts a cycle: as set, or a quarter of the heap.
    pub fn effective_external_memory(&self) -> u64 {
        self.external_memory.unwrap_or(self.heap / 4)
    }

    /// The resume margin in force: as set, or a tenth of the quantum, at least 10 µs and at most 100 µs.
    pub fn effective_resume_margin_ns(&self) -> u64 {
        self.resume_margin_ns.unwrap_or((self.quantum_ns / 10).clamp(10_000, 100_000))
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::DEFAULT
    }
}

/// The flag of this name, if it is one of `metronome run` alone.
fn flag_of_run(name: &str) -> Option<&'static str> {
    FLAGS_OF_RUN.iter().copied().find(|flag| *flag == name)
}

/// Reads a regular file of at most [`FILE_MAX`] bytes.
fn read_file(path: &Path) -> io::Result<String> {
    let regular = |is: &std::fs::Metadata| {
        let refuse = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        if !is.is_file() {
            return refuse("it is not a regular file; give one".into());
        }
        if is.len() > FILE_MAX {
            return refuse(format!("it has {} bytes, more than {FILE_MAX}; give a smaller one", is.len()));
        }
        Ok(())
    };
    // Before opening it, which can wait for a pipe's writer or do something to a device; and again after, as it may
    // have been replaced.
    regular(&std::fs::metadata(path)?)?;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    regular(&file.metadata()?)?;
    let mut text = String::new();
    // One byte more, to notice a file that grows, or one whose length the system does not tell.
    file.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("it has more than {FILE_MAX} bytes"),
        ));
    }
    Ok(text)
}

/// The options table as Markdown, for the documentation.
pub fn options_markdown() -> String {
    let mut table = String::from(
        "| option | unit | values | default | environment | meaning |\n|---|---|---|---|---|---|\n",
    );
    for spec in OPTIONS {
        let default =
            if spec.default.is_empty() { String::from("(none)") } else { format!("`{}`", spec.default) };
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {default} | `{}` | {} |",
            spec.name,
            spec.unit,
            spec.range.replace('|', "\\|"),
            spec.env,
            spec.doc
        );
    }
    table
}
