//! Records: one for each thread that is attached to a heap; attaching, ending, the logs that hold something.

use super::Shared;
use crate::sync::SlowMutex;
use crate::table::Table;
use metronome_arraylet::Cursors;
use metronome_barrier::Log;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// What a mutator is doing, for stragglers' names and for the collector's view of its roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MutatorState {
    /// Outside `enter`, or in `blocking`: holds no `Gc`.
    Native = 0,
    /// Runs user code.
    Running = 1,
    /// Waits at a pause point: may hold `Gc`s.
    Paused = 2,
    /// Waits at a safepoint: holds no `Gc`.
    AtSafepoint = 3,
}

/// What belongs to a mutator alone while it runs.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) cursors: Cursors,
    pub(crate) log: Log,
    /// What the last failed allocation wanted.
    pub(crate) failed: Option<crate::mutator::Want>,
}

/// One thread's attachment to one heap. Records are never freed before their heap: they are reused.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) local: UnsafeCell<Local>,
    /// Colour epoch in which the cursors' runs were taken.
    pub(crate) colour_epoch: AtomicU32,
    /// Last cycle in which this mutator passed a safepoint (or was native).
    pub(crate) passed: AtomicU64,
    state: AtomicU8,
    /// Between the thread's first `enter` and its end.
    pub(crate) attached: AtomicBool,
    /// Set when an allocation failed: the next safepoint waits for memory.
    pub(crate) starved: AtomicBool,
    /// In the list of mutators whose logs hold something.
    pub(crate) log_listed: AtomicBool,
    pub(crate) log_link: AtomicU32,
    pub(crate) roots: Table,
    /// The attached thread, for the system.
    pub(crate) thread_id: AtomicI32,
    /// The CPU on which its mutator arrived at the last stop.
    pub(crate) cpu: AtomicU32,
    pub(crate) index: u32,
    pub(crate) link: AtomicU32,
    name: SlowMutex<Arc<str>>,
    /// How fast its mutator answered.
    pub(crate) arrivals: Arrivals,
}

