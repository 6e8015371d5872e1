//! Was the target kept? In words, with the numbers that say so.

use super::escape;
use super::facts::Show;
use super::subject::Subject;
use metronome_analysis::Stat;
use metronome_analysis::advice::Severity;

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Kept,
    Unknown,
    AtRisk,
    Missed,
}

impl Level {
    /// Class of the page's style, and a sign for those who do not see colours.
    pub(super) const fn class_and_sign(self) -> (&'static str, &'static str) {
        match self {
            Self::Kept => ("kept", "✓"),
            Self::Unknown => ("unknown", "?"),
            Self::AtRisk => ("risk", "!"),
            Self::Missed => ("missed", "✕"),
        }
    }
}

/// The answer; its texts are HTML.
pub(super) struct Verdict {
    pub(super) level: Level,
    pub(super) headline: String,
    pub(super) sentences: Vec<String>,
}

/// Shares of heartbeats, and windows of single quanta whose times are printed in milliseconds, are as exact as this, in
/// points.
const LOG_POINTS: f64 = 3.4;
/// The reason of collections that are not the program's matter.
const SHUTDOWN: &str = "VM shut down";
const OUT_OF_MEMORY: &str = "out of memory";

/// Judges a run.
pub(super) fn verdict(s: &Subject<'_>) -> Verdict {
    let f = &s.facts;
    let measured = f.number("judged/window_ms").is_some();
    let margin = f.number("judged/margin_points");
    let departures = f.number("departures").unwrap_or(0.0) > 0.0;
    let starving = s.run.synchronous_by_reason.contains_key(OUT_OF_MEMORY) || s.run.trouble.out_of_memory > 0;
    let still = stood_still(s);
    // What the run did not measure itself is as exact as the log's times.
    let exact = measured && !s.run.own.mmu.is_empty();
    let below = margin.is_some_and(|m| if exact { m < 0.0 } else { m < -LOG_POINTS });
    let worst = s.advice.findings.iter().filter(|f| f.run == s.at.1).map(|f| f.severity).max();
    let level = if below || departures || starving || worst == Some(Severity::Broken) {
        Level::Missed
    } else if worst == Some(Severity::Risk) || still.count > 0 {
        Level::AtRisk
    } else if margin.is_none() {
        Level::Unknown
    } else {
        Level::Kept
    };
    let points = |m: f64| format!("{:.1} points", m.abs());
    let shown_margin = margin.map(|m| {
        f.html("judged/margin_points", Show::Percent)
            .map_or_else(String::new, |html| html.replace(&Show::Percent.words(m), &points(m)))
    });
    let headline = match (level, &shown_margin) {
        (Level::Missed, Some(by)) if below => format!("Target missed by {by}"),
        (Level::Missed, _) if starving => "Target missed: the program ran out of memory".into(),
        (Level::Missed, _) if departures => "Target missed: it was left under way".into(),
        (Level::Missed, _) => "Contract broken".into(),
        (Level::AtRisk, Some(_)) if still.count > 0 => {
            "Target kept by quanta, but the program stood still".into()
        }
        (Level::AtRisk, Some(_)) => format!("Target kept, at risk: {}", lead(s)),
        (Level::AtRisk, None) => format!("Target not measured, at risk: {}", lead(s)),
        (Level::Kept, Some(by)) if margin > Some(0.0) => format!("Target kept, with {by} to spare"),
        (Level::Kept, _) => "Target kept".into(),
        (Level::Unknown, _) => "The target cannot be judged from this log".into(),
    };
    Verdict { level, headline, sentences: sentences(s, measured, &still) }
}

/// The title of what to look at first.
fn lead(s: &Subject<'_>) -> String {
    let first = s.advice.causes(s.at.1).first().copied();
    let first = first.or_else(|| s.advice.findings.iter().find(|f| f.run == s.at.1));
    first.map_or_else(String::new, |f| escape::clipped(&f.title))
}

/// Collections for which the mutators stood still, but those of a process that was ending.
fn stood_still(s: &Subject<'_>) -> Stat {
    let mut all = Stat::default();
    for (_, stat) in s.run.synchronous_by_reason.iter().filter(|(why, _)| *why != SHUTDOWN) {
        all.add_group(stat.count, stat.min, stat.mean().unwrap_or(0.0) as u64, stat.max);
    }
    all
}

