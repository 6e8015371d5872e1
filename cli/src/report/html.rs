//! `metronome report --html`: one page with everything in it, that loads nothing and needs no script to be read.
//!
//! The page is well-formed XML as well as HTML, so that any text that broke out of its place would be found by a parser.

mod columns;
mod details;
mod escape;
mod events;
mod facts;
mod findings;
mod over_time;
mod picture;
mod plot;
mod scale;
mod shapes;
mod subject;
mod tables;
mod verdict;

use super::json::{self, Detail};
use crate::logs::ReadLog;
use metronome_analysis::advice::Advice;
use picture::Block;
use serde_json::{Value, json};
use subject::Subject;

/// Rows of the lists in the page's own JSON, of all logs together: the full lists are `--json`'s.
const ROWS: usize = 200;
/// Diagnostics shown.
const DIAGNOSTICS: usize = 50;
/// Logs and policies named that are not shown.
const NAMED: usize = 40;
/// Rows of the event table without script, and on paper.
const STATIC_ROWS: usize = 60;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The page.
///
/// # Errors
/// What the drawing library says; it has no reason to.
pub(super) fn page(logs: &[ReadLog], advice: &[Advice]) -> Result<String, String> {
    let (places, more) = subject::choose(logs);
    let runs = places.iter().map(|(_, run)| run + 1).max().unwrap_or(0);
    let mut root =
        json::value_of(logs, advice, Detail { rows: ROWS / logs.len().max(1), runs, series: false })?;
    escape::clip_all(&mut root);
    let subjects = subject::subjects(logs, advice, &places, &root);
    let mut lists = Vec::new();
    for s in &subjects {
        let (events, events_omitted) = events::rows(s, subjects.len());
        lists.push(json!({
            "name": s.name, "log": s.at.0, "run": s.at.1,
            "series": columns::lists(&s.columns, s.run.share.interval_ns > 0),
            "events": events, "events_omitted": events_omitted,
        }));
    }
    let mut body = head(logs, &subjects);
    body += &verdicts(logs, &subjects);
    if !subjects.is_empty() {
        body += &findings::html(&subjects);
        body += &pictures(&subjects)?;
        body += &format!("<section id=\"figures\"><h2>All figures</h2>{}", tables::figures(&subjects));
        if let [one] = &subjects[..] {
            body += &tables::what_if(one).unwrap_or_default();
        }
        body += "</section>";
        body += &events_section(&lists);
        body += &findings::explanations(&subjects);
    }
    body += &others(logs, more);
    body += &diagnostics(logs);
    let mut root = root.clone();
    root["page"] = json!("metronome-page/1");
    root["subjects"] = Value::Array(lists);
    let title = match &subjects[..] {
        [one] => escape::clipped(&one.name),
        _ => format!("{} runs", subjects.len()),
    };
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data: blob:\"/>\n\
         <title>Metronome report: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>//<![CDATA[\n{SCRIPT}//]]></script>\n</body>\n</html>\n",
        escape::json(&root)
    ))
}

