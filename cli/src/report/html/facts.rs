//! Numbers on the page. Each is taken from the page's own JSON by its path and carries that path, so what is shown cannot
//! differ from what is exported, and both can be checked.

use super::escape;
use crate::quantity;
use serde_json::Value;

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// Milliseconds.
    Ms,
    Bytes,
    BytesPerSecond,
    Percent,
    Count,
}

impl Show {
    const fn name(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes/s",
            Self::Percent => "percent",
            Self::Count => "count",
        }
    }

    /// Words for a number.
    pub(super) fn words(self, v: f64) -> String {
        match self {
            Self::Ms => quantity::time((v * 1e6).round() as u64).replace("us", "µs"),
            Self::Bytes => quantity::bytes(v as u64),
            Self::BytesPerSecond => format!("{}/s", quantity::bytes(v as u64)),
            Self::Percent => format!("{v:.1} %"),
            Self::Count => quantity::grouped(v as u64),
        }
    }
}

/// The page's JSON, and where in it one looks.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    root: &'a Value,
    log: usize,
    run: usize,
}

impl<'a> Facts<'a> {
    pub(super) const fn new(root: &'a Value, log: usize, run: usize) -> Self {
        Self { root, log, run }
    }

    fn pointer(&self, path: &str) -> String {
        format!("/logs/{}/runs/{}/{path}", self.log, self.run)
    }

    /// The number at a path in the run; `None` if there is none.
    pub(super) fn number(&self, path: &str) -> Option<f64> {
        self.root.pointer(&self.pointer(path))?.as_f64()
    }

    /// True if there is this truth value at a path in the run.
    pub(super) fn is(&self, path: &str, value: bool) -> bool {
        self.root.pointer(&self.pointer(path)).and_then(Value::as_bool) == Some(value)
    }

    /// The list at a path in the run.
    pub(super) fn list(&self, path: &str) -> &'a [Value] {
        self.root.pointer(&self.pointer(path)).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The number at a path as HTML.
    pub(super) fn html(&self, path: &str, show: Show) -> Option<String> {
        self.at(&self.pointer(path), show)
    }

    /// The number as HTML if there is one and it is not 0.
    pub(super) fn counted(&self, path: &str, show: Show) -> Option<String> {
        self.number(path).filter(|n| *n != 0.0)?;
        self.html(path, show)
    }

    /// Least to most.
    pub(super) fn range(&self, path: &str, show: Show) -> Option<String> {
        let (min, max) = (format!("{path}/min"), format!("{path}/max"));
        let (a, b) = (self.html(&min, show)?, self.html(&max, show)?);
        Some(if self.number(&min) == self.number(&max) { a } else { format!("{a} to {b}") })
    }

    /// The pointer of the run's contract, if it was measured.
    pub(super) fn contract(&self) -> Option<String> {
        let all = self.root.pointer(&format!("/logs/{}/contracts", self.log))?.as_array()?;
        let i = all.iter().position(|c| c["run"] == self.run && !c["contract"].is_null())?;
        Some(format!("/logs/{}/contracts/{i}/contract", self.log))
    }

    /// The number at a path in the whole JSON as HTML.
    pub(super) fn at(&self, pointer: &str, show: Show) -> Option<String> {
        let value = self.root.pointer(pointer)?;
        let words = show.words(value.as_f64()?);
        Some(format!(
            "<data value=\"{}\" data-path=\"{}\" data-unit=\"{}\">{}</data>",
            escape::text(&value.to_string()),
            escape::text(pointer),
            show.name(),
            escape::text(&words)
        ))
    }
}
