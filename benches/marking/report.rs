//! What is printed.

use crate::Kind;
use crate::graphs::Graph;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Prints, and writes lines of CSV if wanted.
#[derive(Debug)]
pub(crate) struct Report {
    csv: Option<File>,
}

fn kind(k: Kind) -> String {
    match k {
        Kind::Limit => "limit".into(),
        Kind::TwoLimits => "two limits".into(),
        Kind::Collector(n) => format!("collector, {n} thread{}", if n == 1 { "" } else { "s" }),
    }
}

fn middle(times: &[u64]) -> (u64, u64, u64) {
    let mut t = times.to_vec();
    t.sort_unstable();
    (t[0], t[t.len() / 2], t[t.len() - 1])
}

impl Report {
    pub(crate) fn new(csv: Option<&Path>) -> Result<Report, String> {
        let open = |path: &Path| {
            let text = |e: std::io::Error| format!("{}: {e}", path.display());
            let mut f = OpenOptions::new().create(true).append(true).open(path).map_err(text)?;
            if f.metadata().map_err(text)?.len() == 0 {
                writeln!(f, "graph,objects,references,kind,rounds,min_ns,median_ns,max_ns").map_err(text)?;
            }
            Ok::<_, String>(f)
        };
        let csv = csv.map(open).transpose()?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        println!(
            "nanoseconds for each object: median (min to max) of the rounds; ratios round by round; {cpus} CPUs"
        );
        Ok(Report { csv })
    }

    /// One graph's table.
    pub(crate) fn graph(&mut self, g: &Graph, kinds: &[Kind], times: &[Vec<u64>]) -> Result<(), String> {
        println!("\n{}: {} objects, {} references", g.shape.name(), g.objects, g.references);
        let per = |ns: u64| ns as f64 / g.objects as f64;
        let single = kinds.iter().position(|k| *k == Kind::Collector(1)).unwrap_or(0);
        for (k, t) in kinds.iter().zip(times) {
            let (min, median, max) = middle(t);
            // How many times as fast as another kind, in the middle of the rounds.
            let against = |other: &[u64]| {
                let ratios: Vec<u64> = other.iter().zip(t).map(|(o, t)| o * 1000 / (*t).max(1)).collect();
                middle(&ratios).1 as f64 / 1000.0
            };
            println!(
                "  {:<22} {:>7.2} ({:.2} to {:.2})   {:.2} of the limit, {:.2} of one collector thread",
                kind(*k),
                per(median),
                per(min),
                per(max),
                against(&times[0]),
                against(&times[single]),
            );
            if let Some(f) = &mut self.csv {
                let (name, rounds) = (g.shape.name(), t.len());
                let row = writeln!(
                    f,
                    "{name},{},{},{},{rounds},{min},{median},{max}",
                    g.objects,
                    g.references,
                    kind(*k).replace(", ", " "),
                );
                row.map_err(|e| format!("the CSV file: {e}"))?;
            }
        }
        Ok(())
    }
}
