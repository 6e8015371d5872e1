//! What mutators and the collector may do in a state, and what it leads to.
//!
//! # Why one step is one operation
//! Mutators run at the same time, so a barrier and its store are really several actions, and another mutator may
//! act in between; the collector may not, since there is no pause point there. Nothing that a mutator does depends
//! on a mark except `upgrade` in Weak, where no barrier is armed; an armed store is an atomic swap, which shades
//! exactly what it removed; and shading adds marks only. So each interleaving has the same outcome as one in which
//! the barrier and its store are one step. A mutator's note that it has passed is of no account before the next stop.
//!
//! # What is left out
//! A local is forgotten at safepoints only (holding one longer forbids nothing). A get of what is held already, a
//! store of what is there already and a failed exchange could only shade more.

use crate::rules::{Rule, Rules, Scope};
use crate::state::{Colour, Entry, Place, Ref, SLOTS, Set, State, bit, members, set_of};
use metronome_barrier::Phase;

/// One step; `m` is a mutator, `o` an object, `k` a slot, `e` an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Load { m: usize, o: usize, k: usize },
    Store { m: usize, o: usize, k: usize, value: Ref },
    TakeRun { m: usize, o: usize },
    Alloc { m: usize, o: usize, value: Ref },
    RootNew { m: usize, o: usize, e: usize },
    RootGet { m: usize, e: usize },
    RootDuplicate { m: usize, e: usize, to: usize },
    RootDrop { m: usize, e: usize },
    GlobalNew { m: usize, o: usize, e: usize },
    GlobalGet { m: usize, e: usize },
    GlobalClone { e: usize },
    GlobalCloneApart { e: usize, to: usize },
    GlobalDrop { e: usize },
    WeakNew { m: usize, o: usize },
    Upgrade { m: usize },
    WeakDrop,
    Safepoint { m: usize },
    PassAtPausePoint { m: usize },
    GoNative { m: usize },
    ComeBack { m: usize },
    Exit { m: usize },
    Birth { m: usize },
    Arm,
    AllPassed,
    TakeRoot { m: usize, e: usize },
    TakeGlobal { e: usize },
    Scan { o: usize },
    EndMarking,
    ClearWeak,
    BeginSweep,
    Sweep { o: usize },
    EndCycle,
}

/// A broken property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// An object was swept that a local, a root or a global reaches.
    Lost { o: usize },
    /// An object was swept that a weak reference still yields.
    WeakYieldsSwept { o: usize },
    /// Marking ended, and a marked object refers to an unmarked one.
    MarkedToUnmarked { o: usize },
    /// Marking ended, and an unmarked object is reached.
    ReachedUnmarked,
    /// What was garbage when the cycle was armed is there when it ends.
    Kept { o: usize },
    /// All mutators have passed, and the collector has nothing to do.
    Stuck,
}

/// A model: a scope, the rules in force, and whether the properties of marking's end are checked too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) scope: Scope,
    pub(crate) rules: Rules,
    /// False where a rule is removed, so that a counter-example is about an object that is really lost.
    pub(crate) strict: bool,
}

/// An empty entry for a new handle: one that was taken and one that was not differ, others do not.
fn empty_entries(entries: &[Entry]) -> impl Iterator<Item = usize> {
    let find = |taken| entries.iter().position(|e| e.reference == 0 && e.taken == taken);
    [find(false), find(true)].into_iter().flatten()
}

fn has_passed(s: &State, m: usize) -> bool {
    s.mutators[m].passed || s.mutators[m].place != Place::Running
}

impl Model {
    fn mutators(&self) -> std::ops::Range<usize> {
        0..self.scope.mutators
    }

