//! Finalization: user code for objects that have become unreachable, on a thread of its own, while they are complete.
//!
//! # State of a registration
//! ```text
//! free ──register──▶ live ──unreachable at the end of marking──▶ due ──marked through──▶ queued ──taken──▶ free
//!                     ├──unreachable and suppressed──▶ free
//!                     └──found unreachable, but taken up again by a mutator in Weak──▶ renewed ──marked through──▶ live
//! ```
//! A *due* or *renewed* object is a root of the phase Finalize, a *queued* one of later cycles; so a finalizer always sees a complete
//! object, and what that refers to. The object's header notes whether it has an entry, and whether that is suppressed.
//!
//! # Who may touch what
//! Mutators make entries; the collector, while stopped, moves them from live to due to queued; the finalizer thread, as a
//! running mutator, takes queued ones.
//!
//! # Where we differ from .NET
//! Registration is asked for; registering twice is once; the order of finalizers is that of their registration entries,
//! which promises nothing. An object with drop glue is dropped by the reaper after it has died for good.

use crate::gc::Gc;
use crate::handle::Root;
use crate::header::{self, REGISTERED, RENEWED, SUPPRESSED};
use crate::hooks::fault;
use crate::mutator::Mutator;
use crate::shared::Shared;
use crate::stats::FinalizerCounts;
use crate::sync::{futex_wait, futex_wake};
use crate::table::Table;
use crate::trace::Trace;
use crate::weak::Stamp;
use metronome_arraylet::IndexStack;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// An object with something to do when it has become unreachable.
///
/// ```
/// use metronome_gc::{Finalize, Heap, Mutator, Root, Trace};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// static CLOSED: AtomicU32 = AtomicU32::new(0);
///
/// #[derive(Trace)]
/// struct Connection {
///     id: u32,
/// }
///
/// impl Finalize for Connection {
///     fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
///         CLOSED.store(this.get(m).id, Ordering::Relaxed);
///     }
/// }
///
/// let heap = Heap::builder().heap_bytes(4 << 20).build()?;
/// heap.enter(|m| -> Result<(), metronome_gc::AllocError> {
///     let connection = m.alloc(Connection { id: 7 })?;
///     m.register_finalizer(connection);
///     Ok(())
/// })?;
/// heap.collect(metronome_gc::Collect::Full)?;
/// heap.drain_finalizers(std::time::Duration::from_secs(10))?;
/// assert_eq!(CLOSED.load(Ordering::Relaxed), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Finalize: Trace {
    /// Runs once for each registration, on the heap's finalizer thread, which is an ordinary mutator: it may allocate, come
    /// by safepoints, block, and bring the object back by storing it somewhere. Others may be given the object meanwhile
    /// (by [`WeakLong`](crate::WeakLong), or by the finalizer of an object that refers to it).
    ///
    /// A panic is caught, counted and reported. One that does not end holds up all others, and is reported after
    /// `finalizer-watchdog`.
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>)
    where
        Self: Sized;
}

type Run = unsafe fn(&mut Mutator<'_>, *mut u8);

const LIVE: u8 = 0;
const DUE: u8 = 1;
const QUEUED: u8 = 2;
const HELD: u8 = 3;

/// What a registration holds besides its object.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    made: Stamp,
    state: AtomicU8,
    run: AtomicPtr<()>,
    link: AtomicU32,
}

/// Registrations, the queue, and what has become of them.
#[derive(Debug)]
pub(crate) struct Finalizers {
    table: Table<Registration>,
    queue: IndexStack,
    /// Entries that are queued and have not been run to the end.
    pub(crate) backlog: AtomicU64,
    pub(crate) enqueued: AtomicU64,
    pub(crate) run: AtomicU64,
    pub(crate) suppressed: AtomicU64,
    pub(crate) panicked: AtomicU64,
    /// When the running finalizer began (0: none runs), and a description of its object's type.
    pub(crate) began_ns: AtomicU64,
    running: AtomicPtr<crate::trace::TypeInfo>,
    /// Wakes the thread; also changes when one has ended.
    pub(crate) seq: AtomicU32,
    /// Changes when the thread has done something.
    pub(crate) done_seq: AtomicU32,
}

