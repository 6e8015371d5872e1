//! What a verification looks at, finds and says.

use metronome_barrier::Phase;
use std::fmt;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Id of the invariant, as the design documents define it.
    pub invariant: &'static str,
    /// The edge at which it was found: `arm`, `mark`, `weak`, `finalize`, `phantom`, `sweep`, `end`, or `demand`.
    pub edge: &'static str,
    /// Number of the cycle, from 1; of the last one when none is active.
    pub cycle: u64,
    /// What was found.
    pub detail: String,
    /// The way from a handle to the object in question, where there is one.
    pub path: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (cycle {}, edge {}): {}", self.invariant, self.cycle, self.edge, self.detail)?;
        match &self.path {
            Some(path) => write!(f, "; path: {path}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Violation {}

/// Objects that a cycle kept although nothing in the heap's handles reached them when its marking ended: what died or was
/// made during the cycle, and what only a local of a mutator held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Floating {
    /// Objects.
    pub objects: u64,
    /// Bytes of their cells, leaves of arrays included.
    pub bytes: u64,
}

/// What a verification on demand has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Cycles completed before.
    pub cycles: u64,
    /// Objects in the heap, dead ones that are yet to be swept included.
    pub objects: u64,
    /// Objects that handles reach, directly or not.
    pub reachable: u64,
    /// Entries of handle tables in use.
    pub handles: u64,
}

/// Why a heap was not verified, or what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// The calling thread is inside the heap: leave it first.
    Inside,
    /// The crate was built without its feature `verify`.
    Absent,
    /// The collector could not stop all mutators within `memory-wait`.
    TimedOut,
    /// The heap is being closed.
    Closed,
    /// The process is a forked child, which has no collector.
    Forked,
    /// Invariants are broken: at most 8 violations, and how many more there were. The heap must not be used any more.
    Broken {
        /// The first ones.
        violations: Vec<Violation>,
        /// How many were left out.
        more: u64,
    },
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::Inside => {
                f.write_str("this thread is inside the heap, which has to be stopped: verify after `enter` has returned")
            }
            VerifyError::Absent => {
                f.write_str("the verifier is not compiled in: build metronome-gc with its feature `verify`")
            }
            VerifyError::TimedOut => f.write_str(
                "the collector could not stop all mutators within memory-wait: see the log for the straggler's name",
            ),
            VerifyError::Closed => f.write_str("the heap is being closed"),
            VerifyError::Forked => {
                f.write_str("a forked child has no collector: verify in the parent process")
            }
            VerifyError::Broken { violations, more } => {
                write!(f, "{} invariants are broken", violations.len() as u64 + more)?;
                violations.first().map_or(Ok(()), |v| write!(f, ", first {v}"))
            }
        }
    }
}

impl std::error::Error for VerifyError {}

/// Where the collector is when it verifies.
#[cfg_attr(not(feature = "verify"), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Before arming.
    Arm,
    /// Snapshot → Mark.
    Mark,
    /// Mark → Weak: marking has ended.
    Weak,
    /// Weak → Finalize.
    Finalize,
    /// Finalize → Phantom: marks are final.
    Phantom,
    /// Phantom → Sweep: what is dead is cleared.
    Sweep,
    /// Sweep → Idle.
    End,
    /// Asked for, in this phase.
    Demand(Phase),
}

#[cfg_attr(not(feature = "verify"), allow(dead_code))]
impl Edge {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Edge::Arm => "arm",
            Edge::Mark => "mark",
            Edge::Weak => "weak",
            Edge::Finalize => "finalize",
            Edge::Phantom => "phantom",
            Edge::Sweep => "sweep",
            Edge::End => "end",
            Edge::Demand(_) => "demand",
        }
    }

    /// No cycle is active: nothing is marked or grey, and nothing that is allocated refers to a free cell.
    pub(crate) const fn is_idle(self) -> bool {
        matches!(self, Edge::Arm | Edge::End | Edge::Demand(Phase::Idle))
    }

    /// White objects may hang on black ones if a grey one protects them.
    pub(crate) const fn is_marking(self) -> bool {
        matches!(
            self,
            Edge::Mark
                | Edge::Finalize
                | Edge::Demand(Phase::Snapshot | Phase::Mark | Phase::Weak | Phase::Finalize)
        )
    }

    /// Marks are complete.
    pub(crate) const fn is_marked(self) -> bool {
        matches!(self, Edge::Weak | Edge::Phantom | Edge::Sweep | Edge::Demand(Phase::Phantom))
    }
}

/// What the verifier has to be told of the collector's own state.
#[cfg_attr(not(feature = "verify"), allow(dead_code))]
#[derive(Debug, Default)]
pub(crate) struct View {
    /// Number of the cycle.
    pub(crate) cycle: u64,
    /// What is yet to be scanned or taken, while marking.
    pub(crate) greys: Vec<*mut u8>,
    /// What soft references keep in this cycle.
    pub(crate) softs: Vec<*mut u8>,
    /// Regions that the sweep under way has yet to visit.
    pub(crate) unswept: std::ops::Range<u32>,
}

/// Violations that are kept of one verification.
#[cfg_attr(not(feature = "verify"), allow(dead_code))]
pub(crate) const AT_MOST: usize = 8;

/// Violations found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) violations: Vec<Violation>,
    /// How many were left out.
    pub(crate) more: u64,
}
