//! Where it is looked for broken properties, and what is expected to be found.

use crate::rules::{Rule, Scope};
use crate::steps::Violation;

pub(crate) const PLAIN: Scope = Scope::PLAIN;
/// One mutator is enough to show what most rules are for.
pub(crate) const ALONE: Scope = Scope { mutators: 1, ..PLAIN };

/// Scopes that are always searched: some seconds in an unoptimised build.
pub(crate) const SCOPES: &[Scope] = &[
    Scope { globals: 1, weaks: 1, ..PLAIN },
    Scope { globals: 1, native: true, births: true, ..PLAIN },
    Scope { roots: 1, native: true, births: true, ..PLAIN },
    Scope { roots: 1, runs: true, ..PLAIN },
    Scope { roots: 2, duplicates: true, ..ALONE },
    Scope { globals: 2, clones: true, ..ALONE },
    Scope { slots: 2, globals: 1, ..ALONE },
    Scope { objects: 3, roots: 1, ..ALONE },
    Scope { weaks: 2, long: true, ..ALONE },
    Scope { long: true, ..PLAIN },
    Scope { objects: 3, long: true, ..ALONE },
    Scope { weaks: 1, finalizers: 1, ..PLAIN },
    Scope { long: true, finalizers: 1, ..ALONE },
    Scope { objects: 3, finalizers: 1, ..ALONE },
    Scope { roots: 1, finalizers: 1, native: true, births: true, ..ALONE },
    Scope { globals: 1, ephemerons: 1, ..ALONE },
    Scope { long: true, ephemerons: 1, ..ALONE },
    Scope { finalizers: 1, ephemerons: 1, ..ALONE },
];

/// Scopes in which garbage is watched too.
pub(crate) const LIVENESS: &[Scope] = &[
    Scope { globals: 1, weaks: 1, liveness: true, ..ALONE },
    Scope { roots: 1, runs: true, native: true, liveness: true, ..PLAIN },
    Scope { objects: 3, globals: 1, liveness: true, ..ALONE },
    Scope { finalizers: 1, long: true, liveness: true, ..ALONE },
    Scope { finalizers: 2, liveness: true, ..PLAIN },
    Scope { globals: 1, ephemerons: 1, liveness: true, ..ALONE },
];

/// Scopes for patient people.
pub(crate) const LARGE: &[Scope] = &[
    Scope { roots: 1, globals: 1, ..PLAIN },
    Scope { globals: 1, weaks: 1, liveness: true, ..PLAIN },
    Scope { mutators: 3, globals: 1, ..PLAIN },
    Scope { roots: 1, globals: 1, weaks: 1, runs: true, liveness: true, ..PLAIN },
    Scope { roots: 1, globals: 1, weaks: 1, native: true, births: true, ..PLAIN },
    Scope { roots: 1, globals: 2, clones: true, ..PLAIN },
    Scope { roots: 2, globals: 1, duplicates: true, ..PLAIN },
    Scope { slots: 2, globals: 1, ..PLAIN },
    Scope { slots: 2, roots: 1, ..PLAIN },
    Scope { mutators: 3, roots: 1, ..PLAIN },
    Scope { objects: 3, globals: 1, ..PLAIN },
    Scope { objects: 3, roots: 1, ..PLAIN },
    Scope { objects: 3, globals: 1, weaks: 1, ..PLAIN },
    Scope { objects: 3, slots: 2, roots: 1, ..ALONE },
    Scope { objects: 3, roots: 1, globals: 1, weaks: 1, liveness: true, ..ALONE },
    Scope { objects: 4, globals: 1, ..ALONE },
    Scope { weaks: 1, long: true, finalizers: 1, ..PLAIN },
    Scope { weaks: 1, long: true, finalizers: 2, liveness: true, ..ALONE },
    Scope { weaks: 2, long: true, finalizers: 1, ..ALONE },
    Scope { globals: 1, long: true, finalizers: 1, ..PLAIN },
    Scope { roots: 1, long: true, finalizers: 1, native: true, births: true, ..ALONE },
    Scope { long: true, finalizers: 1, runs: true, ..PLAIN },
    Scope { mutators: 3, long: true, finalizers: 1, ..PLAIN },
    Scope { slots: 2, long: true, finalizers: 1, ..PLAIN },
    Scope { objects: 3, long: true, finalizers: 1, ..PLAIN },
    Scope { objects: 3, globals: 1, long: true, finalizers: 1, ..ALONE },
    Scope { objects: 3, weaks: 1, long: true, finalizers: 1, ..ALONE },
    Scope { objects: 3, slots: 2, finalizers: 1, ..ALONE },
    Scope { objects: 3, finalizers: 2, liveness: true, ..ALONE },
    Scope { objects: 4, finalizers: 1, ..ALONE },
    Scope { globals: 1, long: true, ephemerons: 1, liveness: true, ..PLAIN },
    Scope { long: true, finalizers: 1, ephemerons: 1, ..PLAIN },
    Scope { weaks: 1, long: true, finalizers: 1, ephemerons: 1, ..ALONE },
    Scope { objects: 3, globals: 1, long: true, ephemerons: 1, ..ALONE },
    Scope { objects: 3, long: true, finalizers: 1, ephemerons: 1, ..ALONE },
    Scope { objects: 4, ephemerons: 1, ..ALONE },
    Scope { objects: 3, globals: 1, ephemerons: 2, liveness: true, ..ALONE },
    Scope { objects: 3, long: true, ephemerons: 2, ..ALONE },
    Scope { globals: 1, ephemerons: 2, ..PLAIN },
];

