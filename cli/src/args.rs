//! The command line. The options of the heap come from the library's table, so that flags, TOML files, environment
//! and documentation cannot drift apart.

use crate::advise::AdviseArgs;
use crate::calibrate::CalibrateArgs;
use crate::check::CheckArgs;
use crate::output::{USAGE, one_line, print, say};
use crate::quantity::{parse_factor, parse_seconds, parse_size};
use crate::report::ReportArgs;
use crate::view::{ExportArgs, LiveArgs, TopArgs, ViewArgs};
use clap::builder::{OsStringValueParser, PossibleValuesParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, FromArgMatches, Parser, Subcommand, ValueEnum};
use metronome_gc::config::{Config, ConfigError, OPTIONS, OptionKind, OptionSpec};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Commands whose errors name them.
const COMMANDS: [&str; 8] = ["run", "calibrate", "check", "report", "advise", "live", "top", "export"];

/// Runs workloads on the Metronome collector and measures what the program feels of it
#[derive(Parser, Debug)]
#[command(name = "metronome", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a workload beside a 1 kHz real-time task; show pauses, utilization and whether the results were right
    Run(Box<RunArgs>),
    /// Measure a program once: which heap gives which utilization during a cycle, and the other way round
    Calibrate(Box<CalibrateArgs>),
    /// Examine this host: can the contract be kept here?
    Check(CheckArgs),
    /// Read verbose GC logs, of this collector and of IBM's and OpenJ9's Metronome: figures, findings, JSON, CSV, a page
    Report(ReportArgs),
    /// Say what to change, by what verbose GC logs show: each finding with its evidence
    Advise(AdviseArgs),
    /// Replay a recording, a trace or a log on a page in the browser
    Live(LiveArgs),
    /// Show a heap that is served, in the terminal
    Top(TopArgs),
    /// Write logs, recordings and traces as traces for other viewers
    Export(ExportArgs),
    /// Print the table of the heap's options (Markdown)
    Options,
}

/// What the workload threads do.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadKind {
    /// Index the text files below --input again and again in the heap, while queries run
    Index,
    /// Short-lived binary trees beside a long-lived one
    Trees,
    /// The Ellis-Kovac-Boehm benchmark: trees built top-down and bottom-up, a long-lived tree and array
    Gcbench,
    /// A live set of --live bytes, replaced at --alloc-rate bytes per second
    Churn,
    /// A fixed live set of --live bytes and a fixed allocation rate of --alloc-rate, in a heap of --heap, or --heap-factor
    /// times what the contract asks for
    Contract,
}

/// Arguments of `metronome run`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Later ones win: defaults, --config file (TOML), environment METRONOME_*, flags.\n\
    Sizes: 64k, 256M, 1.5G or bytes. Times: 100ns, 500us, 1.5ms, 1s.\n\
    Environment: METRONOME_<OPTION>, such as METRONOME_HEAP.\n\
    Status: 0 all results verified; 1 wrong results or not enough memory; 2 bad flags or input, or output lost;\n\
    130, 143 ended early by SIGINT, SIGTERM.")]
pub(crate) struct RunArgs {
    /// What the workload threads do
    #[arg(long, value_enum, default_value = "index", help_heading = "Workload")]
    pub(crate) workload: WorkloadKind,

    /// Directory whose text files are indexed (index) [default: the current directory]
    #[arg(long, value_name = "DIR", help_heading = "Workload")]
    pub(crate) input: Option<PathBuf>,

    /// How long to run: seconds, or with a unit (500ms, 20s, 2m)
    #[arg(long, value_name = "TIME", default_value = "20", value_parser = parse_seconds, help_heading = "Workload")]
    pub(crate) seconds: Duration,

