//! The collector: one cycle as a sequence of bounded steps. Knows nothing of time; the driver decides when to step.
//!
//! # State
//! ```text
//! Idle ─arm─▶ Marking ─terminate─▶ Clearing ─▶ Reviving ─▶ Burying ─▶ Sweeping ─▶ Idle
//! ```
//! The phase that mutators see follows: Snapshot and Mark while Marking, Weak while Clearing (marks stand still, short weak
//! references go, finalizable objects are found), Finalize while Reviving (what those reach is marked), Phantom while Burying
//! (unmarked is dead: the other references go, deaths are noted), Sweep while Sweeping.
//!
//! # Who may touch what
//! The thread that drives it owns the `Collector` by value. Every step needs [`Stopped`], the proof that no mutator
//! runs; only a stop makes one.
//!
//! # Bounds
//! | step | unit |
//! |---|---|
//! | arm, terminate | O(1) |
//! | mark | 128 references or objects, plus the slots of one object |
//! | await | a wait of 32 looks for a helper's work |
//! | roots, globals, softs, queued, weak, finalizers, revive, bury | 32 entries |
//! | ephemerons | 32 entries, or 128 empty buckets; an object's look-up in a chain of expected length 1 |
//! | log, grey | one chunk of 256, one word of 64 |
//! | pass, flush | 64 mutators |
//! | sweep | 16 regions, or those with 32 words, plus one region: at most 95 words of three bitmaps |

#[allow(unsafe_code)]
mod verify;

use crate::crew::{Foreman, Recall, Work as _};
use crate::ephemeron::Pending;
use crate::hooks::{fault, machine};
use crate::mark::MarkQueue;
use crate::shared::{MutatorState, Record, Shared};
use crate::stats::ReferenceCounts;
use crate::stress::YieldBefore;
use crate::verify::{Edge, Floating, Verifier};
use metronome_arraylet::RegionId;
use metronome_barrier::Phase;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Entries of a table taken in one step.
const TABLE_CHUNK: u32 = if cfg!(metronome_tiny) { 2 } else { 32 };
/// Mutators looked at in one step.
const RECORD_CHUNK: usize = if cfg!(metronome_tiny) { 1 } else { 64 };
/// Regions looked at in one step of the sweep, and words of a bitmap after which it looks at no more.
const SWEEP_CHUNK: u32 = if cfg!(metronome_tiny) { 1 } else { 16 };
const SWEEP_WORDS: u32 = 32;

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
        machine!(shared, m => m.stop_begins());
        let now = || {
            machine!(shared, m => m.looked(shared));
            shared.clock.now()
        };
        let stopped = {
            // The alarm's ticks are what a stop without a timer may wait for at worst: those of each beat, while a cycle is active.
            // Relaxed: written before the heap could be used, or by this thread; a heap that closes has no alarm soon.
            let ticks = shared.wants_ticks.load(Relaxed) && !shared.shutdown.load(Relaxed);
            let watched = ticks && shared.alarm.get().is_some() && shared.collector_fifo.load(Relaxed);
            shared.gate.stop(deadline_ns, now, spin, watched, nudge)
        };
        machine!(shared, m => m.stop_ends(stopped.is_ok()));
        stopped.map(|()| Stopped { shared })
    }
}

impl Stopped<'_> {
    /// Says that this stop ends soon: see [`Gate::announce_end`](crate::gate::Gate::announce_end).
    pub(crate) fn announce_end(&self) {
        self.shared.gate.announce_end();
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
    Await,
    Log,
    Grey,
    Roots,
    Globals,
    Softs,
    Queued,
    Ephemerons,
    Flush,
    Terminate,
    Weak,
    Finalizers,
    Revive,
    TerminateFinalize,
    Bury,
    BeginSweep,
    Sweep,
    End,
}

impl StepName {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [StepName; 21] = [
        StepName::Arm,
        StepName::Pass,
        StepName::Mark,
        StepName::Await,
        StepName::Log,
        StepName::Grey,
        StepName::Roots,
        StepName::Globals,
        StepName::Softs,
        StepName::Queued,
        StepName::Ephemerons,
        StepName::Flush,
        StepName::Terminate,
        StepName::Weak,
        StepName::Finalizers,
        StepName::Revive,
        StepName::TerminateFinalize,
        StepName::Bury,
        StepName::BeginSweep,
        StepName::Sweep,
        StepName::End,
    ];

