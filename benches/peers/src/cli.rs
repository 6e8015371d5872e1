//! The command line.

use crate::child;
use crate::child::params::Params;
use crate::contestant::Memory;
use crate::parent::minimum::Minima;
use crate::parent::record::Records;
use crate::parent::rounds::{self, Plan};
use crate::parent::runner::Runner;
use crate::parent::toolchain::Toolchain;
use crate::parent::{machine, plot, table};
use crate::program::ProgramName;
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Metronome beside its peers: the same programs on other collectors and allocators, measured in one run.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures (also without this word): each contestant of each program in turn, in rounds.
    Run(RunArgs),
    /// Only searches for the smallest heaps, and prints them.
    Minimum(RunArgs),
    /// Draws the pictures of a file of results.
    Plot {
        file: PathBuf,
        /// Folder of the pictures; without it, the file's.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Prints the tables of a file of results.
    Table { file: PathBuf },
    /// Runs one program on one contestant, in this process.
    #[command(hide = true)]
    Child {
        program: String,
        contestant: String,
        #[arg(long)]
        heap: Option<u64>,
        #[arg(long)]
        samples: Option<PathBuf>,
        sizes: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Small sizes and one round, to see that everything works; the figures mean nothing.
    #[arg(long)]
    sample: bool,
    /// Rounds; without it 5, or 1 with --sample.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Programs, with commas; without it, all.
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// Contestants whose names begin with one of these, with commas; without it, all.
    #[arg(long, value_delimiter = ',')]
    contestants: Vec<String>,
    /// Heap sizes of ours, as multiples of the measured minimum; without it 1.25,1.5,2,3,4, or 1.5,3 with --sample.
    #[arg(long, value_delimiter = ',')]
    ours: Vec<f64>,
    /// The same for Java; without it 2,4, or 4 with --sample.
    #[arg(long, value_delimiter = ',')]
    java: Vec<f64>,
    /// Takes the smallest heaps from a file of results instead of searching for them.
    #[arg(long)]
    minimum_from: Option<PathBuf>,
    /// Seconds after which a run is given up.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// File of the results; without it results/DATE.csv beside the sources, or beside the program with --sample.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Does what the command line asks for.
///
/// # Errors
/// What went wrong, for the user.
pub(crate) fn perform(cli: Cli) -> Result<(), String> {
    match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Run(args) => measure(&args),
        Command::Minimum(args) => minimum(&args),
        Command::Plot { file, out } => {
            let folder = out.or_else(|| Some(file.parent()?.to_owned())).unwrap_or_default();
            for path in plot::all(&Records::read(&file)?, &folder)? {
                println!("{}", path.display());
            }
            Ok(())
        }
        Command::Table { file } => {
            print!("{}", table::markdown(&Records::read(&file)?));
            Ok(())
        }
        Command::Child { program, contestant, heap, samples, sizes } => {
            let (program, memory) = (ProgramName::parse(&program)?, Memory::parse(&contestant)?);
            child::run(program, memory, heap, &Params::parse(&sizes)?, samples.as_deref())
        }
    }
}

fn programs(args: &RunArgs) -> Result<Vec<ProgramName>, String> {
    if args.programs.is_empty() {
        return Ok(ProgramName::ALL.into());
    }
    args.programs.iter().map(|p| ProgramName::parse(p)).collect()
}

/// How closely minima are searched for, as a share: in a sample not at all, the first that is enough is taken.
fn precision(sample: bool) -> f64 {
    if sample { 1.0 } else { 0.04 }
}

fn multiples(given: &[f64], full: &[f64], sample: &[f64], args: &RunArgs) -> Result<Vec<f64>, String> {
    if let Some(bad) = given.iter().find(|&&t| !(1.0..=100.0).contains(&t)) {
        return Err(format!("a heap of {bad} times the minimum: multiples lie between 1 and 100"));
    }
    let default = if args.sample { sample } else { full };
    Ok(if given.is_empty() { default } else { given }.to_vec())
}

/// A folder beside this program, for what is compiled and for the samples.
fn build_folder(own: &Path) -> Result<PathBuf, String> {
    let folder = own.parent().unwrap_or(Path::new(".")).join("peers-build");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

fn runner(args: &RunArgs) -> Result<(Runner, PathBuf), String> {
    let own = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let build = build_folder(&own)?;
    let runner = Runner {
        toolchain: Toolchain::find(&build),
        samples: build.join(format!("samples-{}", std::process::id())),
        own,
        limit: Duration::from_secs(args.limit),
        warm_up: if args.sample { 0.0 } else { 0.15 },
    };
    Ok((runner, build))
}

fn known_minima(args: &RunArgs) -> Result<Minima, String> {
    match &args.minimum_from {
        Some(file) => Minima::of_head(&Records::read(file)?.head),
        None => Ok(Minima::default()),
    }
}

/// The first name for today's results that is not taken.
fn dated(folder: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let (date, _) = machine::date_and_time();
    let name = |n: u32| folder.join(if n == 1 { format!("{date}.csv") } else { format!("{date}-{n}.csv") });
    (1..).map(name).find(|path| !path.exists()).ok_or_else(|| "no free name".into())
}

fn measure(args: &RunArgs) -> Result<(), String> {
    let (runner, build) = runner(args)?;
    let out = match (&args.out, args.sample) {
        (Some(path), _) => path.clone(),
        (None, true) => build.join("sample.csv"),
        (None, false) => dated(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results"))?,
    };
    let plan = Plan {
        programs: programs(args)?,
        only: args.contestants.clone(),
        rounds: args.rounds.unwrap_or(if args.sample { 1 } else { 5 }) as usize,
        ours: multiples(&args.ours, &[1.25, 1.5, 2.0, 3.0, 4.0], &[1.5, 3.0], args)?,
        java: multiples(&args.java, &[2.0, 4.0], &[4.0], args)?,
        sample: args.sample,
        precision: precision(args.sample),
        out,
    };
    let result = rounds::measure(&plan, &runner, &mut known_minima(args)?);
    let _ = std::fs::remove_file(&runner.samples);
    println!("\n{}", table::markdown(&result?));
    println!("{}", plan.out.display());
    Ok(())
}

fn minimum(args: &RunArgs) -> Result<(), String> {
    let (runner, _) = runner(args)?;
    let mut minima = known_minima(args)?;
    for program in programs(args)? {
        for memory in Memory::all().into_iter().filter(|m| m.has_limit() && m.runs(program)) {
            let name = memory.name();
            let wanted =
                args.contestants.is_empty() || args.contestants.iter().any(|c| name.starts_with(c.as_str()));
            if !wanted || runner.toolchain.absent(memory).is_some() {
                continue;
            }
            match minima.find(&runner, program, memory, &program.params(args.sample), precision(args.sample))
            {
                Ok(bytes) => println!("{} {name}: {:.1} MiB", program.name(), bytes as f64 / 1_048_576.0),
                Err(why) => println!("{} {name}: {why}", program.name()),
            }
        }
    }
    let _ = std::fs::remove_file(&runner.samples);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound_and_a_subcommand_is_optional() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["peers", "--sample", "--programs", "lru,map"]).unwrap();
        assert!(cli.command.is_none() && cli.run.sample);
        assert_eq!(programs(&cli.run), Ok(vec![ProgramName::Lru, ProgramName::Map]));
        assert!(Cli::try_parse_from(["peers", "--rounds", "0"]).is_err());
        let cli = Cli::try_parse_from(["peers", "run", "--ours", "0.5"]).unwrap();
        let Some(Command::Run(args)) = cli.command else { panic!("{cli:?}") };
        assert!(multiples(&args.ours, &[2.0], &[2.0], &args).unwrap_err().contains("0.5"));
    }
}
