//! The reaper: runs the drop glue of dead objects, outside quanta and never on a user's thread.
//!
//! # State
//! A region with condemned objects comes off the heap's reap list. Its cells are not allocated from, and nothing
//! refers to its condemned objects any more (their weak references are cleared).
//!
//! # Who may touch what
//! The reaper is a mutator for the short stretches in which it reads and frees bits, so that no quantum runs
//! meanwhile; while it runs drop glue (foreign code) it is native. Drop glue may do anything (enter another heap, drop
//! handles, block, panic) but enter this heap, which refuses it: the reaper must never wait for what only it can free.

use crate::mutator::Mutator;
use crate::shared::Shared;
use crate::sync::futex_wait;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The thread's body: until shutdown, then the drop glue of everything that is left.
pub(crate) fn run(shared: &Arc<Shared>, attached: std::sync::mpsc::Sender<()>) {
    crate::thread::set_service();
    // Attaches before any user's thread does.
    let _ = as_mutator(shared, |_, _| ());
    // Dropped, which tells the builder.
    drop(attached);
    loop {
        // Acquire: pairs with the Release of the driver; taken before the list is looked at.
        let seen = shared.reap_seq.load(Acquire);
        reap_all(shared);
        // Relaxed: stored before the bump that the Acquire above has seen, or that ends the sleep below.
        if shared.shutdown.load(Relaxed) {
            break;
        }
        futex_wait(&shared.reap_seq, seen, None);
    }
    // Acquire: pairs with the Release at the collector's end.
    while shared.collector_done.load(Acquire) == 0 {
        futex_wait(&shared.collector_done, 0, None);
    }
    // A finalizer that does not end makes whoever closes the heap abandon it.
    // Acquire: pairs with the Release at the finalizer thread's end.
    // Relaxed: looked at again below.
    while shared.finalizer_done.load(Acquire) == 0 && !shared.abandoned.load(Relaxed) {
        futex_wait(&shared.finalizer_done, 0, Some(shared.clock.now().saturating_add(10_000_000)));
    }
    // Callbacks that will not run may own handles, which would keep the heap's memory.
    shared.deaths.abandon();
    // Relaxed: written before the signal to shut down, or by the time the finalizer thread was waited for in vain.
    if !shared.abandoned.load(Relaxed) {
        // SAFETY: shutdown is signalled when the last `Heap` is dropped, so nobody can enter, and nobody is inside (it
        // would have been marked abandoned); the collector and the finalizer thread have ended.
        unsafe { teardown(shared) };
        shared.space.discard();
    }
}

/// Reaps all regions in the list. On a thread that is not inside a heap.
pub(crate) fn reap_all(shared: &Arc<Shared>) {
    while let Ok(Some(region)) = as_mutator(shared, |s, _| s.space.pop_reap()) {
        loop {
            // Taking the batch and finding none left are under one running stretch with what they decide.
            let batch = as_mutator(shared, |s, _| {
                let batch = s.space.condemned(region);
                if batch.is_none() {
                    s.space.reap_done(region);
                }
                batch
            });
            let Ok(Some(batch)) = batch else { break };
            let mut bits = batch.bits;
            while bits != 0 {
                let cell = shared.space.cell_ptr(region, batch.first_cell + bits.trailing_zeros());
                bits &= bits - 1;
                // SAFETY: a condemned cell holds a dead object or a zero header, is nobody else's until it is
                // freed below, and each is visited once: its bit is cleared before the region is looked at again.
                unsafe { drop_object(shared, cell.as_ptr()) };
            }
            let _ = as_mutator(shared, |s, _| s.space.reaped(&batch));
            shared.announce_memory();
        }
    }
}

/// Runs `f` as a running mutator of the heap.
fn as_mutator<R>(
    shared: &Arc<Shared>,
    f: impl FnOnce(&Shared, &Mutator<'_>) -> R,
) -> Result<R, crate::error::EnterError> {
    crate::heap::enter_shared(shared, |m| f(m.shared(), m))
}

/// Runs the drop glue of the object in `cell`, once; a panic is caught and counted.
///
/// # Safety
/// The cell holds a zero header or an object with drop glue that nobody can reach; the caller owns the cell.
pub(crate) unsafe fn drop_object(shared: &Shared, cell: *mut u8) {
    // SAFETY: by this function's contract.
    let Some(info) = (unsafe { crate::header::info(cell) }) else { return };
    // SAFETY: as above. From here on the cell says "no object": drop glue runs at most once (INV-HEAP-VACANT).
    unsafe { crate::header::clear(cell) };
    if let Some(glue) = info.drop {
        // SAFETY: the header said that the cell holds a value of this type; it is dropped only here.
        let run = || crate::thread::while_dropping(shared, || unsafe { glue(cell) });
        if let Err(value) = catch_unwind(AssertUnwindSafe(run)) {
            // Relaxed: a counter. The panic's message has been printed by the panic hook.
            shared.reaper_panics.fetch_add(1, Relaxed);
            // What was thrown may have a destructor that panics too: leaking it keeps the reaper alive.
            std::mem::forget(value);
        }
        shared.reaped.fetch_add(1, Relaxed);
    }
}

/// Drops everything that is left in a heap that nobody uses any more.
///
/// # Safety
/// No mutator is or will be inside the heap, and the collector's thread has ended.
pub(crate) unsafe fn teardown(shared: &Shared) {
    // SAFETY: by this function's contract nobody reaches any object; each cell is visited once, and cells reserved
    // by nobody's cursor have zero headers in regions with drop glue.
    shared.space.for_each_with_drop_glue(|cell| unsafe { drop_object(shared, cell.as_ptr()) });
}
