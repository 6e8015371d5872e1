//! A finding: what was looked at, what was found, whether it is good, what to do.

use serde_json::{Value, json};

/// How good a finding is; ordered, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// The host does not say.
    Unknown,
    Ok,
    /// May break the contract now and then.
    Warn,
    /// Will break it.
    Bad,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Unknown => "unknown",
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Bad => "bad",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) topic: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    pub(super) advice: Option<String>,
    /// Whether the collector cannot run at all because of this.
    pub(super) impossible: bool,
}

impl Finding {
    pub(super) fn new(topic: &'static str, verdict: Verdict, found: impl Into<String>) -> Finding {
        Finding { topic, verdict, found: found.into(), advice: None, impossible: false }
    }

    /// For a source that is missing or says something that this program does not understand.
    pub(super) fn unknown(topic: &'static str, source: &str) -> Finding {
        Finding::new(topic, Verdict::Unknown, format!("{source} is missing or not understood"))
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Finding {
        self.advice = Some(advice.into());
        self
    }

    pub(super) fn impossible(mut self) -> Finding {
        self.impossible = true;
        self
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "topic": self.topic,
            "verdict": self.verdict.word(),
            "found": self.found,
            "advice": self.advice,
            "impossible": self.impossible,
        })
    }
}
