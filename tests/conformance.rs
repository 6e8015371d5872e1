//! The model of the root protocol (`tests/model`) and the real collector, side by side.
//!
//! # What is compared
//! *Counter-examples*: for each rule whose removal has a fault to match, the model's shortest counter-example is replayed:
//! mutator steps one by one, collector steps as milestones (the real collector goes on until it has done what the model's
//! step is about). With the fault something must be found, without it nothing. Each is replayed with one mutator and with
//! two; and where two can share the work, one in which they do.
//!
//! *Random walks*: after each step of the real collector, the model must have steps that lead to what is observed; after
//! each step of the mutator both must have had the same outcome. The set of all states that the model may be in is kept, so
//! that the order in which the collector takes tables and objects, which the model leaves open, does not matter.
//!
//! # Abstraction
//! The phase is the same. A cell is free in both or in neither. An object that is marked is marked in the model; one that
//! the model has scanned is marked. What is grey in the model may have no mark yet (it waits in the mark queue's ring),
//! but in Weak, Phantom and Sweep, when nothing is grey, marks are equal. Objects are so large that a step scans one.
//!
//! A mutator is a thread (`conformance/mutators.rs`). One acts at a time: why that is enough, `model/steps.rs` says.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "shared with the model's own tests, which use all of it")]
#[path = "model/checker.rs"]
mod checker;
#[path = "model/collector.rs"]
mod collector;
#[path = "model/effects.rs"]
mod effects;
#[path = "model/encoding.rs"]
mod encoding;
#[path = "conformance/mutators.rs"]
mod mutators;
#[path = "conformance/real.rs"]
mod real;
#[allow(dead_code, reason = "as for the checker")]
#[path = "model/rules.rs"]
mod rules;
#[allow(dead_code, reason = "as for the checker")]
#[path = "model/scopes.rs"]
mod scopes;
#[path = "model/state.rs"]
mod state;
#[allow(dead_code, reason = "as for the checker")]
#[path = "model/steps.rs"]
mod steps;
#[path = "model/text.rs"]
mod text;
#[path = "conformance/walk.rs"]
mod walk;

use checker::{Trace, search};
use metronome_gc::testing::Fault;
use mutators::mutator;
use rules::{Rule, Rules, Scope};
use scopes::NECESSARY;
use steps::{Model, Step};

/// Rules, and the fault that removes the same protection from the real collector.
const MATCHES: &[(Rule, Fault)] = &[
    (Rule::StoreShadesRemoved, Fault::NoDeletionBarrier),
    (Rule::StoreShadesRemovedInWeak, Fault::NoDeletionBarrier),
    (Rule::StoreShadesRemovedInFinalize, Fault::NoDeletionBarrier),
    (Rule::StoreShadesNew, Fault::NoInsertionBarrier),
    (Rule::InitialiserShadesNew, Fault::NoInitialiserBarrier),
    (Rule::GlobalNewShades, Fault::NoGlobalCreateBarrier),
    (Rule::RootGetShades, Fault::NoHandleBarrier),
    (Rule::GlobalGetShades, Fault::NoHandleBarrier),
    (Rule::UpgradeShades, Fault::NoUpgradeBarrier),
    (Rule::LongUpgradeShades, Fault::NoUpgradeBarrier),
    (Rule::LongUpgradeShadesInWeak, Fault::NoDeferredShading),
    (Rule::LongUpgradeShadesInFinalize, Fault::NoUpgradeBarrier),
    (Rule::LongClearedBeforeSweep, Fault::NoBurying),
    (Rule::WeakClearedBeforeSweep, Fault::NoWeakClearing),
    (Rule::NewWeakIsPassedOver, Fault::NoStamps),
    (Rule::BlackInSnapshot, Fault::AllocateWhite),
    (Rule::BlackInMark, Fault::AllocateWhite),
    (Rule::BlackInWeak, Fault::AllocateWhite),
    (Rule::BlackInFinalize, Fault::AllocateWhite),
    (Rule::BlackInPhantom, Fault::AllocateWhite),
    (Rule::EndWaitsForGlobals, Fault::NoGlobalScan),
];

