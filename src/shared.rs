//! What a heap's threads share: the space, the gate, the phase, the tables, the mutators' records.
//!
//! # Who may touch what
//! | cell | writer | readers | when and how ordered |
//! |---|---|---|---|
//! | `phase` | the collector, in `PhaseCell::switch` only | every barrier and refill | changed while stopped; mutators see it by the gate's acquire |
//! | `gate` | see `gate.rs` | | |
//! | `space`, `logs`, tables | see their modules | | |
//! | `cycle`, `colour_epoch` | the collector, while stopped | mutators while running | as `phase` |
//! | `Record::local` | its mutator while running; the collector while stopped | | the gate |
//! | `Record::{state, passed}` | its mutator | the collector | before `leave_running`, so the stop orders it |
//! | `trigger_bytes`, `wants_ticks`, `next_start_ns` | the collector | the alarm, refills | hints, Relaxed |
//! | `memory_seq` | the collector | mutators that wait for memory | futex |

mod record;

use crate::config::Config;
use crate::crew::Crew;
use crate::death::Deaths;
use crate::ephemeron::Ephemerons;
use crate::error::BeforeFailure;
use crate::finalize::Finalizers;
use crate::gate::{Gate, Spin};
use crate::hooks::fault;
use crate::immortal::ImmortalArea;
use crate::mark::MarkQueue;
use crate::notice::Notification;
use crate::reason::SyncReason;
use crate::sync::SlowMutex;
use crate::sync::futex_wake;
use crate::table::Table;
use crate::weak::{SoftNotes, Stamp};
use crossbeam_utils::CachePadded;
use metronome_alarm::Clock;
use metronome_arraylet::{Colour, Space};
use metronome_barrier::{BarrierFlags, LogPool, Phase};
use metronome_verbosegc::model;
pub(crate) use record::{Local, MutatorState, Record};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The collector's phase, and the barrier that goes with it in one byte for the fast path.
#[derive(Debug)]
pub(crate) struct PhaseCell {
    phase: AtomicU8,
    barrier: AtomicU8,
}

impl PhaseCell {
    const fn new() -> PhaseCell {
        PhaseCell { phase: AtomicU8::new(Phase::Idle as u8), barrier: AtomicU8::new(0) }
    }

    /// The current phase; exact for a running mutator and for the collector.
    #[inline]
    pub(crate) fn get(&self) -> Phase {
        // Relaxed: changed only while stopped; the gate's acquire orders it.
        match Phase::from_u8(self.phase.load(Relaxed)) {
            Some(p) => p,
            None => unreachable!("only `switch` writes the phase"),
        }
    }

    /// What to shade now.
    #[inline(always)]
    pub(crate) fn barrier(&self) -> BarrierFlags {
        // Relaxed: as in `get`.
        BarrierFlags(self.barrier.load(Relaxed))
    }

    /// The only writer (INV-PHASE-WRITER). The collector, while stopped.
    pub(crate) fn switch(&self, to: Phase) {
        debug_assert_eq!(self.get().next(), to, "INV-PHASE-WRITER: phases come in the order of the cycle");
        // Relaxed: published by the gate's release.
        self.phase.store(to as u8, Relaxed);
        self.barrier.store(to.barrier().0, Relaxed);
    }
}

/// What ordinary threads tell the writer.
#[derive(Debug)]
pub(crate) enum Told {
    Notification(Notification),
    Note(String),
    Bookmark(String),
    Thread(model::Thread),
}

/// Things that wait in the outbox at most; the writer comes by every 50 ms.
const OUTBOX_MAX: usize = 1024;

/// Totals that the collector keeps beside the event ring. Written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) quanta: AtomicU64,
    pub(crate) collector_ns: AtomicU64,
    pub(crate) departures: AtomicU64,
    pub(crate) marked_beside: AtomicU64,
    pub(crate) synchronous: AtomicU64,
    pub(crate) live_bytes: AtomicU64,
    /// Cycles that the option `verify` has verified.
    pub(crate) verified: AtomicU64,
    /// Cycles in which floating garbage was measured, that of the last one, and of all.
    pub(crate) remarked: AtomicU64,
    pub(crate) floating_last: [AtomicU64; 2],
    pub(crate) floating_total: [AtomicU64; 2],
}

