//! Errors of the collector's own operations.

use crate::shared::Shared;
use metronome_arraylet::ReserveError;
use std::fmt;

/// Why an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// No region was free. A safepoint waits for memory; then try again.
    Exhausted {
        /// Bytes asked for.
        requested_bytes: u64,
        /// Bytes in use.
        used_bytes: u64,
        /// Size of the heap.
        heap_bytes: u64,
    },
    /// The request is larger than the heap, or than any array can be.
    TooLarge {
        /// Bytes asked for.
        requested_bytes: u64,
        /// Size of the heap.
        heap_bytes: u64,
    },
}

impl AllocError {
    pub(crate) fn exhausted(s: &Shared, requested_bytes: u64) -> AllocError {
        AllocError::Exhausted {
            requested_bytes,
            used_bytes: s.space.used_bytes(),
            heap_bytes: s.space.heap_bytes(),
        }
    }

    pub(crate) fn too_large(s: &Shared, requested_bytes: u64) -> AllocError {
        AllocError::TooLarge { requested_bytes, heap_bytes: s.space.max_bytes() }
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::Exhausted { requested_bytes, used_bytes, heap_bytes } => write!(
                f,
                "the heap has no free region for {requested_bytes} bytes ({used_bytes} of {heap_bytes} bytes are in use, \
                 the rest lies in regions of other size classes and threads): come by a safepoint and try again, or \
                 give the heap more memory"
            ),
            AllocError::TooLarge { requested_bytes, heap_bytes } => {
                write!(
                    f,
                    "{requested_bytes} bytes do not fit into a heap of {heap_bytes} bytes: give it more memory"
                )
            }
        }
    }
}

impl std::error::Error for AllocError {}

/// Why a heap could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting is out of range or does not go with another one.
    Config(crate::config::ConfigError),
    /// The memory could not be had.
    Memory(ReserveError),
    /// The immortal memory could not be had.
    Immortal {
        /// Bytes asked for.
        bytes: u64,
        /// The system's reason.
        source: ReserveError,
    },
    /// A thread could not be started.
    Thread {
        /// Which.
        name: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The option `verify` asks for a verifier, and the crate was built without its feature `verify`.
    VerifierAbsent,
    /// The verbose log could not be created.
    Log {
        /// Where.
        path: std::path::PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Config(e) => e.fmt(f),
            BuildError::Memory(e) => e.fmt(f),
            BuildError::Immortal { bytes, source } => {
                write!(
                    f,
                    "cannot have {bytes} bytes of immortal memory: lower the option immortal ({source})"
                )
            }
            BuildError::Thread { name, source } => {
                write!(f, "cannot start the {name} thread: {source}; check the limit on threads (ulimit -u)")
            }
            BuildError::VerifierAbsent => f.write_str(
                "the option verify (METRONOME_VERIFY) asks for a verifier that is not compiled in: build metronome-gc with its \
                 feature verify, or set verify = off",
            ),
            BuildError::Log { path, source } => {
                write!(
                    f,
                    "cannot create the verbose GC log {}: {source}; choose another verbose-gc file",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Config(e) => Some(e),
            BuildError::VerifierAbsent => None,
            BuildError::Memory(e) | BuildError::Immortal { source: e, .. } => Some(e),
            BuildError::Thread { source, .. } | BuildError::Log { source, .. } => Some(source),
        }
    }
}

impl From<crate::config::ConfigError> for BuildError {
    fn from(e: crate::config::ConfigError) -> Self {
        BuildError::Config(e)
    }
}

/// Why a thread could not enter a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnterError {
    /// The thread is inside a heap already. Enter from outside, or from within `blocking` of another heap.
    Nested,
    /// The thread is inside this very heap (from within `blocking`).
    SameHeap,
    /// As many threads as `max-mutators` allows are attached.
    TooManyMutators {
        /// The limit.
        max: usize,
    },
    /// The process is a fork of the one that made the heap; it has no collector.
    Forked,
    /// The thread is ending: its thread-local state is gone.
    ThreadEnding,
    /// The thread runs the drop glue of an object of this heap.
    DropGlue,
    /// The thread is a no-heap one, which no quantum may delay: no heap lets it in.
    NoHeapThread,
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnterError::Nested => f.write_str(
                "this thread is inside a heap already: leave it first, or enter from within Mutator::blocking",
            ),
            EnterError::SameHeap => f.write_str("this thread is inside this heap already: use the outer mutator"),
            EnterError::TooManyMutators { max } => {
                write!(f, "{max} threads are attached to the heap: raise max-mutators")
            }
            EnterError::Forked => {
                f.write_str("a forked child must not use its parent's heap: make a heap of its own, or exec")
            }
            EnterError::ThreadEnding => f.write_str("the thread is ending: enter the heap before its destructors run"),
            EnterError::DropGlue => f.write_str(
                "drop glue must not enter the heap of its object: use Finalize, which runs on a mutator, or leave it to another thread",
            ),
            EnterError::NoHeapThread => f.write_str(
                "a no-heap thread must not enter a heap: send what is to be done there to a heap thread, by a WaitFreeWriteQueue",
            ),
        }
    }
}

