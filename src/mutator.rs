//! The mutator's side: allocation, barriers, pause points, safepoints.
//!
//! # State
//! A [`Mutator`] is a thin handle on its thread's record; who is inside which heap is kept in the thread's own
//! state ([`crate::thread`]), so moving or forgetting the handle changes nothing.
//!
//! # Pause points and safepoints
//! *Pause points* take `&Mutator`: [`poll`](Mutator::poll), the slow path of allocation, bulk array operations. A
//! quantum may run there; the `Gc`s that the thread holds stay valid. *Safepoints* take `&mut Mutator`: no `Gc`
//! can be alive there, so the thread's roots are exactly its handles. There is no pause point between a look at
//! the phase and the store that depends on it.

mod arrays;
mod wait;

use crate::error::AllocError;
use crate::gate::Spin;
use crate::gc::Gc;
use crate::hooks::fault;
use crate::placement::current_cpu;
use crate::shared::{Local, MutatorState, Record, Shared};
use crate::slot::Barrier;
use crate::sync::futex_wait;
use crate::trace::{CellOf, Init, RawRef, TypeInfo};
use metronome_arraylet::cursor::CursorIndex;
use metronome_barrier::Phase;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
pub(crate) use wait::Want;

/// Access to a heap by one thread, inside [`Heap::enter`](crate::Heap::enter).
///
/// One per thread at a time, whatever the heap; neither `Send` nor `Sync`.
pub struct Mutator<'h> {
    pub(crate) shared: NonNull<Shared>,
    pub(crate) record: NonNull<Record>,
    /// Invariant in 'h, neither `Send` nor `Sync`.
    _brand: PhantomData<*mut &'h ()>,
}

impl std::fmt::Debug for Mutator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mutator(heap {}, record {})", self.shared().id, self.record().index)
    }
}

impl Barrier for Mutator<'_> {
    #[inline(always)]
    fn armed(&self) -> bool {
        self.barrier_armed()
    }

    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    fn shade_new(&self, cell: *mut u8) {
        let s = self.shared();
        if s.phase.barrier().shades_new() && !fault!(s, NoInsertionBarrier) {
            self.shade_stored(cell);
        }
    }

    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    fn shade_overwritten(&self, cell: *mut u8) {
        let s = self.shared();
        if s.phase.barrier().shades_overwritten() && !fault!(s, NoDeletionBarrier) {
            self.shade_stored(cell);
        }
    }
}

impl<'h> Mutator<'h> {
    /// # Safety
    /// `shared` (from `Arc::as_ptr`) and `record` stay valid for 'h, the record belongs to this thread, and this is
    /// the thread's only running mutator.
    pub(crate) unsafe fn new(shared: NonNull<Shared>, record: NonNull<Record>) -> Mutator<'h> {
        Mutator { shared, record, _brand: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: valid for 'h by `new`.
        unsafe { self.shared.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: valid for 'h by `new`.
        unsafe { self.record.as_ref() }
    }

    /// Runs `f` on what is this mutator's alone.
    ///
    /// `f` must not call back into the mutator, poll or run user code.
    #[inline(always)]
    pub(crate) fn with_local<R>(&self, f: impl FnOnce(&mut Local) -> R) -> R {
        // SAFETY: this thread is the record's owner and is running (INV-STOP-EXCLUSIVE keeps the collector out);
        // `f` does not get at the local state by another way, so the borrow is unique.
        f(unsafe { &mut *self.record().local.get() })
    }

    // ---- barrier ----------------------------------------------------------------------------------------------

    /// Whether stores must shade now: one relaxed load.
    #[inline(always)]
    pub(crate) fn barrier_armed(&self) -> bool {
        self.shared().phase.barrier().armed()
    }

    /// Shades what a handle yields if the phase asks for it.
    #[inline]
    pub(crate) fn shade_yielded(&self, cell: *mut u8) {
        let s = self.shared();
        if s.phase.barrier().shades_overwritten() && !fault!(s, NoHandleBarrier) {
            self.shade(cell);
        }
    }

    /// Shades a value of an armed store. Most are null or marked already, and are done with here.
    #[inline]
    fn shade_stored(&self, cell: *mut u8) {
        let s = self.shared();
        if cell.is_null() {
            return;
        }
        if s.phase.barrier().deferred() {
            self.shade(cell);
        } else if s.space.mark(cell) {
            self.log(cell);
        }
    }

    /// Marks an object and logs it to be scanned. Never pauses, blocks or allocates.
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    #[cold]
    pub(crate) fn shade(&self, cell: *mut u8) {
        let s = self.shared();
        if cell.is_null() {
            return;
        }
        if s.phase.barrier().deferred() {
            if !s.space.is_marked(cell) && !fault!(s, NoDeferredShading) {
                s.space.push_grey(cell);
            }
        } else if s.space.mark(cell) {
            self.log(cell);
        }
    }

    /// Logs an object that this thread has marked; where no chunk is left, remembers it in the grey bits.
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline(never)]
    fn log(&self, cell: *mut u8) {
        let s = self.shared();
        #[cfg(any(test, feature = "hooks"))]
        let refused = s.hooks.call_fails();
        #[cfg(not(any(test, feature = "hooks")))]
        let refused = false;
        if !refused && self.with_local(|l| l.log.push(&s.logs, cell)) {
            s.list_log(self.record());
        } else {
            // Relaxed: a counter for reports.
            s.barrier_spills.fetch_add(1, Relaxed);
            s.space.push_grey(cell);
        }
    }