    /// All steps of `s`, those of the collector last.
    pub(crate) fn steps(&self, s: &State, out: &mut Vec<Step>) {
        for m in self.mutators() {
            match s.mutators[m].place {
                Place::Running => self.running(s, m, out),
                Place::Native => out.push(Step::ComeBack { m }),
                Place::Absent if self.scope.births => out.push(Step::Birth { m }),
                Place::Absent => {}
            }
            for e in 0..self.scope.roots {
                if s.mutators[m].roots[e].reference != 0 {
                    out.push(Step::RootDrop { m, e });
                }
            }
        }
        for e in 0..self.scope.globals {
            let owners = s.globals[e].owners;
            if owners > 0 {
                out.push(Step::GlobalDrop { e });
            }
            if self.scope.clones && self.rules.has(Rule::GlobalClonesShareEntry) && owners == 1 {
                out.push(Step::GlobalClone { e });
            }
            if self.scope.clones && !self.rules.has(Rule::GlobalClonesShareEntry) && owners == 1 {
                let free = empty_entries(&s.globals[..self.scope.globals]);
                out.extend(free.map(|to| Step::GlobalCloneApart { e, to }));
            }
        }
        if s.weak != 0 {
            out.push(Step::WeakDrop);
        }
        self.collector(s, out);
    }

    fn running(&self, s: &State, m: usize, out: &mut Vec<Step>) {
        let scope = &self.scope;
        let me = &s.mutators[m];
        let roots = &me.roots[..scope.roots];
        for o in members(me.locals) {
            for k in 0..scope.slots {
                let there = s.objects[o].slots[k];
                if set_of(there) & !me.locals != 0 {
                    out.push(Step::Load { m, o, k });
                }
                for value in 0..=scope.objects as Ref {
                    if value != there && set_of(value) & !me.locals == 0 {
                        out.push(Step::Store { m, o, k, value });
                    }
                }
            }
            out.extend(empty_entries(roots).map(|e| Step::RootNew { m, o, e }));
            out.extend(empty_entries(&s.globals[..scope.globals]).map(|e| Step::GlobalNew { m, o, e }));
            if scope.weak && s.weak == 0 {
                out.push(Step::WeakNew { m, o });
            }
        }
        let held = |r: Ref| set_of(r) & !me.locals == 0;
        for (e, entry) in roots.iter().enumerate().filter(|(_, x)| x.reference != 0) {
            if !held(entry.reference) {
                out.push(Step::RootGet { m, e });
            }
            if scope.duplicates {
                out.extend(empty_entries(roots).map(|to| Step::RootDuplicate { m, e, to }));
            }
        }
        for (e, entry) in s.globals[..scope.globals].iter().enumerate() {
            if !held(entry.reference) {
                out.push(Step::GlobalGet { m, e });
            }
        }
        if !held(s.weak) && (!s.phase.unmarked_is_dead() || self.yields(s)) {
            out.push(Step::Upgrade { m });
        }
        self.allocation(s, m, out);
        let cycle = matches!(s.phase, Phase::Snapshot | Phase::Mark);
        if me.locals != 0 || (cycle && !me.passed) {
            out.push(Step::Safepoint { m });
        }
        if cycle && !me.passed && me.locals != 0 && !self.rules.has(Rule::PassAtSafepointOnly) {
            out.push(Step::PassAtPausePoint { m });
        }
        if scope.native {
            out.push(Step::GoNative { m });
        }
        if scope.births && roots.iter().all(|e| e.reference == 0) {
            out.push(Step::Exit { m });
        }
    }

    fn yields(&self, s: &State) -> bool {
        s.colour(s.weak).is_marked() || !self.rules.has(Rule::UpgradeRefusesUnmarked)
    }

    fn allocation(&self, s: &State, m: usize, out: &mut Vec<Step>) {
        let me = &s.mutators[m];
        let values = (0..=self.scope.objects as Ref).filter(|&v| set_of(v) & !me.locals == 0);
        if me.run != 0 {
            out.extend(values.map(|value| Step::Alloc { m, o: usize::from(me.run) - 1, value }));
            return;
        }
        let reserved = s.mutators.iter().fold(0, |set, x| set | set_of(x.run));
        let free = |swept: bool| {
            (0..self.scope.objects).find(|&o| {
                let cell = bit(o);
                s.objects[o].colour == Colour::Free && reserved & cell == 0 && (s.swept & cell != 0) == swept
            })
        };
        // Cells of regions not yet swept are out of reach in Sweep; elsewhere the difference means nothing.
        let unswept_too = s.phase != Phase::Sweep || !self.rules.has(Rule::SweptRegionsOnly);
        let unswept = if unswept_too { free(false) } else { None };
        for o in [free(true), unswept].into_iter().flatten() {
            if self.scope.runs {
                out.push(Step::TakeRun { m, o });
            } else {
                out.extend(values.clone().map(|value| Step::Alloc { m, o, value }));
            }
        }
    }

