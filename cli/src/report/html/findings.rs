//! The advisor's findings, the worst first, each with its evidence and its remedy.

use super::escape;
use super::subject::Subject;
use metronome_analysis::advice::{Finding, Severity};
use std::collections::BTreeSet;

/// Findings shown in full; the others are folded up.
const OPEN: usize = 3;
/// Titles of those that are folded up.
const TITLES: usize = 12;
/// Findings on a page.
const MOST: usize = 120;

/// Those of all runs.
pub(super) fn html(subjects: &[Subject<'_>]) -> String {
    let mut all: Vec<(&Subject<'_>, &Finding)> = subjects
        .iter()
        .flat_map(|s| s.advice.findings.iter().filter(|f| f.run == s.at.1).map(move |f| (s, f)))
        .collect();
    all.sort_by_key(|(s, f)| (std::cmp::Reverse(f.severity), f.cause(), s.index));
    let several = subjects.len() > 1;
    let mut out = String::from("<section id=\"findings\"><h2>What to change</h2>");
    if all.is_empty() {
        let lacking = subjects.iter().any(|s| s.advice.not_enough_data.iter().any(|n| n.run == s.at.1));
        let far = if lacking { " as far as the log tells (below: the rules that lack data)" } else { "" };
        out += &format!("<p>Nothing: no rule of the advisor found anything{far}.</p>");
    }
    let card = |(s, f): &(&Subject<'_>, &Finding)| card(s, f, several);
    out += &format!("<div class=\"cards\">{}</div>", all.iter().take(OPEN).map(card).collect::<String>());
    if all.len() > OPEN {
        let more: String = all.iter().skip(OPEN).take(MOST).map(card).collect();
        let mut titles: Vec<String> = all.iter().skip(OPEN).map(|(_, f)| escape::clipped(&f.title)).collect();
        let mut seen = BTreeSet::new();
        titles.retain(|t| seen.insert(t.clone()));
        titles.truncate(TITLES);
        out += &format!(
            "<details><summary>{} more: {}</summary><div class=\"cards\">{more}</div></details>",
            all.len() - OPEN,
            titles.join("; ")
        );
    }
    if all.len() > OPEN + MOST {
        out += &format!("<p>Not shown: {}; see <code>metronome advise</code>.</p>", all.len() - OPEN - MOST);
    }
    out + "</section>"
}

fn card(s: &Subject<'_>, f: &Finding, several: bool) -> String {
    let class = match f.severity {
        Severity::Broken => "missed",
        Severity::Risk => "risk",
        Severity::Note | Severity::Explain => "unknown",
    };
    let of = if several { format!(" · {}", escape::clipped(&s.name)) } else { String::new() };
    format!(
        "<article class=\"finding {class}\"><h3>{}</h3><p class=\"badge\">{} · {}{of}</p><p>{}</p><p \
         class=\"remedy\"><b>Do:</b> {}</p></article>",
        escape::clipped(&f.title),
        escape::text(f.severity.words()),
        f.rule,
        escape::clipped(&f.evidence),
        escape::clipped(&f.advice)
    )
}

/// What looks odd and is not, and the rules that lack data.
pub(super) fn explanations(subjects: &[Subject<'_>]) -> String {
    let mut rows = Vec::new();
    for s in subjects {
        let name = if subjects.len() > 1 { format!("{}: ", escape::clipped(&s.name)) } else { String::new() };
        for f in s.advice.explanations.iter().filter(|f| f.run == s.at.1).take(MOST) {
            rows.push(format!(
                "<li>{name}{} ({}): {}. {}</li>",
                escape::clipped(&f.title),
                f.rule,
                escape::clipped(&f.evidence),
                escape::clipped(&f.advice)
            ));
        }
        for n in s.advice.not_enough_data.iter().filter(|n| n.run == s.at.1).take(MOST) {
            rows.push(format!("<li>{name}Not enough data for {}: {}</li>", n.rules, escape::clipped(&n.why)));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<details id=\"explained\"><summary>What looks odd and is not, and rules that lack data ({})</summary><ul>{}</ul>\
         </details>",
        rows.len(),
        rows.concat()
    )
}
