//! The programs, each written once over a trait that says what it needs of its memory.

pub(crate) mod arrays;
pub(crate) mod binary_trees;
pub(crate) mod churn;
pub(crate) mod gcbench;
pub(crate) mod lru;
pub(crate) mod map;
pub(crate) mod noise;
pub(crate) mod queue;
pub(crate) mod storm;

use crate::child::params::Params;
use std::panic::resume_unwind;
use std::thread::{Scope, ScopedJoinHandle};

/// What a program found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Equal for all contestants that did the same work.
    pub(crate) checksum: u64,
    /// Response times in nanoseconds, in the order of the intended starts.
    pub(crate) responses: Vec<u64>,
    /// Remarks for the table.
    pub(crate) notes: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(checksum: u64) -> Outcome {
        Outcome { checksum, ..Outcome::default() }
    }
}

/// Waits for a thread; its panic is the caller's.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Starts a thread with a name.
///
/// # Errors
/// Why the system gives none.
pub(crate) fn start<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    f: impl FnOnce() -> T + Send + 's,
) -> Result<ScopedJoinHandle<'s, T>, String> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, f).map_err(|e| format!("cannot start the thread {name}: {e}"))
}

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProgramName {
    Noise,
    BinaryTrees,
    BinaryTrees2,
    Gcbench,
    Churn,
    Lru,
    Storm,
    Arrays,
    Queue,
    Map,
}

impl ProgramName {
    /// All, in the order of tables.
    pub(crate) const ALL: [ProgramName; 10] = {
        use ProgramName::*;
        [Noise, BinaryTrees, BinaryTrees2, Gcbench, Churn, Lru, Storm, Arrays, Queue, Map]
    };

    /// Its name on command lines and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ProgramName::Noise => "noise",
            ProgramName::BinaryTrees => "binary-trees",
            ProgramName::BinaryTrees2 => "binary-trees-2",
            ProgramName::Gcbench => "gcbench",
            ProgramName::Churn => "churn",
            ProgramName::Lru => "lru",
            ProgramName::Storm => "storm",
            ProgramName::Arrays => "arrays",
            ProgramName::Queue => "queue",
            ProgramName::Map => "map",
        }
    }

    /// The program of a name.
    ///
    /// # Errors
    /// The names that there are.
    pub(crate) fn parse(name: &str) -> Result<ProgramName, String> {
        let known = ProgramName::ALL.map(ProgramName::name).join(", ");
        let found = ProgramName::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| format!("there is no program {name:?}; there are {known}"))
    }

    /// Whether its figure is the response time, not the time it takes.
    pub(crate) fn is_timed(self) -> bool {
        matches!(self, ProgramName::Noise | ProgramName::Churn | ProgramName::Lru)
    }

    /// Its sizes: those of a measurement, or so small that a run shows only that everything works.
    pub(crate) fn params(self, sample: bool) -> Params {
        let pick = |full: u64, small: u64| if sample { small } else { full };
        match self {
            ProgramName::Noise => Params::of(&[("ms", pick(10_000, 300)), ("period_us", 1000)]),
            ProgramName::BinaryTrees => Params::of(&[("depth", pick(18, 12)), ("threads", 1)]),
            ProgramName::BinaryTrees2 => Params::of(&[("depth", pick(18, 12)), ("threads", 2)]),
            ProgramName::Gcbench => {
                Params::of(&[("stretch", pick(18, 12)), ("passes", pick(5, 1)), ("threads", 1)])
            }
            ProgramName::Churn => Params::of(&[
                ("live", pick(128 << 20, 8 << 20)),
                ("rate", pick(100_000_000, 20_000_000)),
                ("ms", pick(10_000, 300)),
                ("period_us", 1000),
            ]),
            ProgramName::Lru => Params::of(&[
                ("capacity", pick(200_000, 10_000)),
                ("keys", pick(800_000, 40_000)),
                ("rate", 20_000),
                ("ms", pick(10_000, 300)),
            ]),
            ProgramName::Storm => {
                Params::of(&[("nodes", pick(1 << 20, 1 << 14)), ("steps", pick(20_000_000, 400_000))])
            }
            ProgramName::Arrays => Params::of(&[
                ("min", 64 << 10),
                ("max", pick(8 << 20, 1 << 20)),
                ("kept", 8),
                ("count", pick(1500, 60)),
            ]),
            ProgramName::Queue => Params::of(&[("pairs", 1), ("count", pick(10_000_000, 100_000))]),
            ProgramName::Map => Params::of(&[
                ("threads", 2),
                ("keys", pick(200_000, 10_000)),
                ("count", pick(8_000_000, 80_000)),
            ]),
        }
    }
}
