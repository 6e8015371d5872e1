//! Tuning advice: rules over the figures of a run, each with its evidence.
//!
//! The rules R1 to R25 are those that experience with IBM's and OpenJ9's collectors has left; O1 to O10 are of what only
//! this project's logs tell. Thresholds that a rule's source does not give are constants of the rule's module. A rule
//! that lacks what it needs says so ([`Advice::not_enough_data`]) instead of guessing.

mod memory;
mod pauses;
mod setup;
mod words;

use crate::contract::{self, ContractReport};
use crate::figures::{Analysis, RunFigures, Writer};
use metronome_verbosegc::model::Initialized;
use words::Knob;
pub(crate) use words::{bytes, count, ms, percent};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Explains; nothing is wrong.
    Explain = 0,
    /// Worth knowing.
    Note = 1,
    /// The real-time contract is at risk.
    Risk = 2,
    /// The real-time contract is broken.
    Broken = 3,
}

impl Severity {
    /// Words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Explain => "explained",
            Self::Note => "worth knowing",
            Self::Risk => "at risk",
            Self::Broken => "contract broken",
        }
    }
}

/// Something that a rule found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule: `R1`.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What is the matter, in a few words.
    pub title: String,
    /// What in the log shows it, with numbers.
    pub evidence: String,
    /// Lines of the records that show it, from 1, in order.
    pub lines: Vec<u64>,
    /// What to do, in the flags of the collector that wrote the log.
    pub advice: String,
    /// The run's place in the log, from 0: its index in [`Analysis::runs`], if it is among those kept.
    pub run: usize,
}

/// A rule that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotEnough {
    /// The rules: `R8, R9`.
    pub rules: &'static str,
    /// What is missing.
    pub why: String,
    /// Index of the run.
    pub run: usize,
}

/// What there is to say of a log.
#[derive(Clone, Debug, Default)]
pub struct Advice {
    /// Findings, the worst first; none for a healthy log.
    pub findings: Vec<Finding>,
    /// What looks odd and is not.
    pub explanations: Vec<Finding>,
    /// Rules that could not be applied.
    pub not_enough_data: Vec<NotEnough>,
    /// The contract of each run that tells enough, by the run's index.
    pub contracts: Vec<(usize, Result<ContractReport, String>)>,
}

/// Rules that tell a cause, the likelier first; the others tell what follows from causes, or what is worth knowing.
const CAUSES: [&str; 11] = ["O9", DEAF, "O2", "R8", "O10", "O1", "R10", "O3", "R16", "O4", "R3"];
/// O1 where one mutator is to blame; else a busy host may be, too.
const DEAF: &str = "O1, of one that does not poll";

/// Rules that a larger heap may put an end to.
const SHORT_OF_HEAP: [&str; 6] = ["R1", "R2", "R9", "R11", "R12", "R13"];
/// Rules that say that the collector did not get its processor, or waited for a mutator.
const HELD_UP: [&str; 3] = ["O9", "O2", "R8"];

impl Finding {
    /// Place among the causes, the likelier first; beyond them all for rules that tell what follows.
    pub fn cause(&self) -> usize {
        let this = if self.title == pauses::DOES_NOT_POLL { DEAF } else { self.rule };
        CAUSES.iter().position(|rule| *rule == this).unwrap_or(CAUSES.len())
    }
}

impl Advice {
    /// The findings of a run that tell why, the likelier first: what somebody should look at before anything else.
    pub fn causes(&self, run: usize) -> Vec<&Finding> {
        let of_run = self.findings.iter().filter(|f| f.run == run && f.severity >= Severity::Risk);
        let mut causes: Vec<_> = of_run.filter(|f| f.cause() < CAUSES.len()).collect();
        causes.sort_by_key(|f| f.cause());
        causes
    }

    /// A heap that is smaller than what the collector, or else the contract, computed to be enough: its size, and that.
    /// `None` where nothing is amiss, and where the collector did not get its processor or waited for a mutator: no figure
    /// tells what is enough then.
    pub fn small_heap(&self, index: usize, run: &RunFigures) -> Option<(u64, u64)> {
        let found = |rules: &[&str]| self.findings.iter().any(|f| f.run == index && rules.contains(&f.rule));
        if !found(&SHORT_OF_HEAP) || found(&HELD_UP) {
            return None;
        }
        let heap = run.heap_bytes?;
        let told = Some(run.own.enough_heap.value).filter(|enough| *enough > 0);
        let enough = told.or_else(|| self.contract(index)?.heap_for_target)?;
        (enough > heap).then_some((heap, enough))
    }

    /// The contract of a run, if it could be measured.
    pub fn contract(&self, run: usize) -> Option<&ContractReport> {
        self.contracts.iter().find(|(i, _)| *i == run)?.1.as_ref().ok()
    }
}

/// Applies all rules to all runs. Costs no more than the lists' lengths.
pub fn advise(analysis: &Analysis) -> Advice {
    let mut advice = Advice::default();
    for (index, run) in analysis.runs.rows.iter().enumerate() {
        if run.refused.is_some() || run.events == 0 {
            continue;
        }
        judge(run, index, &mut advice);
    }
    advice.findings.extend(analysis.beyond.findings.rows.iter().cloned());
    let worst_first = |f: &Finding| (std::cmp::Reverse(f.severity), f.run);
    advice.findings.sort_by_key(worst_first);
    advice
}

