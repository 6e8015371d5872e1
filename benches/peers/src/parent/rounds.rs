//! Rounds: each contestant of each program once a round, in an order that is rotated from round to round, so that
//! what the machine does over an hour falls on all alike.

use super::machine;
use super::minimum::Minima;
use super::record::{Record, Records};
use super::runner::{Job, Runner};
use crate::child::params::Params;
use crate::contestant::{Contestant, HeapSize, contestants};
use crate::program::ProgramName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What to measure.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) programs: Vec<ProgramName>,
    /// Names that a contestant's must begin with one of; none for all.
    pub(crate) only: Vec<String>,
    pub(crate) rounds: usize,
    /// Multiples of the minimum heap, for ours and for Java.
    pub(crate) ours: Vec<f64>,
    pub(crate) java: Vec<f64>,
    pub(crate) sample: bool,
    /// How closely minima are searched for.
    pub(crate) precision: f64,
    pub(crate) out: PathBuf,
}

/// A contestant of a program with its heap in bytes.
struct Entry {
    program: ProgramName,
    params: Params,
    contestant: Contestant,
    heap: Option<u64>,
}

/// A heap in which no cycle runs: as much as this machine has to give.
fn no_cycle_heap() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    let total: u64 = kib.map_or(8 << 30, |kib: u64| kib * 1024);
    (total / 10 * 7).min(16 << 30) & !((1 << 20) - 1)
}

/// Who takes part in what; minima are searched for, and who is absent is said.
fn entries(plan: &Plan, runner: &Runner, minima: &mut Minima, records: &mut Records) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut said = BTreeSet::new();
    for &program in &plan.programs {
        let params = program.params(plan.sample);
        records.head.push((format!("sizes {}", program.name()), params.to_string()));
        for contestant in contestants(program, &plan.ours, &plan.java) {
            let name = contestant.to_string();
            if !plan.only.is_empty() && !plan.only.iter().any(|p| name.starts_with(p.as_str())) {
                continue;
            }
            if let Some(why) = runner.toolchain.absent(contestant.memory) {
                let who = contestant.memory.name();
                if said.insert(who) {
                    println!("skipped: {who}: {why}");
                    records.head.push((format!("skipped {who}"), why));
                }
                continue;
            }
            let heap = match contestant.size {
                HeapSize::Own => None,
                HeapSize::NoCycle => Some(no_cycle_heap()),
                HeapSize::Times(times) => {
                    match minima.find(runner, program, contestant.memory, &params, plan.precision) {
                        // Whole regions of 64 KiB.
                        Ok(minimum) => Some(((minimum as f64 * times) as u64).next_multiple_of(64 << 10)),
                        Err(why) => {
                            println!("skipped: {name} in {}: {why}", program.name());
                            records.head.push((format!("skipped {name} {}", program.name()), why));
                            continue;
                        }
                    }
                }
            };
            entries.push(Entry { program, params: params.clone(), contestant, heap });
        }
    }
    entries
}

/// Measures all of it; the file is written anew after each round.
///
/// # Errors
/// What keeps a child from being started, or the file from being written; and, after all rounds, different results of
/// contestants that should have done the same work.
pub(crate) fn measure(plan: &Plan, runner: &Runner, minima: &mut Minima) -> Result<Records, String> {
    let mut records = Records { head: machine::head(), all: Vec::new() };
    records.head.extend(runner.toolchain.versions.clone());
    let entries = entries(plan, runner, minima, &mut records);
    records.head.extend(minima.head());
    let mut failed = BTreeSet::new();
    for round in 0..plan.rounds {
        for program in &plan.programs {
            let of: Vec<&Entry> = entries.iter().filter(|e| e.program == *program).collect();
            for k in 0..of.len() {
                let entry = of[(round + k) % of.len()];
                let name = entry.contestant.to_string();
                if failed.contains(&(entry.program, name.clone())) {
                    continue;
                }
                let job = Job {
                    program: *program,
                    memory: entry.contestant.memory,
                    heap: entry.heap,
                    no_cycle: entry.contestant.size == HeapSize::NoCycle,
                    params: &entry.params,
                };
                let mut record = runner.run(&job)?;
                record.set("round", round + 1);
                record.set("contestant", &name);
                println!("{}", line(&record));
                if !record.ok() {
                    // Not again: it would end the same way, and may take its whole time for that.
                    failed.insert((entry.program, name));
                }
                records.all.push(record);
            }
        }
        records.write(&plan.out)?;
    }
    agree(&records)?;
    Ok(records)
}

/// A run in one line, for whoever waits.
fn line(r: &Record) -> String {
    let mut out = format!("{} {:<14} {:<22}", r.text("round"), r.text("program"), r.text("contestant"));
    if r.ok() {
        let mib = r.number("peak_rss_bytes").unwrap_or(0.0) / 1_048_576.0;
        out += &format!(" {:>8} s {:>8.1} MiB", r.text("wall_s"), mib);
        if !r.text("p50_us").is_empty() {
            out += &format!(
                "  p50 {} p99.9 {} max {} us",
                r.text("p50_us"),
                r.text("p999_us"),
                r.text("max_us")
            );
        }
    } else {
        out += &format!(" {}: {}", r.text("status"), r.text("note"));
    }
    out
}

/// Whether all contestants of a program found the same.
fn agree(records: &Records) -> Result<(), String> {
    let mut found: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for r in records.all.iter().filter(|r| r.ok() && !r.text("checksum").is_empty()) {
        let sums = found.entry(r.text("program")).or_default();
        sums.entry(r.text("checksum")).or_default().insert(r.text("contestant"));
    }
    let differing: Vec<String> =
        found.iter().filter(|(_, sums)| sums.len() > 1).map(|(p, sums)| format!("{p}: {sums:?}")).collect();
    if differing.is_empty() { Ok(()) } else { Err(format!("results differ: {}", differing.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(program: &str, contestant: &str, checksum: &str) -> Record {
        let mut r = Record::default();
        for (name, value) in
            [("program", program), ("contestant", contestant), ("checksum", checksum), ("status", "ok")]
        {
            r.set(name, value);
        }
        r
    }

    #[test]
    fn contestants_that_did_other_work_are_told() {
        let all = vec![record("lru", "box", "1"), record("lru", "go", "1"), record("map", "go", "2")];
        let mut records = Records { head: Vec::new(), all };
        assert_eq!(agree(&records), Ok(()));
        records.all.push(record("map", "epoch", "3"));
        let error = agree(&records).unwrap_err();
        assert!(error.contains("map") && error.contains("epoch") && !error.contains("lru"), "{error}");
        records.all[3].set("status", "too slow");
        assert_eq!(agree(&records), Ok(()));
    }
}
