//! What the collector may do in a state.

use crate::rules::Rule;
use crate::state::{Life, Place, Registration, State, Weak, bit};
use crate::steps::{Model, Step, has_passed, is_unmarked};
use metronome_barrier::Phase;

impl Model {
    /// All steps of the collector.
    pub(crate) fn collector(&self, s: &State, out: &mut Vec<Step>) {
        let first = out.len();
        match s.phase {
            Phase::Idle => out.push(Step::Arm),
            Phase::Snapshot | Phase::Mark => self.marking(s, out),
            Phase::Weak => {
                let find = (0..self.scope.finalizers).filter(|&e| self.is_to_find(s, &s.registrations[e]));
                out.extend(find.map(|e| Step::FindDead { e }));
                let found = out.len() == first;
                self.clearing(s, out);
                let cleared = out.len() == first;
                if cleared || (found && !self.rules.has(Rule::WeakClearedBeforeFinalize)) {
                    out.push(Step::BeginFinalize);
                }
            }
            Phase::Finalize => self.finalizing(s, out),
            Phase::Phantom => {
                if is_unmarked(s, s.long) && self.rules.has(Rule::LongClearedBeforeSweep) {
                    out.push(Step::ClearLong);
                }
                if self.rules.has(Rule::EphemeronClearedBeforeSweep) {
                    let left = (0..self.scope.ephemerons).filter(|&e| is_unmarked(s, s.ephemerons[e].key));
                    out.extend(left.map(|e| Step::ClearEphemeron { e }));
                }
                let cleared = out.len() == first;
                let dead = (0..self.scope.finalizers).filter(|&e| s.registrations[e].life == Life::Dead);
                out.extend(dead.map(|e| Step::Queue { e }));
                let queued = out.len() == first;
                if queued || (cleared && !self.rules.has(Rule::DeadQueuedBeforeSweep)) {
                    out.push(Step::BeginSweep);
                }
            }
            Phase::Sweep => {
                let left = (0..self.scope.objects).filter(|&o| s.swept & bit(o) == 0);
                out.extend(left.map(|o| Step::Sweep { o }));
                if out.len() == first {
                    out.push(Step::EndCycle);
                }
            }
        }
    }

    fn marking(&self, s: &State, out: &mut Vec<Step>) {
        let scope = &self.scope;
        let first = out.len();
        let all_passed = self.mutators().all(|m| has_passed(s, m));
        if s.phase == Phase::Snapshot && all_passed {
            out.push(Step::AllPassed);
        }
        let there = |m: &usize| s.mutators[*m].place != Place::Absent;
        for m in self.mutators().filter(|&m| has_passed(s, m)).filter(there) {
            let left = (0..scope.roots).filter(|&e| !s.mutators[m].roots[e].taken);
            out.extend(left.map(|e| Step::TakeRoot { m, e }));
        }
        let tables_taken = out[first..].iter().all(|x| !matches!(x, Step::TakeRoot { .. }));
        let left = (0..scope.globals).filter(|&e| !s.globals[e].taken);
        out.extend(left.map(|e| Step::TakeGlobal { e }));
        let globals_taken = s.globals[..scope.globals].iter().all(|e| e.taken);
        // An entry leaves the queue only; new ones come in Phantom.
        let waits = |x: &Registration| x.life == Life::Queued && is_unmarked(s, x.reference);
        let left = (0..scope.finalizers).filter(|&e| waits(&s.registrations[e]));
        let before = out.len();
        out.extend(left.map(|e| Step::TakeQueued { e }));
        let queue_taken = out.len() == before;
        self.values(s, Rule::EndWaitsForEphemerons, out);
        let values_marked = !out.iter().any(|x| matches!(x, Step::MarkValue { .. }));
        let nothing_grey = !self.scanning(s, out);
        let may = |rule, done| done || !self.rules.has(rule);
        if s.phase == Phase::Mark
            && may(Rule::EndWaitsForTables, tables_taken)
            && may(Rule::EndWaitsForGlobals, globals_taken)
            && may(Rule::QueuedAreRoots, queue_taken)
            && values_marked
            && may(Rule::EndWaitsForGrey, nothing_grey)
        {
            out.push(Step::EndMarking);
        }
    }

    fn finalizing(&self, s: &State, out: &mut Vec<Step>) {
        let first = out.len();
        if !self.rules.has(Rule::WeakClearedBeforeFinalize) {
            self.clearing(s, out);
        }
        let left = |x: &Registration| x.life == Life::Dead && is_unmarked(s, x.reference);
        if self.rules.has(Rule::DeadMarkedBeforeSweep) {
            let dead = (0..self.scope.finalizers).filter(|&e| left(&s.registrations[e]));
            out.extend(dead.map(|e| Step::MarkDead { e }));
        }
        self.values(s, Rule::FinalizeWaitsForEphemerons, out);
        let others_done = out.len() == first;
        let nothing_grey = !self.scanning(s, out);
        if others_done && (nothing_grey || !self.rules.has(Rule::FinalizeWaitsForGrey)) {
            out.push(Step::EndFinalize);
        }
    }

    /// Unmarked values of marked keys.
    fn values(&self, s: &State, rule: Rule, out: &mut Vec<Step>) {
        if self.rules.has(rule) {
            let left = (0..self.scope.ephemerons).filter(|&e| {
                let x = s.ephemerons[e];
                x.key != 0 && !is_unmarked(s, x.key) && is_unmarked(s, x.value)
            });
            out.extend(left.map(|e| Step::MarkValue { e }));
        }
    }

    fn clearing(&self, s: &State, out: &mut Vec<Step>) {
        let left = (0..self.scope.weaks).filter(|&e| self.is_to_clear(s, &s.weaks[e]));
        out.extend(left.map(|e| Step::ClearWeak { e }));
    }

    /// Whether anything is to be scanned.
    fn scanning(&self, s: &State, out: &mut Vec<Step>) -> bool {
        let before = out.len();
        out.extend(
            (0..self.scope.objects).filter(|&o| s.objects[o].colour.is_pending()).map(|o| Step::Scan { o }),
        );
        out.len() > before
    }

    /// Whether the collector has yet to clear a weak reference.
    fn is_to_clear(&self, s: &State, w: &Weak) -> bool {
        is_unmarked(s, w.reference)
            && !(w.new && self.rules.has(Rule::NewWeakIsPassedOver))
            && self.rules.has(Rule::WeakClearedBeforeSweep)
    }

    /// Whether the collector has yet to find a registration dead.
    fn is_to_find(&self, s: &State, x: &Registration) -> bool {
        x.life == Life::Live
            && is_unmarked(s, x.reference)
            && !(x.new && self.rules.has(Rule::NewRegistrationIsPassedOver))
            && self.rules.has(Rule::RegistrationsFoundBeforeSweep)
    }
}