/// Shared by all threads of a heap.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: u64,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) spin: Spin,
    /// CPUs that this process may use, when the heap was made.
    pub(crate) cpus: u32,
    /// Turns that last a quantum, if quanta are short.
    pub(crate) pause_spin: Spin,
    pub(crate) gate: Gate,
    /// Threads that help marking.
    pub(crate) crew: Crew<MarkQueue>,
    /// Their threads, for the system; 0: none yet.
    pub(crate) helper_threads: Box<[AtomicI32]>,
    pub(crate) phase: CachePadded<PhaseCell>,
    pub(crate) space: Space,
    /// Held by no-heap threads too, which outlive the heap.
    pub(crate) immortal: Arc<ImmortalArea>,
    pub(crate) logs: LogPool,
    /// Mutators whose logs hold references that the collector has not been handed.
    pub(crate) logging: metronome_arraylet::IndexStack,
    pub(crate) globals: Table,
    pub(crate) weaks: Table<Stamp>,
    pub(crate) longs: Table,
    pub(crate) softs: Table<SoftNotes>,
    pub(crate) ephemerons: Ephemerons,
    pub(crate) finalizers: Finalizers,
    pub(crate) deaths: Deaths,
    /// Number of the current (or last) cycle; odd or even has no meaning.
    pub(crate) cycle: AtomicU64,
    /// Cycles completed.
    pub(crate) cycles_done: AtomicU64,
    /// Bytes that the last cycle freed, those yet to be dropped included.
    pub(crate) freed_last: AtomicU64,
    /// Changes whenever the colour of new objects changes.
    pub(crate) colour_epoch: AtomicU32,
    records: Box<[AtomicPtr<Record>]>,
    records_len: AtomicUsize,
    free_records: metronome_arraylet::IndexStack,
    attach: SlowMutex<()>,
    /// Wakes the collector thread: a tick, a request, a shutdown.
    pub(crate) wake: CachePadded<AtomicU32>,
    /// Cycles that must have been completed to satisfy all requests.
    pub(crate) requested: AtomicU64,
    /// Cycles up to this number are finished synchronously, and why.
    sync_through: AtomicU64,
    sync_reason: AtomicU8,
    /// Cycles up to this number clear all soft references that they may.
    pub(crate) clear_softs_through: AtomicU64,
    /// The last cycle that did so, from when it begins.
    pub(crate) softs_cleared: AtomicU64,
    /// Memory outside the heap that the program has announced, in bytes.
    pub(crate) external: AtomicU64,
    /// Set when the system is low on memory; taken by the collector, which starts a cycle.
    pub(crate) low_memory: AtomicBool,
    /// Bytes allocated when the last cycle ended.
    pub(crate) allocated_at_end: AtomicU64,
    /// When the last cycle ended.
    pub(crate) last_cycle_ns: AtomicU64,
    /// Regions that the heap began with.
    pub(crate) initial_regions: u32,
    /// What the memory thread is asked for: wakes it; a limit in regions (0: nothing).
    pub(crate) memory_thread_seq: AtomicU32,
    pub(crate) memory_waker: std::sync::OnceLock<crate::pressure::Waker>,
    pub(crate) grow_to: AtomicU32,
    /// The system had no memory to back a larger heap with when that was last tried.
    pub(crate) growth_refused: AtomicBool,
    /// What ordinary threads have to tell; emptied by the writer.
    outbox: SlowMutex<Vec<(u64, Told)>>,
    /// What did not fit into it.
    pub(crate) untold: AtomicU64,
    /// Asked before the program gets an error for want of memory.
    pub(crate) before_failure: SlowMutex<Option<BeforeFailure>>,
    pub(crate) waiting_for_memory: AtomicU32,
    /// Mutators that wait for the end of a cycle without being short of memory.
    pub(crate) waiting_for_cycle: AtomicU32,
    pub(crate) memory_seq: AtomicU32,
    /// Verification on demand.
    pub(crate) verify: crate::verify::demand::Mailbox,
    pub(crate) trigger_bytes: AtomicU64,
    pub(crate) wants_ticks: AtomicBool,
    /// The collector sleeps long, as nobody allocates: who does wakes it.
    pub(crate) dozes: AtomicBool,
    pub(crate) next_start_ns: AtomicU64,
    /// Mutators that wait at a pause point or a safepoint for a stop to end, or have not run on yet.
    pub(crate) paused: AtomicU32,
    /// Latest time at which a resumed mutator ran on, and the longest way there in the last stop.
    pub(crate) resumed_ns: AtomicU64,
    /// When the stop that is under way was requested; 0 while there is none. Written by the collector.
    pub(crate) asked_ns: AtomicU64,
    pub(crate) shutdown: AtomicBool,
    pub(crate) counts: Counts,
    /// Stops given up so far.
    pub(crate) stops_cancelled: AtomicU64,
    /// The last `Heap` went away while a thread was inside (the process is exiting): leave the objects alone.
    pub(crate) abandoned: AtomicBool,
    /// Set when the collector thread has ended.
    pub(crate) collector_done: AtomicU32,
    /// Set when the finalizer thread has ended.
    pub(crate) finalizer_done: AtomicU32,
    pub(crate) alarm: std::sync::OnceLock<metronome_alarm::AlarmControl>,
    /// Wall times of the collector's steps.
    pub(crate) step_times: metronome_alarm::LatenessHistogram,
    /// CPU times of the collector's steps, by kind.
    pub(crate) step_kinds: crate::step_times::StepTimes,
    /// Wakes the reaper.
    pub(crate) reap_seq: AtomicU32,
    pub(crate) reaped: AtomicU64,
    pub(crate) reaper_panics: AtomicU64,
    pub(crate) failed_allocations: AtomicU64,
    /// Bytes that the last failed allocation asked for.
    pub(crate) failed_bytes: AtomicU64,
    /// Waits for memory that ended without it.
    pub(crate) out_of_memory: AtomicU64,
    pub(crate) barrier_spills: AtomicU64,
    pub(crate) stress: crate::stress::StressState,
    /// The collector thread has the real-time priority that was asked for. Written once, while the heap is built.
    pub(crate) collector_fifo: AtomicBool,
    /// Fork generation of the process that made the heap.
    pub(crate) fork_generation: u32,
    #[cfg(any(test, feature = "hooks"))]
    pub(crate) hooks: crate::hooks::Hooks,
}

