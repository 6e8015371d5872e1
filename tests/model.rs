//! An explicit-state model of the root protocol: what keeps every object that a program can reach, with no thread's
//! stack ever scanned.
//!
//! The model plays the rules of `barrier/DESIGN.md` in small scopes: some objects, mutators with locals and root
//! tables, globals, weak references, ephemerons, registrations for finalization, one collector, any number of cycles. A
//! breadth-first search visits every state that any interleaving leads to. With all rules no property breaks; and each
//! rule is removed in turn, to see by a shortest counter-example what it is for. The library itself is not used, except
//! for [`metronome_barrier::Phase`]: the table that says when to shade and of which colour new objects are (a unit test
//! there holds it against a copy).
//!
//! # Properties
//! 1. Nothing that a local, a root, a global or an object that waits for its finalizer reaches is ever swept.
//! 2. A weak reference never yields a swept object, and no ephemeron or registration refers to one.
//! 3. When marking ends, and again when Finalize ends, no marked object refers to an unmarked one, and nothing unmarked
//!    is reached.
//! 4. What is garbage when a cycle is armed is freed in that cycle (unless a weak reference brought it back, or a
//!    finalizer is to have it): so all such garbage is freed within two cycles. While all mutators come by safepoints,
//!    the collector always has a step; each of its steps but the last brings a cycle nearer to its end, since marks
//!    are only set.
//! 5. Once a weak reference to an object was refused or cleared, or the object found dead, none from before the end
//!    of marking yields it again.
//! 6. What has been within reach ever since marking ended, or a weak reference or registration to it was made, is not
//!    given up: its weak references are neither refused nor cleared, its finalizer does not run.
//! 7. When a finalizer gets an object, all that it reaches is marked in that cycle, or was kept since (property 1).
//! 8. A registration is taken once at most; that of an object that is garbage when a cycle is armed is queued in it.
//!
//! # Running it
//! `cargo test --test model -- --nocapture` prints sizes and counter-examples; `METRONOME_MODEL=full` adds scopes of
//! up to some million states (a quarter of an hour with `--release`).
//!
//! # What it does not show
//! More objects or mutators than its scopes have; memory ordering (see the loom tests).
#![forbid(unsafe_code)]

#[path = "model/checker.rs"]
mod checker;
#[path = "model/collector.rs"]
mod collector;
#[path = "model/effects.rs"]
mod effects;
#[path = "model/encoding.rs"]
mod encoding;
#[path = "model/rules.rs"]
mod rules;
#[path = "model/scopes.rs"]
mod scopes;
#[path = "model/state.rs"]
mod state;
#[path = "model/steps.rs"]
mod steps;
#[path = "model/text.rs"]
mod text;

use checker::{Outcome, search};
use encoding::namings;
use metronome_barrier::Phase;
use rules::{Rule, Rules, Scope};
use scopes::{ALONE, LARGE, LIVENESS, LOST, NECESSARY, PLAIN, REDUNDANT, SCOPES};
use state::{Place, State};
use std::collections::HashSet;
use std::mem::discriminant;
use steps::{Model, Step, Violation};

/// More states than any scope here has.
const LIMIT: usize = 30_000_000;

fn full() -> bool {
    match std::env::var_os("METRONOME_MODEL") {
        None => false,
        Some(text) if text == "full" => true,
        Some(text) => panic!("METRONOME_MODEL={} is unknown: full, or not set", text.display()),
    }
}

fn run(scope: Scope, rules: Rules, strict: bool) -> Outcome {
    let outcome = search(&Model { scope, rules, strict }, LIMIT);
    let Outcome { states, steps, depth, .. } = outcome;
    println!("  {states:>9} states, {steps:>10} steps, depth {depth:>2}: {scope}");
    outcome
}

fn assert_holds(scopes: &[Scope], rules: Rules, strict: bool) {
    for &scope in scopes {
        if let Some(trace) = run(scope, rules, strict).counter_example {
            panic!("{scope}: {} steps\n{trace}", trace.len());
        }
    }
}