    fn collector(&self, s: &State, out: &mut Vec<Step>) {
        let scope = &self.scope;
        let first = out.len();
        match s.phase {
            Phase::Idle => out.push(Step::Arm),
            Phase::Snapshot | Phase::Mark => {
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
                let grey =
                    |o: &usize| s.objects[*o].colour == Colour::Grey || s.objects[*o].colour == Colour::Half;
                out.extend((0..scope.objects).filter(grey).map(|o| Step::Scan { o }));
                let may = |rule, done| done || !self.rules.has(rule);
                if s.phase == Phase::Mark
                    && may(Rule::EndWaitsForTables, tables_taken)
                    && may(Rule::EndWaitsForGlobals, globals_taken)
                    && may(Rule::EndWaitsForGrey, !(0..scope.objects).any(|o| grey(&o)))
                {
                    out.push(Step::EndMarking);
                }
            }
            Phase::Weak => {
                if scope.weak && !s.weak_done && self.rules.has(Rule::WeakClearedBeforeSweep) {
                    out.push(Step::ClearWeak);
                } else {
                    out.push(Step::BeginSweep);
                }
            }
            Phase::Sweep => {
                let left = (0..scope.objects).filter(|&o| s.swept & bit(o) == 0);
                out.extend(left.map(|o| Step::Sweep { o }));
                if out.len() == first {
                    out.push(Step::EndCycle);
                }
            }
        }
    }

    /// Whether the collector could go on for all that mutators do, and has no step.
    pub(crate) fn is_stuck(&self, s: &State, steps: &[Step]) -> bool {
        !steps.iter().any(Step::is_collectors) && self.mutators().all(|m| has_passed(s, m))
    }