pub(crate) const LOST: Violation = Violation::Lost { o: 0 };
pub(crate) const WEAK: Violation = Violation::WeakYieldsSwept { o: 0 };
pub(crate) const IN_EPHEMERON: Violation = Violation::InEphemeronSwept { o: 0 };
pub(crate) const REGISTERED: Violation = Violation::RegisteredSwept { o: 0 };
pub(crate) const AGAIN: Violation = Violation::YieldsAgain { o: 0 };
pub(crate) const HELD: Violation = Violation::HeldIsRefused { o: 0 };
pub(crate) const NOT_QUEUED: Violation = Violation::NotQueued { o: 0 };
pub(crate) const TWICE: Violation = Violation::RunsTwice { o: 0 };

/// For each rule a scope in which its removal breaks a property, and the number of steps of the shortest way there.
pub(crate) const NECESSARY: &[(Rule, Scope, usize, Violation)] = &[
    (Rule::StoreShadesRemoved, Scope { globals: 1, ..ALONE }, 16, LOST),
    (Rule::StoreShadesRemovedInWeak, Scope { long: true, ..ALONE }, 15, LOST),
    (Rule::StoreShadesRemovedInFinalize, Scope { long: true, ..ALONE }, 15, LOST),
    (Rule::StoreShadesNew, Scope { globals: 1, ..ALONE }, 13, LOST),
    (Rule::InitialiserShadesNew, Scope { globals: 1, ..ALONE }, 12, LOST),
    (Rule::GlobalNewShades, Scope { globals: 1, ..ALONE }, 11, LOST),
    (Rule::RootGetShades, Scope { roots: 1, ..ALONE }, 13, LOST),
    (Rule::RootDuplicateShades, Scope { roots: 2, duplicates: true, ..ALONE }, 14, LOST),
    (Rule::GlobalGetShades, Scope { globals: 1, ..ALONE }, 13, LOST),
    (Rule::GlobalClonesShareEntry, Scope { globals: 2, clones: true, ..ALONE }, 14, LOST),
    (Rule::UpgradeShades, Scope { weaks: 1, ..ALONE }, 8, HELD),
    (Rule::LongUpgradeShades, Scope { long: true, ..ALONE }, 12, LOST),
    (Rule::LongUpgradeShadesInWeak, Scope { long: true, ..ALONE }, 12, LOST),
    (Rule::LongUpgradeShadesInFinalize, Scope { long: true, ..ALONE }, 12, LOST),
    (Rule::EphemeronGetShades, Scope { globals: 1, ephemerons: 1, ..ALONE }, 16, LOST),
    (Rule::EphemeronGetShadesInWeak, Scope { long: true, ephemerons: 1, ..ALONE }, 16, LOST),
    (Rule::EphemeronGetShadesInFinalize, Scope { long: true, ephemerons: 1, ..ALONE }, 16, LOST),
    (Rule::ShadingIsDeferredInWeak, Scope { weaks: 1, long: true, ..ALONE }, 11, AGAIN),
    (Rule::UpgradeRefusesUnmarked, Scope { weaks: 2, ..ALONE }, 9, AGAIN),
    (Rule::LongUpgradeRefusesUnmarked, Scope { long: true, ..ALONE }, 12, LOST),
    (Rule::WeakClearedBeforeFinalize, Scope { weaks: 1, ..ALONE }, 9, AGAIN),
    (Rule::WeakClearedBeforeSweep, Scope { weaks: 1, ..ALONE }, 9, AGAIN),
    (Rule::LongClearedBeforeSweep, Scope { long: true, ..ALONE }, 10, WEAK),
    (Rule::EphemeronClearedBeforeSweep, Scope { ephemerons: 1, ..ALONE }, 10, IN_EPHEMERON),
    (Rule::EndWaitsForEphemerons, Scope { weaks: 1, globals: 1, ephemerons: 1, ..ALONE }, 11, HELD),
    (Rule::FinalizeWaitsForEphemerons, Scope { long: true, ephemerons: 1, ..ALONE }, 14, LOST),
    (Rule::NewWeakIsPassedOver, Scope { weaks: 1, long: true, ..ALONE }, 9, HELD),
    (Rule::NewRegistrationIsPassedOver, Scope { long: true, finalizers: 1, ..ALONE }, 9, HELD),
    (Rule::RegistrationsFoundBeforeSweep, Scope { finalizers: 1, ..ALONE }, 10, REGISTERED),
    (Rule::DeadMarkedBeforeSweep, Scope { finalizers: 1, ..ALONE }, 12, LOST),
    (Rule::FinalizeWaitsForGrey, Scope { long: true, ..ALONE }, 12, LOST),
    (Rule::DeadQueuedBeforeSweep, Scope { finalizers: 1, liveness: true, ..ALONE }, 16, NOT_QUEUED),
    (Rule::TakeShades, Scope { finalizers: 1, ..ALONE }, 23, HELD),
    (Rule::TakeFreesEntry, Scope { finalizers: 1, ..ALONE }, 14, TWICE),
    (Rule::QueuedAreRoots, Scope { finalizers: 1, ..ALONE }, 24, LOST),
    (Rule::BlackInSnapshot, ALONE, 9, LOST),
    (Rule::BlackInMark, ALONE, 9, LOST),
    (Rule::BlackInWeak, ALONE, 9, LOST),
    (Rule::BlackInFinalize, ALONE, 9, LOST),
    (Rule::BlackInPhantom, ALONE, 9, LOST),
    (Rule::WhiteInSweep, Scope { globals: 1, ..ALONE }, 23, LOST),
    (Rule::PassAtSafepointOnly, ALONE, 9, LOST),
    (Rule::EndWaitsForTables, Scope { roots: 1, ..ALONE }, 10, LOST),
    (Rule::EndWaitsForGlobals, Scope { globals: 1, ..ALONE }, 10, LOST),
    (Rule::EndWaitsForGrey, Scope { weaks: 1, ..ALONE }, 12, HELD),
    (Rule::RunsFlushedAtArming, Scope { runs: true, ..ALONE }, 10, LOST),
    (Rule::SweptRegionsOnly, ALONE, 9, LOST),
];