/// Those of them whose counter-example two mutators can share: one makes what the other uses.
const SHARED: &[Rule] = &[
    Rule::StoreShadesRemoved,
    Rule::StoreShadesRemovedInWeak,
    Rule::StoreShadesRemovedInFinalize,
    Rule::StoreShadesNew,
    Rule::RootGetShades,
    Rule::GlobalGetShades,
    Rule::UpgradeShades,
    Rule::LongUpgradeShades,
    Rule::LongUpgradeShadesInWeak,
    Rule::LongUpgradeShadesInFinalize,
];

/// The scope in which one mutator shows what a rule is for.
fn alone(rule: Rule) -> Scope {
    NECESSARY.iter().find(|row| row.0 == rule).expect("a rule with a counter-example").1
}

/// The shortest counter-example in a scope without the rule.
fn counter_example(rule: Rule, scope: Scope) -> Trace {
    let outcome = search(&Model { scope, rules: Rules::without(rule), strict: false }, 1_000_000);
    outcome.counter_example.unwrap_or_else(|| panic!("{rule:?}: nothing breaks: {scope}"))
}

/// Replays it with the fault, which must be found, and without, where nothing may be.
fn assert_is_found(rule: Rule, fault: Fault, scope: Scope, trace: &Trace) {
    let clean = real::replay(trace, scope.mutators, None);
    assert_eq!(clean, Vec::<String>::new(), "{rule:?} with all protections on: {scope}\n{trace}");
    let found = real::replay(trace, scope.mutators, Some(fault));
    println!("{rule:?} / {fault:?}: {} model steps; found {found:?} ({scope})", trace.len());
    assert!(!found.is_empty(), "{rule:?} / {fault:?}: not found: {scope}\n{trace}");
}

#[test]
fn counter_examples_are_found_on_the_real_collector() {
    for &(rule, fault) in MATCHES {
        let scope = alone(rule);
        assert_is_found(rule, fault, scope, &counter_example(rule, scope));
    }
}

/// A second mutator is there, which has to pass before the collector can go on, and may take any of the steps.
#[test]
fn counter_examples_of_two_mutators_are_found_on_the_real_collector() {
    for &(rule, fault) in MATCHES {
        let scope = Scope { mutators: 2, ..alone(rule) };
        assert_is_found(rule, fault, scope, &counter_example(rule, scope));
    }
}

/// One mutator makes the objects and the handles, the other one does the rest.
#[test]
fn counter_examples_that_two_mutators_share_are_found_on_the_real_collector() {
    for &rule in SHARED {
        let fault = MATCHES.iter().find(|m| m.0 == rule).expect("a rule with a fault").1;
        let one = alone(rule);
        // What is in a root must have come from the other mutator by a global.
        let scope = Scope { mutators: 2, split: true, globals: one.globals.max(one.roots), ..one };
        let trace = counter_example(rule, scope);
        let steps = || trace.steps.iter().map(|s| s.0).filter(|s| !matches!(s, Step::Safepoint { .. }));
        for m in 0..2 {
            assert!(steps().any(|s| mutator(s) == Some(m)), "{rule:?}: M{m} has no part in it\n{trace}");
        }
        assert_is_found(rule, fault, scope, &trace);
    }
}

#[test]
fn the_real_collector_does_what_the_model_allows() {
    let (mut steps, mut most, mut cycles) = (0, 0, 0);
    for seed in 0..600 {
        let walk = walk::walk(seed, None).unwrap_or_else(|e| panic!("walk {seed}: {e}"));
        (steps, most, cycles) = (steps + walk.steps, most.max(walk.states), cycles + walk.cycles);
    }
    println!("{steps} steps, {cycles} cycles, at most {most} states of the model at a time");
    assert!(cycles > 400);
}

/// The comparison has teeth: with a protection removed the model cannot follow.
#[test]
fn a_fault_leads_where_the_model_cannot_follow() {
    let faults = [
        Fault::NoDeletionBarrier,
        Fault::NoInsertionBarrier,
        Fault::NoHandleBarrier,
        Fault::NoUpgradeBarrier,
        Fault::AllocateWhite,
        Fault::NoGlobalScan,
    ];
    for fault in faults {
        let noticed = (0..2000).find(|&seed| walk::walk(seed, Some(fault)).is_err());
        println!("{fault:?} is noticed by walk {noticed:?}");
        assert!(noticed.is_some(), "{fault:?}");
    }
}
