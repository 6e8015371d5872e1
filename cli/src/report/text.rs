//! The summary that a person reads: findings first.

use crate::advise;
use crate::logs::ReadLog;
use crate::output::one_line;
use crate::quantity::{bytes, grouped, time};
use metronome_analysis::advice::Advice;
use metronome_analysis::contract::allocation;
use metronome_analysis::{Distribution, RunFigures, Series};
use metronome_verbosegc::LogTime;

/// Diagnostics shown unless all are asked for.
const DIAGNOSTICS: usize = 5;
/// Runs shown in full.
const RUNS: usize = 20;
/// Characters of a row behind its name: with that, a terminal of 80 columns.
const WIDTH: usize = 60;
/// Columns of the pictures.
const COLUMNS: usize = WIDTH - 2;
/// Reasons shown.
const REASONS: usize = 8;

/// Bars of pictures.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

struct Text(String);

impl Text {
    fn row(&mut self, name: &str, value: impl AsRef<str>) {
        for (i, line) in wrapped(value.as_ref()).iter().enumerate() {
            self.0.push_str(&format!("  {:<17} {line}\n", if i == 0 { name } else { "" }));
        }
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }
}

/// Lines of whole words; a picture stays in one.
fn wrapped(value: &str) -> Vec<String> {
    if let Some((picture, note)) = value.rsplit_once("| (").filter(|_| value.starts_with('|')) {
        return vec![format!("{picture}|"), format!("({note}")];
    }
    let mut lines = vec![String::new()];
    for word in value.split(' ') {
        let line =
            lines.last_mut().filter(|l| l.is_empty() || l.chars().count() + word.chars().count() < WIDTH);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The summary of one log.
pub(super) fn log(log: &ReadLog, advice: &Advice, verbose: bool) -> String {
    let a = &log.analysis;
    let mut t = Text(String::new());
    let who = match a.writer {
        Some(w) => w.title(),
        None if a.is_all_refused() => "another collector",
        None if a.events == 0 => "no events",
        None => "several writers, or none that is known",
    };
    let whole = if a.complete { "complete" } else { "incomplete: live, broken off, or a fragment" };
    t.line(format!(
        "{}: {who}; {}, {} events, {whole}",
        one_line(&log.file),
        runs(a.runs.total()),
        grouped(a.events)
    ));
    for policy in &a.refused.rows {
        t.line(format!("  refused: {}", one_line(&policy.to_string())));
    }
    if a.events > 0 {
        advise::findings(&mut t.0, log, advice);
    }
    for (i, r) in a.runs.rows.iter().take(RUNS).enumerate() {
        if r.refused.is_none() && r.events > 0 {
            run(&mut t, i, a.runs.total() > 1, r);
        }
    }
    if a.runs.total() > RUNS as u64 {
        t.line(format!(
            "  {} more runs are not shown; the findings are of all runs",
            grouped(a.runs.total() - RUNS as u64)
        ));
        if a.runs.omitted > 0 {
            let (kept, b) = (a.runs.rows.len() as u64, &a.beyond);
            t.line(format!(
                "  --json has the figures of the first {}; {} of the {} runs beyond have findings",
                grouped(kept),
                grouped(b.sick),
                grouped(a.runs.omitted)
            ));
        }
        if a.beyond.findings.omitted > 0 {
            t.line(format!("  {} findings of those are not shown", grouped(a.beyond.findings.omitted)));
        }
    }
    let shown = if verbose { usize::MAX } else { DIAGNOSTICS };
    let total = a.diagnostics.total();
    if total > 0 {
        t.line(format!("\nDiagnostics: {} (line:column)", grouped(total)));
        for d in a.diagnostics.rows.iter().take(shown) {
            t.line(format!("  {}", one_line(&d.to_string())));
        }
        let kept = a.diagnostics.rows.len().min(shown) as u64;
        if total > kept {
            let held = a.diagnostics.rows.len() as u64;
            let hint = match verbose {
                true => String::new(),
                false if held < total => format!(": --verbose shows the first {}", grouped(held)),
                false => ": --verbose shows them".into(),
            };
            t.line(format!("  and {} more{hint}", grouped(total - kept)));
        }
    }
    t.line("");
    t.0
}

/// A number of things.
fn count(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

fn runs(n: u64) -> String {
    if n == 1 { "1 run".into() } else { format!("{n} runs") }
}

fn when(t: Option<LogTime>) -> String {
    t.map_or("unknown".into(), |t| t.to_string())
}

fn run(t: &mut Text, index: usize, several: bool, r: &RunFigures) {
    let number = if several { format!(" {}", index + 1) } else { String::new() };
    t.line(format!(
        "\nRun{number} at line {}: {}, {} to {}",
        r.line,
        time(r.span_ns),
        when(r.first_time),
        when(r.last_time)
    ));
    if let Some(c) = &r.config {
        let known = |ns: Option<u64>| ns.map_or("?".into(), time);
        let target = c.target_ppm.map_or("?".into(), |p| format!("{} %", f64::from(p) / 1e4));
        let trigger = c.trigger_bytes.map_or(String::new(), |b| format!(", trigger {}", bytes(b)));
        t.row(
            "configured",
            format!(
                "heap {}, target {target} of {}, quantum {}{trigger}",
                r.heap_bytes.map_or("?".into(), bytes),
                known(c.window_ns),
                known(c.beat_ns)
            ),
        );
    }
    times(t, r);
    utilization(t, r);
    cycles(t, r);
    synchronous(t, r);
    memory(t, r);
    trouble(t, r);
    if !r.quantum.stat.is_empty() && !r.quantum.exact {
        t.row("~", "estimated: heartbeats tell count, least, mean and most of their quanta only");
    }
    if r.lengths_rough || r.gaps_rough {
        t.row("~", "of cycles: from printed times, which are cut to milliseconds");
    }
}

/// Percentiles that are estimates have a `~`.
fn distribution(d: &Distribution, rough: bool) -> String {
    let about = if d.exact && !rough { "" } else { "~" };
    let rough = if rough { "~" } else { "" };
    format!(
        "min {rough}{}, mean {rough}{}, p50 {about}{}, p99 {about}{}, p99.9 {about}{}, max {rough}{}",
        time(d.stat.min),
        time(d.stat.mean().unwrap_or(0.0) as u64),
        time(d.p50),
        time(d.p99),
        time(d.p999),
        time(d.stat.max)
    )
}

fn times(t: &mut Text, r: &RunFigures) {
    if r.heartbeats.total() == 0 {
        return;
    }
    t.row("quanta", format!("{} in {}", grouped(r.quanta), count(r.heartbeats.total(), "heartbeat")));
    if !r.quantum.stat.is_empty() {
        t.row("quantum", distribution(&r.quantum, false));
        t.row("longest", format!("{} at line {}", time(r.quantum_peak.value), r.quantum_peak.line));
    }
    if r.phases.len() > 1 {
        for p in &r.phases {
            t.row(
                &format!("  {}", p.phase.name()),
                format!("{}, {}", grouped(p.quantum.stat.count), distribution(&p.quantum, false)),
            );
        }
    }
    if !r.stop.stat.is_empty() {
        t.row("time to stop", distribution(&r.stop, false));
    }
}

fn utilization(t: &mut Text, r: &RunFigures) {
    if let (Some(ppm), Some(s)) = (r.run_utilization_ppm(), &r.own.summary) {
        t.row("utilization", format!("{:.1} % of the run ({})", f64::from(ppm) / 1e4, time(s.run_ns)));
    }
    if let Some(share) = r.share.ppm() {
        t.row(
            "collector share",
            format!(
                "{}{:.1} % of the time that heartbeats cover ({})",
                if r.share.rough { "~" } else { "" },
                f64::from(share) / 1e4,
                time(r.share.interval_ns)
            ),
        );
        t.row("over time", strip(&r.series));
    }
    for m in &r.own.mmu {
        let wall =
            m.wall_ppm.map_or(String::new(), |p| format!(" (in wall time {:.1} %)", f64::from(p) / 1e4));
        t.row(
            "min. utilization",
            format!("{:.1} % of any {}{wall}", f64::from(m.charged_ppm) / 1e4, time(m.window_ns)),
        );
    }
    if r.own.mmu.is_empty() && r.heartbeats.total() > 0 {
        single_quanta(t, r);
    }
}

/// What quanta that the log tells one by one say of windows.
fn single_quanta(t: &mut Text, r: &RunFigures) {
    let windows = r.windows();
    if windows.is_empty() {
        t.row(
            "min. utilization",
            "not known: heartbeats sum quanta up, so no window shorter than one can be judged",
        );
        return;
    }
    let told = windows.iter().filter(|w| w.least_ppm > 0 || Some(w.window_ns) == r.window_ns());
    for (i, line) in told.collect::<Vec<_>>().chunks(4).enumerate() {
        let words =
            line.iter().map(|w| format!("{:.1} % of {}", f64::from(w.least_ppm) / 1e4, time(w.window_ns)));
        let name = if i == 0 { "min. utilization" } else { "" };
        t.row(name, words.collect::<Vec<_>>().join(", "));
    }
    t.row(
        "",
        format!(
            "by the {} of {} quanta that are told one by one",
            grouped(r.single.quanta),
            grouped(r.quanta)
        ),
    );
}

/// The lowest priority over time, the highest one as full height.
fn priorities(s: &Series, highest: u64) -> String {
    let per = s.buckets.len().div_ceil(COLUMNS).max(1);
    let lowest =
        |chunk: &[metronome_analysis::Bucket]| chunk.iter().filter_map(|b| b.priority).map(|p| p.min).min();
    let column = |chunk: &[metronome_analysis::Bucket]| match lowest(chunk) {
        None => ' ',
        Some(p) => {
            STEPS[((p.saturating_mul(7)).checked_div(highest).unwrap_or(0) as usize).min(STEPS.len() - 1)]
        }
    };
    let columns: String = s.buckets.chunks(per).map(column).collect();
    format!("|{columns}| (full height: {highest})")
}

/// The collector's share over time, one character for each stretch: blank where nothing is known to have run.
fn strip(s: &Series) -> String {
    let per = s.buckets.len().div_ceil(COLUMNS).max(1);
    let column = |chunk: &[metronome_analysis::Bucket]| {
        let busy: u64 = chunk.iter().map(|b| b.collector_ns + b.synchronous_ns).sum();
        let all = chunk.len() as u64 * s.bucket_ns;
        match busy {
            0 => ' ',
            // Full height is half of the time.
            _ => STEPS[((busy * 16 / all.max(1)) as usize).min(STEPS.len() - 1)],
        }
    };
    let columns: String = s.buckets.chunks(per).map(column).collect();
    format!("|{columns}| (full height: half of the time)")
}

fn cycles(t: &mut Text, r: &RunFigures) {
    if r.cycles + r.cycles_incomplete > 0 {
        let open = if r.cycles_incomplete > 0 {
            format!(", {} without their end", r.cycles_incomplete)
        } else {
            String::new()
        };
        t.row("cycles", format!("{}{open}", grouped(r.cycles)));
    }
    if !r.cycle_length.stat.is_empty() {
        t.row("cycle length", distribution(&r.cycle_length, r.lengths_rough));
    }
    if !r.cycle_gap.stat.is_empty() {
        t.row("between cycles", distribution(&r.cycle_gap, r.gaps_rough));
    }
    if r.triggers_ns.total() > 0 {
        let longest = r.triggers_ns.rows.iter().max().copied().unwrap_or(0);
        t.row("triggers", format!("{}, the longest {}", grouped(r.triggers_ns.total()), time(longest)));
    }
    let reasons: Vec<String> =
        r.own.cycle_reasons.iter().take(REASONS).map(|(why, n)| format!("{} {why}", grouped(*n))).collect();
    if !reasons.is_empty() {
        t.row("begun for", reasons.join(", "));
    }
}

fn synchronous(t: &mut Text, r: &RunFigures) {
    for (reason, s) in r.synchronous_by_reason.iter().take(REASONS) {
        t.row(
            "synchronous",
            format!(
                "{} for {}: longest {}, {} in all",
                grouped(s.count),
                if reason.trim().is_empty() { "no reason that is told".into() } else { one_line(reason) },
                time(s.max),
                time(u64::try_from(s.sum).unwrap_or(u64::MAX))
            ),
        );
    }
}

fn memory(t: &mut Text, r: &RunFigures) {
    if let Some(free) = r.free {
        let of = r.heap_bytes.map_or(String::new(), |h| format!(" of {}", bytes(h)));
        t.row("free heap", format!("{} to {}{of}", bytes(free.min), bytes(free.max)));
    }
    if let Some(free) = r.immortal_free {
        t.row("free immortal", format!("{} to {}", bytes(free.min), bytes(free.max)));
    }
    if let Some((sum, ns)) = allocation(r) {
        let rate = u128::from(sum) * 1_000_000_000 / u128::from(ns);
        let rate = bytes(u64::try_from(rate).unwrap_or(u64::MAX));
        let when = if r.own.allocated.count > 0 { "during cycles" } else { "while cycles marked" };
        t.row("allocated", format!("{} {when}, {rate}/s of that time", bytes(sum)));
    }
    if r.own.live.count > 0 {
        t.row("live", format!("{} to {} after cycles", bytes(r.own.live.min), bytes(r.own.live.max)));
    }
    let w = &r.work;
    let counted = [
        (w.weak_cleared, "weak"),
        (w.soft_cleared, "soft"),
        (w.phantom_cleared, "phantom"),
        (w.other_cleared, "long weak and ephemerons"),
        (w.finalizer_enqueued, "objects to finalization"),
        (w.classes_unloaded, "classes unloaded"),
    ];
    let some: Vec<String> =
        counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n))).collect();
    if !some.is_empty() {
        t.row("cleared", some.join(", "));
    }
    if let Some(p) = r.priority {
        let text = if p.min == p.max { p.min.to_string() } else { format!("{} to {}", p.min, p.max) };
        t.row("GC priority", text);
        if p.min < p.max {
            t.row("  over time", priorities(&r.series, p.max));
        }
    }
}

fn trouble(t: &mut Text, r: &RunFigures) {
    for (name, s) in r.own.stragglers.iter().take(REASONS) {
        t.row(
            "stops given up",
            format!("{} for {}, longest wait {}", grouped(s.cancelled), one_line(name), time(s.wait.value)),
        );
    }
    for (why, n) in r.own.departures.iter().take(REASONS) {
        t.row("target left", format!("{}: {}", count(*n, "time"), one_line(why)));
    }
    let tr = &r.trouble;
    for (n, what) in [
        (tr.clock_errors, "clock errors"),
        (tr.out_of_memory, "out of memory"),
        (tr.tracker_overflows, "tracker overflows"),
        (tr.lost_records, "records lost"),
        (tr.output_lost, "elements lost"),
        (r.work.overflows, "queue overflows"),
        (r.partial, "partial events"),
    ] {
        if n > 0 {
            t.row(what, grouped(n));
        }
    }
}
