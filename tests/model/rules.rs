//! The rules of the root protocol, each of which can be removed, and the scopes in which they are checked.
//!
//! When a barrier is armed and of which colour new objects are is asked of [`metronome_barrier::Phase`], the table
//! that the collector is built on: a change of that table is checked here at once.

use metronome_barrier::Phase;

/// Declares the rules and lists them.
macro_rules! rules {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A protection that can be removed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Rule {
            $($(#[$doc])+ $name,)+
        }

        impl Rule {
            pub(crate) const ALL: &[Rule] = &[$(Rule::$name,)+];
        }
    };
}

rules! {
    /// A store shades the value it removes.
    StoreShadesRemoved,
    /// It does so in Weak too.
    StoreShadesRemovedInWeak,
    /// It does so in Finalize too.
    StoreShadesRemovedInFinalize,
    /// A store shades the value it writes (Snapshot).
    StoreShadesNew,
    /// An initialiser shades the values it writes (Snapshot).
    InitialiserShadesNew,
    /// Creating a `Global` shades its object (Snapshot).
    GlobalNewShades,
    /// `Root::get` shades what it yields.
    RootGetShades,
    /// `Root::duplicate` shades the object.
    RootDuplicateShades,
    /// `Global::get` shades what it yields.
    GlobalGetShades,
    /// Clones of a `Global` share its entry; removed: a clone has an entry of its own and is not shaded.
    GlobalClonesShareEntry,
    /// `Weak::upgrade` shades what it yields.
    UpgradeShades,
    /// A look-up of an ephemeron's value shades what it yields.
    EphemeronGetShades,
    /// It does so in Weak too.
    EphemeronGetShadesInWeak,
    /// It does so in Finalize too.
    EphemeronGetShadesInFinalize,
    /// All else that yields a reference (handles, short weak references, queued objects) shades in Weak and Finalize.
    HandlesShadeAfterMarking,
    /// `WeakLong::upgrade` shades what it yields.
    LongUpgradeShades,
    /// It does so in Weak too.
    LongUpgradeShadesInWeak,
    /// It does so in Finalize too.
    LongUpgradeShadesInFinalize,
    /// In Weak shading leaves marks alone and only remembers the object; removed: it marks.
    ShadingIsDeferredInWeak,
    /// In Weak, `Weak::upgrade` refuses an unmarked object.
    UpgradeRefusesUnmarked,
    /// In Phantom, `WeakLong::upgrade` refuses an unmarked object.
    LongUpgradeRefusesUnmarked,
    /// Weak references to unmarked objects are cleared before Finalize begins; removed: in Weak or in Finalize.
    WeakClearedBeforeFinalize,
    /// Weak references to unmarked objects are cleared before any sweeping.
    WeakClearedBeforeSweep,
    /// Long weak references to unmarked objects are cleared before any sweeping.
    LongClearedBeforeSweep,
    /// Ephemerons of unmarked keys are cleared before any sweeping.
    EphemeronClearedBeforeSweep,
    /// Marking ends only when the values of marked keys are marked.
    EndWaitsForEphemerons,
    /// So does Finalize.
    FinalizeWaitsForEphemerons,
    /// A weak reference that is made after marking ended is not cleared or refused in this cycle.
    NewWeakIsPassedOver,
    /// A registration that is made after marking ended is not found dead in this cycle.
    NewRegistrationIsPassedOver,
    /// Registrations of unmarked objects are found before Weak ends.
    RegistrationsFoundBeforeSweep,
    /// What dead registrations reach is marked.
    DeadMarkedBeforeSweep,
    /// Finalize ends only when nothing is grey (deferred bits, queue and logs are empty).
    FinalizeWaitsForGrey,
    /// A finalizer gets its object in Phantom or later; removed: as soon as it was found dead.
    FinalizerAfterItsMarking,
    /// All that was found dead is queued before any sweeping.
    DeadQueuedBeforeSweep,
    /// A finalizer's thread shades the object that it takes.
    TakeShades,
    /// It takes object and entry in one step.
    TakeFreesEntry,
    /// Marking ends only when the objects that wait for their finalizers are marked.
    QueuedAreRoots,
    /// New objects are black in Snapshot.
    BlackInSnapshot,
    /// New objects are black in Mark.
    BlackInMark,
    /// New objects are black in Weak.
    BlackInWeak,
    /// New objects are black in Finalize.
    BlackInFinalize,
    /// New objects are black in Phantom.
    BlackInPhantom,
    /// New objects are white in Sweep; removed: black, so that a mark outlives the cycle.
    WhiteInSweep,
    /// A mutator passes, and its table is begun, at a safepoint only; removed: at a pause point too.
    PassAtSafepointOnly,
    /// The insertion barrier lasts until every mutator has passed; removed: for each until it has passed itself.
    InsertionUntilAllPassed,
    /// Marking ends only when every mutator's table was taken.
    EndWaitsForTables,
    /// Marking ends only when the globals were taken.
    EndWaitsForGlobals,
    /// Marking ends only when nothing is grey (queue and logs are empty).
    EndWaitsForGrey,
    /// Runs of free cells are given back at arming.
    RunsFlushedAtArming,
    /// Runs of free cells are given back at the start of Sweep.
    RunsFlushedAtSweep,
    /// In Sweep new runs come from swept regions only: mutators give up their regions at its start.
    SweptRegionsOnly,
}

/// The rules in force: all but some.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rules {
    removed: [Option<Rule>; 2],
}

impl Rules {
    pub(crate) const ALL: Rules = Rules { removed: [None; 2] };

