//! `metronome advise`: what to change, by what verbose GC logs show.

use crate::logs::{self, ReadLog, ReadLogs};
use crate::output::{USAGE, one_line, say, write_out};
use crate::quantity::{bytes, time};
use crate::report::{json, may_write, not_over_logs, tell};
use crate::run::files::Results;
use metronome_analysis::advice::{Advice, Finding, advise};
use metronome_analysis::contract::ContractReport;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Characters of a line of evidence or advice: with what is before it, a terminal of 80 columns.
const WIDTH: usize = 71;
/// Causes named before the findings.
const CAUSES: usize = 3;
/// Utilizations of the contract's table, in ppm.
const TABLE: [u32; 7] = [300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000];

/// Arguments of `metronome advise`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Rules R1 to R25 are those of the Metronome collectors in general, O1 to O10 of our own logs. A healthy \
    log has no findings.\n\
    A file that is there is replaced at the end, and left as it was if nothing could be read.\n\
    Status: 0 examined, whatever was found; 2 bad flags, a log that cannot be read or breaks off, or output lost; 3 a log of \
    another collector. Of several logs, each one that can be read is examined, and 2 comes before 3."
)]
pub(crate) struct AdviseArgs {
    /// Verbose GC logs
    #[arg(required = true, value_name = "LOG")]
    pub(crate) logs: Vec<PathBuf>,

    /// Also write the findings as JSON to this file ("-": to standard output; the text then goes to standard error)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Join the older parts that logrotate keeps: LOG.2.gz, LOG.1, LOG
    #[arg(long)]
    pub(crate) rotated: bool,