    pub(crate) const fn text(self) -> &'static str {
        match self {
            StepName::Arm => "arm",
            StepName::Pass => "pass",
            StepName::Mark => "mark",
            StepName::Await => "await",
            StepName::Log => "log",
            StepName::Grey => "grey",
            StepName::Roots => "roots",
            StepName::Globals => "globals",
            StepName::Softs => "softs",
            StepName::Queued => "queued",
            StepName::Ephemerons => "ephemerons",
            StepName::Flush => "flush",
            StepName::Terminate => "terminate",
            StepName::Weak => "weak",
            StepName::Finalizers => "finalizers",
            StepName::Revive => "revive",
            StepName::TerminateFinalize => "terminate-finalize",
            StepName::Bury => "bury",
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
    /// Nothing to do until a helper that has lost its CPU has come out of its step.
    Waiting,
    /// The cycle has ended.
    Done,
}

#[derive(Debug)]
enum Work {
    Idle,
    Marking(Marking),
    Clearing(Tables<3>),
    Reviving { next: u32, end: u32 },
    Burying(Tables<4>),
    Sweeping { next: u32, end: u32 },
}

/// How far a walk over some tables is. Entries made after it began need not be seen.
#[derive(Clone, Copy, Debug)]
struct Tables<const N: usize> {
    lens: [u32; N],
    table: usize,
    next: u32,
}

impl<const N: usize> Tables<N> {
    fn new(lens: [u32; N]) -> Self {
        Tables { lens, table: 0, next: 0 }
    }

    /// The next chunk: which table and which of its entries.
    fn chunk(&mut self) -> Option<(usize, std::ops::Range<u32>)> {
        while self.table < N && self.next == self.lens[self.table] {
            (self.table, self.next) = (self.table + 1, 0);
        }
        let len = *self.lens.get(self.table)?;
        let range = self.next..len.min(self.next + TABLE_CHUNK);
        self.next = range.end;
        Some((self.table, range))
    }
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
    /// Globals, soft references, registrations whose finalizer is queued.
    shared: Option<Tables<3>>,
    ephemerons_begun: bool,
}

/// Counts of the current (or last) cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CycleCounts {
    pub(crate) live_bytes: u64,
    pub(crate) freed_bytes: u64,
    pub(crate) condemned_bytes: u64,
    pub(crate) regions_freed: u64,
    pub(crate) regions_swept: u64,
    pub(crate) references: ReferenceCounts,
    pub(crate) scanned: u64,
    pub(crate) spilled: u64,
    /// What was marked and not reached when marking ended, if that was measured.
    pub(crate) floating: Option<Floating>,
}

/// The collector's private state.
#[derive(Debug)]
pub(crate) struct Collector {
    shared: Arc<Shared>,
    queue: MarkQueue,
    foreman: Foreman,
    pending: Pending,
    pub(crate) secret: u64,
    work: Work,
    /// Cycles that an unused soft reference is kept; set by the driver before each cycle.
    pub(crate) soft_age: u64,
    pub(crate) counts: CycleCounts,
    /// Steps that switch the phase so are put off, as the stress mode `yield` says; whether one was.
    pub(crate) hold: Option<YieldBefore>,
    pub(crate) held: bool,
    /// Checks the heap at the edges of phases, if asked to (O(heap), stopped).
    pub(crate) verifier: Option<Verifier>,
    /// The heap was verified since this was last taken: the time of that step says nothing about the collector.
    pub(crate) verified: bool,
}

impl Collector {
    pub(crate) fn new(shared: Arc<Shared>, queue_entries: usize) -> Collector {
        Collector {
            shared,
            queue: MarkQueue::new(queue_entries),
            foreman: Foreman::default(),
            pending: Pending::default(),
            secret: RandomState::new().hash_one(0),
            work: Work::Idle,
            soft_age: u64::MAX,
            counts: CycleCounts::default(),
            hold: None,
            held: false,
            verifier: None,
            verified: false,
        }
    }

    /// Whether the mutator that the collector waits for has come by a safepoint. Without a stop: a hint.
    pub(crate) fn may_go_on(&self, record: usize) -> bool {
        self.shared.record(record).is_none_or(|r| passed(&self.shared, r))
    }