    pub(crate) const fn without(rule: Rule) -> Rules {
        Rules { removed: [Some(rule), None] }
    }

    pub(crate) const fn without_both(rule: Rule, other: Rule) -> Rules {
        Rules { removed: [Some(rule), Some(other)] }
    }

    pub(crate) fn has(self, rule: Rule) -> bool {
        !self.removed.contains(&Some(rule))
    }

    /// Whether removed and yielded values are shaded, by the operation that `rule` is about.
    pub(crate) fn shades_overwritten(self, rule: Rule, phase: Phase) -> bool {
        let here = match (phase, rule) {
            (Phase::Weak, Rule::StoreShadesRemoved) => Rule::StoreShadesRemovedInWeak,
            (Phase::Finalize, Rule::StoreShadesRemoved) => Rule::StoreShadesRemovedInFinalize,
            (Phase::Weak, Rule::LongUpgradeShades) => Rule::LongUpgradeShadesInWeak,
            (Phase::Finalize, Rule::LongUpgradeShades) => Rule::LongUpgradeShadesInFinalize,
            (Phase::Weak, Rule::EphemeronGetShades) => Rule::EphemeronGetShadesInWeak,
            (Phase::Finalize, Rule::EphemeronGetShades) => Rule::EphemeronGetShadesInFinalize,
            (Phase::Weak | Phase::Finalize, _) => Rule::HandlesShadeAfterMarking,
            _ => rule,
        };
        phase.barrier().shades_overwritten() && self.has(rule) && self.has(here)
    }

    /// Whether shading leaves marks alone.
    pub(crate) fn defers(self, phase: Phase) -> bool {
        phase.barrier().deferred() && self.has(Rule::ShadingIsDeferredInWeak)
    }

    /// Whether new values are shaded, by the operation that `rule` is about; `passed`: by a mutator that has passed.
    pub(crate) fn shades_new(self, rule: Rule, phase: Phase, passed: bool) -> bool {
        let over = passed && !self.has(Rule::InsertionUntilAllPassed);
        phase.barrier().shades_new() && self.has(rule) && !over
    }

    /// Whether new objects are black.
    pub(crate) fn allocates_black(self, phase: Phase) -> bool {
        let rule = match phase {
            Phase::Idle => return phase.allocates_black(),
            Phase::Snapshot => Rule::BlackInSnapshot,
            Phase::Mark => Rule::BlackInMark,
            Phase::Weak => Rule::BlackInWeak,
            Phase::Finalize => Rule::BlackInFinalize,
            Phase::Phantom => Rule::BlackInPhantom,
            Phase::Sweep => Rule::WhiteInSweep,
        };
        // Without its rule the colour is the other one.
        phase.allocates_black() == self.has(rule)
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "without")?;
        self.removed.iter().flatten().try_for_each(|rule| write!(f, " {rule:?}"))
    }
}

/// Bounds of a model: how many there are of each thing, and which operations there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// Cells. At most 4.
    pub(crate) objects: usize,
    /// Slots of an object; scanned one at a time. At most 2.
    pub(crate) slots: usize,
    /// Mutators. At most 3.
    pub(crate) mutators: usize,
    /// Entries of a mutator's root table; taken one at a time. At most 2.
    pub(crate) roots: usize,
    /// Entries of the global table; taken one at a time. At most 2.
    pub(crate) globals: usize,
    /// A `Global` may be cloned (two owners of one entry at most).
    pub(crate) clones: bool,
    /// A `Root` may be duplicated.
    pub(crate) duplicates: bool,
    /// (Short) weak references. At most 2.
    pub(crate) weaks: usize,
    /// There is a long weak reference.
    pub(crate) long: bool,
    /// Ephemerons. At most 2.
    pub(crate) ephemerons: usize,
    /// Registrations for finalization. At most 2.
    pub(crate) finalizers: usize,
    /// Mutators may go native and come back.
    pub(crate) native: bool,
    /// Mutators may end and be born.
    pub(crate) births: bool,
    /// Cells are reserved in runs (of one cell) before they are allocated.
    pub(crate) runs: bool,
    /// Watches that garbage is freed.
    pub(crate) liveness: bool,
    /// Mutators share the work: the first makes objects and the handles that all can use, the others do all the rest.
    pub(crate) split: bool,
}

impl Scope {
    /// Two objects of one slot, two mutators, nothing else.
    pub(crate) const PLAIN: Scope = Scope {
        objects: 2,
        slots: 1,
        mutators: 2,
        roots: 0,
        globals: 0,
        clones: false,
        duplicates: false,
        weaks: 0,
        long: false,
        ephemerons: 0,
        finalizers: 0,
        native: false,
        births: false,
        runs: false,
        liveness: false,
        split: false,
    };
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Scope { objects, slots, mutators, roots, globals, weaks, ephemerons, finalizers, .. } = self;
        write!(f, "{objects} objects x {slots}, {mutators} mutators x {roots} roots, {globals} globals")?;
        let counts = [
            (*weaks, "weak"),
            (usize::from(self.long), "long weak"),
            (*ephemerons, "ephemeron"),
            (*finalizers, "registered"),
        ];
        counts.iter().filter(|c| c.0 > 0).try_for_each(|c| write!(f, ", {} {}", c.0, c.1))?;
        let extras = [
            (self.clones, "clones"),
            (self.duplicates, "duplicates"),
            (self.native, "native"),
            (self.births, "births"),
            (self.runs, "runs"),
            (self.liveness, "liveness"),
            (self.split, "split work"),
        ];
        extras.iter().filter(|e| e.0).try_for_each(|e| write!(f, ", {}", e.1))
    }
}
