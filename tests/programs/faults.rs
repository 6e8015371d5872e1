//! Random programs find every fault, and what they find shrinks to a few operations.

use crate::generate::minimize;
use crate::program::Program;
use crate::run::run;
use metronome_gc::testing::Fault;

/// Protections (but `NoRenewal`, which takes too many programs: see `regressions.rs`), and within how many programs their
/// removal is found at the latest.
const FAULTS: &[(Fault, u64)] = &[
    (Fault::NoDeletionBarrier, 200),
    (Fault::NoInsertionBarrier, 200),
    (Fault::NoInitialiserBarrier, 200),
    (Fault::NoHandleBarrier, 200),
    (Fault::NoUpgradeBarrier, 200),
    (Fault::AllocateWhite, 200),
    (Fault::NoLogFlush, 200),
    (Fault::NoWeakClearing, 200),
    (Fault::NoGlobalScan, 200),
    (Fault::NoGlobalCreateBarrier, 200),
    (Fault::NoDeferredShading, 400),
    (Fault::NoQueuedScan, 400),
    (Fault::NoFinalizeMarking, 200),
    (Fault::NoEphemeronPass, 200),
    (Fault::NoEphemeronLookup, 200),
    (Fault::NoSuppressedRelease, 200),
    (Fault::NoStamps, 1000),
    (Fault::NoBurying, 200),
    (Fault::NoSoftBarrier, 1000),
];

/// More operations than any fault needs.
const SMALL: usize = 20;

#[test]
#[cfg_attr(debug_assertions, ignore = "takes a minute: cargo test --release --test programs faults")]
fn every_fault_is_found_and_shrinks() {
    for &(fault, within) in FAULTS {
        // Plain objects, so that nothing is dropped that the fault has lost. From 1: the table is the same every time.
        let program = |seed| Program { glue: false, large: false, ..Program::of_seed(seed) };
        let found = (1..=within).find_map(|seed| Some((seed, run(&program(seed), Some(fault)).err()?)));
        let Some((seed, text)) = found else { panic!("{fault:?}: not found within {within} programs") };
        let (smallest, tried) = minimize(program(seed), |p| run(p, Some(fault)).is_err());
        let text = text.lines().next().unwrap_or_default().chars().take(100).collect::<String>();
        println!(
            "{fault:?}: program {seed} ({text}); {} steps left after {tried} more",
            smallest.steps.len()
        );
        println!("{smallest}");
        assert!(smallest.steps.len() <= SMALL, "{fault:?} needs {}", smallest.steps.len());
        assert!(run(&smallest, Some(fault)).is_err(), "{fault:?}: the smallest program fails every time");
        assert_eq!(run(&smallest, None).err(), None, "{fault:?}: it is the fault that fails it");
    }
}