    /// Objects scanned in this cycle.
    pub(crate) fn scanned(&self) -> u64 {
        // Relaxed: for pacing; complete when all helpers are out.
        self.queue.scanned + self.shared.crew.scanned.load(Relaxed)
    }

    /// A stop is about to be requested: wakes helpers that will have work, where there are CPUs for them.
    pub(crate) fn call_helpers(&self) {
        self.foreman.call(&self.shared.crew, self.shared.gate.running(), self.shared.cpus);
    }

    /// Lets a helper that has lost its CPU have this thread's, for half a millisecond at most.
    pub(crate) fn nap(&self) {
        let until = self.shared.clock.now().saturating_add(500_000);
        self.shared.crew.nap(until);
    }

    /// The quantum is over: asks the helpers out but for the first `staying`. O(helpers), and a packet's entries for each packet of the
    /// pool; does not wait. Returns how many stay.
    pub(crate) fn leave_helpers(&mut self, staying: usize) -> usize {
        // One that is needed to look up keys would not do that.
        let staying = if self.pending.waits() { 0 } else { staying };
        self.foreman.leave(&self.shared.crew, &mut self.queue, staying);
        staying
    }

    /// The quantum is over: asks the helpers out. O(helpers); does not wait.
    pub(crate) fn dismiss_helpers(&mut self) {
        self.foreman.dismiss(&self.shared.crew);
    }

    /// Units of the last step, of the kind that the module's table gives for it; a reference visited, an object scanned and
    /// a leaf marked count one each.
    #[cfg(feature = "hooks")]
    pub(crate) fn step_units(&self) -> u32 {
        self.queue.units()
    }

    /// Whether the step that would switch to this phase is put off.
    fn holds(&mut self, to: Phase) -> bool {
        let holds = match self.hold {
            None => false,
            Some(YieldBefore::Any) => true,
            Some(YieldBefore::To(phase)) => phase == to,
        };
        self.held |= holds;
        holds
    }

    /// One step. See the module's table for its bound.
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn step(&mut self, stopped: &Stopped<'_>) -> (StepName, Progress) {
        self.queue.begin_units();
        self.queue.alone = self.foreman.is_alone();
        let done = self.step_of_work(stopped);
        self.shared.crew.drive(&self.shared.space);
        done
    }

    #[inline]
    fn step_of_work(&mut self, stopped: &Stopped<'_>) -> (StepName, Progress) {
        match self.work {
            Work::Idle => (StepName::Arm, self.arm(stopped)),
            Work::Marking(_) => self.marking_step(stopped),
            Work::Clearing(_) => self.clearing_step(stopped),
            Work::Reviving { next, end } => self.reviving_step(stopped, next, end),
            Work::Burying(_) => self.burying_step(stopped),
            Work::Sweeping { next, end } => self.sweeping_step(stopped, next, end),
        }
    }

    /// Arms the barrier: the snapshot begins.
    fn arm(&mut self, stopped: &Stopped<'_>) -> Progress {
        self.counts = CycleCounts::default();
        self.check(Edge::Arm, stopped);
        let s = &self.shared;
        debug_assert!(self.queue.is_empty() && s.logs.is_drained() && !s.space.has_grey());
        // Keys that died in the last cycle are waited for no more.
        self.pending = Pending::default();
        (self.queue.scanned, self.queue.spilled, self.queue.scan_leaves) = (0, 0, false);
        // Relaxed: no helper is in.
        s.crew.scanned.store(0, Relaxed);
        // Release: pairs with the Acquire of those who look without the gate (requests, waits for memory); mutators see it
        // by the gate's release.
        s.cycle.fetch_add(1, Release);
        s.phase.switch(Phase::Snapshot);
        // Relaxed: published by the gate's release, as the phase is.
        s.colour_epoch.fetch_add(1, Relaxed);
        // Mutators that attach later start with an empty table and hold nothing.
        self.work = Work::Marking(Marking {
            mutators: s.records_len(),
            shared: Some(Tables::new([s.globals.len(), s.softs.len(), s.finalizers.len()])),
            ..Marking::default()
        });
        Progress::More
    }

