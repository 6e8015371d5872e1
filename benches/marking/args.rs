//! The command line.

use crate::graphs::Shape;
use crate::number::number;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
usage: cargo bench --bench marking -- [--nodes N] [--rounds R] [--threads T] [--csv FILE] [GRAPH...]
  --nodes    objects of 32 bytes in each graph, 1000 to 100000000 (4000000)
  --rounds   runs of each kind, by turns, 1 to 1000 (7)
  --threads  most threads of the collector, 1 to 16 (2)
  --csv      also appends one line for each kind and graph to FILE
  GRAPH      tree, random, array (all)";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) nodes: u64,
    pub(crate) rounds: usize,
    pub(crate) threads: u32,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) shapes: Vec<Shape>,
}

impl Args {
    /// Reads the arguments; `None` if help was asked for. As part of `cargo test` (no `--bench`) a run is small.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
        let mut args = Args { nodes: 4_000_000, rounds: 7, threads: 2, csv: None, shapes: Vec::new() };
        let mut given = false;
        while let Some(word) = words.next() {
            match word.as_str() {
                // What Cargo adds.
                "--bench" => {}
                "--help" | "-h" => return Ok(None),
                "--nodes" => args.nodes = number("--nodes", words.next(), 1000, 100_000_000)?,
                "--rounds" => args.rounds = number("--rounds", words.next(), 1, 1000)?,
                "--threads" => args.threads = number("--threads", words.next(), 1, 16)?,
                "--csv" => args.csv = Some(words.next().ok_or("--csv needs a file name")?.into()),
                name => {
                    let shape = Shape::ALL.into_iter().find(|s| s.name() == name);
                    args.shapes.push(shape.ok_or_else(|| format!("unknown argument {name}"))?);
                }
            }
            given = true;
        }
        if args.shapes.is_empty() {
            args.shapes = Shape::ALL.into();
        }
        if !given {
            (args.nodes, args.rounds) = (20_000, 1);
        }
        Ok(Some(args))
    }
}