fn sentences(s: &Subject<'_>, measured: bool, still: &Stat) -> Vec<String> {
    let f = &s.facts;
    let mut out = Vec::new();
    let assumed = f.number("config/target_percent").is_none();
    let target = f.html("judged/target_percent", Show::Percent).unwrap_or_default();
    let target = if assumed { format!("{target}, the default: the log has no header") } else { target };
    match (f.html("judged/least_percent", Show::Percent), f.html("judged/window_ms", Show::Ms)) {
        (Some(least), Some(window)) => {
            out.push(format!("By quanta, the program had {least} of the worst {window} (target {target})."));
        }
        (Some(least), None) => out.push(format!(
            "The heartbeat that left least to the program left {least} (target {target}), of the {} of {} heartbeats that \
             span ten windows and 0.2 s. Heartbeats are averages: shorter windows cannot be judged.",
            s.run.share.long_heartbeats, s.run.share.heartbeats
        )),
        _ => match f.html("collector_share_percent", Show::Percent) {
            Some(share) => out.push(format!(
                "The collector took {share} of the time that heartbeats cover (the target leaves the program {target}); no heartbeat is long \
                 enough to compare with the target."
            )),
            None => out.push(format!("No window and no heartbeat tells what the program had (target {target}).")),
        },
    }
    if still.count > 0 {
        out.push(standing(s));
    }
    if measured
        && let (Some(n), Some(low)) =
            (f.counted("departures", Show::Count), f.html("departure_low_percent", Show::Percent))
    {
        out.push(format!("The collector left the target {n} times, down to {low}."));
    }
    if let Some(n) = f.counted("stops_cancelled", Show::Count) {
        out.push(format!("{n} stops were given up because a mutator did not come in time."));
    }
    let causes = s.advice.causes(s.at.1);
    let titles = causes.iter().take(3).map(|f| format!("{} ({})", escape::clipped(&f.title), f.rule));
    let titles: Vec<String> = titles.chain(small_heap(s)).collect();
    if !titles.is_empty() {
        out.push(format!("<b>Look first at:</b> {}.", titles.join("; ")));
    }
    out
}

/// That the heap is smaller than what the collector or the contract computed to be enough.
fn small_heap(s: &Subject<'_>) -> Option<String> {
    let f = &s.facts;
    s.advice.small_heap(s.at.1, s.run)?;
    let told = || f.html("enough_heap_bytes", Show::Bytes);
    let measured = || f.at(&format!("{}/heap_for_target_bytes", f.contract()?), Show::Bytes);
    let enough = told().or_else(measured)?;
    let heap = f.html("heap_bytes", Show::Bytes)?;
    Some(format!("the heap is small: it has {heap}, and {enough} would keep the target"))
}

/// The collections by reason, the longest first.
fn standing(s: &Subject<'_>) -> String {
    let reasons = s.facts.list("synchronous_by_reason").iter().enumerate();
    let mut rows: Vec<_> = reasons.filter(|(_, r)| r["reason"] != SHUTDOWN).collect();
    rows.sort_by(|a, b| {
        b.1["max_ms"].as_f64().unwrap_or(0.0).total_cmp(&a.1["max_ms"].as_f64().unwrap_or(0.0))
    });
    let words = rows.iter().take(3).map(|(i, r)| {
        let at = |what: &str, show| {
            s.facts.html(&format!("synchronous_by_reason/{i}/{what}"), show).unwrap_or_default()
        };
        let why = escape::clipped(r["reason"].as_str().unwrap_or_default());
        format!("{} for “{why}” (longest {})", at("count", Show::Count), at("max_ms", Show::Ms))
    });
    format!("It stood still for synchronous collections: {}.", words.collect::<Vec<_>>().join(", "))
}

/// The figures that one looks at first: name and HTML.
pub(super) fn tiles(s: &Subject<'_>) -> Vec<(&'static str, String)> {
    let f = &s.facts;
    let mean = f.html("mean_utilization_percent", Show::Percent);
    let mut out = Vec::new();
    let mut tile = |name, html: Option<String>| out.extend(html.map(|html| (name, html)));
    tile("Utilization of the run", f.html("run_utilization_percent", Show::Percent));
    tile("Utilization in heartbeats", mean);
    tile("Longest quantum", f.html("quantum_ms/max", Show::Ms));
    tile("Longest stop", f.html("stop_ms/max", Show::Ms));
    let longest = f.list("synchronous_by_reason").iter().enumerate();
    let longest = longest.max_by(|a, b| {
        let ms = |v: &serde_json::Value| v["max_ms"].as_f64().unwrap_or(0.0);
        ms(a.1).total_cmp(&ms(b.1))
    });
    tile(
        "Longest standstill",
        longest.and_then(|(i, _)| f.html(&format!("synchronous_by_reason/{i}/max_ms"), Show::Ms)),
    );
    tile("Least free heap", f.html("free_low_bytes", Show::Bytes));
    tile("Heap", f.html("heap_bytes", Show::Bytes));
    tile("Cycles", f.counted("cycles", Show::Count));
    tile("Stops given up", f.counted("stops_cancelled", Show::Count));
    out
}