    /// A step of what is grey; `None` when nothing is, but for what mutators have logged and not handed over.
    fn drain(&mut self) -> Option<StepName> {
        let (s, queue, pending) = (&*self.shared, &mut self.queue, &mut self.pending);
        // While keys wait no helper is in, and none is invited: each object that is scanned is looked up.
        if pending.waits() && !fault!(s, NoEphemeronLookup) {
            if !queue.is_empty() {
                queue.step(&s.space, |cell| pending.scanned(&s.ephemerons, cell));
                return Some(StepName::Mark);
            }
        } else {
            self.foreman.resume(&s.crew);
            // It may have invited somebody: from here on marks are shared.
            queue.alone = self.foreman.is_alone();
            debug_assert!(
                !queue.alone || s.crew.is_shut(),
                "marks without atomics while a helper may come in"
            );
            if !queue.is_empty() || self.foreman.take_back(&s.crew, &s.space, queue) {
                queue.step(&s.space, |_| ());
                self.foreman.share(&s.crew, queue);
                return Some(StepName::Mark);
            }
        }
        if let Some(chunk) = s.logs.take_full() {
            for cell in s.logs.entries(&chunk) {
                queue.add_units(1);
                queue.take_marked(&s.space, cell);
            }
            s.logs.recycle(chunk);
            return Some(StepName::Log);
        }
        if s.space.has_grey() {
            s.space.pop_grey(|cell| {
                // One that was shaded while marks stood still has no mark yet.
                if s.space.is_marked(cell.as_ptr()) {
                    queue.take_marked(&s.space, cell.as_ptr());
                } else {
                    queue.visit(&s.space, cell.as_ptr());
                }
            });
            return Some(StepName::Grey);
        }
        if pending.has_ready() {
            pending.take_ready(&s.ephemerons, |value| queue.visit(&s.space, value));
            return Some(StepName::Ephemerons);
        }
        None
    }

    /// Has all helpers out, with nothing left to mark in queues, packets and grey bits; the step that was taken instead if not.
    fn recall(&mut self) -> Option<(StepName, Progress)> {
        let s = &*self.shared;
        match self.foreman.recall(&s.crew, &s.space, &mut self.queue) {
            Recall::Out if s.space.has_grey() => Some((StepName::Await, Progress::More)),
            Recall::Out => None,
            Recall::Work => Some((StepName::Await, Progress::More)),
            Recall::Late => Some((StepName::Await, Progress::Waiting)),
        }
    }

    fn marking_step(&mut self, stopped: &Stopped<'_>) -> (StepName, Progress) {
        let Work::Marking(m) = &mut self.work else { unreachable!("called in Marking only") };
        // The insertion barrier ends as soon as it can.
        if self.shared.phase.get() == Phase::Snapshot && m.pass(&self.shared) {
            if self.holds(Phase::Mark) {
                return (StepName::Pass, Progress::More);
            }
            self.check(Edge::Mark, stopped);
            self.shared.phase.switch(Phase::Mark);
            return (StepName::Pass, Progress::More);
        }
        if let Some(name) = self.drain() {
            return (name, Progress::More);
        }
        let s = &*self.shared;
        let Work::Marking(m) = &mut self.work else { unreachable!("drain leaves the work alone") };
        if let Some(tables) = &mut m.shared
            && let Some((table, range)) = tables.chunk()
        {
            let name = match table {
                0 => {
                    if !fault!(s, NoGlobalScan) {
                        range.for_each(|i| self.queue.visit(&s.space, s.globals.get(i)));
                    }
                    StepName::Globals
                }
                1 => {
                    // Relaxed: counted by this thread.
                    let done = s.cycles_done.load(Relaxed);
                    let kept = range.filter(|&i| s.softs.extra(i).keeps(done, self.soft_age));
                    kept.for_each(|i| self.queue.visit(&s.space, s.softs.get(i)));
                    StepName::Softs
                }
                _ => {
                    if !fault!(s, NoQueuedScan) {
                        range.for_each(|i| self.queue.visit(&s.space, s.finalizers.root(i)));
                    }
                    StepName::Queued
                }
            };
            return (name, Progress::More);
        }
        if m.table < m.passed {
            m.take_roots(s, &mut self.queue);
            return (StepName::Roots, Progress::More);
        }
        if m.passed < m.mutators {
            return (StepName::Pass, Progress::Blocked { record: m.passed });
        }
        if let Some(step) = self.recall() {
            return step;
        }
        let s = &*self.shared;
        let Work::Marking(m) = &mut self.work else { unreachable!("recall leaves the work alone") };
        // Late, so that few keys are not marked yet.
        if !std::mem::replace(&mut m.ephemerons_begun, true) {
            // Before, a mutator could tie a white local to a key after the pass; `Ephemeron::new` has no barrier.
            debug_assert_eq!(s.phase.get(), Phase::Mark);
            // Another one for each cycle: Weyl steps from a random start.
            self.secret = self.secret.wrapping_add(0x9E37_79B9_7F4A_7C15);
            self.pending.begin(&s.ephemerons, self.secret);
            self.queue.scan_leaves = s.ephemerons.len() > 0;
        }
        if !self.pending.pass_is_over() && !fault!(s, NoEphemeronPass) {
            self.pending.pass(&s.ephemerons, &s.space, |value| self.queue.visit(&s.space, value));
            return (StepName::Ephemerons, Progress::More);
        }
        if flush(s) {
            return (StepName::Flush, Progress::More);
        }
        (StepName::Terminate, self.terminate(stopped))
    }

