//! What all threads of a run share: the heap, when to stop, and how to insist on memory.

use crate::quantity::bytes;
use metronome_gc::config::Exhaustion;
use metronome_gc::{AllocError, Heap, Mutator};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Cycles that must have ended since the first failure before a thread gives up. Two are needed for what was dropped
/// during the first; the others are for threads that took the memory first.
const PATIENCE_CYCLES: u64 = 4;
const PATIENCE_TRIES: u32 = 4;

/// Why a workload thread could not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The heap is too small.
    NoMemory(AllocError),
    /// The user ended the run before there was anything to check.
    Interrupted,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoMemory(AllocError::Exhausted { requested_bytes, used_bytes, heap_bytes }) => write!(
                f,
                "the heap is too small: no room for {requested_bytes} bytes after several cycles (objects use {} of \
                 {}, and a region holds one size of object)",
                bytes(*used_bytes),
                bytes(*heap_bytes)
            ),
            Failure::NoMemory(e) => e.fmt(f),
            Failure::Interrupted => f.write_str("interrupted before there was a result to check"),
        }
    }
}

/// Counters that the progress line shows.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Rounds, passes or trees.
    pub(crate) rounds: AtomicU64,
    /// Queries answered and compared.
    pub(crate) queries: AtomicU64,
}

/// Shared by all threads of one run.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) heap: Heap,
    pub(crate) counters: Counters,
    stop: AtomicBool,
    quit: AtomicBool,
    interrupted: Arc<AtomicBool>,
    patience_cycles: u64,
}

impl Env {
    pub(crate) fn new(heap: Heap, interrupted: Arc<AtomicBool>) -> Env {
        Env {
            heap,
            counters: Counters::default(),
            stop: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            interrupted,
            patience_cycles: PATIENCE_CYCLES,
        }
    }

    /// With patience for as many threads: each of them may be faster once.
    pub(crate) fn with_threads(self, n: u32) -> Env {
        Env { patience_cycles: PATIENCE_CYCLES + u64::from(n), ..self }
    }

    /// Whether to finish up.
    pub(crate) fn stopping(&self) -> bool {
        // Relaxed, here and below: flags that carry no data; threads that end are joined.
        self.stop.load(Relaxed) || self.interrupted()
    }

    /// Whether the workload has ended, and with it the reason to measure.
    pub(crate) fn over(&self) -> bool {
        // Relaxed: a flag, as in `stopping`.
        self.quit.load(Relaxed)
    }

    /// Asks the threads beside the workload to end.
    pub(crate) fn quit(&self) {
        // Relaxed: a flag, as in `stopping`.
        self.quit.store(true, Relaxed);
    }

    /// Whether the user wants the run to end now.
    pub(crate) fn interrupted(&self) -> bool {
        // Relaxed: a flag, as in `stopping`.
        self.interrupted.load(Relaxed)
    }

    /// Asks the workload to finish up: to check its results and end.
    pub(crate) fn stop(&self) {
        // Relaxed: a flag, as in `stopping`.
        self.stop.store(true, Relaxed);
    }

    /// Runs `unit`, and again after waiting for memory at a safepoint if an allocation failed. A safepoint at its end.
    ///
    /// `unit` must leave things as they were if it fails.
    ///
    /// # Errors
    /// [`Failure::NoMemory`] after several tries with whole cycles in between.
    #[inline]
    pub(crate) fn insist<R>(
        &self,
        m: &mut Mutator<'_>,
        mut unit: impl FnMut(&Mutator<'_>) -> Result<R, AllocError>,
    ) -> Result<R, Failure> {
        match unit(m) {
            Ok(r) => {
                m.safepoint();
                Ok(r)
            }
            Err(e) => self.insist_slow(m, e, &mut unit),
        }
    }

    #[cold]
    fn insist_slow<R>(
        &self,
        m: &mut Mutator<'_>,
        mut error: AllocError,
        unit: &mut dyn FnMut(&Mutator<'_>) -> Result<R, AllocError>,
    ) -> Result<R, Failure> {
        let first = self.heap.glance().cycles;
        let since = Instant::now();
        let wait = Duration::from_nanos(self.heap.config().memory_wait_ns);
        for tries in 1.. {
            if matches!(error, AllocError::TooLarge { .. }) {
                break;
            }
            let cycles = self.heap.glance().cycles.wrapping_sub(first);
            let limit =
                if self.interrupted() { Duration::from_secs(1) } else { wait.max(Duration::from_secs(1)) };
            if tries > PATIENCE_TRIES && (cycles >= self.patience_cycles || since.elapsed() >= limit) {
                break;
            }
            if tries > 1 || self.heap.config().exhaustion == Exhaustion::Fail {
                // The safepoint did not wait, or others were faster: let the collector come on.
                self.heap.request_cycle();
                m.blocking(|| std::thread::sleep(Duration::from_millis(1)));
            }
            m.safepoint();
            match unit(m) {
                Ok(r) => {
                    m.safepoint();
                    return Ok(r);
                }
                Err(e) => error = e,
            }
        }
        Err(Failure::NoMemory(error))
    }
}
