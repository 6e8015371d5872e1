//! The collector: one cycle as a sequence of bounded steps. Knows nothing of time; the driver decides when to step.
//!
//! # State
//! ```text
//! Idle ─arm─▶ Marking ─terminate─▶ Clearing ─▶ Sweeping ─▶ Idle
//! ```
//! The phase that mutators see follows: Snapshot and Mark while Marking, Weak while Clearing, Sweep while Sweeping.
//!
//! # Who may touch what
//! The thread that drives it owns the `Collector` by value. Every step needs [`Stopped`], the proof that no mutator
//! runs; only a stop makes one.
//!
//! # Bounds
//! | step | unit |
//! |---|---|
//! | arm, terminate | O(1) |
//! | mark | 64 references or objects, plus the slots of one object |
//! | roots, globals, weak | 32 entries |
//! | log, grey | one chunk of 256, one word of 64 |
//! | pass, flush | 64 mutators |
//! | sweep | one region: at most 64 words of three bitmaps |

use crate::hooks::fault;
use crate::mark::MarkQueue;
use crate::shared::{MutatorState, Record, Shared};
use metronome_arraylet::RegionId;
use metronome_barrier::Phase;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Entries of a table taken in one step.
const TABLE_CHUNK: u32 = 32;
/// Mutators looked at in one step.
const RECORD_CHUNK: usize = 64;
/// Regions swept in one step.
const SWEEP_CHUNK: u32 = 1;

/// Proof that no mutator of the heap runs, until dropped.
#[derive(Debug)]
pub(crate) struct Stopped<'a> {
    shared: &'a Shared,
}

impl<'a> Stopped<'a> {
    /// Stops the mutators, at most until `deadline_ns`; `nudge` as in [`Gate::stop`](crate::gate::Gate::stop).
    ///
    /// # Errors
    /// The number of mutators that had not arrived; all were released.
    pub(crate) fn try_new(
        shared: &'a Shared,
        deadline_ns: Option<u64>,
        spin: crate::gate::Spin,
        nudge: Option<(u64, &mut dyn FnMut())>,
    ) -> Result<Stopped<'a>, crate::gate::Cancelled> {
        shared.gate.stop(deadline_ns, || shared.clock.now(), spin, nudge)?;
        Ok(Stopped { shared })
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.shared.gate.release();
    }
}

/// Names of steps, for the longest-step report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StepName {
    Arm,
    Pass,
    Mark,
    Log,
    Grey,
    Roots,
    Globals,
    Flush,
    Terminate,
    Weak,
    BeginSweep,
    Sweep,
    End,
}

impl StepName {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            StepName::Arm => "arm",
            StepName::Pass => "pass",
            StepName::Mark => "mark",
            StepName::Log => "log",
            StepName::Grey => "grey",
            StepName::Roots => "roots",
            StepName::Globals => "globals",
            StepName::Flush => "flush",
            StepName::Terminate => "terminate",
            StepName::Weak => "weak",
            StepName::BeginSweep => "begin-sweep",
            StepName::Sweep => "sweep",
            StepName::End => "end",
        }
    }
}

/// What a step leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More steps.
    More,
    /// Nothing to do until mutator `record` comes by a safepoint.
    Blocked {
        /// Its record's index.
        record: usize,
    },
    /// The cycle has ended.
    Done,
}

#[derive(Debug)]
enum Work {
    Idle,
    Marking(Marking),
    Clearing { next: u32 },
    Sweeping { next: u32, end: u32 },
}

/// How far marking is.
#[derive(Debug, Default)]
struct Marking {
    /// Mutators attached at arming: those with a smaller index have passed a safepoint.
    passed: usize,
    mutators: usize,
    /// The table being taken, how much of it, and how long it was when begun.
    table: usize,
    entry: u32,
    entries: Option<u32>,
    global: u32,
    globals: u32,
}

/// Counts of the current (or last) cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CycleCounts {
    pub(crate) live_bytes: u64,
    pub(crate) freed_bytes: u64,
    pub(crate) condemned_bytes: u64,
    pub(crate) regions_freed: u64,
    pub(crate) regions_swept: u64,
    pub(crate) weak_cleared: u64,
    pub(crate) scanned: u64,
    pub(crate) spilled: u64,
}

