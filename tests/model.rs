//! An explicit-state model of the root protocol: what keeps every object that a program can reach, with no thread's
//! stack ever scanned.
//!
//! The model plays the rules of `barrier/DESIGN.md` in small scopes: some objects, mutators with locals and root
//! tables, globals, a weak reference, one collector, any number of cycles. A breadth-first search visits every state
//! that any interleaving leads to. With all rules no property breaks; and each rule is removed in turn, to see by a
//! shortest counter-example what it is for. The library itself is not used, except for [`metronome_barrier::Phase`]:
//! the table that says when to shade and of which colour new objects are (a unit test there holds it against a copy).
//!
//! # Properties
//! 1. Nothing that a local, a root or a global reaches is ever swept.
//! 2. A weak reference never yields a swept object.
//! 3. When marking ends, no marked object refers to an unmarked one, and nothing unmarked is reached.
//! 4. What is garbage when a cycle is armed is freed in that cycle (unless a weak reference brought it back): so all
//!    garbage is freed within two cycles. While all mutators come by safepoints, the collector always has a step;
//!    each of its steps but the last brings a cycle nearer to its end, since marks are only set.
//!
//! # Running it
//! `cargo test --test model -- --nocapture` prints sizes and counter-examples; `METRONOME_MODEL=full` adds scopes of
//! up to some million states (ten minutes with `--release`).
//!
//! # What it does not show
//! More objects or mutators than its scopes have; memory ordering (see the loom tests); finalizers.
#![forbid(unsafe_code)]

#[path = "model/checker.rs"]
mod checker;
#[path = "model/rules.rs"]
mod rules;
#[path = "model/state.rs"]
mod state;
#[path = "model/steps.rs"]
mod steps;
#[path = "model/text.rs"]
mod text;

use checker::{Outcome, search};
use metronome_barrier::Phase;
use rules::{Rule, Rules, Scope};
use state::{Place, State, namings};
use std::collections::HashSet;
use steps::{Model, Step, Violation};

const PLAIN: Scope = Scope::PLAIN;
/// One mutator is enough to show what most rules are for.
const ALONE: Scope = Scope { mutators: 1, ..PLAIN };

/// Scopes that are always searched: some seconds in an unoptimised build.
const SCOPES: &[Scope] = &[
    Scope { roots: 1, globals: 1, ..PLAIN },
    Scope { globals: 1, weak: true, ..PLAIN },
    Scope { globals: 1, native: true, births: true, ..PLAIN },
    Scope { roots: 1, native: true, births: true, ..PLAIN },
    Scope { roots: 1, runs: true, ..PLAIN },
    Scope { roots: 2, duplicates: true, ..PLAIN },
    Scope { globals: 2, clones: true, ..ALONE },
    Scope { slots: 2, globals: 1, ..ALONE },
    Scope { objects: 3, roots: 1, ..ALONE },
    Scope { mutators: 3, globals: 1, ..PLAIN },
];

/// Scopes in which garbage is watched too.
const LIVENESS: &[Scope] = &[
    Scope { globals: 1, weak: true, liveness: true, ..PLAIN },
    Scope { roots: 1, runs: true, native: true, liveness: true, ..PLAIN },
    Scope { objects: 3, globals: 1, liveness: true, ..ALONE },
];

/// Scopes for patient people.
const LARGE: &[Scope] = &[
    Scope { roots: 1, globals: 1, weak: true, runs: true, liveness: true, ..PLAIN },
    Scope { roots: 1, globals: 1, weak: true, native: true, births: true, ..PLAIN },
    Scope { roots: 1, globals: 2, clones: true, ..PLAIN },
    Scope { roots: 2, globals: 1, duplicates: true, ..PLAIN },
    Scope { slots: 2, globals: 1, ..PLAIN },
    Scope { slots: 2, roots: 1, ..PLAIN },
    Scope { mutators: 3, roots: 1, ..PLAIN },
    Scope { objects: 3, globals: 1, ..PLAIN },
    Scope { objects: 3, roots: 1, ..PLAIN },
    Scope { objects: 3, globals: 1, weak: true, ..PLAIN },
    Scope { objects: 3, slots: 2, roots: 1, ..ALONE },
    Scope { objects: 3, roots: 1, globals: 1, weak: true, liveness: true, ..ALONE },
    Scope { objects: 4, globals: 1, ..ALONE },
];