/// Quanta that are longer let the mutators sleep.
const SHORT_QUANTUM_NS: u64 = 250_000;

/// For how many turns a mutator may spin through a quantum.
fn pause_spin(config: &Config, clock: &Clock, cpus: usize) -> Spin {
    /// Turns that are timed.
    const TURNS: u32 = 256;
    if config.quantum_ns > SHORT_QUANTUM_NS || cpus < 2 {
        return Spin::NONE;
    }
    let start = clock.now();
    for _ in 0..TURNS {
        std::hint::spin_loop();
    }
    // At least a nanosecond, so that a clock that stands still means no more turns than nanoseconds. A quarter more: what
    // interrupted the measurement makes it too short rather than too long.
    let turns_ns = clock.now().saturating_sub(start).max(u64::from(TURNS));
    let turns = (config.quantum_ns + config.quantum_ns / 4) * u64::from(TURNS) / turns_ns;
    Spin(u32::try_from(turns).unwrap_or(u32::MAX))
}

/// Room in a mark queue of a heap that may have so many regions.
pub(crate) fn queue_entries(max_regions: u32) -> usize {
    (max_regions as usize * 32).clamp(1 << 10, 1 << 17)
}

impl Shared {
    pub(crate) fn new(config: Config, clock: Clock, space: Space, immortal: ImmortalArea) -> Shared {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let initial_regions = space.limit_regions();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Shared {
            // Relaxed: only uniqueness matters.
            id: NEXT.fetch_add(1, Relaxed),
            cpus: cpus as u32,
            pause_spin: pause_spin(&config, &clock, cpus),
            clock,
            // A short spin pays only where another CPU can end the wait meanwhile.
            spin: Spin(if cpus > 1 { 200 } else { 0 }),
            gate: Gate::default(),
            helper_threads: (1..config.effective_gc_threads()).map(|_| AtomicI32::new(0)).collect(),
            crew: Crew::new(config.effective_gc_threads(), || {
                MarkQueue::new(queue_entries(space.max_regions()))
            }),
            phase: CachePadded::new(PhaseCell::new()),
            logs: LogPool::new(u32::try_from(config.log_buffers).unwrap_or(u32::MAX)),
            space,
            immortal: Arc::new(immortal),
            logging: metronome_arraylet::IndexStack::new(),
            globals: Table::new(),
            weaks: Table::new(),
            longs: Table::new(),
            softs: Table::new(),
            ephemerons: Ephemerons::new(),
            finalizers: Finalizers::new(),
            deaths: Deaths::new(),
            cycle: AtomicU64::new(0),
            cycles_done: AtomicU64::new(0),
            freed_last: AtomicU64::new(0),
            colour_epoch: AtomicU32::new(1),
            // Two more than users may have, for the reaper and the finalizer thread.
            records: (0..config.max_mutators + 2).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(),
            records_len: AtomicUsize::new(0),
            free_records: metronome_arraylet::IndexStack::new(),
            attach: SlowMutex::new(()),
            wake: CachePadded::new(AtomicU32::new(0)),
            requested: AtomicU64::new(0),
            sync_through: AtomicU64::new(0),
            sync_reason: AtomicU8::new(0),
            clear_softs_through: AtomicU64::new(0),
            softs_cleared: AtomicU64::new(0),
            external: AtomicU64::new(0),
            low_memory: AtomicBool::new(false),
            allocated_at_end: AtomicU64::new(0),
            last_cycle_ns: AtomicU64::new(0),
            initial_regions,
            memory_thread_seq: AtomicU32::new(0),
            memory_waker: std::sync::OnceLock::new(),
            grow_to: AtomicU32::new(0),
            growth_refused: AtomicBool::new(false),
            outbox: SlowMutex::new(Vec::new()),
            untold: AtomicU64::new(0),
            before_failure: SlowMutex::new(None),
            verify: crate::verify::demand::Mailbox::default(),
            waiting_for_memory: AtomicU32::new(0),
            waiting_for_cycle: AtomicU32::new(0),
            memory_seq: AtomicU32::new(0),
            trigger_bytes: AtomicU64::new(u64::MAX),
            wants_ticks: AtomicBool::new(false),
            dozes: AtomicBool::new(false),
            next_start_ns: AtomicU64::new(0),
            paused: AtomicU32::new(0),
            resumed_ns: AtomicU64::new(0),
            asked_ns: AtomicU64::new(0),
            shutdown: AtomicBool::new(false),
            counts: Counts::default(),
            stops_cancelled: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            collector_done: AtomicU32::new(0),
            finalizer_done: AtomicU32::new(0),
            alarm: std::sync::OnceLock::new(),
            step_times: metronome_alarm::LatenessHistogram::new(),
            step_kinds: crate::step_times::StepTimes::new(),
            reap_seq: AtomicU32::new(0),
            reaped: AtomicU64::new(0),
            reaper_panics: AtomicU64::new(0),
            failed_allocations: AtomicU64::new(0),
            failed_bytes: AtomicU64::new(0),
            out_of_memory: AtomicU64::new(0),
            barrier_spills: AtomicU64::new(0),
            stress: crate::stress::StressState::default(),
            collector_fifo: AtomicBool::new(false),
            fork_generation: crate::fork::generation(),
            config,
            #[cfg(any(test, feature = "hooks"))]
            hooks: crate::hooks::Hooks::default(),
        }
    }

