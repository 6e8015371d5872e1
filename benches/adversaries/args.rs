//! The command line.

use crate::program::PROGRAMS;
use std::path::PathBuf;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub(crate) sample: bool,
    pub(crate) all: bool,
    pub(crate) flat: bool,
    pub(crate) names: Vec<String>,
    pub(crate) csv: Option<PathBuf>,
    /// Repeats of each configuration of `flat`.
    pub(crate) repeats: usize,
}

pub(crate) fn help() -> String {
    let mut text = String::from(
        "\
usage: cargo bench --bench adversaries -- [--sample] [--csv FILE] [--repeats N] [all|flat|NAME...]
  --sample   small sizes
  --csv      appends the rows to a new file, too
  --repeats  repeats of each configuration of flat, 1 to 100 (5)
  all        all programs (what happens without a name)
  flat       how the longest steps change when the live set and the number of cycles grow",
    );
    for p in PROGRAMS {
        text += &format!("\n  {:<14} {}", p.name, p.what);
    }
    text
}

impl Args {
    /// Reads the arguments; `None` if help was asked for.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
        let mut args = Args { repeats: 5, ..Args::default() };
        let mut benchmark = false;
        while let Some(word) = words.next() {
            match word.as_str() {
                // What Cargo adds.
                "--bench" => benchmark = true,
                "--help" | "-h" => return Ok(None),
                "--sample" => args.sample = true,
                "--csv" => args.csv = Some(words.next().ok_or("--csv needs a file")?.into()),
                "--repeats" => {
                    let n = words.next().and_then(|n| n.parse().ok()).filter(|n| (1..=100).contains(n));
                    args.repeats = n.ok_or("--repeats needs a number from 1 to 100")?;
                }
                "all" => args.all = true,
                "flat" => args.flat = true,
                name if PROGRAMS.iter().any(|p| p.name == name) => args.names.push(word),
                other => return Err(format!("unknown argument or program {other}")),
            }
        }
        // As `cargo test --benches` runs it: only whether it works.
        args.sample |= !benchmark;
        args.all |= !args.flat && args.names.is_empty();
        Ok(Some(args))
    }
}