/// Whether a scope shows more of a rule than one with all rules does.
pub(crate) type Concerns = fn(&Scope) -> bool;

/// Rules whose removal breaks nothing, where that was looked for (besides those of `LARGE` that concern them), and why
/// they are kept.
pub(crate) const REDUNDANT: &[(Rule, &[Scope], Concerns, &str)] = &[
    (
        Rule::InsertionUntilAllPassed,
        &[
            Scope { roots: 1, ..PLAIN },
            Scope { globals: 1, weaks: 1, ..ALONE },
            Scope { objects: 3, roots: 1, ..ALONE },
        ],
        |_| true,
        "It would do to shade new values until the storing mutator itself has passed: what it obtains afterwards is \
         black, was shaded by a handle, or is reached by a chain that the deletion barrier guards. One phase for all \
         is kept because it costs nothing: no flag of each mutator is looked at in a store.",
    ),
    (
        Rule::RunsFlushedAtSweep,
        &[Scope { roots: 1, runs: true, ..PLAIN }, Scope { globals: 1, weaks: 1, runs: true, ..ALONE }],
        |s| s.runs,
        "The cells of a run were marked when they were reserved, so a black run that outlives the start of Sweep is \
         harmless, whether its region was swept or not. What is needed is that the region is given up \
         (`SweptRegionsOnly`), and a flush gives up both.",
    ),
    (
        Rule::HandlesShadeAfterMarking,
        &[
            Scope { globals: 1, long: true, ..ALONE },
            Scope { weaks: 1, long: true, ..ALONE },
            Scope { long: true, ..PLAIN },
            Scope { long: true, finalizers: 1, ..ALONE },
            Scope { long: true, ephemerons: 1, ..ALONE },
        ],
        |s| s.long,
        "After marking only a long weak reference, and from what it yields an ephemeron, brings back what is \
         unmarked; whatever else yields it was made by somebody who held it, so that a chain from a shaded object \
         leads to it, which the deletion barrier guards. Kept because it costs nothing: one barrier for all that \
         yields references.",
    ),
    (
        Rule::FinalizerAfterItsMarking,
        &[
            Scope { weaks: 1, finalizers: 1, ..ALONE },
            Scope { globals: 1, finalizers: 1, ..ALONE },
            Scope { long: true, finalizers: 1, ..ALONE },
            Scope { finalizers: 1, ephemerons: 1, ..ALONE },
            Scope { finalizers: 1, ..PLAIN },
        ],
        |s| s.finalizers > 0,
        "A finalizer that gets its object earlier gets it as a long weak reference would yield it, and the barrier \
         guards the rest: `TakeShades` is what is needed then (removed both, the object is lost). Kept because it \
         makes the hand-over independent of how far the marking is, and finalizers do not compete with it.",
    ),
];