impl Finalizers {
    pub(crate) const fn new() -> Finalizers {
        Finalizers {
            table: Table::new(),
            queue: IndexStack::new(),
            backlog: AtomicU64::new(0),
            enqueued: AtomicU64::new(0),
            run: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            began_ns: AtomicU64::new(0),
            running: AtomicPtr::new(std::ptr::null_mut()),
            seq: AtomicU32::new(0),
            done_seq: AtomicU32::new(0),
        }
    }

    /// Entries of the table.
    pub(crate) fn len(&self) -> u32 {
        self.table.len()
    }

    /// The object of a registration that keeps it alive by itself: due, renewed or queued. The collector, stopped.
    pub(crate) fn root(&self, i: u32) -> *mut u8 {
        // Relaxed, in all of this: the collector changes it while stopped; mutators see it after the stop.
        match self.table.extra(i).state.load(Relaxed) {
            LIVE => std::ptr::null_mut(),
            _ => self.table.get(i),
        }
    }

    /// The object of any registration, for the verifier.
    #[cfg(feature = "verify")]
    pub(crate) fn object(&self, i: u32) -> *mut u8 {
        self.table.get(i)
    }

    /// Marks stand still and have ended: a live registration of an unmarked object becomes due, or goes if it is
    /// suppressed. The collector, stopped.
    pub(crate) fn examine(&self, i: u32, s: &Shared) {
        let (cell, r) = (self.table.get(i), self.table.extra(i));
        // Relaxed: see `root`.
        if cell.is_null() || r.state.load(Relaxed) != LIVE || r.made.is_late(s) || s.space.is_marked(cell) {
            return;
        }
        // SAFETY: a registered object is allocated: it is kept or unregistered before any sweep.
        let notes = unsafe { header::notes(cell) };
        if notes & RENEWED != 0 && !fault!(s, NoRenewal) {
            // A mutator holds the object, so it is kept for this cycle. `hand_out` takes the note back.
            // Relaxed: see `root`.
            r.state.store(HELD, Relaxed);
            return;
        }
        if notes & SUPPRESSED != 0 {
            if fault!(s, NoSuppressedRelease) {
                return;
            }
            // A long weak reference may bring the object back, and it may be registered again.
            // SAFETY: as above; no mutator runs.
            unsafe { header::note(cell, |_| Some(0)) };
            self.table.release(i);
            // Relaxed: a counter.
            self.suppressed.fetch_add(1, Relaxed);
            return;
        }
        // Relaxed: see `root`.
        r.state.store(DUE, Relaxed);
    }

    /// All that due objects reach has been marked: they may be given out. The collector, stopped. Whether it was due.
    pub(crate) fn hand_out(&self, i: u32, s: &Shared) -> bool {
        let (cell, r) = (self.table.get(i), self.table.extra(i));
        // Renewal is of Weak and for one cycle. Entries that were held, or made since marking ended, may have it noted still;
        // of the others, those that it was noted of are due (the finalizer takes all notes back) or gone.
        let settled = |cell: *mut u8| {
            // SAFETY: a registered object is allocated: it is kept or unregistered before any sweep; no mutator runs.
            unsafe { header::note(cell, |n| Some(n & !RENEWED)) };
        };
        // Relaxed, in all of this: see `root`.
        match r.state.load(Relaxed) {
            DUE if !cell.is_null() => r.state.store(QUEUED, Relaxed),
            HELD => {
                settled(cell);
                r.state.store(LIVE, Relaxed);
                return false;
            }
            LIVE if !cell.is_null() && r.made.is_late(s) => {
                settled(cell);
                return false;
            }
            _ => return false,
        }
        // Relaxed: counters.
        self.enqueued.fetch_add(1, Relaxed);
        self.backlog.fetch_add(1, Relaxed);
        self.queue.push(i, |i| &self.table.extra(i).link);
        true
    }