    // ---- pause points and safepoints ----------------------------------------------------------------------------

    /// A pause point: lets the collector run a quantum if it asked for one. One relaxed load and a branch.
    ///
    /// Call it in loops that neither allocate nor come by a safepoint for more than some microseconds. All `Gc`s
    /// stay valid.
    #[inline(always)]
    pub fn poll(&self) {
        if self.shared().gate.stop_requested() {
            self.pause(MutatorState::Paused);
        }
    }

    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    #[cold]
    #[inline(never)]
    fn pause(&self, state: MutatorState) {
        let (s, r) = (self.shared(), self.record());
        if s.forked() {
            // A stop that was requested at the fork: nobody came along who would use it, or end it.
            return;
        }
        r.set_state(state);
        // Relaxed: ordered by the gate.
        r.cpu.store(current_cpu(), Relaxed);
        // Relaxed: a report; a request that ends meanwhile is not counted.
        let asked = s.asked_ns.load(Relaxed);
        if asked != 0 {
            r.arrivals.note(s.clock.now().saturating_sub(asked));
        }
        // Relaxed: for reports only; ordered by the gate well enough.
        s.paused.fetch_add(1, Relaxed);
        s.gate.leave_running();
        if s.gate.polls_always() {
            s.wait_for_step();
        }
        s.gate.enter_running(Spin::NONE, || s.clock.now());
        r.set_state(MutatorState::Running);
        self.after_stop(true);
        s.paused.fetch_sub(1, Relaxed);
    }

    /// What every transition to running ends with: see what the collector changed.
    pub(crate) fn after_stop(&self, resumed: bool) {
        let (s, r) = (self.shared(), self.record());
        // Relaxed, here and below: ordered by the gate's acquire.
        let epoch = s.colour_epoch.load(Relaxed);
        if r.colour_epoch.load(Relaxed) != epoch && !fault!(s, NoCursorFlush) {
            self.with_local(|l| l.cursors.flush(&s.space));
            r.colour_epoch.store(epoch, Relaxed);
        }
        if resumed {
            s.resumed_ns.fetch_max(s.clock.now(), Relaxed);
        }
    }

    /// Notes that this mutator holds no `Gc` now.
    #[inline]
    fn note_safepoint(&self) {
        let (s, r) = (self.shared(), self.record());
        // Relaxed: `cycle` changes only while stopped; `passed` is read after the next stop.
        let cycle = s.cycle.load(Relaxed);
        if r.passed.load(Relaxed) != cycle {
            r.passed.store(cycle, Relaxed);
        }
    }

