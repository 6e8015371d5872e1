//! The table and the CSV.

use crate::run::Row;
use metronome_gc::{PhaseSteps, Stats};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The kinds of quanta, as [`PhaseSteps::phase`] has them.
pub(crate) const PHASES: [&str; 4] = ["precollect", "mark", "postcollect", "sweep"];

/// Machine and load, to stand above the figures.
pub(crate) fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or(": unknown");
    let model = model.trim_start_matches(['\t', ' ', ':']);
    let memory = crate::run::available_mib().map_or("unknown".into(), |mib| format!("{mib} MiB"));
    format!("{model}, {cpus} CPUs, {memory} available, load {load}")
}

pub(crate) fn phase(stats: &Stats, name: &str) -> Option<PhaseSteps> {
    stats.phase_steps.iter().find(|p| p.phase == name).copied()
}

pub(crate) struct Report {
    csv: Option<File>,
    rows: usize,
    /// Time per operation of the program's row, for the control's.
    last: Option<(&'static str, f64)>,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Report {
    pub(crate) fn new(csv: Option<&Path>) -> Result<Report, String> {
        let said = |e: std::io::Error| format!("the CSV file: {e}");
        let mut csv = csv.map(File::create).transpose().map_err(said)?;
        if let Some(f) = &mut csv {
            write!(f, "program,control,cycles,quanta,steps").map_err(said)?;
            for p in PHASES {
                write!(f, ",{p}_max_ns,{p}_p999_ns,{p}_unlimited_ns,{p}_step").map_err(said)?;
            }
            writeln!(
                f,
                ",step_wall_p999_ns,interrupted_steps,quantum_charged_max_ns,pause_max_ns,peak_bytes,live_bytes,\
                 allocated_in_cycle_bytes,bound_bytes,synchronous,departures,failed_allocations,out_of_memory,violations,\
                 violations_wall,stops_cancelled,operations,ns_per_operation"
            )
            .map_err(said)?;
        }
        Ok(Report { csv, rows: 0, last: None })
    }

    pub(crate) fn row(&mut self, row: &Row) -> Result<(), String> {
        let s = &row.stats;
        let per_operation = row.wall.as_nanos() as f64 / row.done.operations.max(1) as f64;
        let f = u64::from(row.fragmentation_percent);
        let bound = (row.done.live_bytes + 2 * row.watched.allocated_in_cycle) * (100 + f) / 100;
        if let Some(csv) = &mut self.csv {
            let mut line = format!("{},{},{},{},{}", row.name, row.control, s.cycles, s.quanta, s.steps);
            for p in PHASES {
                let p = phase(s, p).unwrap_or_default();
                line += &format!(
                    ",{},{},{},{}",
                    p.longest_ns.max, p.longest_ns.p999, p.unlimited_ns, p.longest_step
                );
            }
            for n in [
                s.step_ns.p999,
                s.interrupted_steps,
                s.quantum_charged_ns.max,
                s.pause_ns.max,
                row.watched.peak_bytes,
                row.done.live_bytes,
                row.watched.allocated_in_cycle,
                bound,
                s.synchronous_collections,
                s.departures,
                s.failed_allocations,
                s.out_of_memory,
                s.violations,
                s.violations_wall,
                s.stops_cancelled,
                row.done.operations,
            ] {
                line += &format!(",{n}");
            }
            writeln!(csv, "{line},{per_operation:.2}").map_err(|e| format!("the CSV file: {e}"))?;
        }
        if row.control {
            if let Some((name, with)) = self.last.take().filter(|&(name, _)| name == row.name) {
                let ratio = with / per_operation.max(f64::MIN_POSITIVE);
                println!(
                    "| {name}, control | 0 | | | | | | | | | | | {per_operation:.0} (x{ratio:.2} with the collector) |"
                );
            }
            return Ok(());
        }
        if self.rows == 0 {
            println!(
                "| program | cycles | precollect | mark | postcollect | sweep | p99.9 of steps, wall | interrupted | longest \
                 pause, charged / wall | peak / bound MiB | sync / departures / failed | violations, charged / wall | ns/op |"
            );
            println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
        }
        self.rows += 1;
        self.last = Some((row.name, per_operation));
        let step = |name| {
            phase(s, name).map_or(String::new(), |p| {
                format!(
                    "{:.0} ({}), p99.9 {:.0}",
                    us(p.longest_ns.max),
                    p.longest_step,
                    us(p.longest_ns.p999)
                )
            })
        };
        let above = if row.watched.peak_bytes > bound { " ABOVE" } else { "" };
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.1} | {} | {:.0} / {:.0} | {:.1} / {:.1}{above} | {} / {} / {} | {} / {} | \
             {per_operation:.0} |",
            row.name,
            s.cycles,
            step("precollect"),
            step("mark"),
            step("postcollect"),
            step("sweep"),
            us(s.step_ns.p999),
            s.interrupted_steps,
            us(s.quantum_charged_ns.max),
            us(s.pause_ns.max),
            mib(row.watched.peak_bytes),
            mib(bound),
            s.synchronous_collections,
            s.departures,
            s.failed_allocations,
            s.violations,
            s.violations_wall,
        );
        if let Some(why) = s.last_departure {
            println!("  {}: the plan was left {} times, last because: {why}", row.name, s.departures);
        }
        if row.watched.peak_bytes > bound {
            println!(
                "  {}: {:.1} MiB above (1+f)(m+2A) with m = {:.1} MiB, A = {:.1} MiB: the bound is what a heap must have, and this one has more",
                row.name,
                mib(row.watched.peak_bytes - bound),
                mib(row.done.live_bytes),
                mib(row.watched.allocated_in_cycle)
            );
        }
        Ok(())
    }

    pub(crate) fn legend(&self) {
        if self.rows > 0 {
            println!(
                "\nsteps: the longest by kind of quantum, CPU time in us, at most {} (what is above was an interruption), and its \
                 name; p99.9 over quanta of each one's longest. pauses in us; bound: (1+f)(m+2A), m counted by the program, A \
                 the most allocated in a cycle, looked at each ms",
                Stats::STEP_CEILING_NS / 1_000
            );
        }
    }
}