    /// Also show what looks odd and is not, and which rules lacked data
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Runs the command.
pub(crate) fn run(args: &AdviseArgs) -> ExitCode {
    match perform(args) {
        Ok(status) => ExitCode::from(status),
        Err(refusal) => {
            say(format_args!("metronome advise: {}", one_line(&refusal)));
            ExitCode::from(USAGE)
        }
    }
}

fn perform(args: &AdviseArgs) -> Result<u8, String> {
    let file = args.json.as_deref().filter(|path| *path != Path::new("-"));
    let outputs: Vec<(&str, &Path)> = file.iter().map(|path| ("--json", *path)).collect();
    not_over_logs(&args.logs, &outputs)?;
    let refuse = |path: &Path, e: &std::io::Error| {
        format!("--json {}: {e}; choose a file that can be written", path.display())
    };
    let results = match file {
        Some(path) => Some((path, Results::prepare(path).map_err(|e| refuse(path, &e))?)),
        None => None,
    };
    let mut read = ReadLogs::default();
    for path in &args.logs {
        match logs::open(path, args.rotated).and_then(|input| logs::read(path, input, |_, _| Ok(()))) {
            Ok(log) => read.take("advise", path, log),
            Err(e) => read.cannot("advise", path, &e),
        }
    }
    let advice: Vec<Advice> = read.logs.iter().map(|log| advise(&log.analysis)).collect();
    let value = || format!("{:#}\n", value(&read.logs, &advice));
    // An output that fails does not cost the findings.
    let mut failed = Vec::new();
    if let Some((path, results)) = results.filter(|(path, _)| may_write("--json", path, &read)) {
        failed.extend(results.write(&value()).err().map(|e| refuse(path, &e)));
    }
    let text: String =
        read.logs.iter().zip(&advice).map(|(log, a)| self::text(log, a, args.verbose)).collect();
    let written = if args.json.is_some() && file.is_none() {
        say(text.trim_end());
        write_out(&value())
    } else {
        write_out(&text)
    };
    failed.extend(written.err().map(|e| format!("cannot write to standard output: {e}")));
    Ok(if tell("advise", &failed) { USAGE } else { read.status() })
}

/// Schema `metronome-advice/1`.
fn value(logs: &[ReadLog], advice: &[Advice]) -> Value {
    let pairs = || logs.iter().zip(advice);
    let with_file = |log: &ReadLog, f: &Finding| {
        let mut v = json::finding(f);
        v["file"] = json!(log.file);
        v
    };
    let list = |pick: fn(&Advice) -> &Vec<Finding>| -> Vec<Value> {
        pairs().flat_map(|(log, a)| pick(a).iter().map(|f| with_file(log, f)).collect::<Vec<_>>()).collect()
    };
    let lacking: Vec<Value> = pairs()
        .flat_map(|(log, a)| {
            let rows = a.not_enough_data.iter();
            rows.map(|n| json!({ "file": log.file, "run": n.run, "rules": n.rules, "why": n.why }))
                .collect::<Vec<_>>()
        })
        .collect();
    let contracts: Vec<Value> = pairs()
        .flat_map(|(log, a)| {
            let rows = a.contracts.iter();
            rows.map(|(run, c)| match c {
                Ok(c) => json!({ "file": log.file, "run": run, "contract": json::contract(c) }),
                Err(why) => json!({ "file": log.file, "run": run, "contract": null, "not_enough_data": why }),
            })
            .collect::<Vec<_>>()
        })
        .collect();
    json!({
        "schema": "metronome-advice/1",
        "findings": list(|a| &a.findings),
        "explanations": list(|a| &a.explanations),
        "not_enough_data": lacking,
        "contracts": contracts,
    })
}

fn text(log: &ReadLog, advice: &Advice, verbose: bool) -> String {
    let mut out = format!("{}\n", one_line(&log.file));
    if log.analysis.events == 0 {
        return out + "  nothing to examine\n\n";
    }
    findings(&mut out, log, advice);
    if verbose {
        if !advice.explanations.is_empty() {
            out += "\nExplained\n";
            advice.explanations.iter().for_each(|f| one(&mut out, log, f));
        }
        if !advice.not_enough_data.is_empty() {
            out += "\nNot enough data\n";
        }
        for n in &advice.not_enough_data {
            out += &format!("  {}: {}\n", n.rules, n.why);
        }
    }
    for (run, c) in &advice.contracts {
        let of = if log.analysis.runs.total() > 1 { format!(" of run {}", run + 1) } else { String::new() };
        match c {
            Ok(c) => contract(&mut out, &of, c),
            Err(why) => out += &format!("\nContract{of}: not enough data: {why}\n"),
        }
    }
    out + "\n"
}

/// The findings, as `report` shows them, too.
pub(crate) fn findings(out: &mut String, log: &ReadLog, advice: &Advice) {
    *out += "\nFindings\n";
    if advice.findings.is_empty() {
        *out += if advice.not_enough_data.is_empty() {
            "  none\n"
        } else {
            "  none, as far as the log tells (metronome advise --verbose names the rules that lack data)\n"
        };
    }
    first(out, log, advice);
    let mut all: Vec<&Finding> = advice.findings.iter().collect();
    all.sort_by_key(|f| (std::cmp::Reverse(f.severity), f.cause(), f.run));
    all.into_iter().for_each(|f| one(out, log, f));
}

/// What to look at before anything else: causes before what follows from them.
fn first(out: &mut String, log: &ReadLog, advice: &Advice) {
    let runs = &log.analysis.runs;
    for (i, run) in runs.rows.iter().enumerate() {
        let causes = advice.causes(i);
        let titles = causes.iter().take(CAUSES).map(|f| format!("{} ({})", f.title, f.rule));
        let small = advice.small_heap(i, run).map(|(heap, enough)| {
            format!("the heap is small: it has {}, and {} would keep the target", bytes(heap), bytes(enough))
        });
        let words: Vec<String> = titles.chain(small).collect();
        if words.is_empty() {
            continue;
        }
        let of = if runs.total() > 1 { format!(" (run {})", i + 1) } else { String::new() };
        let words = format!("Look first at{of}: {}", words.join("; "));
        for (n, line) in wrapped(&words).into_iter().enumerate() {
            *out += &format!("  {}{line}\n", if n == 0 { "" } else { "    " });
        }
    }
}

fn one(out: &mut String, log: &ReadLog, f: &Finding) {
    let run = if log.analysis.runs.total() > 1 { format!(" (run {})", f.run + 1) } else { String::new() };
    // A title may hold a mutator's name.
    *out += &format!("  {:<4} {}: {}{run}\n", f.rule, f.severity.words(), one_line(&f.title));
    for line in wrapped(&f.evidence) {
        *out += &format!("         {line}\n");
    }
    for (i, line) in wrapped(&f.advice).into_iter().enumerate() {
        *out += &format!("      {} {line}\n", if i == 0 { "->" } else { "  " });
    }
}

/// Lines of words; what came from a log is made harmless for a terminal.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in one_line(text).split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn contract(out: &mut String, of: &str, c: &ContractReport) {
    let m = &c.measured;
    let percent = |ppm: u32| format!("{:.0} %", f64::from(ppm) / 1e4);
    let from = if c.from_free_memory { ", from free memory" } else { "" };
    *out += &format!("\nContract{of}, as measured over {} cycles{from}\n", c.cycles);
    let mut row = |name: &str, value: String| *out += &format!("  {name:<17} {value}\n");
    row("live (m)", bytes(m.live_bytes));
    row("allocation (a)", format!("{}/s of mutator time", bytes(m.allocation_rate)));
    if let Some(b) = c.burst {
        row("", format!("left out: {}/s in one cycle alone, line {}", bytes(b.rate), b.line));
    }
    row("tracing (R)", format!("{}/s of collector time", bytes(m.trace_rate)));
    let sweep = match c.phases_unknown || m.sweep_rate == u64::MAX {
        true => "in R: the log does not tell it apart".into(),
        false => format!("{}/s of collector time", bytes(m.sweep_rate)),
    };
    row("sweeping (S)", sweep);
    row("fragmentation (f)", percent(m.fragmentation_ppm));
    let heap = |h: Option<u64>| h.map_or("no heap is enough".into(), bytes);
    row("heap for target", format!("{} for {}", heap(c.heap_for_target), percent(c.target_ppm)));
    if let Some(h) = c.heap_bytes {
        let u = c
            .utilization_for_heap
            .map_or("less than what is live".into(), |u| format!("{} at most", percent(u)));
        row("this heap", format!("{}: {u}", bytes(h)));
    }
    let points = c.curve.iter().filter(|(ppm, _)| TABLE.contains(ppm));
    let table: Vec<String> = points.map(|(ppm, h)| format!("{} {}", percent(*ppm), heap(*h))).collect();
    row("heap by target", table.join(", "));
    let what_if: Vec<String> = c
        .what_if
        .iter()
        .map(|w| format!("{}/{}: {}", time(w.quantum_ns), time(w.window_ns), percent(w.mmu_ppm)))
        .collect();
    for (i, chunk) in what_if.chunks(3).enumerate() {
        row(if i == 0 { "quantum/window" } else { "" }, chunk.join("   "));
    }
}