    /// Becomes running, from outside or from native code.
    ///
    /// In a forked child, whose thread was inside at the fork, without the gate: a stop that was requested or lasted then
    /// would last for ever, and there is no collector to keep out. So the child goes on to the end of its
    /// [`enter`](crate::Heap::enter), and only what needs a collector is refused, where it is asked for.
    pub(crate) fn start_running(&self) {
        let (s, r) = (self.shared(), self.record());
        if s.forked() {
            r.set_state(MutatorState::Running);
            return;
        }
        s.gate.enter_running(Spin::NONE, || s.clock.now());
        r.set_state(MutatorState::Running);
        // A mutator that was outside holds nothing: it has passed this cycle's safepoint.
        self.note_safepoint();
        self.after_stop(false);
    }

    /// Stops running: gives back what it reserves, and counts as stopped from now on.
    pub(crate) fn stop_running(&self) {
        let (s, r) = (self.shared(), self.record());
        self.with_local(|l| {
            l.cursors.flush(&s.space);
            // Only of a reservation that was forgotten.
            l.cursors.end_promise(&s.space);
        });
        self.note_safepoint();
        r.set_state(MutatorState::Native);
        // In a forked child the count is of no account: see `start_running`.
        if !s.forked() {
            s.gate.leave_running();
        }
    }

    /// A safepoint: the collector may run a quantum and take this thread's roots. No `Gc` can be alive here.
    ///
    /// If an allocation of this mutator failed since the last safepoint, waits here for memory, at most `memory-wait`:
    /// for the cycle that is under way, then for a whole one, then for one that clears all soft references, and if the
    /// callback of [`HeapBuilder::before_failure`](crate::HeapBuilder::before_failure) says so for one more (with a
    /// `memory-wait` of its own). So the usual answer to an [`AllocError`] is a safepoint and another try. Cost otherwise:
    /// a poll, two loads and a branch.
    ///
    /// A cycle cannot end before every mutator has come by a safepoint, so come by one often (at least some times
    /// per second): the event `safepoint overdue` names a thread that does not.
    #[inline]
    pub fn safepoint(&mut self) {
        self.note_safepoint();
        if self.shared().gate.stop_requested() {
            self.pause(MutatorState::AtSafepoint);
            self.note_safepoint();
        }
        // Relaxed: written by this thread.
        if self.record().starved.load(Relaxed) {
            let failed = self.with_local(|l| l.failed.take());
            if failed.is_none() && self.shared().config.stress.alloc.is_some() {
                return self.wait_for_asked_cycles();
            }
            let want = failed.unwrap_or(Want { bytes: 1, regions: 1, cells: None });
            // The outcome is for the next allocation to find out.
            let _ = self.wait_for_memory(want);
        }
    }

    /// Runs `f` outside the heap: for system calls, foreign code, waiting. A safepoint before and after.
    ///
    /// The thread counts as stopped while `f` runs, so quanta neither wait for it nor delay it; it may enter
    /// another heap. Coming back waits for the end of a quantum if one is running. If `f` panics, the thread comes
    /// back all the same and the panic goes on. A child that was forked inside comes back too, with no quantum to wait for.
    ///
    /// # Panics
    /// Only if `f` does.
    pub fn blocking<R>(&mut self, f: impl FnOnce() -> R) -> R {
        struct Back<'a, 'h>(&'a Mutator<'h>);
        impl Drop for Back<'_, '_> {
            fn drop(&mut self) {
                crate::thread::resume(self.0.record);
                self.0.start_running();
            }
        }
        self.stop_running();
        crate::thread::suspend(self.record);
        let back = Back(self);
        let out = f();
        drop(back);
        out
    }

    // ---- allocation ----------------------------------------------------------------------------------------------

