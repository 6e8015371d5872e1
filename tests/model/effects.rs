//! What each step leads to, and the properties that it could break.

use crate::rules::Rule;
use crate::state::{
    Colour, ENTRIES, Entry, Ephemeron, Life, Place, Ref, Registration, Set, State, Weak, bit, members, set_of,
};
use crate::steps::{Model, Step, Violation, is_unmarked};
use metronome_barrier::Phase;

impl Model {
    /// The state after a step.
    pub(crate) fn apply(&self, state: &State, step: Step) -> Result<State, Violation> {
        let mut s = *state;
        let phase = s.phase;
        let defers = self.rules.defers(phase);
        let yielded = |rule| self.rules.shades_overwritten(rule, phase);
        let new = |rule, m: usize| self.rules.shades_new(rule, phase, state.mutators[m].passed);
        match step {
            Step::Load { m, o, k } => s.mutators[m].locals |= set_of(s.objects[o].slots[k]),
            Step::Store { m, o, k, value } => {
                shade(&mut s, new(Rule::StoreShadesNew, m), defers, value);
                let old = std::mem::replace(&mut s.objects[o].slots[k], value);
                shade(&mut s, yielded(Rule::StoreShadesRemoved), defers, old);
            }
            Step::TakeRun { m, o } => {
                s.mutators[m].run = o as Ref + 1;
                s.mutators[m].run_black = self.rules.allocates_black(phase);
            }
            Step::Alloc { m, o, value } => {
                shade(&mut s, new(Rule::InitialiserShadesNew, m), defers, value);
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
                shade(&mut s, yielded(Rule::RootGetShades), defers, r);
                s.mutators[m].locals |= set_of(r);
            }
            Step::RootDuplicate { m, e, to } => {
                let r = s.mutators[m].roots[e].reference;
                shade(&mut s, yielded(Rule::RootDuplicateShades), defers, r);
                fill(&mut s.mutators[m].roots[to], r);
            }
            Step::RootDrop { m, e } => release(&mut s.mutators[m].roots[e]),
            Step::GlobalNew { m, o, e } => {
                shade(&mut s, new(Rule::GlobalNewShades, m), defers, o as Ref + 1);
                fill(&mut s.globals[e], o as Ref + 1);
            }
            Step::GlobalGet { m, e } => {
                let r = s.globals[e].reference;
                shade(&mut s, yielded(Rule::GlobalGetShades), defers, r);
                s.mutators[m].locals |= set_of(r);
            }
            Step::GlobalClone { e } => s.globals[e].owners += 1,
            Step::GlobalCloneApart { e, to } => {
                let r = s.globals[e].reference;
                fill(&mut s.globals[to], r);
            }
            Step::GlobalDrop { e } => release(&mut s.globals[e]),
            Step::WeakNew { o, e, .. } => {
                let new = phase.after_marking();
                s.weaks[e] = Weak { reference: o as Ref + 1, new, held: phase == Phase::Weak };
            }
            Step::Upgrade { m, e } => {
                let Weak { reference: r, new, .. } = s.weaks[e];
                if s.refused & set_of(r) != 0 && !new {
                    return Err(Violation::YieldsAgain { o: usize::from(r) - 1 });
                }
                shade(&mut s, yielded(Rule::UpgradeShades), defers, r);
                s.mutators[m].locals |= set_of(r);
            }
            Step::UpgradeRefused { e, .. } => refuse(&mut s, e)?,
            Step::WeakDrop { e } => s.weaks[e] = Weak::default(),
            Step::LongNew { o, .. } => s.long = o as Ref + 1,
            Step::LongUpgrade { m } => {
                let r = s.long;
                shade(&mut s, yielded(Rule::LongUpgradeShades), defers, r);
                s.mutators[m].locals |= set_of(r);
            }
            Step::LongDrop => s.long = 0,
            Step::Register { o, e, .. } => {
                let (new, held) = (phase.after_marking(), phase == Phase::Weak);
                s.registrations[e] =
                    Registration { reference: o as Ref + 1, new, held, ..Registration::default() };
            }
            Step::Suppress { e, .. } => s.registrations[e] = Registration::default(),
            Step::EphemeronNew { key, value, e, .. } => {
                s.ephemerons[e] = Ephemeron { key: key as Ref + 1, value: value as Ref + 1 };
            }
            Step::EphemeronGet { m, e } => {
                let r = s.ephemerons[e].value;
                shade(&mut s, yielded(Rule::EphemeronGetShades), defers, r);
                s.mutators[m].locals |= set_of(r);
            }
            Step::EphemeronDrop { e } | Step::ClearEphemeron { e } => s.ephemerons[e] = Ephemeron::default(),
            Step::TakeFinalizer { m, e } => self.take_finalizer(&mut s, m, e)?,
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
                shade(&mut s, true, defers, r);
            }
            Step::TakeGlobal { e } => {
                let r = s.globals[e].reference;
                s.globals[e].taken = true;
                shade(&mut s, true, defers, r);
            }
            Step::TakeQueued { e } | Step::MarkDead { e } => {
                let r = s.registrations[e].reference;
                shade(&mut s, true, defers, r);
            }
            Step::Scan { o } => {
                let k = usize::from(s.objects[o].colour == Colour::Half);
                let r = s.objects[o].slots[k];
                s.objects[o].colour = if k + 1 < self.scope.slots { Colour::Half } else { Colour::Black };
                shade(&mut s, true, defers, r);
            }
            Step::MarkValue { e } => {
                let r = s.ephemerons[e].value;
                shade(&mut s, true, defers, r);
            }
            Step::EndMarking => self.end_marking(&mut s)?,
            Step::ClearWeak { e } => {
                refuse(&mut s, e)?;
                s.weaks[e] = Weak::default();
            }
            Step::FindDead { e } => {
                let x = &mut s.registrations[e];
                if x.held {
                    return Err(Violation::HeldIsRefused { o: usize::from(x.reference) - 1 });
                }
                x.life = Life::Dead;
                if self.scope.weaks > 0 {
                    s.refused |= set_of(x.reference);
                }
            }
            Step::BeginFinalize => {
                s.phase = Phase::Finalize;
                s.weaks.iter_mut().for_each(|w| w.held = false);
                s.registrations.iter_mut().for_each(|x| x.held = false);
            }
            Step::EndFinalize => {
                self.check_marks(&s)?;
                s.phase = Phase::Phantom;
            }
            Step::ClearLong => s.long = 0,
            Step::Queue { e } => {
                let x = &mut s.registrations[e];
                (x.life, x.due) = (Life::Queued, false);
            }
            Step::BeginSweep => {
                s.phase = Phase::Sweep;
                s.refused = 0;
                s.weaks.iter_mut().for_each(|w| w.new = false);
                s.registrations.iter_mut().for_each(|x| x.new = false);
                if self.rules.has(Rule::RunsFlushedAtSweep) {
                    flush_runs(&mut s);
                }
            }
            Step::Sweep { o } => self.sweep(&mut s, o)?,
            Step::EndCycle => {
                if let Some(o) = members(s.doomed).next() {
                    return Err(Violation::Kept { o });
                }
                if let Some(x) = s.registrations.iter().find(|x| x.due) {
                    return Err(Violation::NotQueued { o: usize::from(x.reference) - 1 });
                }
                (s.phase, s.swept) = (Phase::Idle, 0);
            }
        }
        note_held(&mut s);
        Ok(s)
    }

    fn arm(&self, s: &mut State) {
        s.phase = Phase::Snapshot;
        if self.rules.has(Rule::RunsFlushedAtArming) {
            flush_runs(s);
        }
        if self.scope.liveness {
            let kept = s.reachable() | s.weakly_reached();
            for x in s.registrations.iter_mut().filter(|x| x.life == Life::Live) {
                x.due = set_of(x.reference) & !kept != 0;
            }
            let allocated = (0..self.scope.objects).filter(|&o| s.objects[o].colour != Colour::Free);
            s.doomed = allocated.fold(0, |set: Set, o| set | bit(o)) & !(kept | s.registered());
        }
    }

    fn end_marking(&self, s: &mut State) -> Result<(), Violation> {
        self.check_marks(s)?;
        s.phase = Phase::Weak;
        // From here on these mean nothing until the next cycle; one value each keeps the states few.
        for m in &mut s.mutators {
            m.passed = false;
            m.roots.iter_mut().for_each(|e| e.taken = false);
        }
        s.globals.iter_mut().for_each(|e| e.taken = false);
        // With all rules none is reached and unmarked.
        let reach = s.reachable();
        let held = |s: &State, r| is_unmarked(s, r) && set_of(r) & reach != 0;
        for e in 0..ENTRIES {
            s.weaks[e].held = held(s, s.weaks[e].reference);
            s.registrations[e].held = held(s, s.registrations[e].reference);
        }
        Ok(())
    }

    /// The properties of the end of marking, and of Finalize.
    fn check_marks(&self, s: &State) -> Result<(), Violation> {
        if self.strict {
            for object in s.objects.iter().filter(|x| x.colour.is_marked()) {
                let unmarked = object.slots.iter().find(|&&r| r != 0 && !s.colour(r).is_marked());
                if let Some(&r) = unmarked {
                    return Err(Violation::MarkedToUnmarked { o: usize::from(r) - 1 });
                }
            }
            for x in s.ephemerons.iter().filter(|x| x.key != 0 && !is_unmarked(s, x.key)) {
                if is_unmarked(s, x.value) {
                    return Err(Violation::MarkedToUnmarked { o: usize::from(x.value) - 1 });
                }
            }
            if members(s.reachable()).any(|o| !s.objects[o].colour.is_marked()) {
                return Err(Violation::ReachedUnmarked);
            }
        }
        Ok(())
    }

    fn take_finalizer(&self, s: &mut State, m: usize, e: usize) -> Result<(), Violation> {
        let Registration { reference: r, life, run, .. } = s.registrations[e];
        let o = usize::from(r) - 1;
        if run {
            return Err(Violation::RunsTwice { o });
        }
        // One that was queued in an earlier cycle may meanwhile refer to what a long weak reference brought back.
        let found_now = life == Life::Dead || s.phase == Phase::Phantom;
        let unmarked = |o: usize| !s.objects[o].colour.is_marked();
        if self.strict && found_now && members(s.closure(bit(o))).any(unmarked) {
            return Err(Violation::TakenUnmarked { o });
        }
        s.mutators[m].locals |= bit(o);
        if self.rules.has(Rule::TakeFreesEntry) {
            s.registrations[e] = Registration::default();
        } else {
            s.registrations[e].run = true;
        }
        let shades = self.rules.shades_overwritten(Rule::TakeShades, s.phase);
        shade(s, shades, self.rules.defers(s.phase), r);
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
            Colour::White | Colour::Deferred => {
                if s.reachable() & bit(o) != 0 {
                    return Err(Violation::Lost { o });
                }
                if set_of(s.long) == bit(o) || s.weaks.iter().any(|w| set_of(w.reference) == bit(o)) {
                    return Err(Violation::WeakYieldsSwept { o });
                }
                if s.ephemerons.iter().any(|x| (set_of(x.key) | set_of(x.value)) & bit(o) != 0) {
                    return Err(Violation::InEphemeronSwept { o });
                }
                if s.registrations.iter().any(|x| set_of(x.reference) == bit(o)) {
                    return Err(Violation::RegisteredSwept { o });
                }
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

fn shade(s: &mut State, condition: bool, defer: bool, r: Ref) {
    if condition && r != 0 {
        let colour = &mut s.objects[usize::from(r) - 1].colour;
        debug_assert!(*colour != Colour::Free, "what is reached is never freed: checked where cells are");
        if !colour.is_marked() {
            *colour = if defer { Colour::Deferred } else { Colour::Grey };
        }
    }
}

/// A weak reference was found not to lead to its object any more.
fn refuse(s: &mut State, e: usize) -> Result<(), Violation> {
    let Weak { reference: r, held, .. } = s.weaks[e];
    if held {
        return Err(Violation::HeldIsRefused { o: usize::from(r) - 1 });
    }
    s.refused |= set_of(r);
    Ok(())
}

/// In Weak: keeps the notes which objects of weak references and registrations are still within reach.
fn note_held(s: &mut State) {
    let any = s.weaks.iter().any(|w| w.held) || s.registrations.iter().any(|x| x.held);
    if any {
        let reach = s.reachable();
        s.weaks.iter_mut().for_each(|w| w.held &= set_of(w.reference) & reach != 0);
        s.registrations.iter_mut().for_each(|x| x.held &= set_of(x.reference) & reach != 0);
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