impl std::error::Error for EnterError {}

/// What is missing, for the callback of [`HeapBuilder::before_failure`](crate::HeapBuilder::before_failure).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// Bytes that a mutator waited for.
    pub requested_bytes: u64,
    /// Bytes that are free, in whatever pieces.
    pub free_bytes: u64,
}

/// What the callback has done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// It has let go of something: collect once more before failing.
    Retry,
    /// Nothing: fail.
    Fail,
}

/// The callback.
#[derive(Clone)]
pub(crate) struct BeforeFailure(pub(crate) std::sync::Arc<dyn Fn(&Shortage) -> Remedy + Send + Sync>);

impl fmt::Debug for BeforeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeFailure")
    }
}

impl std::ops::Deref for BeforeFailure {
    type Target = dyn Fn(&Shortage) -> Remedy + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Why a thread of the heap could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// The thread's name contains a zero byte.
    Name,
    /// The priority is not below the collector's, which such a thread would keep from running.
    PriorityNotBelowCollector {
        /// The priority asked for.
        requested: u8,
        /// The option `gc-priority`; 0 if the collector has no real-time priority.
        collector: u8,
    },
    /// The priority is not above the collector's and the alarm's, which could delay a no-heap thread.
    PriorityNotAbove {
        /// The priority asked for.
        requested: u8,
        /// The option `gc-priority`.
        gc_priority: u8,
        /// The option `alarm-priority`.
        alarm_priority: u8,
    },
    /// Priorities end at 99.
    PriorityOutOfRange {
        /// The priority asked for.
        requested: u8,
    },
    /// The size of the stack is out of range.
    Stack {
        /// Bytes asked for.
        requested_bytes: usize,
        /// Least bytes.
        min_bytes: usize,
        /// Most bytes.
        max_bytes: usize,
    },
    /// The thread could not enter the heap.
    Enter(EnterError),
    /// The system did not start the thread.
    Thread(std::io::Error),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Name => f.write_str("the thread's name contains a zero byte: choose one without"),
            SpawnError::PriorityNotBelowCollector { requested, collector: 0 } => write!(
                f,
                "real-time priority {requested} needs a collector with a higher one, and gc-priority is 0: set \
                 gc-priority above {requested}, or ask for priority 0"
            ),
            SpawnError::PriorityNotBelowCollector { requested, collector: 1 } => write!(
                f,
                "real-time priority {requested} is not below the collector's 1, and there is none below: raise \
                 gc-priority above {requested}, or ask for priority 0"
            ),
            SpawnError::PriorityNotBelowCollector { requested, collector } => write!(
                f,
                "real-time priority {requested} is not below the collector's {collector}: choose one from 1 to {}, 0 for \
                 none, or raise gc-priority above {requested}",
                collector - 1
            ),
            SpawnError::PriorityNotAbove { requested, gc_priority, alarm_priority } => write!(
                f,
                "a no-heap thread of priority {requested} could be delayed by the heap's own threads (gc-priority \
                 {gc_priority}, alarm-priority {alarm_priority}): choose a higher one, or lower those, or 0 to ask for none"
            ),
            SpawnError::PriorityOutOfRange { requested } => write!(
                f,
                "SCHED_FIFO priority {requested} does not exist: choose one up to {}",
                metronome_alarm::priority::MAX_PRIORITY
            ),
            SpawnError::Stack { requested_bytes, min_bytes, max_bytes } => write!(
                f,
                "a stack of {requested_bytes} bytes is out of range: choose {min_bytes} to {max_bytes}"
            ),
            SpawnError::Enter(e) => e.fmt(f),
            SpawnError::Thread(e) => {
                write!(f, "cannot start the thread: {e}; check the limits on threads (ulimit -u) and memory")
            }
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpawnError::Enter(e) => Some(e),
            SpawnError::Thread(e) => Some(e),
            SpawnError::Name
            | SpawnError::PriorityNotBelowCollector { .. }
            | SpawnError::PriorityNotAbove { .. }
            | SpawnError::PriorityOutOfRange { .. }
            | SpawnError::Stack { .. } => None,
        }
    }
}

impl From<EnterError> for SpawnError {
    fn from(e: EnterError) -> Self {
        SpawnError::Enter(e)
    }
}
