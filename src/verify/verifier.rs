//! The verifier of one heap: which checks run at which edges.

use super::graph::Graph;
use super::heap;
use super::outcome::{AT_MOST, Edge, Floating, Found, VerifyReport, View, Violation};
use super::{remark, report, snapshot::Snapshot};
use crate::collector::Stopped;
use crate::config::Verify;
use crate::shared::Shared;

/// Collects what is found at one edge.
pub(super) struct Out<'a> {
    found: &'a mut Found,
    edge: Edge,
    cycle: u64,
    here: usize,
}

impl Out<'_> {
    pub(super) fn report(&mut self, invariant: &'static str, detail: String) {
        self.report_with(invariant, detail, || None);
    }

    /// The same with a path, which is looked for only if the violation is kept.
    pub(super) fn report_with(
        &mut self,
        invariant: &'static str,
        detail: String,
        path: impl FnOnce() -> Option<String>,
    ) {
        if self.here == AT_MOST {
            self.found.more += 1;
            return;
        }
        self.here += 1;
        let (edge, cycle) = (self.edge.name(), self.cycle);
        self.found.violations.push(Violation { invariant, edge, cycle, detail, path: path() });
    }
}

/// What a heap verifies, and what it has found.
#[derive(Debug)]
pub(crate) struct Verifier {
    checks: Verify,
    /// A violation ends the process, at once.
    fatal: bool,
    /// This cycle is one of those that are verified.
    active: bool,
    snapshot: Option<Snapshot>,
    found: Found,
}

impl Verifier {
    /// A verifier for these checks; `None` if there are none.
    pub(crate) fn new(checks: Verify, fatal: bool) -> Option<Verifier> {
        checks.is_on().then(|| Verifier {
            checks,
            fatal,
            active: false,
            snapshot: None,
            found: Found::default(),
        })
    }

    /// Whether anything is to be done at this edge of cycle number `cycle`.
    pub(crate) fn wants(&mut self, edge: Edge, cycle: u64) -> bool {
        if edge == Edge::Arm {
            self.active = cycle.is_multiple_of(u64::from(self.checks.every.max(1)));
        }
        self.active
    }

    /// Whether the cycle that is active, or was last, is one of those that are verified.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Checks what must hold at an edge. The floating garbage, where it was measured.
    pub(crate) fn at(&mut self, edge: Edge, s: &Shared, _: &Stopped<'_>, view: &View) -> Option<Floating> {
        let graph = Graph::new(s);
        let mut out = Out { found: &mut self.found, edge, cycle: view.cycle, here: 0 };
        if self.checks.heap {
            heap::check(&graph, edge, view, &mut out);
        }
        if self.checks.snapshot {
            match edge {
                Edge::Arm => self.snapshot = Some(Snapshot::record(&graph)),
                Edge::Weak => {
                    if let Some(snapshot) = self.snapshot.take() {
                        snapshot.compare(&graph, &mut out);
                    }
                }
                _ => {}
            }
        }
        let mut floating = None;
        if self.checks.remark && edge == Edge::Weak {
            floating = Some(remark::check(&graph, view, &mut out));
        }
        if self.fatal && !self.found.violations.is_empty() {
            report::abort(s, &self.found);
        }
        floating
    }

    /// What has been found since this was last called.
    #[cfg(feature = "hooks")]
    pub(crate) fn take(&mut self) -> Found {
        std::mem::take(&mut self.found)
    }

    /// The heap's checks, asked for at any time between two steps of the collector.
    pub(crate) fn demand(s: &Shared, _: &Stopped<'_>, view: &View) -> Option<(VerifyReport, Found)> {
        let graph = Graph::new(s);
        let edge = Edge::Demand(s.phase.get());
        let mut found = Found::default();
        let mut out = Out { found: &mut found, edge, cycle: view.cycle, here: 0 };
        let report = heap::check(&graph, edge, view, &mut out);
        Some((report, found))
    }
}
