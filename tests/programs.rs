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
use random::{first_seed, variable};
use run::run;

#[test]
fn random_programs() {
    let first = first_seed();
    let programs = variable("METRONOME_PROGRAMS").unwrap_or(1_000);
    println!("METRONOME_SEED={first} METRONOME_PROGRAMS={programs}");
    let mut met = Met::default();
    for seed in first..first.saturating_add(programs) {
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
    println!("{met:?}");
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