/// The collector's private state.
#[derive(Debug)]
pub(crate) struct Collector {
    shared: Arc<Shared>,
    queue: MarkQueue,
    work: Work,
    pub(crate) counts: CycleCounts,
    /// Checks the heap at the edges of phases (O(heap), stopped): `METRONOME_VERIFY`, tests.
    pub(crate) verify: bool,
    pub(crate) violations: Vec<crate::verify::Violation>,
}

impl Collector {
    pub(crate) fn new(shared: Arc<Shared>, queue_entries: usize) -> Collector {
        Collector {
            shared,
            queue: MarkQueue::new(queue_entries),
            work: Work::Idle,
            counts: CycleCounts::default(),
            verify: false,
            violations: Vec::new(),
        }
    }

    /// Whether the mutator that the collector waits for has come by a safepoint. Without a stop: a hint.
    pub(crate) fn may_go_on(&self, record: usize) -> bool {
        self.shared.record(record).is_none_or(|r| passed(&self.shared, r))
    }

    /// One step. See the module's table for its bound.
    pub(crate) fn step(&mut self, stopped: &Stopped<'_>) -> (StepName, Progress) {
        match self.work {
            Work::Idle => (StepName::Arm, self.arm(stopped)),
            Work::Marking(_) => self.marking_step(stopped),
            Work::Clearing { next } => self.clearing_step(stopped, next),
            Work::Sweeping { next, end } => self.sweeping_step(stopped, next, end),
        }
    }

    /// Arms the barrier: the snapshot begins.
    fn arm(&mut self, _: &Stopped<'_>) -> Progress {
        let s = &self.shared;
        debug_assert!(self.queue.is_empty() && s.logs.is_drained() && !s.space.has_grey());
        self.counts = CycleCounts::default();
        (self.queue.scanned, self.queue.spilled) = (0, 0);
        // Relaxed: published by the gate's release. Release for those who look without the gate (requests).
        s.cycle.fetch_add(1, Release);
        s.phase.switch(Phase::Snapshot);
        s.colour_epoch.fetch_add(1, Relaxed);
        // Mutators that attach later start with an empty table and hold nothing.
        self.work = Work::Marking(Marking {
            mutators: s.records_len(),
            globals: s.globals.len(),
            ..Marking::default()
        });
        Progress::More
    }

    fn marking_step(&mut self, stopped: &Stopped<'_>) -> (StepName, Progress) {
        let Work::Marking(m) = &mut self.work else { unreachable!("called in Marking only") };
        let s = &*self.shared;
        let snapshot = s.phase.get() == Phase::Snapshot;
        // The insertion barrier ends as soon as it can.
        if snapshot && m.pass(s) {
            s.phase.switch(Phase::Mark);
            return (StepName::Pass, Progress::More);
        }
        if !self.queue.is_empty() {
            self.queue.step(&s.space);
            return (StepName::Mark, Progress::More);
        }
        if let Some(chunk) = s.logs.take_full() {
            for cell in s.logs.entries(&chunk) {
                self.queue.push_marked(&s.space, cell);
            }
            s.logs.recycle(chunk);
            return (StepName::Log, Progress::More);
        }
        if s.space.has_grey() {
            let queue = &mut self.queue;
            s.space.pop_grey(|cell| queue.push_marked(&s.space, cell.as_ptr()));
            return (StepName::Grey, Progress::More);
        }
        if m.global < m.globals && !fault!(s, NoGlobalScan) {
            let end = m.globals.min(m.global + TABLE_CHUNK);
            for i in m.global..end {
                self.queue.visit(&s.space, s.globals.get(i));
            }
            m.global = end;
            return (StepName::Globals, Progress::More);
        }
        if m.table < m.passed {
            m.take_roots(s, &mut self.queue);
            return (StepName::Roots, Progress::More);
        }
        if m.passed < m.mutators {
            return (StepName::Pass, Progress::Blocked { record: m.passed });
        }
        if flush(s) {
            return (StepName::Flush, Progress::More);
        }
        (StepName::Terminate, self.terminate(stopped))
    }

    /// Marking is complete: everything taken, nothing grey, all logs empty in this very stop (INV-LOG-DRAINED).
    fn terminate(&mut self, stopped: &Stopped<'_>) -> Progress {
        let s = &self.shared;
        (self.counts.scanned, self.counts.spilled) = (self.queue.scanned, self.queue.spilled);
        if self.verify {
            crate::verify::at_termination(s, stopped, &mut self.violations);
        }
        s.phase.switch(Phase::Weak);
        self.work = Work::Clearing { next: 0 };
        Progress::More
    }

