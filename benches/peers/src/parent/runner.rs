//! Runs a contestant once and makes a record of it.

use super::percentiles::Responses;
use super::process::{self, Ended};
use super::record::Record;
use super::toolchain::Toolchain;
use crate::child::clock::TASK_PRIORITY;
use crate::child::{TOO_SMALL, params::Params};
use crate::contestant::Memory;
use crate::program::ProgramName;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A response later than this is a miss: the period of the task.
const DEADLINE_NS: u64 = 1_000_000;

/// How all runs are done.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    pub(crate) toolchain: Toolchain,
    /// This program.
    pub(crate) own: PathBuf,
    /// Where the samples of a run are written.
    pub(crate) samples: PathBuf,
    /// Time after which a run is given up.
    pub(crate) limit: Duration,
    /// Share of the responses, from the first on, that is left out: the time in which a VM compiles.
    pub(crate) warm_up: f64,
}

/// One run to be done.
#[derive(Clone, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) program: ProgramName,
    pub(crate) memory: Memory,
    pub(crate) heap: Option<u64>,
    /// Whether no cycle of ours is to run, whatever the environment says.
    pub(crate) no_cycle: bool,
    pub(crate) params: &'a Params,
}

impl Runner {
    /// Runs the job. A run that ends badly is a record of that.
    ///
    /// # Errors
    /// What keeps it from being started at all.
    pub(crate) fn run(&self, job: &Job<'_>) -> Result<Record, String> {
        let _ = std::fs::remove_file(&self.samples);
        let ended = process::run(self.command(job)?, self.limit, Some(("peers-task", TASK_PRIORITY)))?;
        let mut record = Record::default();
        record.set("program", job.program.name());
        if let Some(heap) = job.heap {
            record.set("heap_bytes", heap);
        }
        for (name, time) in [("wall_s", ended.wall), ("user_s", ended.user), ("system_s", ended.system)] {
            record.set(name, format!("{:.4}", time.as_secs_f64()));
        }
        record.set("peak_rss_bytes", ended.peak_rss_bytes);
        record.set("status", status(&ended));
        if !record.ok() {
            record.note(ended.stderr.lines().next().unwrap_or_default());
            return Ok(record);
        }
        if job.memory == Memory::Cyclictest {
            self.respond(&mut record, cyclictest_times(&ended.stdout));
            return Ok(record);
        }
        for line in ended.stdout.lines() {
            match line.split_once(' ') {
                Some(("work_ns", ns)) => {
                    let ns: f64 = ns.parse().unwrap_or(f64::NAN);
                    record.set("work_s", format!("{:.4}", ns / 1e9));
                }
                Some(("note", note)) => record.note(note),
                Some((name, value))
                    if name == "checksum" || name.starts_with("gc.") || name.starts_with("mmu.") =>
                {
                    record.set(name, value);
                }
                // A warning of a VM.
                _ => record.note(line),
            }
        }
        let cycles = record.number("gc.cycles").unwrap_or(0.0);
        if job.no_cycle && cycles > 0.0 {
            record.note(&format!("no control: {cycles} cycles ran"));
        }
        if job.program.is_timed() {
            self.respond(&mut record, read_times(&self.samples)?);
        }
        Ok(record)
    }

    /// Adds the figures of these responses.
    fn respond(&self, record: &mut Record, times: Vec<u64>) {
        let dropped = (times.len() as f64 * self.warm_up) as usize;
        match Responses::of(times[dropped..].to_vec(), DEADLINE_NS) {
            Some(responses) => record.set_responses(&responses),
            None => {
                record.set("status", "no responses");
            }
        }
    }

    fn command(&self, job: &Job<'_>) -> Result<Command, String> {
        let mut command = match job.memory {
            Memory::Java(_) | Memory::Go => {
                let mut command = self.toolchain.command(job.memory, job.heap)?;
                command.arg(job.program.name()).arg(&self.samples);
                command
            }
            Memory::Cyclictest => {
                let (ms, period) = (job.params.get("ms")?, job.params.get("period_us")?);
                let mut command = Command::new("cyclictest");
                command.args(["-v", "-m", "-p", &TASK_PRIORITY.to_string(), "-i", &period.to_string()]);
                command.args(["-l", &(ms * 1_000 / period).to_string()]);
                return Ok(command);
            }
            _ => {
                let mut command = Command::new(&self.own);
                command.args(["child", job.program.name(), job.memory.name()]);
                command.arg("--samples").arg(&self.samples);
                if let Some(heap) = job.heap {
                    command.args(["--heap", &heap.to_string()]);
                }
                if job.no_cycle {
                    command.env("METRONOME_TRIGGER", "99%").env("METRONOME_MEMORY_WATCH", "false");
                }
                command
            }
        };
        command.args(job.params.words());
        Ok(command)
    }
}

/// The outcome in a word or two; "ok" if it ended well.
fn status(ended: &Ended) -> String {
    match (ended.timed_out, ended.status.code(), ended.status.signal()) {
        (true, ..) => "too slow".into(),
        (_, Some(0), _) => "ok".into(),
        (_, Some(TOO_SMALL), _) => "out of memory".into(),
        (_, Some(code), _) => format!("exit {code}"),
        (_, None, signal) => format!("signal {}", signal.unwrap_or_default()),
    }
}

/// Response times as a child wrote them.
fn read_times(path: &Path) -> Result<Vec<u64>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("the child left no {}: {e}", path.display()))?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
}

/// The latencies in cyclictest's verbose output: lines of thread, count and microseconds.
fn cyclictest_times(output: &str) -> Vec<u64> {
    let time = |line: &str| {
        let mut fields = line.split(':').map(str::trim);
        let (_thread, _count) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
        Some(fields.next()?.parse::<u64>().ok()?.max(1) * 1000)
    };
    output.lines().filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cyclictest_lines_are_read_and_others_left_out() {
        let output = "# /dev/cpu_dma_latency set to 0us\n       0:       0:       8\n       0:       1:      15\nMax: x\n";
        assert_eq!(cyclictest_times(output), [8_000, 15_000]);
    }
}