    /// Checks table and queue: what is queued is in the queue once, and each live registration's object notes it. While
    /// no mutator runs. `object` tells whether there is an object.
    ///
    /// # Errors
    /// What is wrong.
    #[cfg(feature = "verify")]
    pub(crate) fn verify(&self, object: impl Fn(*mut u8) -> bool) -> Result<(), String> {
        self.table.verify()?;
        let len = self.len();
        // Relaxed: see `root`.
        let state = |i: u32| self.table.extra(i).state.load(Relaxed);
        let queued = crate::table::walk(&self.queue, len, |i| &self.table.extra(i).link)?;
        if let Some(i) = queued.iter().find(|&&i| state(i) != QUEUED) {
            return Err(format!("entry {i} is in the queue of finalizers, but not due"));
        }
        for i in 0..len {
            let cell = self.table.get(i);
            if cell.is_null() || state(i) != LIVE || !object(cell) {
                continue;
            }
            // SAFETY: an object is here, and no mutator runs.
            if unsafe { header::notes(cell) } & REGISTERED == 0 {
                return Err(format!("the object {cell:p} of entry {i} does not note its registration"));
            }
        }
        Ok(())
    }

    /// The figures so far.
    pub(crate) fn counts(&self, s: &Shared) -> FinalizerCounts {
        // Relaxed: counters.
        let get = |c: &AtomicU64| c.load(Relaxed);
        FinalizerCounts {
            enqueued: get(&self.enqueued),
            run: get(&self.run),
            suppressed: get(&self.suppressed),
            panicked: get(&self.panicked) + get(&s.deaths.panicked),
            backlog: get(&self.backlog),
            ..FinalizerCounts::default()
        }
    }

    /// Wakes the thread. Any thread; a system call.
    pub(crate) fn wake(&self) {
        // Release: pairs with the Acquire in `run`.
        self.seq.fetch_add(1, Release);
        futex_wake(&self.seq, 1);
    }

    /// The type of the object whose finalizer runs, and since when.
    pub(crate) fn running(&self) -> Option<(&'static str, u64)> {
        // Acquire: pairs with the Release in `take_and_run`.
        let began = self.began_ns.load(Acquire);
        // Relaxed: written before.
        let info = self.running.load(Relaxed);
        // SAFETY: only pointers to static type information are stored.
        let info = unsafe { info.as_ref() }?;
        (began != 0).then(|| ((info.name)(), began))
    }

    fn ended(&self) {
        // Relaxed: a report.
        self.began_ns.store(0, Relaxed);
        // Relaxed: a counter; who waits for it re-checks by the Acquire on `done_seq`.
        self.backlog.fetch_sub(1, Relaxed);
        // Release: pairs with the Acquire of those who wait for the queue to be empty.
        self.done_seq.fetch_add(1, Release);
        futex_wake(&self.done_seq, u32::MAX);
    }
}

/// # Safety
/// `cell` holds a `T` that the running mutator's thread has just obtained.
unsafe fn run_finalizer<T: Finalize>(m: &mut Mutator<'_>, cell: *mut u8) {
    // SAFETY: by this function's contract; not null.
    let root = Root::new(m, unsafe { Gc::<T>::from_cell(std::ptr::NonNull::new_unchecked(cell)) });
    T::finalize(root, m);
}