    /// Marking is complete: everything taken, nothing grey, all logs empty in this very stop (INV-LOG-DRAINED).
    fn terminate(&mut self, stopped: &Stopped<'_>) -> Progress {
        if self.holds(Phase::Weak) {
            return Progress::More;
        }
        self.check(Edge::Weak, stopped);
        let s = &self.shared;
        s.phase.switch(Phase::Weak);
        self.work = Work::Clearing(Tables::new([s.weaks.len(), s.softs.len(), s.finalizers.len()]));
        Progress::More
    }

    /// Marks stand still: clears short and soft references to unmarked objects and finds finalizable ones among these.
    fn clearing_step(&mut self, stopped: &Stopped<'_>) -> (StepName, Progress) {
        let s = &*self.shared;
        let Work::Clearing(tables) = &mut self.work else { unreachable!("called in Clearing only") };
        let Some((table, range)) = tables.chunk() else {
            if self.holds(Phase::Finalize) {
                return (StepName::Revive, Progress::More);
            }
            self.check(Edge::Finalize, stopped);
            let s = &*self.shared;
            s.phase.switch(Phase::Finalize);
            self.work = Work::Reviving { next: 0, end: s.finalizers.len() };
            return (StepName::Revive, Progress::More);
        };
        let counts = &mut self.counts.references;
        self.queue.add_units(range.len() as u32);
        let unreachable = |cell: *mut u8| !cell.is_null() && !s.space.is_marked(cell);
        match table {
            0 | 1 if fault!(s, NoWeakClearing) => (StepName::Weak, Progress::More),
            0 => {
                for i in range.filter(|&i| unreachable(s.weaks.get(i)) && !s.weaks.extra(i).is_late(s)) {
                    s.weaks.clear(i);
                    counts.weak_cleared += 1;
                }
                (StepName::Weak, Progress::More)
            }
            1 => {
                for i in range.filter(|&i| unreachable(s.softs.get(i)) && !s.softs.extra(i).made.is_late(s)) {
                    s.softs.clear(i);
                    counts.soft_cleared += 1;
                }
                (StepName::Softs, Progress::More)
            }
            _ => {
                range.for_each(|i| s.finalizers.examine(i, s));
                (StepName::Finalizers, Progress::More)
            }
        }
    }

