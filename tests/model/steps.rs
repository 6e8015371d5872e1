//! What mutators may do in a state; `collector` says what the collector may, and `effects` what each step leads to.
//!
//! # Why one step is one operation
//! Mutators run at the same time, so a barrier and its store are really several actions, and another mutator may
//! act in between; the collector may not, since there is no pause point there. Nothing that a mutator does depends
//! on a mark except the upgrade of a weak reference in Weak, where shading is deferred, and of a long one in Phantom,
//! where no barrier is armed: marks stand still where they are looked at. An armed store is an atomic swap, which
//! shades exactly what it removed; and shading only adds. So each interleaving has the same outcome as one in which
//! the barrier and its store are one step. A mutator's note that it has passed is of no account before the next stop.
//!
//! # What is left out
//! A local is forgotten at safepoints only (holding one longer forbids nothing). A get of what is held already, a
//! store of what is there already and a failed exchange could only shade more.
//!
//! The collector comes by entries of weak references and registrations in some order. One whose object is marked it
//! leaves as it is, so that there is no step for that, nor a note that it came by.
//!
//! Soft references: one that is kept in this cycle is a root, as a global is; another is a weak reference. Notices of
//! deaths change nothing that is modelled. Finalizers are whatever a mutator may do with an object that it took.
//!
//! # Stamps
//! Weak references and registrations carry the cycle they were made in, if that was after marking ended. Long weak
//! references and ephemerons need no stamp, and have none here: what a mutator holds is marked when Phantom begins.

use crate::rules::{Rule, Rules, Scope};
use crate::state::{Colour, Entry, Life, Place, Ref, State, Weak, bit, members, set_of};
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
    WeakNew { m: usize, o: usize, e: usize },
    Upgrade { m: usize, e: usize },
    UpgradeRefused { m: usize, e: usize },
    WeakDrop { e: usize },
    LongNew { m: usize, o: usize },
    LongUpgrade { m: usize },
    LongDrop,
    Register { m: usize, o: usize, e: usize },
    Suppress { m: usize, e: usize },
    TakeFinalizer { m: usize, e: usize },
    EphemeronNew { m: usize, key: usize, value: usize, e: usize },
    EphemeronGet { m: usize, e: usize },
    EphemeronDrop { e: usize },
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
    TakeQueued { e: usize },
    Scan { o: usize },
    EndMarking,
    ClearWeak { e: usize },
    FindDead { e: usize },
    BeginFinalize,
    MarkDead { e: usize },
    MarkValue { e: usize },
    EndFinalize,
    ClearLong,
    ClearEphemeron { e: usize },
    Queue { e: usize },
    BeginSweep,
    Sweep { o: usize },
    EndCycle,
}

/// A broken property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// An object was swept that a local, a root, a global or an object that waits for its finalizer reaches.
    Lost { o: usize },
    /// An object was swept that a weak reference still yields.
    WeakYieldsSwept { o: usize },
    /// An object was swept that an ephemeron refers to.
    InEphemeronSwept { o: usize },
    /// An object was swept that is still registered.
    RegisteredSwept { o: usize },
    /// Marking (or Finalize) ended, and a marked object refers to an unmarked one.
    MarkedToUnmarked { o: usize },
    /// Marking (or Finalize) ended, and an unmarked object is reached.
    ReachedUnmarked,
    /// A weak reference from before marking ended yields what was found unreachable in this cycle.
    YieldsAgain { o: usize },
    /// A weak reference or registration was refused, cleared or found dead whose object was within reach ever since.
    HeldIsRefused { o: usize },
    /// A finalizer got an object not all of whose graph is marked, while marks were not complete or just so.
    TakenUnmarked { o: usize },
    /// The finalizer of one registration has run twice.
    RunsTwice { o: usize },
    /// A registered object was garbage for a whole cycle, and its finalizer was not queued.
    NotQueued { o: usize },
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

/// Whether there is an object, without a mark.
pub(crate) fn is_unmarked(s: &State, r: Ref) -> bool {
    r != 0 && !s.colour(r).is_marked()
}

pub(crate) fn has_passed(s: &State, m: usize) -> bool {
    s.mutators[m].passed || s.mutators[m].place != Place::Running
}

impl Model {
    pub(crate) fn mutators(&self) -> std::ops::Range<usize> {
        0..self.scope.mutators
    }

