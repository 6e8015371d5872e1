//! Random programs on the whole collector: one to four mutators in lock-step, every kind of object and reference, random
//! quanta in virtual time, against an oracle that knows only ids (`programs/oracle.rs`), with the heap verifier on. A
//! program is data: what fails is made as small as it can be, and printed as a literal for `programs/regressions.rs`.
//!
//! `METRONOME_SEED` sets the first seed, `METRONOME_PROGRAMS` the number of programs (1,000;
//! `scripts/programs`: 100,000).
#![forbid(unsafe_code)]

#[path = "programs/arrays.rs"]
mod arrays;
#[path = "programs/compare.rs"]
mod compare;
#[path = "programs/corpus.rs"]
mod corpus;
#[path = "programs/decode.rs"]
mod decode;
#[path = "programs/faults.rs"]
mod faults;
#[path = "programs/finalizer.rs"]
mod finalizer;
#[path = "programs/generate.rs"]
mod generate;
#[path = "programs/operations.rs"]
mod operations;
#[path = "programs/oracle.rs"]
mod oracle;
#[path = "programs/program.rs"]
mod program;
#[path = "programs/random.rs"]
mod random;
#[path = "programs/references.rs"]
mod references;
#[path = "programs/regressions.rs"]
mod regressions;
#[path = "programs/run.rs"]
mod run;
#[path = "programs/world.rs"]
mod world;

use generate::minimize;
use oracle::Met;
use program::Program;
use random::{at_least_one, first_seed, number, programs, seeds};
use run::run;

#[test]
fn random_programs() {
    let first = first_seed();
    let programs = programs();
    println!("METRONOME_SEED={first} METRONOME_PROGRAMS={programs}");
    let mut met = Met::default();
    let mut ran = 0;
    for seed in seeds(first, programs) {
        ran += 1;
        let program = Program::of_seed(seed);
        match run(&program, None) {
            Ok(more) => met.add(&more),
            Err(found) => {
                println!("METRONOME_SEED={seed} METRONOME_PROGRAMS=1 fails: {found}");
                let (smallest, tried) = minimize(program, |p| run(p, None).is_err());
                let found = run(&smallest, None).expect_err("it failed when it was made");
                panic!("{found}\nThe smallest of {tried} programs tried:\n{smallest}");
            }
        }
    }
    println!("{ran} programs: {met:?}");
    assert_eq!(ran, programs);
    if programs >= 100 {
        // The programs reach what they are meant to reach.
        for (what, n) in met.counts() {
            let least = match what {
                "index_leaves" => programs / 10_000,
                "failed_allocations" | "reserved" => programs / 100,
                _ => programs / 20,
            };
            assert!(n as u64 >= least, "{what}: {n} of at least {least}");
        }
    }
}

#[test]
fn seeds_go_on_after_the_largest() {
    assert_eq!(seeds(u64::MAX, 1).collect::<Vec<_>>(), [u64::MAX]);
    assert_eq!(seeds(u64::MAX - 1, 4).collect::<Vec<_>>(), [u64::MAX - 1, u64::MAX, 0, 1]);
    assert_eq!(number("METRONOME_SEED", "18446744073709551615".as_ref()), u64::MAX);
}

#[test]
#[should_panic(expected = "METRONOME_SEED=abc is not a number")]
fn a_seed_that_is_no_number_is_refused() {
    number("METRONOME_SEED", "abc".as_ref());
}

#[test]
#[should_panic(expected = "METRONOME_PROGRAMS=0 runs nothing")]
fn no_programs_are_refused() {
    at_least_one(0);
}