impl Mutator<'_> {
    /// Waits as a native thread until no object waits for its finalizer, at most `limit`. (Callbacks about deaths do not count.) A safepoint.
    ///
    /// # Errors
    /// [`DrainError`] when the limit is over; at once in a finalizer, which runs before those that wait.
    pub fn drain_finalizers(&mut self, limit: std::time::Duration) -> Result<(), DrainError> {
        // SAFETY: a mutator's heap is alive and in an `Arc`.
        let shared = unsafe { crate::handle::arc_of(self.shared) };
        let deadline = shared.deadline_in(limit);
        self.blocking(|| drain(&shared, deadline))
    }

    /// Asks for [`Finalize::finalize`] to run when `object` has become unreachable; also again, after it has run. If the
    /// registration was suppressed, it counts again. False if the object is registered already.
    ///
    /// Cost: a table entry and two atomic operations; each cycle looks at it once. A pause point it is not.
    pub fn register_finalizer<T: Finalize>(&self, object: Gc<'_, T>) -> bool {
        let (s, cell) = (self.shared(), object.cell_ptr());
        // Rule 5 of the barrier, for an entry that was made before.
        let renewed = s.phase.get().unmarked_is_unreachable() && !s.space.is_marked(cell);
        let register = |notes| match notes & (REGISTERED | SUPPRESSED) {
            REGISTERED => None,
            0 => Some(REGISTERED),
            _ => Some(REGISTERED | if renewed { RENEWED } else { 0 }),
        };
        // SAFETY: an object that this mutator can reach.
        let (before, changed) = unsafe { header::note(cell, register) };
        if changed && before & REGISTERED == 0 {
            let run: Run = run_finalizer::<T>;
            s.finalizers.table.insert_with(cell, |r| {
                r.made.set(s);
                // Relaxed: published with the object.
                r.run.store(run as *mut (), Relaxed);
                r.state.store(LIVE, Relaxed);
            });
        }
        changed
    }

    /// Takes back what [`register_finalizer`](Mutator::register_finalizer) asked for, as one does after having cleaned up
    /// by hand; also if the object waits for its finalizer already. False if there was nothing to take back.
    pub fn suppress_finalizer<T: Finalize>(&self, object: Gc<'_, T>) -> bool {
        let suppress = |notes| match notes & (REGISTERED | SUPPRESSED) {
            REGISTERED => Some(REGISTERED | SUPPRESSED),
            _ => None,
        };
        // SAFETY: an object that this mutator can reach.
        unsafe { header::note(object.cell_ptr(), suppress) }.1
    }
}

/// Waits until nothing is queued for the finalizer thread, at most until `deadline_ns`. A thread that is not running
/// inside the heap.
pub(crate) fn drain(s: &Shared, deadline_ns: u64) -> Result<(), DrainError> {
    let f = &s.finalizers;
    // What this thread has to do itself it would wait for in vain.
    let own = SERVES.try_with(Cell::get).unwrap_or(0) == s.id;
    loop {
        // Acquire: pairs with the Release in `ended`.
        let seen = f.done_seq.load(Acquire);
        // Relaxed: changed before `done_seq`.
        let waiting = f.backlog.load(Relaxed);
        if waiting == 0 {
            return Ok(());
        }
        let reason = if own {
            DrainStop::FinalizerThread
        } else if s.forked() {
            DrainStop::Forked
        // Relaxed: a heap that is closed runs no more of them; the limit of the wait below bounds how late it is seen.
        } else if s.shutdown.load(Relaxed) {
            DrainStop::Closed
        } else if s.clock.now() >= deadline_ns {
            DrainStop::Limit
        } else {
            // A short limit, so that a wake-up that was missed costs little.
            let limit = s.clock.now().saturating_add(10_000_000).min(deadline_ns);
            futex_wait(&f.done_seq, seen, Some(limit));
            continue;
        };
        return Err(DrainError { waiting, running: f.running().map(|(name, _)| name), reason });
    }
}

/// Why waiting for finalizers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DrainStop {
    /// The time given is over.
    Limit,
    /// The caller is a finalizer or a callback about a death, which what it waits for comes after. Not waited at all.
    FinalizerThread,
    /// The heap is closed or being closed: no more finalizers run.
    Closed,
    /// The process is a fork of the one that made the heap; it has no finalizer thread.
    Forked,
}

/// Not all finalizers that were due have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainError {
    /// Objects that still wait, the one whose finalizer runs included.
    pub waiting: u64,
    /// The type whose finalizer runs, if one does.
    pub running: Option<&'static str>,
    /// Why they have not.
    pub reason: DrainStop,
}

impl std::fmt::Display for DrainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} objects still wait for their finalizers", self.waiting)?;
        match (self.reason, self.running) {
            (DrainStop::Limit, Some(name)) => {
                write!(f, ", that of a {name} is running: wait longer, or look at what it waits for")
            }
            (DrainStop::Limit, None) => f.write_str(": wait longer"),
            (DrainStop::FinalizerThread, _) => f.write_str(
                ", which run after this finalizer or callback has ended: wait for them on another thread",
            ),
            (DrainStop::Closed, _) => f.write_str(
                ", and the heap is closed: drain before the last clone is dropped, or raise finalizer-drain",
            ),
            (DrainStop::Forked, _) => f.write_str(
                ", and a forked child has no finalizer thread for its parent's heap: drain before the fork",
            ),
        }
    }
}