/// How a mutator answered stop requests since somebody last looked. Noted by the mutator, taken by the writer.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    stops: AtomicU64,
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Arrivals {
    /// The mutator arrives `ns` after it was asked. Wait-free.
    pub(crate) fn note(&self, ns: u64) {
        // Relaxed, here and below: counters that a report reads; it may miss one of three for a moment.
        self.sum_ns.fetch_add(ns, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
        self.stops.fetch_add(1, Relaxed);
    }

    /// Number, sum and maximum since the last look.
    pub(crate) fn take(&self) -> (u64, u64, u64) {
        // Relaxed: as above.
        let stops = self.stops.swap(0, Relaxed);
        if stops == 0 {
            return (0, 0, 0);
        }
        (stops, self.sum_ns.swap(0, Relaxed), self.max_ns.swap(0, Relaxed))
    }
}

// SAFETY: `local` is touched by the owner while running or by the collector while stopped (INV-STOP-EXCLUSIVE);
// everything else is atomic or locked.
unsafe impl Sync for Record {}
// SAFETY: a record has no thread affinity of its own.
unsafe impl Send for Record {}

impl Record {
    pub(crate) fn new(index: u32) -> Record {
        Record {
            local: UnsafeCell::new(Local::default()),
            colour_epoch: AtomicU32::new(0),
            passed: AtomicU64::new(0),
            state: AtomicU8::new(MutatorState::Native as u8),
            attached: AtomicBool::new(true),
            starved: AtomicBool::new(false),
            log_listed: AtomicBool::new(false),
            log_link: AtomicU32::new(0),
            roots: Table::new(),
            thread_id: AtomicI32::new(0),
            cpu: AtomicU32::new(u32::MAX),
            index,
            link: AtomicU32::new(0),
            name: SlowMutex::new("".into()),
            arrivals: Arrivals::default(),
        }
    }

    pub(crate) fn state(&self) -> MutatorState {
        // Relaxed: exact while stopped (see the module's table), else a report.
        match self.state.load(Relaxed) {
            0 => MutatorState::Native,
            1 => MutatorState::Running,
            2 => MutatorState::Paused,
            _ => MutatorState::AtSafepoint,
        }
    }

    pub(crate) fn set_state(&self, s: MutatorState) {
        // Relaxed: ordered by the gate.
        self.state.store(s as u8, Relaxed);
    }

    /// The thread's name at attachment.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Shared {
    /// The records of all mutators that ever attached.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        (0..self.records_len()).filter_map(|i| self.record(i))
    }

    /// Number of records.
    pub(crate) fn records_len(&self) -> usize {
        // Acquire: pairs with the Release in `attach`.
        self.records_len.load(Acquire)
    }

    /// Record `i`, if there is one.
    pub(crate) fn record(&self, i: usize) -> Option<&Record> {
        // Acquire: pairs with the Release in `attach`.
        let p = self.records.get(i)?.load(Acquire);
        // SAFETY: non-null pointers come from boxes leaked in `attach` and freed only when `self` is dropped.
        unsafe { p.as_ref() }
    }

    /// A record for the calling thread: a used one if possible. `None` when `max_mutators` threads are attached.
    pub(crate) fn attach(&self) -> Option<&Record> {
        #[cfg(any(test, feature = "hooks"))]
        if self.hooks.call_fails() {
            return None;
        }
        self.take_record().inspect(|r| self.own(r))
    }

    /// A record that no thread has; it counts as attached from now on.
    pub(crate) fn take_record(&self) -> Option<&Record> {
        match self.free_records.pop(|i| &self.record(i as usize).expect("a freed record exists").link) {
            Some(i) => self.record(i as usize),
            None => {
                let _one_at_a_time = self.attach.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // Relaxed: the lock orders attachments.
                let i = self.records_len.load(Relaxed);
                let cell = self.records.get(i)?;
                // Release: pairs with the Acquire in `record` and `records_len`.
                cell.store(Box::into_raw(Box::new(Record::new(i as u32))), Release);
                self.records_len.store(i + 1, Release);
                self.record(i)
            }
        }
    }

    /// Makes a taken record the calling thread's.
    pub(crate) fn own(&self, record: &Record) {
        // SAFETY: gettid has no preconditions.
        let id = unsafe { libc::gettid() };
        let name: Arc<str> = match std::thread::current().name() {
            Some(n) => n.into(),
            None => format!("thread-{id}").into(),
        };
        *record.name.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = name;
        // Relaxed: only the owning thread reads it.
        record.attached.store(true, Relaxed);
        // Relaxed: ordered by the gate.
        record.thread_id.store(id, Relaxed);
    }

    /// The thread of `record` has ended: reuse the record, unless handles of the thread are still about.
    pub(crate) fn detach(&self, record: &Record) {
        // Relaxed: read by `release_root` on the same thread.
        record.attached.store(false, Relaxed);
        if record.roots.live() == 0 {
            self.free_records
                .push(record.index, |i| &self.record(i as usize).expect("a record in use exists").link);
        }
    }

    /// Drops a root. The thread that made it.
    pub(crate) fn release_root(&self, record: &Record, index: u32) {
        record.roots.release(index);
        // Relaxed: same thread as `detach`.
        if !record.attached.load(Relaxed) && record.roots.live() == 0 {
            self.free_records
                .push(record.index, |i| &self.record(i as usize).expect("a record in use exists").link);
        }
    }

    /// Puts a mutator whose log is no longer empty into the collector's list. A running mutator.
    pub(crate) fn list_log(&self, record: &Record) {
        // Relaxed: set by the owner while running, cleared by the collector while stopped.
        if !record.log_listed.load(Relaxed) {
            record.log_listed.store(true, Relaxed);
            self.logging
                .push(record.index, |i| &self.record(i as usize).expect("a record in use exists").log_link);
        }
    }

    /// Takes the next mutator out of that list. The collector, while stopped.
    pub(crate) fn next_logging(&self) -> Option<&Record> {
        let i = self.logging.pop(|i| &self.record(i as usize).expect("a listed record exists").log_link)?;
        let r = self.record(i as usize)?;
        // Relaxed: see `list_log`.
        r.log_listed.store(false, Relaxed);
        Some(r)
    }
}
