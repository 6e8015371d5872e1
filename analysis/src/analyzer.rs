//! From the reader's items to the figures of a log.

use crate::advice;
use crate::figures::{Analysis, Mark, RunFigures, Writer};
use crate::kept::Kept;
use crate::run::RunBuilder;
use crate::series::MAX_BUCKETS;
use metronome_verbosegc::reader::{Diagnostic, DiagnosticKind, Item, OtherPolicy, Reader};
use std::io::{self, BufRead};

/// Diagnostics kept.
const MAX_DIAGNOSTICS: usize = 10_000;
/// Runs kept.
const MAX_RUNS: usize = 1_000;
/// Findings kept of the runs beyond.
const MAX_FINDINGS: usize = 1_000;
/// Refusals kept.
const MAX_REFUSED: usize = 100;
/// Rows of all lists of all runs together: bounds the memory of a file with many runs.
pub(crate) const MAX_ROWS: usize = 400_000;

/// Buckets of all runs together, beyond which a run's series has few.
const MAX_BUCKETS_OF_ALL: usize = 100_000;
/// Buckets of a run among very many.
const FEW_BUCKETS: usize = 128;

/// Takes a reader's items and keeps the figures. Memory is bounded (INV-ANALYSIS-BOUNDED: about 150 MB at the very most, a
/// few for usual logs); one item costs constant time, a few hundred ns.
#[derive(Debug, Default)]
pub struct Analyzer {
    done: Analysis,
    run: Option<RunBuilder>,
    /// All runs so far had their end tag.
    all_complete: bool,
    writers: Option<Option<Writer>>,
    rows: usize,
    /// Buckets of the series of all runs.
    buckets: usize,
}

impl Analyzer {
    /// An analyzer that has seen nothing.
    pub fn new() -> Self {
        Self { all_complete: true, ..Self::default() }
    }

    /// Takes the next item.
    pub fn push(&mut self, item: &Item) {
        match item {
            Item::RunStart(start) => {
                self.end_run(false);
                let room = MAX_ROWS.saturating_sub(self.rows);
                self.run = Some(RunBuilder::new(start, room));
            }
            Item::Event(event) => {
                self.done.events += 1;
                if let Some(run) = &mut self.run {
                    run.event(event);
                    objections(&mut self.done.diagnostics, run);
                }
            }
            Item::Diagnostic(d) => self.diagnose(d),
            Item::Refused(policy) => self.refuse(policy),
            Item::RunEnd(end) => {
                if let Some(run) = &mut self.run {
                    run.learn(end.generation);
                }
                self.end_run(end.complete);
            }
            // The reader may come to know more kinds of items, none of them an event.
            _ => {}
        }
    }

    /// The figures of what was taken; a run without its end is included as it is.
    pub fn finish(mut self) -> Analysis {
        self.end_run(false);
        let beyond = &mut self.done.beyond;
        beyond.findings.rows.append(&mut beyond.last);
        self.done.complete = self.all_complete && self.done.runs.total() > 0;
        self.done.writer = self.writers.flatten();
        self.done
    }

    /// The figures so far, of a log that is still being written. Costs a copy of all of them.
    pub fn so_far(&self) -> Analysis {
        let copy = Self {
            done: self.done.clone(),
            run: self.run.clone(),
            all_complete: self.all_complete,
            writers: self.writers,
            rows: self.rows,
            buckets: self.buckets,
        };
        copy.finish()
    }

    /// The marks of the run under way so far, for following a log that is still being written.
    pub fn marks(&self) -> &[Mark] {
        self.run.as_ref().map_or(&[], |run| &run.f.marks.rows)
    }

    fn diagnose(&mut self, d: &Diagnostic) {
        // Events that are lost, or whose time is not to be believed, may have been quanta.
        let lost =
            matches!(d.kind, DiagnosticKind::Order | DiagnosticKind::Clock | DiagnosticKind::Structure);
        if let Some(run) = self.run.as_mut().filter(|_| lost) {
            run.gap();
        }
        push_lazily(&mut self.done.diagnostics, MAX_DIAGNOSTICS, || d.clone());
    }

    fn refuse(&mut self, policy: &OtherPolicy) {
        push_lazily(&mut self.done.refused, MAX_REFUSED, || policy.clone());
        if let Some(run) = &mut self.run {
            run.refuse(policy);
        }
    }

    fn end_run(&mut self, complete: bool) {
        let Some(mut run) = self.run.take() else { return };
        run.end();
        objections(&mut self.done.diagnostics, &mut run);
        let mut figures = run.finish(complete);
        let fine = self.buckets < MAX_BUCKETS_OF_ALL;
        figures.series.shrink(if fine { MAX_BUCKETS } else { FEW_BUCKETS });
        self.buckets += figures.series.buckets.len();
        self.all_complete &= complete;
        self.writers = Some(match self.writers {
            None => figures.writer,
            Some(w) if w == figures.writer => w,
            Some(_) => None,
        });
        if self.done.runs.rows.len() >= MAX_RUNS {
            return self.judge(&figures);
        }
        self.rows += figures.heartbeats.rows.len()
            + figures.cycle_rows.rows.len()
            + figures.marks.rows.len()
            + figures.synchronous.rows.len();
        self.done.runs.rows.push(figures);
    }

    /// A run of which nothing but its findings is kept.
    fn judge(&mut self, run: &RunFigures) {
        let found = advice::findings(run, self.done.runs.total() as usize);
        self.done.runs.omitted += 1;
        if run.refused.is_some() || run.events == 0 {
            return;
        }
        let beyond = &mut self.done.beyond;
        beyond.judged += 1;
        beyond.sick += u64::from(!found.is_empty());
        for f in beyond.last.drain(..) {
            beyond.findings.push(f, MAX_FINDINGS);
        }
        beyond.last = found;
    }
}

/// What a run's times are objected to.
fn objections(list: &mut Kept<Diagnostic>, run: &mut RunBuilder) {
    for d in run.objections() {
        list.push(d, MAX_DIAGNOSTICS);
    }
}

fn push_lazily<T>(list: &mut Kept<T>, most: usize, row: impl FnOnce() -> T) {
    if list.rows.len() < most { list.rows.push(row()) } else { list.omitted += 1 }
}

/// Reads a whole log.
///
/// # Errors
/// Those of the input; content is never an error.
pub fn analyze(input: impl BufRead) -> io::Result<Analysis> {
    let mut reader = Reader::new(input);
    let mut analyzer = Analyzer::new();
    while let Some(item) = reader.read()? {
        analyzer.push(&item);
    }
    Ok(analyzer.finish())
}