/// For each rule a scope in which its removal loses an object, and the number of steps of the shortest way there.
const NECESSARY: &[(Rule, Scope, usize)] = &[
    (Rule::StoreShadesRemoved, Scope { globals: 1, ..ALONE }, 14),
    (Rule::StoreShadesNew, Scope { globals: 1, ..ALONE }, 11),
    (Rule::InitialiserShadesNew, Scope { globals: 1, ..ALONE }, 10),
    (Rule::GlobalNewShades, Scope { globals: 1, ..ALONE }, 9),
    (Rule::RootGetShades, Scope { roots: 1, ..ALONE }, 11),
    (Rule::RootDuplicateShades, Scope { roots: 2, duplicates: true, ..ALONE }, 12),
    (Rule::GlobalGetShades, Scope { globals: 1, ..ALONE }, 11),
    (Rule::GlobalClonesShareEntry, Scope { globals: 2, clones: true, ..ALONE }, 12),
    (Rule::UpgradeShades, Scope { weak: true, ..ALONE }, 10),
    (Rule::UpgradeRefusesUnmarked, Scope { weak: true, ..ALONE }, 10),
    (Rule::WeakClearedBeforeSweep, Scope { weak: true, ..ALONE }, 8),
    (Rule::BlackInSnapshot, ALONE, 7),
    (Rule::BlackInMark, ALONE, 7),
    (Rule::BlackInWeak, ALONE, 7),
    (Rule::WhiteInSweep, Scope { globals: 1, ..ALONE }, 19),
    (Rule::PassAtSafepointOnly, ALONE, 7),
    (Rule::EndWaitsForTables, Scope { roots: 1, ..ALONE }, 8),
    (Rule::EndWaitsForGlobals, Scope { globals: 1, ..ALONE }, 8),
    (Rule::EndWaitsForGrey, Scope { globals: 1, ..ALONE }, 10),
    (Rule::RunsFlushedAtArming, Scope { runs: true, ..ALONE }, 8),
    (Rule::SweptRegionsOnly, ALONE, 7),
];

/// Rules whose removal breaks nothing, where that was looked for (besides `LARGE`), and why they are kept.
const REDUNDANT: &[(Rule, &[Scope], &str)] = &[
    (
        Rule::InsertionUntilAllPassed,
        &[
            Scope { roots: 1, ..PLAIN },
            Scope { globals: 1, weak: true, ..PLAIN },
            Scope { objects: 3, roots: 1, ..ALONE },
        ],
        "It would do to shade new values until the storing mutator itself has passed: what it obtains afterwards is \
         black, was shaded by a handle, or is reached by a chain that the deletion barrier guards. One phase for all \
         is kept because it costs nothing: no flag of each mutator is looked at in a store.",
    ),
    (
        Rule::RunsFlushedAtSweep,
        &[Scope { roots: 1, runs: true, ..PLAIN }, Scope { globals: 1, weak: true, runs: true, ..ALONE }],
        "The cells of a run were marked when they were reserved, so a black run that outlives the start of Sweep is \
         harmless, whether its region was swept or not. What is needed is that the region is given up \
         (`SweptRegionsOnly`), and a flush gives up both.",
    ),
];

/// More states than any scope here has.
const LIMIT: usize = 20_000_000;

fn full() -> bool {
    std::env::var("METRONOME_MODEL").is_ok_and(|v| v == "full")
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
    for &(rule, scope, expected) in NECESSARY {
        let outcome = search(&Model { scope, rules: Rules::without(rule), strict: false }, LIMIT);
        let Some(trace) = outcome.counter_example else {
            panic!("without {rule:?} nothing is lost in {} states: {scope}", outcome.states);
        };
        println!("{rule:?}: {} steps, {} states ({scope})\n{trace}", trace.len(), outcome.states);
        assert!(
            matches!(trace.violation, Violation::Lost { .. } | Violation::WeakYieldsSwept { .. }),
            "{rule:?}: {}",
            trace.violation
        );
        assert_eq!(trace.len(), expected, "{rule:?}: the shortest counter-example\n{trace}");
    }
}

#[test]
fn redundant_rules_are_redundant() {
    for &(rule, scopes, why) in REDUNDANT {
        println!("{rule:?}: {why}");
        assert_holds(scopes, Rules::without(rule), false);
        if full() {
            assert_holds(LARGE, Rules::without(rule), false);
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

/// The check of marking's end sees what is lost before it is swept.
#[test]
fn marking_that_is_incomplete_is_noticed_when_it_ends() {
    let scope = Scope { globals: 1, ..ALONE };
    for (rule, expected) in [
        (Rule::StoreShadesNew, Violation::MarkedToUnmarked { o: 0 }),
        (Rule::EndWaitsForGlobals, Violation::ReachedUnmarked),
    ] {
        let trace = run(scope, Rules::without(rule), true).counter_example.expect("an incomplete marking");
        assert_eq!(trace.violation, expected, "{trace}");
        assert_eq!(trace.last, Some(Step::EndMarking));
    }
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
    for scope in [Scope { objects: 3, ..ALONE }, Scope { roots: 1, ..PLAIN }, Scope { globals: 2, ..ALONE }] {
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
        Scope { roots: 2, duplicates: true, weak: true, ..ALONE },
        Scope { globals: 2, clones: true, native: true, births: true, runs: true, ..ALONE },
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
                kinds.insert(std::mem::discriminant(&step));
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
