//! The rules of the root protocol, each of which can be removed, and the scopes in which they are checked.
//!
//! When a barrier is armed and of which colour new objects are is asked of [`metronome_barrier::Phase`], the table
//! that the collector is built on: a change of that table is checked here at once.

use metronome_barrier::Phase;

/// A protection that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A store shades the value it removes.
    StoreShadesRemoved,
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
    /// After marking, `Weak::upgrade` refuses an unmarked object.
    UpgradeRefusesUnmarked,
    /// Weak references to unmarked objects are cleared before any sweeping.
    WeakClearedBeforeSweep,
    /// New objects are black in Snapshot.
    BlackInSnapshot,
    /// New objects are black in Mark.
    BlackInMark,
    /// New objects are black in Weak.
    BlackInWeak,
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

impl Rule {
    pub(crate) const ALL: &[Rule] = &[
        Rule::StoreShadesRemoved,
        Rule::StoreShadesNew,
        Rule::InitialiserShadesNew,
        Rule::GlobalNewShades,
        Rule::RootGetShades,
        Rule::RootDuplicateShades,
        Rule::GlobalGetShades,
        Rule::GlobalClonesShareEntry,
        Rule::UpgradeShades,
        Rule::UpgradeRefusesUnmarked,
        Rule::WeakClearedBeforeSweep,
        Rule::BlackInSnapshot,
        Rule::BlackInMark,
        Rule::BlackInWeak,
        Rule::WhiteInSweep,
        Rule::PassAtSafepointOnly,
        Rule::InsertionUntilAllPassed,
        Rule::EndWaitsForTables,
        Rule::EndWaitsForGlobals,
        Rule::EndWaitsForGrey,
        Rule::RunsFlushedAtArming,
        Rule::RunsFlushedAtSweep,
        Rule::SweptRegionsOnly,
    ];
}

/// The rules in force: all, or all but one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    removed: Option<Rule>,
}

impl Rules {
    pub(crate) const ALL: Rules = Rules { removed: None };

    pub(crate) const fn without(rule: Rule) -> Rules {
        Rules { removed: Some(rule) }
    }

    pub(crate) fn has(self, rule: Rule) -> bool {
        self.removed != Some(rule)
    }

    /// Whether removed and yielded values are shaded, by the operation that `rule` is about.
    pub(crate) fn shades_overwritten(self, rule: Rule, phase: Phase) -> bool {
        phase.barrier().shades_overwritten() && self.has(rule)
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
            Phase::Sweep => Rule::WhiteInSweep,
        };
        // Without its rule the colour is the other one.
        phase.allocates_black() == self.has(rule)
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
    /// There is a weak reference.
    pub(crate) weak: bool,
    /// Mutators may go native and come back.
    pub(crate) native: bool,
    /// Mutators may end and be born.
    pub(crate) births: bool,
    /// Cells are reserved in runs (of one cell) before they are allocated.
    pub(crate) runs: bool,
    /// Watches that garbage is freed.
    pub(crate) liveness: bool,
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
        weak: false,
        native: false,
        births: false,
        runs: false,
        liveness: false,
    };
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Scope { objects, slots, mutators, roots, globals, .. } = self;
        write!(f, "{objects} objects x {slots}, {mutators} mutators x {roots} roots, {globals} globals")?;
        let extras = [
            (self.clones, "clones"),
            (self.duplicates, "duplicates"),
            (self.weak, "weak"),
            (self.native, "native"),
            (self.births, "births"),
            (self.runs, "runs"),
            (self.liveness, "liveness"),
        ];
        extras.iter().filter(|e| e.0).try_for_each(|e| write!(f, ", {}", e.1))
    }
}