    fn clearing_step(&mut self, _: &Stopped<'_>, next: u32) -> (StepName, Progress) {
        let s = &self.shared;
        let len = s.weaks.len();
        if next < len && !fault!(s, NoWeakClearing) {
            let end = len.min(next + TABLE_CHUNK);
            for i in next..end {
                let cell = s.weaks.get(i);
                if !cell.is_null() && !s.space.is_marked(cell) {
                    s.weaks.clear(i);
                    self.counts.weak_cleared += 1;
                }
            }
            self.work = Work::Clearing { next: end };
            return (StepName::Weak, Progress::More);
        }
        s.space.begin_sweep();
        s.phase.switch(Phase::Sweep);
        // Relaxed: published by the gate's release, as the phase is.
        s.colour_epoch.fetch_add(1, Relaxed);
        self.work = Work::Sweeping { next: 0, end: s.space.regions_touched() };
        (StepName::BeginSweep, Progress::More)
    }

    fn sweeping_step(&mut self, stopped: &Stopped<'_>, next: u32, end: u32) -> (StepName, Progress) {
        let s = &self.shared;
        if next < end {
            let stop = end.min(next + SWEEP_CHUNK);
            for i in next..stop {
                let out = s.space.sweep_region(RegionId(i));
                self.counts.live_bytes += out.live_bytes;
                self.counts.freed_bytes += out.freed_bytes;
                self.counts.condemned_bytes += out.condemned_bytes;
                self.counts.regions_freed += u64::from(out.region_freed);
            }
            self.counts.regions_swept += u64::from(stop - next);
            self.work = Work::Sweeping { next: stop, end };
            return (StepName::Sweep, Progress::More);
        }
        s.phase.switch(Phase::Idle);
        // Release: pairs with the Acquire of those who wait for a cycle.
        s.cycles_done.fetch_add(1, Release);
        self.work = Work::Idle;
        if self.verify {
            crate::verify::at_end(s, stopped, &mut self.violations);
        }
        (StepName::End, Progress::Done)
    }

    /// Gives up the current cycle: only for the teardown of the heap.
    pub(crate) fn abandon(&mut self) {
        self.queue.clear();
        self.work = Work::Idle;
    }
}

/// Whether a mutator has been at a safepoint since arming, or is outside the heap. Exact while stopped.
fn passed(s: &Shared, r: &Record) -> bool {
    // Relaxed: written before the gate's release, read after its acquire.
    r.passed.load(Relaxed) == s.cycle.load(Relaxed)
        || matches!(r.state(), MutatorState::Native | MutatorState::AtSafepoint)
}

impl Marking {
    /// Moves over mutators that have passed a safepoint; true when all have.
    fn pass(&mut self, s: &Shared) -> bool {
        for _ in 0..RECORD_CHUNK {
            if self.passed == self.mutators {
                return true;
            }
            if s.record(self.passed).is_some_and(|r| !passed(s, r)) {
                return false;
            }
            self.passed += 1;
        }
        false
    }

    /// Takes a chunk of the current table, or goes on to the next.
    fn take_roots(&mut self, s: &Shared, queue: &mut MarkQueue) {
        let Some(r) = s.record(self.table) else {
            self.table += 1;
            return;
        };
        // Handles made after the table was begun need not be seen (rule 3).
        let len = *self.entries.get_or_insert_with(|| r.roots.len());
        let end = len.min(self.entry + TABLE_CHUNK);
        for i in self.entry..end {
            queue.visit(&s.space, r.roots.get(i));
        }
        self.entry = end;
        if end == len {
            self.table += 1;
            (self.entry, self.entries) = (0, None);
        }
    }
}

/// Takes what some mutators have logged but not handed over; false when nobody has anything.
fn flush(s: &Shared) -> bool {
    if fault!(s, NoLogFlush) {
        return false;
    }
    for n in 0..RECORD_CHUNK {
        let Some(r) = s.next_logging() else { return n > 0 };
        // SAFETY: the world is stopped, so the mutator does not touch its local state (INV-STOP-EXCLUSIVE).
        unsafe { (*r.local.get()).log.flush(&s.logs) };
    }
    true
}