    /// All steps of `s`, those of the collector last.
    pub(crate) fn steps(&self, s: &State, out: &mut Vec<Step>) {
        let before = out.len();
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
        let weaks = (0..self.scope.weaks).filter(|&e| s.weaks[e].reference != 0);
        out.extend(weaks.map(|e| Step::WeakDrop { e }));
        if s.long != 0 {
            out.push(Step::LongDrop);
        }
        let ephemerons = (0..self.scope.ephemerons).filter(|&e| s.ephemerons[e].key != 0);
        out.extend(ephemerons.map(|e| Step::EphemeronDrop { e }));
        if self.scope.split {
            let mut steps = out.split_off(before);
            steps.retain(Step::is_in_its_share);
            out.append(&mut steps);
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
            let weak = s.weaks[..scope.weaks].iter().position(|w| w.reference == 0);
            out.extend(weak.map(|e| Step::WeakNew { m, o, e }));
            if scope.long && s.long == 0 {
                out.push(Step::LongNew { m, o });
            }
            if let Some(e) = s.ephemerons[..scope.ephemerons].iter().position(|x| x.key == 0) {
                out.extend(members(me.locals).map(|value| Step::EphemeronNew { m, key: o, value, e }));
            }
            let registration = s.registrations[..scope.finalizers].iter().position(|x| x.reference == 0);
            out.extend(registration.map(|e| Step::Register { m, o, e }));
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
        self.references(s, m, out);
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

    /// What a mutator may do with weak references and registrations that are there.
    fn references(&self, s: &State, m: usize, out: &mut Vec<Step>) {
        let locals = s.mutators[m].locals;
        let held = |r: Ref| set_of(r) & !locals == 0;
        // It makes no difference whose upgrade was refused, nor how often.
        let first = self.mutators().find(|&x| s.mutators[x].place == Place::Running) == Some(m);
        for (e, w) in s.weaks[..self.scope.weaks].iter().enumerate().filter(|(_, w)| w.reference != 0) {
            if self.refuses(s, w) {
                if first && set_of(w.reference) & s.refused == 0 {
                    out.push(Step::UpgradeRefused { m, e });
                }
            } else if !held(w.reference) {
                out.push(Step::Upgrade { m, e });
            }
        }
        let dead = s.phase.unmarked_is_dead()
            && is_unmarked(s, s.long)
            && self.rules.has(Rule::LongUpgradeRefusesUnmarked);
        if !held(s.long) && !dead {
            out.push(Step::LongUpgrade { m });
        }
        for (e, x) in s.ephemerons[..self.scope.ephemerons].iter().enumerate() {
            if x.key != 0 && held(x.key) && !held(x.value) {
                out.push(Step::EphemeronGet { m, e });
            }
        }
        for (e, x) in s.registrations[..self.scope.finalizers].iter().enumerate() {
            if x.reference != 0 && held(x.reference) {
                out.push(Step::Suppress { m, e });
            }
            let early = x.life == Life::Dead && !self.rules.has(Rule::FinalizerAfterItsMarking);
            if x.life == Life::Queued || early {
                out.push(Step::TakeFinalizer { m, e });
            }
        }
    }

    fn refuses(&self, s: &State, w: &Weak) -> bool {
        s.phase.unmarked_is_unreachable()
            && is_unmarked(s, w.reference)
            && !(w.new && self.rules.has(Rule::NewWeakIsPassedOver))
            && self.rules.has(Rule::UpgradeRefusesUnmarked)
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

    /// Whether the collector could go on for all that mutators do, and has no step.
    pub(crate) fn is_stuck(&self, s: &State, steps: &[Step]) -> bool {
        !steps.iter().any(Step::is_collectors) && self.mutators().all(|m| has_passed(s, m))
    }
}

impl Step {
    /// How many kinds there are.
    pub(crate) const KINDS: usize = 51;

    /// Whether it is one for this mutator where mutators share the work.
    fn is_in_its_share(&self) -> bool {
        use Step::*;
        match *self {
            Alloc { m, .. }
            | TakeRun { m, .. }
            | GlobalNew { m, .. }
            | WeakNew { m, .. }
            | LongNew { m, .. } => m == 0,
            Load { m, .. }
            | Store { m, .. }
            | RootNew { m, .. }
            | RootGet { m, .. }
            | RootDuplicate { m, .. }
            | GlobalGet { m, .. }
            | Upgrade { m, .. }
            | LongUpgrade { m, .. } => m != 0,
            _ => true,
        }
    }

    /// Whether the collector takes it, with all mutators stopped.
    pub(crate) fn is_collectors(&self) -> bool {
        use Step::*;
        matches!(
            self,
            Arm | AllPassed
                | TakeRoot { .. }
                | TakeGlobal { .. }
                | TakeQueued { .. }
                | Scan { .. }
                | EndMarking
                | ClearWeak { .. }
                | FindDead { .. }
                | BeginFinalize
                | MarkDead { .. }
                | MarkValue { .. }
                | EndFinalize
                | ClearLong
                | ClearEphemeron { .. }
                | Queue { .. }
                | BeginSweep
                | Sweep { .. }
                | EndCycle
        )
    }
}
