//! What stress modes change in the driver's rounds.

use super::{Driver, Round};
use crate::reason::CycleReason;
use metronome_scheduler::Decision;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// While a mode keeps the collector from stepping, it looks again this often.
pub(super) const LOOK_NS: u64 = 50_000;

/// The driver's notes under stress.
#[derive(Debug, Default)]
pub(super) struct Stressed {
    /// The last quantum ended before a switch of the phase: every mutator is to run before the next one.
    pub(super) yields: bool,
    /// This round is about a step that a mutator has asked for.
    polled: bool,
    /// The cycle began for no other reason: it stands still while nobody polls and nobody waits.
    by_poll: bool,
}

impl Driver {
    /// A round under `poll`: with a step asked for, it is answered at the round's end whatever the round did.
    pub(super) fn polled_round(&mut self) -> Round {
        self.stressed.polled = self.shared.stress.asked.is_open();
        let round = self.round_once();
        if !self.stressed.polled {
            return round;
        }
        Arc::clone(&self.shared).stress.asked.answer();
        Round::Ran
    }

    /// A cycle starts whenever a step is asked for while none is active.
    pub(super) fn or_polled(&mut self, reason: Option<CycleReason>) -> Option<CycleReason> {
        self.stressed.by_poll = reason.is_none();
        reason.or(self.stressed.polled.then_some(CycleReason::Explicit))
    }

    /// Whether a mode keeps the collector from stepping now.
    pub(super) fn must_not_step(&mut self, commanded: bool) -> bool {
        let s = &self.shared;
        if s.gate.polls_always() && !self.stressed.polled && self.stressed.by_poll {
            // Acquire: pairs with the AcqRel in `request_cycle`. Relaxed, here and below: hints; looked at again soon.
            let asked_for = s.requested.load(Acquire) > s.cycles_done.load(Relaxed);
            let waited = s.waiting_for_memory.load(Relaxed) + s.waiting_for_cycle.load(Relaxed) > 0;
            if !(commanded || asked_for || waited) {
                return true;
            }
        }
        // To be stopped again, who runs has to pass a poll.
        // Relaxed: a hint; who is counted runs on by itself.
        let all_run = s.paused.load(Relaxed) == 0 || self.stressed.polled || commanded;
        self.stressed.yields &= !all_run;
        self.stressed.yields
    }

    /// The scheduler's decision, but where a mode has the collector run whatever the target utilization is.
    pub(super) fn decide(&mut self, now: u64) -> Decision {
        if self.shared.config.stress.unpaced() {
            return Decision::Run { budget_ns: self.shared.config.quantum_ns };
        }
        self.scheduler.decide(now)
    }
}
