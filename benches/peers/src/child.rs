//! A child process: runs one program on one contestant and prints what it found, a line for each figure.

pub(crate) mod clock;
pub(crate) mod params;
pub(crate) mod random;

use crate::contestant::Memory;
use crate::family::{Facts, Family, arc, boa, boxes, bump, dumpster, epoch, gc_arena, metronome, rust_cc};
use crate::program::{self, Outcome, ProgramName};
use params::Params;
use std::fmt::Display;
use std::path::Path;
use std::process::exit;
use std::time::Instant;

/// Exit status of a child whose heap was too small.
pub(crate) const TOO_SMALL: i32 = 3;

/// Ends the process because the heap is too small for the program.
pub(crate) fn too_small(why: &dyn Display) -> ! {
    eprintln!("out of memory: {why}");
    exit(TOO_SMALL)
}

/// Runs the program and prints its results; response times go to the file `samples`, as little-endian words.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run(
    program: ProgramName,
    memory: Memory,
    heap: Option<u64>,
    params: &Params,
    samples: Option<&Path>,
) -> Result<(), String> {
    let start = Instant::now();
    let (outcome, facts) = dispatch(program, memory, heap, params)?;
    println!("work_ns {}", start.elapsed().as_nanos());
    println!("checksum {:016x}", outcome.checksum);
    for note in outcome.notes {
        println!("note {note}");
    }
    for (name, value) in facts {
        println!("{name} {value}");
    }
    if let Some(path) = samples.filter(|_| !outcome.responses.is_empty()) {
        let bytes: Vec<u8> = outcome.responses.iter().flat_map(|r| r.to_le_bytes()).collect();
        std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// Opens the family, runs the program's function on it, and asks for its figures.
fn on<F: Family>(
    heap: Option<u64>,
    params: &Params,
    run: impl FnOnce(&F::Shared, &Params) -> Result<Outcome, String>,
) -> Result<(Outcome, Facts), String> {
    let shared = F::open(heap)?;
    let outcome = run(&shared, params)?;
    Ok((outcome, F::facts(&shared)))
}

/// The programs that a family can run: a `match` over the names, each with the function for this family.
macro_rules! programs {
    ($family:ty, $program:expr, $heap:expr, $params:expr; $($name:ident => $module:ident),+) => {
        match $program {
            $(ProgramName::$name => on::<$family>($heap, $params, program::$module::run::<$family>),)+
            #[allow(unreachable_patterns, reason = "a family may run all of them")]
            other => Err(format!("{} does not run on this contestant", other.name())),
        }
    };
}

fn dispatch(
    program: ProgramName,
    memory: Memory,
    heap: Option<u64>,
    params: &Params,
) -> Result<(Outcome, Facts), String> {
    if (program, memory) == (ProgramName::Noise, Memory::Nothing) {
        return Ok((program::noise::run(params)?, Facts::new()));
    }
    macro_rules! with {
        ($family:ty; $($rest:tt)*) => { programs!($family, program, heap, params; $($rest)*) };
    }
    macro_rules! common {
        ($family:ty $(, $name:ident => $module:ident)*) => {
            with!($family; BinaryTrees => binary_trees, BinaryTrees2 => binary_trees, Gcbench => gcbench,
                Churn => churn, Storm => storm $(, $name => $module)*)
        };
    }
    match memory {
        Memory::Metronome => {
            common!(metronome::Metronome, Lru => lru, Arrays => arrays, Queue => queue, Map => map)
        }
        Memory::Bump => common!(bump::Bump, Lru => lru, Arrays => arrays),
        Memory::Box => with!(boxes::Boxes; BinaryTrees => binary_trees, BinaryTrees2 => binary_trees,
            Gcbench => gcbench, Churn => churn, Lru => lru, Arrays => arrays),
        Memory::Arc => common!(arc::Arcs),
        Memory::GcArena => common!(gc_arena::GcArena),
        Memory::Dumpster => common!(dumpster::Dumpster),
        Memory::RustCc => common!(rust_cc::RustCc),
        Memory::Boa => common!(boa::Boa),
        #[cfg(boehm)]
        Memory::Boehm => common!(crate::family::boehm::Boehm, Lru => lru, Arrays => arrays),
        #[cfg(not(boehm))]
        Memory::Boehm => Err("built without libgc".into()),
        Memory::Epoch => with!(epoch::Epoch; Queue => queue, Map => map),
        Memory::Nothing | Memory::Cyclictest | Memory::Java(_) | Memory::Go => {
            Err(format!("{} does not run {} here", memory.name(), program.name()))
        }
    }
}