#[test]
fn with_all_rules_nothing_is_lost() {
    assert_holds(SCOPES, Rules::ALL, true);
    if full() {
        assert_holds(LARGE, Rules::ALL, true);
    }
}

#[test]
fn garbage_is_freed_within_two_cycles() {
    assert_holds(LIVENESS, Rules::ALL, true);
}

#[test]
fn each_rule_is_necessary() {
    for &(rule, scope, steps, violation) in NECESSARY {
        assert_breaks(Rules::without(rule), scope, false, steps, violation);
    }
    // What `FinalizerAfterItsMarking` and `TakeShades` do for one another.
    let both = Rules::without_both(Rule::FinalizerAfterItsMarking, Rule::TakeShades);
    assert_breaks(both, Scope { finalizers: 1, ..ALONE }, false, 12, LOST);
}

/// Requires a shortest counter-example of so many steps that breaks that property (for whichever object).
fn assert_breaks(rules: Rules, scope: Scope, strict: bool, steps: usize, violation: Violation) {
    let outcome = search(&Model { scope, rules, strict }, LIMIT);
    let Some(trace) = outcome.counter_example else {
        panic!("{rules:?}: nothing breaks in {} states: {scope}", outcome.states);
    };
    println!("{rules:?}: {} steps, {} states ({scope})\n{trace}", trace.len(), outcome.states);
    assert_eq!(discriminant(&trace.violation), discriminant(&violation), "{rules:?}: {}", trace.violation);
    assert_eq!(trace.len(), steps, "{rules:?}: the shortest counter-example\n{trace}");
}

#[test]
fn redundant_rules_are_redundant() {
    for &(rule, scopes, concerns, why) in REDUNDANT {
        println!("{rule:?}: {why}");
        assert_holds(scopes, Rules::without(rule), false);
        if full() {
            let large: Vec<Scope> = LARGE.iter().copied().filter(concerns).collect();
            assert_holds(&large, Rules::without(rule), false);
        }
    }
}

#[test]
fn every_rule_is_in_one_table() {
    let tables = NECESSARY.iter().map(|r| r.0).chain(REDUNDANT.iter().map(|r| r.0));
    let mut names: Vec<String> = tables.map(|r| format!("{r:?}")).collect();
    names.sort_unstable();
    let mut all: Vec<String> = Rule::ALL.iter().map(|r| format!("{r:?}")).collect();
    all.sort_unstable();
    assert_eq!(names, all);
}

/// The checks at the ends of marking and of Finalize see what is lost before it is swept.
#[test]
fn marking_that_is_incomplete_is_noticed_when_it_ends() {
    let global = Scope { globals: 1, ..ALONE };
    let long = Scope { long: true, ..ALONE };
    for (rule, scope, expected, last) in [
        (Rule::StoreShadesNew, global, Violation::MarkedToUnmarked { o: 0 }, Step::EndMarking),
        (Rule::EndWaitsForGlobals, global, Violation::ReachedUnmarked, Step::EndMarking),
        (Rule::StoreShadesRemovedInFinalize, long, Violation::ReachedUnmarked, Step::EndFinalize),
        (Rule::FinalizeWaitsForGrey, long, Violation::ReachedUnmarked, Step::EndFinalize),
    ] {
        let trace = run(scope, Rules::without(rule), true).counter_example.expect("an incomplete marking");
        assert_eq!(trace.violation, expected, "{trace}");
        assert_eq!(trace.last, Some(last));
    }
}

/// Property 7 has teeth, although nothing is lost without it.
#[test]
fn a_finalizer_that_comes_early_is_noticed() {
    let rules = Rules::without(Rule::FinalizerAfterItsMarking);
    assert_breaks(rules, Scope { finalizers: 1, ..ALONE }, true, 8, Violation::TakenUnmarked { o: 0 });
}