/// Applies all rules to a run.
fn judge(run: &RunFigures, index: usize, advice: &mut Advice) {
    let contract = contract::measure(run);
    let mut desk = Desk::new(run, index, contract.as_ref().ok(), advice);
    memory::rules(&mut desk);
    pauses::rules(&mut desk);
    setup::rules(&mut desk);
    advice.contracts.push((index, contract));
}

/// The findings of a run whose figures are not kept.
pub(crate) fn findings(run: &RunFigures, index: usize) -> Vec<Finding> {
    let mut advice = Advice::default();
    if run.refused.is_none() && run.events > 0 {
        judge(run, index, &mut advice);
    }
    advice.findings
}

/// A run under examination.
struct Desk<'a> {
    run: &'a RunFigures,
    index: usize,
    writer: Writer,
    /// Planned length of a quantum, and whether the log tells it.
    beat_ns: u64,
    beat_known: bool,
    target_ppm: u32,
    contract: Option<&'a ContractReport>,
    out: &'a mut Advice,
}

/// Default beat of IBM's and OpenJ9's collectors.
const JAVA_BEAT_NS: u64 = 3_000_000;
/// Default quantum of this project's.
const OWN_BEAT_NS: u64 = 500_000;

impl<'a> Desk<'a> {
    fn new(
        run: &'a RunFigures,
        index: usize,
        contract: Option<&'a ContractReport>,
        out: &'a mut Advice,
    ) -> Self {
        let writer = run.writer.unwrap_or(Writer::OpenJ9);
        let config = run.config.as_deref();
        let told = config.and_then(|c| c.beat_ns.or_else(|| option_ms(c, "-Xgc:targetPausetime=")));
        let default = if writer == Writer::MetronomeGc { OWN_BEAT_NS } else { JAVA_BEAT_NS };
        let target_ppm = config.and_then(|c| c.target_ppm).unwrap_or(contract::DEFAULT_TARGET_PPM);
        Self {
            run,
            index,
            writer,
            beat_ns: told.filter(|ns| *ns > 0).unwrap_or(default),
            beat_known: told.is_some(),
            target_ppm,
            contract,
            out,
        }
    }

    fn own(&self) -> bool {
        self.writer == Writer::MetronomeGc
    }

    fn config(&self) -> Option<&'a Initialized> {
        self.run.config.as_deref()
    }

    /// The rule that says that the collector did not get its processor or waited for a mutator, if one does: then no remedy
    /// names a larger heap.
    fn held_up(&self) -> Option<&'static str> {
        if !self.run.own.overdue.is_empty() {
            return Some("O9");
        }
        let starved = (self.run.share.starved > 0).then_some("R8");
        if pauses::is_preempted(self.run) { Some("O2") } else { starved }
    }

    /// What comes before everything else where the collector was held up.
    fn first_words(&self) -> Option<String> {
        let rule = self.held_up()?;
        let (what, which) = match rule {
            "O9" => ("let that mutator come by safepoints", "while cycles wait for it"),
            _ => ("give the collector its processor", "while it does not get one"),
        };
        Some(format!("first {what} (see {rule}): {which}, no figure of this log tells what heap is enough"))
    }

    /// How the collector gets its processor: no priority that it has already.
    fn processor_words(&self) -> String {
        let cpu = self.flag(Knob::Threads);
        match self.run.priority.filter(|p| self.own() && p.min > 0) {
            Some(p) => format!("a processor of its own ({cpu}); it has priority {} already", p.min),
            None => {
                format!("{} (needs rtprio) and a processor of its own ({cpu})", self.flag(Knob::Priority))
            }
        }
    }

    /// The flag or key for something, in the words of the log's collector.
    fn flag(&self, knob: Knob) -> &'static str {
        words::flag(self.writer, knob)
    }

    /// Where the beat comes from, for evidence.
    fn beat_words(&self) -> String {
        let source = if self.beat_known { "" } else { ", the default: the log has no header" };
        format!("{}{source}", ms(self.beat_ns))
    }

    fn find(
        &mut self,
        rule: &'static str,
        severity: Severity,
        title: impl Into<String>,
        evidence: String,
        lines: &[u64],
        advice: String,
    ) {
        let mut lines: Vec<u64> = lines.iter().copied().filter(|l| *l > 0).collect();
        lines.sort_unstable();
        lines.dedup();
        let found = Finding { rule, severity, title: title.into(), evidence, lines, advice, run: self.index };
        match severity {
            Severity::Explain => self.out.explanations.push(found),
            _ => self.out.findings.push(found),
        }
    }

    fn lacks(&mut self, rules: &'static str, why: impl Into<String>) {
        self.out.not_enough_data.push(NotEnough { rules, why: why.into(), run: self.index });
    }
}

/// A whole number of milliseconds after an option's name, in nanoseconds.
fn option_ms(config: &Initialized, name: &str) -> Option<u64> {
    option(config, name)?.parse::<u64>().ok()?.checked_mul(1_000_000)
}

/// What follows an option's name, in the order given: the last one counts.
fn option<'a>(config: &'a Initialized, name: &str) -> Option<&'a str> {
    config.vmargs.iter().rev().find_map(|(arg, _)| arg.strip_prefix(name))
}
