//! Who takes part: ways to have memory, and the sizes of heap each is run with.

use crate::program::ProgramName;
use std::fmt;

/// Collectors of the Java VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JavaGc {
    Parallel,
    G1,
    Zgc,
    Shenandoah,
}

impl JavaGc {
    pub(crate) const ALL: [JavaGc; 4] = [JavaGc::Parallel, JavaGc::G1, JavaGc::Zgc, JavaGc::Shenandoah];

    /// The VM's option.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            JavaGc::Parallel => "-XX:+UseParallelGC",
            JavaGc::G1 => "-XX:+UseG1GC",
            JavaGc::Zgc => "-XX:+UseZGC",
            JavaGc::Shenandoah => "-XX:+UseShenandoahGC",
        }
    }
}

/// A way to have memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Memory {
    /// No memory at all: the host's noise.
    Nothing,
    /// The same, by the tool of that name from rt-tests.
    Cyclictest,
    Metronome,
    Bump,
    Box,
    Arc,
    GcArena,
    Dumpster,
    RustCc,
    Boa,
    Boehm,
    Epoch,
    Java(JavaGc),
    Go,
}

impl Memory {
    /// All, in the order of tables.
    pub(crate) fn all() -> Vec<Memory> {
        use Memory::*;
        let mut all = vec![
            Nothing, Cyclictest, Metronome, Bump, Box, Arc, GcArena, Dumpster, RustCc, Boa, Boehm, Epoch,
        ];
        all.extend(JavaGc::ALL.map(Java));
        all.push(Go);
        all
    }

    /// The way of a name.
    ///
    /// # Errors
    /// The names that there are.
    pub(crate) fn parse(name: &str) -> Result<Memory, String> {
        let all = Memory::all();
        let known: Vec<&str> = all.iter().map(|m| m.name()).collect();
        let found = all.iter().find(|m| m.name() == name);
        found
            .copied()
            .ok_or_else(|| format!("there is no contestant {name:?}; there are {}", known.join(", ")))
    }

    /// Its name on command lines and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Memory::Nothing => "host",
            Memory::Cyclictest => "cyclictest",
            Memory::Metronome => "metronome",
            Memory::Bump => "bump",
            Memory::Box => "box",
            Memory::Arc => "arc",
            Memory::GcArena => "gc-arena",
            Memory::Dumpster => "dumpster",
            Memory::RustCc => "rust-cc",
            Memory::Boa => "boa_gc",
            Memory::Boehm => "boehm",
            Memory::Epoch => "epoch",
            Memory::Java(JavaGc::Parallel) => "java-parallel",
            Memory::Java(JavaGc::G1) => "java-g1",
            Memory::Java(JavaGc::Zgc) => "java-zgc",
            Memory::Java(JavaGc::Shenandoah) => "java-shenandoah",
            Memory::Go => "go",
        }
    }

    /// Whether it can run the program. The same as what a child's dispatch accepts.
    pub(crate) fn runs(self, program: ProgramName) -> bool {
        use ProgramName::*;
        let trees = matches!(program, BinaryTrees | BinaryTrees2 | Gcbench);
        match self {
            Memory::Nothing | Memory::Cyclictest => program == Noise,
            _ if program == Noise => false,
            Memory::Metronome | Memory::Java(_) | Memory::Go => true,
            Memory::Bump | Memory::Boehm => !matches!(program, Queue | Map),
            Memory::Box => trees || matches!(program, Churn | Lru | Arrays),
            Memory::Arc | Memory::GcArena | Memory::Dumpster | Memory::RustCc | Memory::Boa => {
                trees || matches!(program, Churn | Storm)
            }
            Memory::Epoch => matches!(program, Queue | Map),
        }
    }

    /// Whether its heap has a limit that is given to it, and so a measured minimum.
    pub(crate) fn has_limit(self) -> bool {
        matches!(self, Memory::Metronome | Memory::Java(_))
    }
}

/// How large a heap is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HeapSize {
    /// As the contestant likes.
    Own,
    /// A multiple of the measured minimum for the program.
    Times(f64),
    /// So large that no cycle runs.
    NoCycle,
}

/// A contestant: a way to have memory, and a heap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Contestant {
    pub(crate) memory: Memory,
    pub(crate) size: HeapSize,
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.memory.name();
        match self.size {
            HeapSize::Own => f.write_str(name),
            HeapSize::Times(times) => write!(f, "{name}@{times}"),
            HeapSize::NoCycle => write!(f, "{name}-no-cycle"),
        }
    }
}

/// The contestants of a program, with the multiples of the minimum heap for ours and for Java.
pub(crate) fn contestants(program: ProgramName, ours: &[f64], java: &[f64]) -> Vec<Contestant> {
    let mut all = Vec::new();
    for memory in Memory::all().into_iter().filter(|m| m.runs(program)) {
        let sizes: Vec<HeapSize> = match memory {
            Memory::Metronome => {
                ours.iter().map(|&t| HeapSize::Times(t)).chain([HeapSize::NoCycle]).collect()
            }
            Memory::Java(_) => java.iter().map(|&t| HeapSize::Times(t)).collect(),
            _ => vec![HeapSize::Own],
        };
        all.extend(sizes.into_iter().map(|size| Contestant { memory, size }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_ours_a_control_and_a_peer() {
        for program in ProgramName::ALL.into_iter().filter(|&p| p != ProgramName::Noise) {
            let all = contestants(program, &[1.25, 2.0], &[2.0]);
            let names: Vec<String> = all.iter().map(Contestant::to_string).collect();
            for needed in ["metronome@1.25", "metronome@2", "metronome-no-cycle", "java-zgc@2", "go"] {
                assert!(names.iter().any(|n| n == needed), "{needed} is not among {names:?}");
            }
            let unique: std::collections::BTreeSet<&String> = names.iter().collect();
            assert_eq!(unique.len(), names.len());
        }
        assert_eq!(contestants(ProgramName::Noise, &[2.0], &[2.0]).len(), 2);
    }

    #[test]
    fn what_is_said_to_run_does_run() {
        use crate::child::params::Params;
        // A size that no program has: whoever accepts the program complains about a missing one.
        let params = Params::of(&[]);
        for program in ProgramName::ALL {
            for memory in Memory::all() {
                if matches!(memory, Memory::Java(_) | Memory::Go | Memory::Boehm | Memory::Cyclictest) {
                    continue;
                }
                let error = crate::child::run(program, memory, Some(8 << 20), &params, None).unwrap_err();
                assert_eq!(
                    error.contains("is missing"),
                    memory.runs(program),
                    "{memory:?} {program:?}: {error}"
                );
            }
        }
    }
}