    /// The state after a step.
    pub(crate) fn apply(&self, state: &State, step: Step) -> Result<State, Violation> {
        let mut s = *state;
        let phase = s.phase;
        let yielded = |rule| self.rules.shades_overwritten(rule, phase);
        let new = |rule, m: usize| self.rules.shades_new(rule, phase, state.mutators[m].passed);
        match step {
            Step::Load { m, o, k } => s.mutators[m].locals |= set_of(s.objects[o].slots[k]),
            Step::Store { m, o, k, value } => {
                shade_if(&mut s, new(Rule::StoreShadesNew, m), value);
                let old = std::mem::replace(&mut s.objects[o].slots[k], value);
                shade_if(&mut s, yielded(Rule::StoreShadesRemoved), old);
            }
            Step::TakeRun { m, o } => {
                s.mutators[m].run = o as Ref + 1;
                s.mutators[m].run_black = self.rules.allocates_black(phase);
            }
            Step::Alloc { m, o, value } => {
                shade_if(&mut s, new(Rule::InitialiserShadesNew, m), value);
                let me = &mut s.mutators[m];
                let black = if self.scope.runs { me.run_black } else { self.rules.allocates_black(phase) };
                (me.run, me.run_black) = (0, false);
                me.locals |= bit(o);
                s.objects[o].colour = if black { Colour::Black } else { Colour::White };
                s.objects[o].slots[0] = value;
            }
            Step::RootNew { m, o, e } => fill(&mut s.mutators[m].roots[e], o as Ref + 1),
            Step::RootGet { m, e } => {
                let r = s.mutators[m].roots[e].reference;
                shade_if(&mut s, yielded(Rule::RootGetShades), r);
                s.mutators[m].locals |= set_of(r);
            }
            Step::RootDuplicate { m, e, to } => {
                let r = s.mutators[m].roots[e].reference;
                shade_if(&mut s, yielded(Rule::RootDuplicateShades), r);
                fill(&mut s.mutators[m].roots[to], r);
            }
            Step::RootDrop { m, e } => release(&mut s.mutators[m].roots[e]),
            Step::GlobalNew { m, o, e } => {
                shade_if(&mut s, new(Rule::GlobalNewShades, m), o as Ref + 1);
                fill(&mut s.globals[e], o as Ref + 1);
            }
            Step::GlobalGet { m, e } => {
                let r = s.globals[e].reference;
                shade_if(&mut s, yielded(Rule::GlobalGetShades), r);
                s.mutators[m].locals |= set_of(r);
            }
            Step::GlobalClone { e } => s.globals[e].owners += 1,
            Step::GlobalCloneApart { e, to } => {
                let r = s.globals[e].reference;
                fill(&mut s.globals[to], r);
            }
            Step::GlobalDrop { e } => release(&mut s.globals[e]),
            Step::WeakNew { o, .. } => s.weak = o as Ref + 1,
            Step::Upgrade { m } => {
                let r = s.weak;
                shade_if(&mut s, yielded(Rule::UpgradeShades), r);
                s.mutators[m].locals |= set_of(r);
            }
            Step::WeakDrop => s.weak = 0,
            Step::Safepoint { m } => {
                s.mutators[m].locals = 0;
                pass(&mut s, m);
            }
            Step::PassAtPausePoint { m } => pass(&mut s, m),
            Step::GoNative { m } => {
                let me = &mut s.mutators[m];
                (me.locals, me.run, me.run_black, me.place) = (0, 0, false, Place::Native);
                pass(&mut s, m);
            }
            Step::ComeBack { m } => {
                s.mutators[m].place = Place::Running;
                pass(&mut s, m);
            }
            Step::Exit { m } => {
                let me = &mut s.mutators[m];
                (me.locals, me.run, me.run_black, me.place) = (0, 0, false, Place::Absent);
                pass(&mut s, m);
            }
            Step::Birth { m } => {
                s.mutators[m].place = Place::Running;
                pass(&mut s, m);
                // Its table is none of those that the collector takes in this cycle.
                if matches!(phase, Phase::Snapshot | Phase::Mark) {
                    s.mutators[m].roots[..self.scope.roots].iter_mut().for_each(|e| e.taken = true);
                }
            }
            Step::Arm => self.arm(&mut s),
            Step::AllPassed => s.phase = Phase::Mark,
            Step::TakeRoot { m, e } => {
                let r = s.mutators[m].roots[e].reference;
                s.mutators[m].roots[e].taken = true;
                shade_if(&mut s, true, r);
            }
            Step::TakeGlobal { e } => {
                let r = s.globals[e].reference;
                s.globals[e].taken = true;
                shade_if(&mut s, true, r);
            }
            Step::Scan { o } => {
                let half = s.objects[o].colour == Colour::Grey && self.scope.slots == SLOTS;
                let k = usize::from(s.objects[o].colour == Colour::Half);
                let r = s.objects[o].slots[k];
                s.objects[o].colour = if half { Colour::Half } else { Colour::Black };
                shade_if(&mut s, true, r);
            }
            Step::EndMarking => self.end_marking(&mut s)?,
            Step::ClearWeak => {
                if s.weak != 0 && !s.colour(s.weak).is_marked() {
                    s.weak = 0;
                }
                s.weak_done = true;
            }
            Step::BeginSweep => {
                s.phase = Phase::Sweep;
                s.weak_done = false;
                if self.rules.has(Rule::RunsFlushedAtSweep) {
                    flush_runs(&mut s);
                }
            }
            Step::Sweep { o } => self.sweep(&mut s, o)?,
            Step::EndCycle => {
                if let Some(o) = members(s.doomed).next() {
                    return Err(Violation::Kept { o });
                }
                (s.phase, s.swept) = (Phase::Idle, 0);
            }
        }
        Ok(s)
    }