    /// Workload threads [1..=256]
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256),
          help_heading = "Workload")]
    pub(crate) mutators: u32,

    /// Bytes kept alive by all threads together (trees, churn, contract) [default: trees 1/64, churn 1/4 of the heap,
    /// contract 32M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Workload")]
    pub(crate) live: Option<u64>,

    /// Bytes per second allocated by all threads together: churn by the clock [default: 64M], contract by the time that the
    /// collector leaves [default: 50M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Workload")]
    pub(crate) alloc_rate: Option<u64>,

    /// Measure the program for some seconds, then run it in X times the heap that is enough for it, (1+f)(m+2A)
    /// (contract) [0.05..=100]
    #[arg(long, value_name = "X", value_parser = parse_factor, conflicts_with = "heap", help_heading = "Workload")]
    pub(crate) heap_factor: Option<f64>,

    /// Testing: one more thread that does not poll for MS milliseconds once per second [1..=10000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000), help_heading = "Workload")]
    pub(crate) straggler: Option<u64>,

    /// Read heap options from this TOML file
    #[arg(long, value_name = "FILE", help_heading = "Input and output")]
    pub(crate) config: Option<PathBuf>,

    /// Also write the results as JSON to this file ("-": to standard output; the text then goes to standard error)
    #[arg(long, value_name = "FILE", help_heading = "Input and output")]
    pub(crate) json: Option<PathBuf>,

    /// Name each file that is skipped, cut or not valid UTF-8, and say more in the summary
    #[arg(short, long, help_heading = "Input and output")]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) view: ViewArgs,

    #[command(flatten)]
    pub(crate) heap: HeapFlags,
}

/// The heap's options that were given on the command line, in the order of the table.
#[derive(Debug, Default)]
pub(crate) struct HeapFlags(Vec<(&'static OptionSpec, OsString)>);

impl HeapFlags {
    /// Sets what was given.
    ///
    /// # Errors
    /// As [`Config::set`].
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), ConfigError> {
        for (spec, value) in &self.0 {
            match value.to_str() {
                Some(text) => config.set(spec.name, text)?,
                // A file name need not be Unicode; anything else with such text is refused by its own parser.
                None if spec.name == "verbose-gc" => config.verbose_gc = Some(PathBuf::from(value)),
                None => config.set(spec.name, &value.to_string_lossy())?,
            }
        }
        Ok(())
    }
}

impl FromArgMatches for HeapFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = HeapFlags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for spec in OPTIONS {
            let given: Option<OsString> = match spec.kind {
                OptionKind::Choice(_) => matches.get_one::<String>(spec.name).map(OsString::from),
                _ => matches.get_one::<OsString>(spec.name).cloned(),
            };
            self.0.extend(given.map(|value| (spec, value)));
        }
        Ok(())
    }
}