/// The liveness properties have teeth: a mark that outlives its cycle keeps garbage; a collector with nothing to do
/// is noticed.
#[test]
fn garbage_that_is_kept_is_noticed() {
    let scope = Scope { liveness: true, ..ALONE };
    let trace = run(scope, Rules::without(Rule::WhiteInSweep), false).counter_example.expect("kept garbage");
    assert!(matches!(trace.violation, Violation::Kept { .. }), "{trace}");

    let model = Model { scope, rules: Rules::ALL, strict: true };
    let armed = model.apply(&State::initial(), Step::Arm).expect("nothing breaks in an empty heap");
    assert!(!model.is_stuck(&armed, &[]), "a mutator has yet to come by a safepoint");
    let passed = model.apply(&armed, Step::Safepoint { m: 0 }).expect("nothing breaks in an empty heap");
    let mut steps = Vec::new();
    model.steps(&passed, &mut steps);
    assert!(!model.is_stuck(&passed, &steps));
    steps.retain(|s| !s.is_collectors());
    assert!(model.is_stuck(&passed, &steps));
}

/// Exploring one state of each class of states that differ in names only finds every class.
#[test]
fn symmetry_loses_no_state() {
    for scope in [
        Scope { objects: 3, ..ALONE },
        Scope { roots: 1, ..PLAIN },
        Scope { globals: 2, ..ALONE },
        Scope { weaks: 2, ..ALONE },
        Scope { finalizers: 2, ..ALONE },
    ] {
        let model = Model { scope, rules: Rules::ALL, strict: true };
        let names = namings(scope.objects);
        let first = State::initial().encode(&scope);
        let (mut seen, mut queue) = (HashSet::from([first]), vec![first]);
        let mut classes = HashSet::new();
        let mut steps = Vec::new();
        while let Some(key) = queue.pop() {
            let s = State::decode(key, &scope);
            assert_eq!(s.encode(&scope), key);
            classes.insert(s.canonical(&scope, &names));
            steps.clear();
            model.steps(&s, &mut steps);
            for &step in &steps {
                let after = model.apply(&s, step).expect("no property breaks with all rules");
                assert_eq!(
                    State::decode(after.encode(&scope), &scope),
                    after,
                    "{step}: the encoding keeps all"
                );
                if seen.insert(after.encode(&scope)) {
                    queue.push(after.encode(&scope));
                }
            }
        }
        println!("  {} states, {} classes: {scope}", seen.len(), classes.len());
        assert!(seen.len() > classes.len());
        assert_eq!(run(scope, Rules::ALL, true).states, classes.len());
    }
}

/// The scopes reach what they are about: every phase, every kind of step.
#[test]
fn every_step_is_taken() {
    let mut kinds = HashSet::new();
    let mut phases = HashSet::new();
    let mut places = HashSet::new();
    for scope in [
        Scope { roots: 2, duplicates: true, weaks: 1, ..ALONE },
        Scope { globals: 2, clones: true, native: true, births: true, runs: true, ..ALONE },
        Scope { finalizers: 1, long: true, ..ALONE },
        Scope { ephemerons: 1, long: true, ..ALONE },
    ] {
        let model = Model { scope, rules: Rules::ALL, strict: true };
        let names = namings(scope.objects);
        let (mut seen, mut queue) = (HashSet::new(), vec![State::initial()]);
        let mut steps = Vec::new();
        while let Some(s) = queue.pop() {
            phases.insert(s.phase as u8);
            places.insert(s.mutators[0].place as u8);
            steps.clear();
            model.steps(&s, &mut steps);
            for &step in &steps {
                kinds.insert(discriminant(&step));
                let after = model.apply(&s, step).expect("no property breaks with all rules");
                if seen.insert(after.canonical(&scope, &names)) {
                    queue.push(after);
                }
            }
        }
    }
    assert_eq!(phases.len(), Phase::ALL.len());
    assert_eq!(places.len(), [Place::Running, Place::Native, Place::Absent].len());
    // All but `GlobalCloneApart` and `PassAtPausePoint`, which are the removal of rules.
    assert_eq!(kinds.len(), Step::KINDS - 2);
}