    fn arm(&self, s: &mut State) {
        s.phase = Phase::Snapshot;
        if self.rules.has(Rule::RunsFlushedAtArming) {
            flush_runs(s);
        }
        if self.scope.liveness {
            let yielded = s.closure(set_of(s.weak));
            let allocated = (0..self.scope.objects).filter(|&o| s.objects[o].colour != Colour::Free);
            s.doomed = allocated.fold(0, |set: Set, o| set | bit(o)) & !(s.reachable() | yielded);
        }
    }

    fn end_marking(&self, s: &mut State) -> Result<(), Violation> {
        if self.strict {
            for object in s.objects.iter().filter(|x| x.colour.is_marked()) {
                let unmarked = object.slots.iter().find(|&&r| r != 0 && !s.colour(r).is_marked());
                if let Some(&r) = unmarked {
                    return Err(Violation::MarkedToUnmarked { o: usize::from(r) - 1 });
                }
            }
            if members(s.reachable()).any(|o| !s.objects[o].colour.is_marked()) {
                return Err(Violation::ReachedUnmarked);
            }
        }
        s.phase = Phase::Weak;
        // From here on these mean nothing until the next cycle; one value each keeps the states few.
        for m in &mut s.mutators {
            m.passed = false;
            m.roots.iter_mut().for_each(|e| e.taken = false);
        }
        s.globals.iter_mut().for_each(|e| e.taken = false);
        Ok(())
    }

    fn sweep(&self, s: &mut State, o: usize) -> Result<(), Violation> {
        s.swept |= bit(o);
        match s.objects[o].colour {
            Colour::Free => {
                // A reserved cell loses its mark as all others do, and stays reserved.
                for m in s.mutators.iter_mut().filter(|m| m.run == o as Ref + 1) {
                    m.run_black = false;
                }
            }
            Colour::White if s.reachable() & bit(o) != 0 => return Err(Violation::Lost { o }),
            Colour::White if set_of(s.weak) == bit(o) => return Err(Violation::WeakYieldsSwept { o }),
            Colour::White => {
                s.objects[o] = Default::default();
                s.doomed &= !bit(o);
                // Only objects that nothing reaches refer to it, so what their slots hold is of no account.
                for r in s.objects.iter_mut().flat_map(|x| &mut x.slots).filter(|r| **r == o as Ref + 1) {
                    *r = 0;
                }
            }
            Colour::Grey | Colour::Half | Colour::Black => s.objects[o].colour = Colour::White,
        }
        Ok(())
    }
}

fn shade_if(s: &mut State, condition: bool, r: Ref) {
    if condition && r != 0 {
        let colour = &mut s.objects[usize::from(r) - 1].colour;
        debug_assert!(*colour != Colour::Free, "what is reached is never freed: checked where cells are");
        if *colour == Colour::White {
            *colour = Colour::Grey;
        }
    }
}

fn fill(e: &mut Entry, r: Ref) {
    (e.reference, e.owners) = (r, 1);
}

fn release(e: &mut Entry) {
    e.owners -= 1;
    if e.owners == 0 {
        e.reference = 0;
    }
}

/// Notes that a mutator was at a safepoint; kept only while it means something.
fn pass(s: &mut State, m: usize) {
    s.mutators[m].passed = matches!(s.phase, Phase::Snapshot | Phase::Mark);
}

/// In reality each mutator does it before it runs on.
fn flush_runs(s: &mut State) {
    for m in &mut s.mutators {
        (m.run, m.run_black) = (0, false);
    }
}

impl Step {
    /// How many kinds there are.
    pub(crate) const KINDS: usize = 32;

    /// Whether the collector takes it, with all mutators stopped.
    pub(crate) fn is_collectors(&self) -> bool {
        use Step::*;
        matches!(
            self,
            Arm | AllPassed
                | TakeRoot { .. }
                | TakeGlobal { .. }
                | Scan { .. }
                | EndMarking
                | ClearWeak
                | BeginSweep
                | Sweep { .. }
                | EndCycle
        )
    }
}