impl std::error::Error for DrainError {}

/// The finalizer thread's body, until the heap is closed: finalizers, and notices of death.
pub(crate) fn run(shared: &Arc<Shared>, attached: std::sync::mpsc::Sender<()>) {
    crate::thread::set_service();
    // Attaches before any user's thread does.
    let _ = crate::heap::enter_shared(shared, |_| ());
    drop(attached);
    // Set also if the thread unwinds, so that closing never waits for ever.
    let _done = Done(shared);
    let mut batch = Vec::new();
    loop {
        // Acquire: pairs with the Release in `wake`; taken before the queues are looked at.
        let seen = shared.finalizers.seq.load(Acquire);
        work(shared, &mut batch);
        // Relaxed: stored before the wake-up that the Acquire above has seen, or that ends the sleep below.
        if shared.shutdown.load(Relaxed) {
            return;
        }
        futex_wait(&shared.finalizers.seq, seen, None);
    }
}

/// Tells the reaper that this thread has ended.
struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in the reaper, and of the thread that closes the heap.
        self.0.finalizer_done.store(1, Release);
        futex_wake(&self.0.finalizer_done, u32::MAX);
    }
}

thread_local! {
    /// The heap whose finalizers this thread is running; heaps are numbered from 1.
    static SERVES: Cell<u64> = const { Cell::new(0) };
}

/// Runs what is queued now. On a thread that is not inside a heap.
pub(crate) fn work(shared: &Arc<Shared>, batch: &mut Vec<u32>) {
    SERVES.set(shared.id);
    run_queued(shared, batch);
    SERVES.set(0);
}

fn run_queued(shared: &Arc<Shared>, batch: &mut Vec<u32>) {
    let f = &shared.finalizers;
    loop {
        crate::death::run(shared);
        // All that wait, so that they run in the order of their entries.
        while let Some(i) = f.queue.pop(|i| &f.table.extra(i).link) {
            batch.push(i);
        }
        if batch.is_empty() {
            return;
        }
        batch.sort_unstable_by(|a, b| b.cmp(a));
        while let Some(i) = batch.pop() {
            // Relaxed: written before the wake-up that ends this thread's sleep; a late look costs one finalizer.
            if shared.shutdown.load(Relaxed) {
                return;
            }
            // The thread can always enter: it is attached, and inside no heap.
            let _ = crate::heap::enter_shared(shared, |m| take_and_run(m, i));
            f.ended();
        }
    }
}

fn take_and_run(m: &mut Mutator<'_>, i: u32) {
    // SAFETY: a mutator's heap is alive and in an `Arc`.
    let shared = unsafe { crate::handle::arc_of(m.shared) };
    let f = &shared.finalizers;
    let cell = f.table.get(i);
    m.shade_yielded(cell);
    // SAFETY: a queued entry keeps its object, and this thread has just obtained it.
    let (notes, _) = unsafe { header::note(cell, |_| Some(0)) };
    // Relaxed: published with the object.
    // SAFETY: only `register_finalizer` fills entries, with a function of this type.
    let run = unsafe { std::mem::transmute::<*mut (), Run>(f.table.extra(i).run.load(Relaxed)) };
    // From here on the object is held by this thread: no pause point comes before `run` has made a root of it.
    f.table.release(i);
    // Relaxed, here and below: counters.
    if notes & SUPPRESSED != 0 {
        f.suppressed.fetch_add(1, Relaxed);
        return;
    }
    // SAFETY: an object's header points to its static type information.
    let info = unsafe { header::info(cell) }.map_or(std::ptr::null(), std::ptr::from_ref);
    f.running.store(info.cast_mut(), Relaxed);
    // Release: pairs with the Acquire in `running`.
    f.began_ns.store(shared.clock.now().max(1), Release);
    // Relaxed: counters.
    f.run.fetch_add(1, Relaxed);
    // SAFETY: the entry was made for an object of this type.
    if let Err(value) = catch_unwind(AssertUnwindSafe(|| unsafe { run(m, cell) })) {
        f.panicked.fetch_add(1, Relaxed);
        // What was thrown may have a destructor that panics too.
        std::mem::forget(value);
    }
}