    /// Marks through from objects whose finalizers are due, and from what long references have brought back.
    fn reviving_step(&mut self, stopped: &Stopped<'_>, next: u32, end: u32) -> (StepName, Progress) {
        if let Some(name) = self.drain() {
            return (name, Progress::More);
        }
        let s = &*self.shared;
        if next < end && !fault!(s, NoFinalizeMarking) {
            let stop = end.min(next + TABLE_CHUNK);
            (next..stop).for_each(|i| self.queue.visit(&s.space, s.finalizers.root(i)));
            self.work = Work::Reviving { next: stop, end };
            return (StepName::Revive, Progress::More);
        }
        if let Some(step) = self.recall() {
            return step;
        }
        let s = &*self.shared;
        if flush(s) {
            return (StepName::Flush, Progress::More);
        }
        if self.holds(Phase::Phantom) {
            return (StepName::TerminateFinalize, Progress::More);
        }
        // As at the end of marking: all logs are empty in this very stop (INV-LOG-DRAINED).
        (self.counts.scanned, self.counts.spilled) = (self.scanned(), self.queue.spilled);
        self.check(Edge::Phantom, stopped);
        let s = &*self.shared;
        s.phase.switch(Phase::Phantom);
        let lens = [s.longs.len(), s.ephemerons.len(), s.deaths.len(), s.finalizers.len()];
        self.work = Work::Burying(Tables::new(lens));
        (StepName::TerminateFinalize, Progress::More)
    }

    /// Unmarked is dead: clears long references and ephemerons, notes deaths, gives finalizers out.
    fn burying_step(&mut self, stopped: &Stopped<'_>) -> (StepName, Progress) {
        let s = &*self.shared;
        let Work::Burying(tables) = &mut self.work else { unreachable!("called in Burying only") };
        let Some((table, range)) = tables.chunk() else {
            if self.holds(Phase::Sweep) {
                return (StepName::BeginSweep, Progress::More);
            }
            self.check(Edge::Sweep, stopped);
            let s = &*self.shared;
            s.space.begin_sweep();
            s.phase.switch(Phase::Sweep);
            // Relaxed: published by the gate's release, as the phase is.
            s.colour_epoch.fetch_add(1, Relaxed);
            self.work = Work::Sweeping { next: 0, end: s.space.regions_touched() };
            return (StepName::BeginSweep, Progress::More);
        };
        let counts = &mut self.counts.references;
        self.queue.add_units(range.len() as u32);
        let dead = |cell: *mut u8| !cell.is_null() && !s.space.is_marked(cell);
        match table {
            0..=2 if fault!(s, NoBurying) => {}
            0 => {
                for i in range.filter(|&i| dead(s.longs.get(i))) {
                    s.longs.clear(i);
                    counts.long_cleared += 1;
                }
            }
            1 => {
                for i in range.filter(|&i| dead(s.ephemerons.get(i))) {
                    s.ephemerons.clear(i);
                    counts.ephemerons_cleared += 1;
                }
            }
            2 => counts.deaths_noted += range.filter(|&i| s.deaths.examine(i, s)).count() as u64,
            _ => counts.finalizers_enqueued += range.filter(|&i| s.finalizers.hand_out(i, s)).count() as u64,
        }
        (StepName::Bury, Progress::More)
    }

    fn sweeping_step(&mut self, stopped: &Stopped<'_>, next: u32, end: u32) -> (StepName, Progress) {
        let s = &self.shared;
        if next < end {
            let last = end.min(next + SWEEP_CHUNK);
            let (mut stop, mut words) = (next, 0);
            while stop < last && words < SWEEP_WORDS {
                self.queue.add_units(1);
                let out = s.space.sweep_region(RegionId(stop));
                stop += 1;
                words += out.words;
                self.counts.live_bytes += out.live_bytes;
                self.counts.freed_bytes += out.freed_bytes;
                self.counts.condemned_bytes += out.condemned_bytes;
                self.counts.regions_freed += u64::from(out.region_freed);
            }
            self.counts.regions_swept += u64::from(stop - next);
            self.work = Work::Sweeping { next: stop, end };
            return (StepName::Sweep, Progress::More);
        }
        if self.holds(Phase::Idle) {
            return (StepName::End, Progress::More);
        }
        let s = &self.shared;
        s.phase.switch(Phase::Idle);
        // Relaxed: published by the cycle's end.
        s.freed_last.store(self.counts.freed_bytes + self.counts.condemned_bytes, Relaxed);
        self.count_verified();
        // Release: pairs with the Acquire of those who wait for a cycle, and of who reads the counters.
        s.cycles_done.fetch_add(1, Release);
        self.work = Work::Idle;
        self.check(Edge::End, stopped);
        (StepName::End, Progress::Done)
    }

    /// Gives up the current cycle: only for the teardown of the heap.
    pub(crate) fn abandon(&mut self) {
        self.queue.clear();
        self.foreman.clear(&self.shared.crew);
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