impl clap::Args for HeapFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        OPTIONS.iter().fold(command, |command, spec| command.arg(flag(spec)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

fn flag(spec: &'static OptionSpec) -> Arg {
    let default = if spec.default.is_empty() { "none" } else { spec.default };
    let help = format!("{} [{}] [default: {default}]", spec.doc.trim_end_matches('.'), spec.range);
    let arg = Arg::new(spec.name).long(spec.name).help(help).help_heading(heading(spec.name));
    match spec.kind {
        OptionKind::Choice(words) => {
            arg.value_name("WORD").value_parser(PossibleValuesParser::new(words)).hide_possible_values(true)
        }
        OptionKind::Bool => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .default_missing_value("true")
            .value_parser(OsStringValueParser::new()),
        kind => {
            let name = match kind {
                OptionKind::Bytes { .. } => "SIZE",
                OptionKind::Time { .. } => "TIME",
                OptionKind::Percent { .. } | OptionKind::Trigger { .. } => "PERCENT",
                OptionKind::Path => "FILE",
                OptionKind::Checks => "CHECKS",
                _ => "N",
            };
            arg.value_name(name).allow_hyphen_values(true).value_parser(OsStringValueParser::new())
        }
    }
}

/// Where an option stands in the help; options that are new in the table come under the last heading.
fn heading(name: &str) -> &'static str {
    match name {
        "heap" | "target-utilization" | "window" | "quantum" | "beat" | "spread" | "exhaustion"
        | "trigger" => "Contract",
        "verbose-gc" | "verbose-format" | "verbose-interval" => "Verbose GC log",
        "gc-priority" | "alarm-priority" | "gc-threads" | "gc-cpu" | "alarm-cpu" | "prefault"
        | "lock-memory" | "huge-pages" => "Priorities, processors and memory",
        _ => "Collector details",
    }
}

/// Prints help and version as they are, and errors as one line with what to do.
pub(crate) fn explain(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return print(&error.render().to_string()),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            say(format_args!(
                "metronome: say what to do: {} or options (see metronome --help)",
                COMMANDS.join(", ")
            ));
            return ExitCode::from(USAGE);
        }
        _ => {}
    }
    let text = error.render().to_string();
    // The first paragraph says what is wrong; usage and hints follow.
    let first = text.split("\n\n").next().unwrap_or(&text);
    let first = one_line(first.strip_prefix("error: ").unwrap_or(first));
    let near = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
        .into_iter()
        .find_map(|kind| match error.get(kind) {
            Some(ContextValue::String(s)) => Some(s.clone()),
            Some(ContextValue::Strings(s)) => s.first().cloned(),
            _ => None,
        });
    let tip = near.map(|s| format!("; did you mean {s}?")).unwrap_or_default();
    let command = std::env::args().nth(1).filter(|word| COMMANDS.contains(&word.as_str()));
    let command = command.map(|word| format!(" {word}")).unwrap_or_default();
    say(format_args!("metronome{command}: {first}{tip} (see metronome{command} --help)"));
    ExitCode::from(USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run_args(line: &[&str]) -> Result<RunArgs, clap::Error> {
        match Cli::try_parse_from(["metronome", "run"].iter().chain(line))?.command {
            Command::Run(args) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_option_of_the_table_is_a_flag_with_its_range_and_default() {
        Cli::command().debug_assert();
        let help = Cli::command()
            .find_subcommand_mut("run")
            .map(|c| c.clone().term_width(400).render_help().to_string())
            .unwrap();
        for spec in OPTIONS {
            assert!(help.contains(&format!("--{} ", spec.name)), "{}: {help}", spec.name);
            assert!(help.contains(spec.range), "{}", spec.name);
        }
    }

    #[test]
    fn flags_of_the_run_are_told_from_misspelt_options() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let own = run.get_arguments().map(|a| a.get_id().as_str().replace('_', "-"));
        let own: Vec<String> = own.filter(|name| OPTIONS.iter().all(|spec| spec.name != name)).collect();
        assert!(own.len() >= 10 && own.iter().any(|name| name == "alloc-rate"), "{own:?}");
        for name in own {
            let error = Config::default().set(&name, "1").unwrap_err().to_string();
            assert!(
                error.contains("flag of `metronome run`") && error.contains(&format!("--{name}")),
                "{error}"
            );
            let variable = format!("METRONOME_{}", name.to_uppercase().replace('-', "_"));
            let error = Config::default().merge_env([(&variable, "1")]).unwrap_err().to_string();
            assert!(error.contains("flag of `metronome run`") && error.contains(&variable), "{error}");
        }
    }

    #[test]
    fn every_default_of_the_table_is_read_back_by_its_flag() {
        for spec in OPTIONS.iter().filter(|spec| !spec.default.is_empty()) {
            let args = run_args(&[&format!("--{}", spec.name), spec.default]).unwrap();
            let mut config = Config::default();
            args.heap.apply(&mut config).unwrap();
            assert_eq!(config, Config::default(), "{}", spec.name);
        }
    }

    #[test]
    fn flags_change_what_they_name_and_bare_switches_mean_true() {
        let args =
            run_args(&["--heap", "64M", "--prefault", "--quantum", "250us", "--spread", "even"]).unwrap();
        let mut config = Config::default();
        args.heap.apply(&mut config).unwrap();
        assert_eq!((config.heap, config.prefault, config.quantum_ns), (64 << 20, true, 250_000));
        assert_eq!(config.get("spread"), "even");
        let defaults = run_args(&[]).unwrap();
        assert_eq!((defaults.seconds, defaults.mutators), (Duration::from_secs(20), 2));
        assert_eq!(defaults.workload, WorkloadKind::Index);
        assert!(defaults.heap.0.is_empty());
    }
}