fn head(logs: &[ReadLog], subjects: &[Subject<'_>]) -> String {
    let about = match subjects {
        [s] => {
            let r = s.run;
            let who = r.writer.map_or("an unknown writer", |w| w.title());
            let when = |t: Option<metronome_verbosegc::LogTime>| t.map_or("?".into(), |t| t.to_string());
            let whole = if s.log.analysis.complete {
                "complete"
            } else {
                "not complete: live, broken off, or a fragment"
            };
            format!(
                "<p><b>{}</b> · {who} · {} to {} · {whole}</p>",
                escape::clipped(&s.log.file),
                when(r.first_time),
                when(r.last_time)
            )
        }
        _ => format!("<p>{} runs of {} logs, side by side</p>", subjects.len(), logs.len()),
    };
    format!(
        "<header><h1>Metronome report</h1>{about}<p class=\"tools\"><button type=\"button\" data-export=\"json\">JSON</button>\
         <button type=\"button\" data-export=\"csv\">Series as CSV</button><button type=\"button\" data-theme=\"\">Dark or \
         light</button><button type=\"button\" data-print=\"\">Print</button></p></header>"
    )
}

fn verdicts(logs: &[ReadLog], subjects: &[Subject<'_>]) -> String {
    let several = subjects.len() > 1;
    let mut out = String::from("<section id=\"verdict\" class=\"verdicts\">");
    if subjects.is_empty() {
        let other = logs.iter().any(|l| l.analysis.is_all_refused());
        let why = if other {
            "These are logs of other collectors."
        } else {
            "There is no event of a Metronome collector."
        };
        out += &format!(
            "<div class=\"verdict unknown\"><h2><i class=\"sign\">?</i>Nothing to judge</h2><p>{why}</p></div>"
        );
    }
    for s in subjects {
        let v = verdict::verdict(s);
        let (class, sign) = v.level.class_and_sign();
        let name = if several {
            format!("<p class=\"badge\">{}</p>", escape::clipped(&s.name))
        } else {
            String::new()
        };
        let tiles: String = verdict::tiles(s)
            .into_iter()
            .map(|(name, html)| format!("<div class=\"tile\"><dt>{name}</dt><dd>{html}</dd></div>"))
            .collect();
        let tiles = if tiles.is_empty() { tiles } else { format!("<dl class=\"tiles\">{tiles}</dl>") };
        out += &format!(
            "<div class=\"verdict {class}\">{name}<h2><i class=\"sign\" aria-hidden=\"true\">{sign}</i>{}</h2>\
             <p>{}</p>{tiles}</div>",
            v.headline,
            v.sentences.join(" ")
        );
    }
    out + "</section>"
}

fn pictures(subjects: &[Subject<'_>]) -> Result<String, String> {
    let mut out = String::from("<section id=\"pictures\"><h2>Pictures</h2>");
    out += "<p class=\"hint\">Drag over a picture of time to zoom in on all of them; double-click or <kbd>0</kbd> shows \
            everything again. By keyboard: <kbd>+</kbd> <kbd>-</kbd> <kbd>←</kbd> <kbd>→</kbd> on a picture.</p>";
    let blocks =
        over_time::all(subjects).into_iter().chain(shapes::all(subjects)).chain(details::all(subjects));
    let mut lacking = Vec::new();
    let mut shown = String::new();
    for block in blocks {
        match &block {
            Block::Picture(_) => shown += &picture::html(&block, "p")?,
            Block::Lacking(..) => lacking.push(picture::html(&block, "p")?),
        }
    }
    Ok(format!("{out}<div class=\"pictures\">{shown}{}</div></section>", lacking.concat()))
}

fn events_section(lists: &[Value]) -> String {
    let several = lists.len() > 1;
    let mut rows = String::new();
    let mut all = 0;
    for (i, s) in lists.iter().enumerate() {
        for row in s["events"].as_array().into_iter().flatten() {
            all += 1;
            if all <= STATIC_ROWS {
                rows += &event_row(i, row, several);
            }
        }
    }
    if all == 0 {
        return String::new();
    }
    let omitted: u64 = lists.iter().filter_map(|s| s["events_omitted"].as_u64()).sum();
    let left = if omitted > 0 {
        format!(
            " {} of less weight are left out; <code>metronome report --csv</code> has one line for each.",
            omitted
        )
    } else {
        String::new()
    };
    let run = if several { "<th scope=\"col\">Run</th>" } else { "" };
    format!(
        "<section id=\"events\"><h2>Events</h2><p class=\"hint\">{all} events worth a line.{left}</p>\
         <p class=\"tools\"><label>Filter <input type=\"search\" id=\"filter\" placeholder=\"words\"/></label>\
         <label>Kind <select id=\"kind\"><option value=\"\">all</option></select></label>\
         <button type=\"button\" data-export=\"events\">These as CSV</button>\
         <span id=\"count\" aria-live=\"polite\"></span></p>\
         <div class=\"wide scroll\"><table id=\"event-table\"><thead><tr>{run}<th scope=\"col\">Time</th><th \
         scope=\"col\">Line</th><th scope=\"col\">Kind</th><th scope=\"col\">What</th></tr></thead><tbody>{rows}</tbody>\
         </table></div><p class=\"printed\">On paper are the first 50 of these rows at most; <code>metronome report \
         --csv</code> has one line for each event.</p></section>"
    )
}

fn event_row(subject: usize, row: &Value, several: bool) -> String {
    let run = if several { format!("<td>{}</td>", subject + 1) } else { String::new() };
    format!(
        "<tr>{run}<td>{:.3} s</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        row[0].as_f64().unwrap_or(0.0) / 1e3,
        row[1],
        escape::text(row[2].as_str().unwrap_or_default()),
        escape::text(row[3].as_str().unwrap_or_default())
    )
}

/// Logs that hold nothing to show, and how many runs do not fit.
fn others(logs: &[ReadLog], more: u64) -> String {
    let mut rows = Vec::new();
    for log in logs {
        let name = escape::clipped(&log.file);
        for policy in log.analysis.refused.rows.iter().take(NAMED) {
            rows.push(format!("<li>{name}: {}</li>", escape::clipped(&policy.to_string())));
        }
        if let Some(why) = &log.broke_off {
            rows.push(format!("<li>{name}: reading ended early: {}</li>", escape::clipped(why)));
        }
        if log.analysis.events == 0 && log.analysis.refused.total() == 0 {
            rows.push(format!("<li>{name}: no event of a Metronome collector</li>"));
        }
    }
    let hidden = rows.len().saturating_sub(NAMED);
    rows.truncate(NAMED);
    if hidden > 0 {
        rows.push(format!("<li>and {hidden} more</li>"));
    }
    if more > 0 {
        rows.push(format!(
            "<li>{more} more runs are not shown: a page shows {}; give fewer logs</li>",
            subject::MOST
        ));
    }
    for log in logs.iter().filter(|l| l.analysis.runs.omitted > 0) {
        let (a, name) = (&log.analysis, escape::clipped(&log.file));
        rows.push(format!(
            "<li>{name}: {} runs beyond the first {} are judged, but have no figures; {} of them have findings: see \
             <code>metronome advise</code></li>",
            a.runs.omitted,
            a.runs.rows.len(),
            a.beyond.sick
        ));
    }
    if rows.is_empty() {
        return String::new();
    }
    format!("<section id=\"others\"><h2>Not shown</h2><ul>{}</ul></section>", rows.concat())
}

fn diagnostics(logs: &[ReadLog]) -> String {
    let total: u64 = logs.iter().map(|l| l.analysis.diagnostics.total()).sum();
    if total == 0 {
        return String::new();
    }
    let all = logs.iter().flat_map(|l| l.analysis.diagnostics.rows.iter().map(move |d| (l, d)));
    let row = |(log, d): (&ReadLog, &metronome_verbosegc::reader::Diagnostic)| {
        let name = if logs.len() > 1 { format!("{}: ", escape::clipped(&log.file)) } else { String::new() };
        format!("<li>{name}{}</li>", escape::clipped(&d.to_string()))
    };
    let rows: String = all.take(DIAGNOSTICS).map(row).collect();
    let more = total.saturating_sub(DIAGNOSTICS as u64);
    let more =
        if more > 0 { format!("<li>and {more} more: see <code>--json</code></li>") } else { String::new() };
    format!(
        "<details id=\"diagnostics\"><summary>Oddities of the log ({total}), by line and column</summary><ul>{rows}{more}\
         </ul></details>"
    )
}