    /// Whether this process is a fork of the one that made the heap: there is no collector then.
    pub(crate) fn forked(&self) -> bool {
        crate::fork::generation() != self.fork_generation
    }

    /// The time `limit` from now.
    pub(crate) fn deadline_in(&self, limit: std::time::Duration) -> u64 {
        self.clock.now().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether mutators may wait for memory. (The reaper, which would wait for what only it can free, never allocates here:
    /// drop glue is kept out of its own heap.)
    pub(crate) fn may_wait(&self) -> bool {
        self.config.exhaustion != crate::config::Exhaustion::Fail && !self.forked()
    }

    /// Whether the cycle with this number has ended.
    pub(crate) fn has_ended(&self, cycle: u64) -> bool {
        // Acquire: pairs with the Release at a cycle's end.
        self.cycles_done.load(Acquire) >= cycle
    }

    /// Colour of new objects now. A running mutator.
    #[inline]
    pub(crate) fn colour(&self) -> Colour {
        if self.phase.get().allocates_black() && !fault!(self, AllocateWhite) {
            Colour::Black
        } else {
            Colour::White
        }
    }

    /// Wakes the collector thread. Any thread; a system call.
    pub(crate) fn wake_collector(&self) {
        // Release: pairs with the Acquire of the collector's wait.
        self.wake.fetch_add(1, Release);
        futex_wake(&self.wake, 1);
    }

    /// A tick of the alarm, at `now_ns`: wakes the collector if there may be something for it to do. O(1).
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn tick(&self, now_ns: u64) {
        self.gate.look(now_ns);
        // Relaxed: hints from the collector, which decides by its own ledger.
        let due = self.wants_ticks.load(Relaxed) && now_ns >= self.next_start_ns.load(Relaxed);
        let full = self.space.used_bytes() > self.trigger_bytes.load(Relaxed);
        if due || full || self.space.free_regions() <= self.low_regions() {
            self.wake_collector();
        }
    }

    /// Few regions are free, and the last cycle was not just now: a cycle starts.
    pub(crate) fn regions_scarce(&self) -> bool {
        self.space.free_regions() <= self.low_regions()
            && self.allocated_since_cycle() >= self.space.heap_bytes() / 16
    }

    /// Whether a cycle starts as soon as the collector looks, or it has not looked for long. For refills, so that no cycle
    /// waits for a tick.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        // Relaxed: hints; the collector decides.
        !self.wants_ticks.load(Relaxed)
            && (self.dozes.load(Relaxed)
                || self.space.used_bytes() > self.trigger_bytes.load(Relaxed)
                || self.regions_scarce())
    }

    /// Asks for a cycle that starts after now. Returns the number of cycles that must have been completed then.
    pub(crate) fn request_cycle(&self) -> u64 {
        self.request_cycle_with(|_| ())
    }

    /// The same for a cycle that clears all soft references. One that begins meanwhile may not: see `softs_cleared`.
    pub(crate) fn request_clearing_cycle(&self) -> u64 {
        self.request_cycle_with(|target| {
            // Relaxed: the request, which the collector acquires, publishes it.
            self.clear_softs_through.fetch_max(target, Relaxed);
        })
    }

    /// The same for a cycle that is done with the mutators stopped, as is the one that is under way.
    pub(crate) fn request_cycle_at_once(&self, reason: SyncReason) -> u64 {
        self.request_cycle_with(|target| self.finish_through(target, reason))
    }

    /// Asks for a cycle, after `prepare` has said how: the collector may be done with it before this returns.
    fn request_cycle_with(&self, prepare: impl FnOnce(u64)) -> u64 {
        // Acquire: pairs with the Release at a cycle's start and end.
        let (started, done) = (self.cycle.load(Acquire), self.cycles_done.load(Acquire));
        // A cycle that is under way does not count: it may keep what died after its snapshot.
        let target = started.max(done) + 1;
        prepare(target);
        // AcqRel: pairs with the Acquire in `should_start`, by which the collector reads it before it goes idle.
        self.requested.fetch_max(target, AcqRel);
        self.wake_collector();
        target
    }

    /// Lets cycles up to number `cycle` be finished with the mutators stopped, from the collector's next wake-up on.
    pub(crate) fn finish_through(&self, cycle: u64, reason: SyncReason) {
        // Relaxed: a report; Release: pairs with the Acquire in `commanded`.
        self.sync_reason.store(reason as u8, Relaxed);
        self.sync_through.fetch_max(cycle, Release);
    }

    /// Whether the program wants the cycle that is active, or the next one, finished at once. The collector.
    pub(crate) fn commanded(&self) -> Option<SyncReason> {
        // Acquire: pairs with the Release in `finish_through`. Relaxed: see there.
        let wanted = self.sync_through.load(Acquire) > self.cycles_done.load(Relaxed);
        wanted.then(|| SyncReason::from_u8(self.sync_reason.load(Relaxed)))
    }

    /// Free regions at which a cycle starts.
    pub(crate) fn low_regions(&self) -> u32 {
        let regions = self.space.limit_regions();
        (regions / 32).max(2).min(regions / 4)
    }

    /// The program's callback before a failure: sets it, or at the heap's end takes it out.
    pub(crate) fn set_before_failure(&self, f: Option<BeforeFailure>) {
        let old = std::mem::replace(
            &mut *self.before_failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
            f,
        );
        // With nothing locked: what it holds is the program's.
        drop(old);
    }

    /// The program's callback before a failure.
    pub(crate) fn before_failure(&self) -> Option<BeforeFailure> {
        self.before_failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Wakes the memory thread, if there is one. Any thread; system calls.
    pub(crate) fn wake_memory(&self) {
        // Release: pairs with the Acquire in the thread's loop.
        self.memory_thread_seq.fetch_add(1, Release);
        futex_wake(&self.memory_thread_seq, 1);
        if let Some(waker) = self.memory_waker.get() {
            waker.wake();
        }
    }

    /// Puts something into the outbox. Ordinary threads only: it locks and allocates.
    pub(crate) fn tell(&self, n: Notification) {
        self.post(Told::Notification(n));
    }

    /// The same for a line of text.
    pub(crate) fn note(&self, text: String) {
        self.post(Told::Note(text));
    }

    /// The same for a bookmark of the program.
    pub(crate) fn bookmark(&self, text: &str) {
        if self.forked() {
            // The lock may have been held at the fork, and nobody would read it.
            return;
        }
        self.post(Told::Bookmark(crate::watch::cut(text)));
    }

    /// The same for a thread, with what it asked for and what it was refused.
    pub(crate) fn tell_thread(
        &self,
        kind: model::ThreadKind,
        name: String,
        priority: u8,
        cpu: Option<usize>,
        refusals: &[String],
    ) {
        let all = refusals.is_empty();
        self.post(Told::Thread(model::Thread {
            name,
            kind,
            priority_asked: priority.into(),
            // What it has if something was refused, the refusals say.
            priority_had: all.then_some(priority.into()),
            cpu: cpu.map(|c| c as u64),
            refused: (!all).then(|| refusals.join("; ")),
        }));
    }

    fn post(&self, told: Told) {
        let mut outbox = self.outbox.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if outbox.len() < OUTBOX_MAX {
            outbox.push((self.clock.now(), told));
        } else {
            // Relaxed: a counter.
            self.untold.fetch_add(1, Relaxed);
        }
    }

    /// Empties the outbox. The writer.
    pub(crate) fn take_outbox(&self) -> Vec<(u64, Told)> {
        std::mem::take(&mut *self.outbox.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Bytes allocated since the last cycle ended.
    pub(crate) fn allocated_since_cycle(&self) -> u64 {
        // Relaxed: a hint.
        self.space.allocated_bytes().saturating_sub(self.allocated_at_end.load(Relaxed))
    }

    /// Tells those who wait for memory that there may be some. The collector.
    pub(crate) fn announce_memory(&self) {
        // Release: pairs with the Acquire in the wait.
        self.memory_seq.fetch_add(1, Release);
        // Relaxed: a waiter that is missed here re-checks at its next timeout.
        if self.waiting_for_memory.load(Relaxed) + self.waiting_for_cycle.load(Relaxed) > 0 {
            futex_wake(&self.memory_seq, u32::MAX);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for cell in &mut self.records {
            let p = *cell.get_mut();
            if !p.is_null() {
                // SAFETY: leaked from a box in `attach`; nobody else has the heap any more.
                drop(unsafe { Box::from_raw(p) });
            }
        }
    }
}