    /// Allocates an object. The fast path is an add, a compare and the writes of the object; it may pause when a
    /// run of free cells is used up (about every 8 KiB; where free cells lie singly, within 64 cells). It starts no
    /// collection; if the heap is full while one is about to free memory without needing this thread's safepoint, it waits
    /// for that at this pause point, unless a stop fails meanwhile. If it fails, `init` is dropped on this thread.
    ///
    /// An [`AllocError`] has figures in it, so that a function of yours that returns `Result<Gc<_>, AllocError>` and is not
    /// inlined hands its result over in memory; an `Option<Gc<_>>` (by `.ok()`) is one register. In a recursion that does
    /// little else this is a quarter of its time.
    ///
    /// # Errors
    /// [`AllocError`] when the heap is full. Come by a [`safepoint`](Mutator::safepoint), which waits for memory,
    /// and try again.
    #[inline]
    pub fn alloc<'m, I: Init<'m>>(&'m self, init: I) -> Result<Gc<'m, I::Target>, AllocError> {
        let cursor = const { CellOf::<I::Target>::CURSOR };
        let size = const { CellOf::<I::Target>::SIZE };
        let cell = match self.with_local(|l| l.cursors.bump_ptr(cursor, size)) {
            Some(c) => c,
            None => self.refill(cursor, size)?.as_ptr(),
        };
        // From here to the publication there is no pause point (rule 10 of the barrier).
        let shades = I::HAS_SLOTS && self.barrier_armed();
        // SAFETY: a fresh cell of this type's class, as both ask for.
        Ok(unsafe { if shades { self.shade_and_write(cell, init) } else { self.write_object(cell, init) } })
    }

    /// Writes an object into its cell.
    ///
    /// # Safety
    /// `cell` is a cell of `I::Target`'s class, just taken from this thread's cursor with no pause point since.
    #[inline(always)]
    unsafe fn write_object<'m, I: Init<'m>>(&'m self, cell: *mut u8, init: I) -> Gc<'m, I::Target> {
        let info: &'static TypeInfo = CellOf::<I::Target>::INFO;
        // SAFETY: the cell is fresh, this thread's alone, not null, and large enough for header and value at OFFSET,
        // aligned as CLASS demands. Nobody looks at the cell before this call ends: there is no pause
        // point from here on, and it is in no slot, handle or local yet.
        unsafe {
            init.write(cell.add(CellOf::<I::Target>::OFFSET).cast());
            crate::header::write(cell, info);
            Gc::from_cell(NonNull::new_unchecked(cell))
        }
    }

    /// The same while the barrier is armed. It takes the initialiser by value, so that it stays in registers on the way
    /// that is not cold.
    ///
    /// # Safety
    /// As for `write_object`.
    #[cold]
    #[inline(never)]
    unsafe fn shade_and_write<'m, I: Init<'m>>(&'m self, cell: *mut u8, init: I) -> Gc<'m, I::Target> {
        self.shade_initialiser(&init);
        // SAFETY: by this function's contract; shading is no pause point.
        unsafe { self.write_object(cell, init) }
    }

    fn shade_initialiser<'m, I: Init<'m>>(&self, init: &I) {
        let s = self.shared();
        if s.phase.barrier().shades_new() && !fault!(s, NoInitialiserBarrier) {
            init.values(&mut |RawRef(cell)| self.shade(cell));
        }
    }

    /// Goes on in the next gap, if any is reserved; else gets a new run: a pause point.
    #[cold]
    #[inline(never)]
    fn refill(&self, cursor: CursorIndex, size: usize) -> Result<NonNull<u8>, AllocError> {
        #[cfg(any(test, feature = "hooks"))]
        let each_counts = self.shared().hooks.every_cell();
        #[cfg(not(any(test, feature = "hooks")))]
        let each_counts = false;
        if !each_counts && let Some(cell) = self.with_local(|l| l.cursors.next_gap(cursor, size)) {
            return Ok(cell);
        }
        let cell = self.refill_run(cursor, size)?;
        if self.shared().count_allocation() {
            // Relaxed: a note to this thread's own next safepoint.
            self.record().starved.store(true, Relaxed);
        }
        Ok(cell)
    }

    fn refill_run(&self, cursor: CursorIndex, size: usize) -> Result<NonNull<u8>, AllocError> {
        self.poll();
        let s = self.shared();
        #[cfg(any(test, feature = "hooks"))]
        if s.hooks.refill_fails() {
            return Err(self.allocation_failed(cursor, size));
        }
        if s.is_due() {
            s.wake_collector();
        }
        loop {
            // Before the look, so that growth by another thread is not missed.
            let limit = s.space.limit_regions();
            if let Some(c) = self.with_local(|l| l.cursors.refill(&s.space, cursor, s.colour())) {
                #[cfg(any(test, feature = "hooks"))]
                if s.hooks.every_cell() {
                    // The rest of the run goes back, so that the next cell comes by here too.
                    self.with_local(|l| l.cursors.flush(&s.space));
                }
                return Ok(c);
            }
            // Ends: each further round is in a heap of another size, and there is a largest one.
            if !s.grow_on_demand() && s.space.limit_regions() == limit {
                break;
            }
        }
        self.refill_late(cursor, size)
    }

    /// The heap has no region for us. While the collector is about to free some without needing our safepoint, or the
    /// memory thread to grow the heap, wait for it at this pause point; else fail.
    #[cold]
    #[inline(never)]
    fn refill_late(&self, cursor: CursorIndex, size: usize) -> Result<NonNull<u8>, AllocError> {
        let (s, r) = (self.shared(), self.record());
        let deadline = s.clock.now().saturating_add(s.config.memory_wait_ns);
        // Relaxed: a counter.
        let cancelled = s.stops_cancelled.load(Relaxed);
        loop {
            let ours_not_needed = match s.phase.get() {
                Phase::Idle => false,
                // Relaxed: this thread's own note; `cycle` changes only while stopped.
                Phase::Snapshot | Phase::Mark => r.passed.load(Relaxed) == s.cycle.load(Relaxed),
                Phase::Weak | Phase::Finalize | Phase::Phantom | Phase::Sweep => true,
            };
            // A stop that is cancelled while we wait may be our doing: somebody may be waiting for a lock that this
            // thread's user code holds.
            let in_vain = s.stops_cancelled.load(Relaxed) != cancelled;
            // Relaxed: a hint.
            if !(ours_not_needed || s.grow_soon())
                || !s.may_wait()
                || in_vain
                || s.clock.now() >= deadline
                || s.shutdown.load(Relaxed)
            {
                return Err(self.allocation_failed(cursor, size));
            }
            // Acquire: pairs with the Release in `announce_memory`.
            let seq = s.memory_seq.load(Acquire);
            r.set_state(MutatorState::Paused);
            s.gate.leave_running();
            // Relaxed, with the decrement below: as in `wait_for_memory`.
            s.waiting_for_memory.fetch_add(1, Relaxed);
            s.wake_collector();
            futex_wait(&s.memory_seq, seq, Some(s.clock.now().saturating_add(10_000_000)));
            s.waiting_for_memory.fetch_sub(1, Relaxed);
            s.gate.enter_running(Spin::NONE, || s.clock.now());
            r.set_state(MutatorState::Running);
            self.after_stop(false);
            if let Some(c) = self.with_local(|l| l.cursors.refill(&s.space, cursor, s.colour())) {
                return Ok(c);
            }
        }
    }

    #[cold]
    fn allocation_failed(&self, cursor: CursorIndex, bytes: usize) -> AllocError {
        let (s, r) = (self.shared(), self.record());
        let want = Want { bytes: bytes as u64, regions: 1, cells: Some(cursor) };
        self.with_local(|l| l.failed = Some(want));
        // Relaxed: a note to this thread's own next safepoint; a counter.
        r.starved.store(true, Relaxed);
        s.failed_allocations.fetch_add(1, Relaxed);
        s.failed_bytes.store(bytes as u64, Relaxed);
        if s.config.exhaustion == crate::config::Exhaustion::Fail {
            // Nobody will wait for the last rung of the ladder: the next cycle is it.
            // Relaxed: read when that cycle is armed, after the wake-up below.
            s.clear_softs_through.fetch_max(s.cycle.load(Relaxed) + 1, Relaxed);
        }
        s.wake_collector();
        AllocError::exhausted(s, bytes as u64)
    }
}
