//! The runs that a page is about.

use super::columns::{Column, columns};
use super::facts::Facts;
use crate::logs::ReadLog;
use metronome_analysis::RunFigures;
use metronome_analysis::advice::Advice;
use metronome_analysis::contract::ContractReport;
use serde_json::Value;

/// Runs shown; curves of more could not be told apart.
pub(super) const MOST: usize = super::plot::CURVES as usize;
/// Columns of all runs together, which bounds the page.
const COLUMNS: usize = 1_500;

/// One run of one log.
pub(super) struct Subject<'a> {
    pub(super) log: &'a ReadLog,
    pub(super) advice: &'a Advice,
    pub(super) run: &'a RunFigures,
    /// Index of the log and of the run within it.
    pub(super) at: (usize, usize),
    /// Place among the subjects: its colour.
    pub(super) index: u8,
    /// What it is called on the page, not yet escaped.
    pub(super) name: String,
    pub(super) facts: Facts<'a>,
    pub(super) columns: Vec<Column>,
    pub(super) contract: Option<&'a ContractReport>,
}

/// Places of the runs that have something to show: the first [`MOST`], and how many more there are.
pub(super) fn choose(logs: &[ReadLog]) -> (Vec<(usize, usize)>, u64) {
    let shown = |(i, log): (usize, &ReadLog)| {
        let runs = log.analysis.runs.rows.iter().enumerate();
        let some = runs.filter(|(_, r)| r.refused.is_none() && r.events > 0);
        some.map(move |(j, _)| (i, j)).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = logs.iter().enumerate().flat_map(shown).collect();
    let beyond: u64 = logs.iter().map(|l| l.analysis.runs.omitted).sum();
    let more = all.len().saturating_sub(MOST) as u64 + beyond;
    all.truncate(MOST);
    (all, more)
}

/// The subjects at these places.
pub(super) fn subjects<'a>(
    logs: &'a [ReadLog],
    advice: &'a [Advice],
    places: &[(usize, usize)],
    root: &'a Value,
) -> Vec<Subject<'a>> {
    let most = COLUMNS / places.len().max(1);
    let one = |(index, at): (usize, &(usize, usize))| {
        let (log, advice) = (&logs[at.0], &advice[at.0]);
        let run = &log.analysis.runs.rows[at.1];
        let number =
            if log.analysis.runs.total() > 1 { format!(", run {}", at.1 + 1) } else { String::new() };
        let contract = advice.contracts.iter().find(|(i, _)| *i == at.1);
        Subject {
            log,
            advice,
            run,
            at: *at,
            index: index as u8,
            name: format!("{}{number}", super::escape::clip(&file_name(logs, at.0), 80)),
            facts: Facts::new(root, at.0, at.1),
            columns: columns(run, most),
            contract: contract.and_then(|(_, c)| c.as_ref().ok()),
        }
    };
    places.iter().enumerate().map(one).collect()
}

/// The name of a log without its folders, unless another log has the same.
fn file_name(logs: &[ReadLog], i: usize) -> String {
    let last = |f: &str| f.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or(f).to_owned();
    let name = last(&logs[i].file);
    let same = logs.iter().filter(|l| last(&l.file) == name).count();
    match (name.as_str(), same) {
        ("-", _) => "standard input".into(),
        (_, 1) => name,
        _ => logs[i].file.clone(),
    }
}
