//! Notices of death: a callback or a message when an object cannot come back any more (Java: phantom references).
//!
//! # State
//! An entry refers to its object until the collector finds it dead, in the phase Phantom; then it is in the list of
//! the dead until the finalizer thread has taken it and run its callback. The callback never sees the object.
//!
//! An entry has two owners, the finalizer thread and the handle that may cancel it, and is filled anew when both are done.
//!
//! # Who may touch what
//! The callback is taken out of its entry by one exchange: by the finalizer thread, or by whoever cancels.

use crate::gc::Gc;
use crate::handle::arc_of;
use crate::mutator::Mutator;
use crate::shared::Shared;
use crate::table::Table;
use crate::trace::Trace;
use metronome_arraylet::IndexStack;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

type Callback = Box<dyn FnOnce() + Send>;

/// What an entry holds besides its object.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    callback: AtomicPtr<Callback>,
    link: AtomicU32,
}

impl Drop for Notice {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl Notice {
    fn take(&self) -> Option<Callback> {
        // Acquire: pairs with the Release that put it in (or the table's own publication).
        let p = self.callback.swap(std::ptr::null_mut(), Acquire);
        // SAFETY: non-null pointers come from `Box::into_raw`, and the exchange takes each out once.
        (!p.is_null()).then(|| *unsafe { Box::from_raw(p) })
    }
}

/// Entries, and those whose objects are dead.
#[derive(Debug)]
pub(crate) struct Deaths {
    table: Table<Notice>,
    dead: IndexStack,
    pub(crate) noted: AtomicU64,
    pub(crate) panicked: AtomicU64,
}

impl Deaths {
    pub(crate) const fn new() -> Deaths {
        Deaths {
            table: Table::new(),
            dead: IndexStack::new(),
            noted: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.table.len()
    }

    /// The object of an entry, for the verifier.
    #[cfg(feature = "verify")]
    pub(crate) fn object(&self, i: u32) -> *mut u8 {
        self.table.get(i)
    }

    /// Checks table and list: what is in the list is there once and refers to nothing. While no mutator runs.
    ///
    /// # Errors
    /// What is wrong.
    #[cfg(feature = "verify")]
    pub(crate) fn verify(&self) -> Result<(), String> {
        self.table.verify()?;
        let dead = crate::table::walk(&self.dead, self.len(), |i| &self.table.extra(i).link)?;
        match dead.iter().find(|&&i| !self.table.get(i).is_null()) {
            Some(i) => Err(format!("entry {i} is in the list of the dead and refers to an object")),
            None => Ok(()),
        }
    }

    /// Notes the death of an entry's object, if it is dead. Marks are complete. The collector, stopped.
    pub(crate) fn examine(&self, i: u32, s: &Shared) -> bool {
        let cell = self.table.get(i);
        if cell.is_null() || s.space.is_marked(cell) {
            return false;
        }
        self.table.clear(i);
        self.dead.push(i, |i| &self.table.extra(i).link);
        // Relaxed: a counter.
        self.noted.fetch_add(1, Relaxed);
        true
    }
}

impl Deaths {
    /// Drops the callbacks that will never run: they may own handles, which would keep the heap's memory for ever. Nobody
    /// is or will be inside the heap.
    pub(crate) fn abandon(&self) {
        for i in 0..self.table.len() {
            let callback = self.table.extra(i).take();
            // Foreign code.
            if let Err(value) = catch_unwind(AssertUnwindSafe(|| drop(callback))) {
                // Relaxed: a counter.
                self.panicked.fetch_add(1, Relaxed);
                std::mem::forget(value);
            }
        }
    }
}

/// Runs the callbacks of the dead. The finalizer thread, outside the heap.
pub(crate) fn run(shared: &Shared) {
    let d = &shared.deaths;
    let mut dead = Vec::new();
    while let Some(i) = d.dead.pop(|i| &d.table.extra(i).link) {
        dead.push(i);
    }
    for i in dead.into_iter().rev() {
        // Relaxed: written before the wake-up that ends this thread's sleep; the rest is dropped at the heap's end.
        if shared.shutdown.load(Relaxed) {
            return;
        }
        let callback = d.table.extra(i).take();
        d.table.release(i);
        // A callback that was cancelled in the meantime is gone.
        if let Some(callback) = callback
            && let Err(value) = catch_unwind(AssertUnwindSafe(callback))
        {
            // Relaxed: a counter.
            d.panicked.fetch_add(1, Relaxed);
            std::mem::forget(value);
        }
    }
}

/// A registered callback, which may be cancelled. Dropping this changes nothing: the callback stays registered.
#[must_use = "without it the callback cannot be cancelled; drop it explicitly if that is meant"]
pub struct DeathNotice {
    shared: Arc<Shared>,
    /// Owned together with the finalizer thread, so that it is not filled anew while this handle is about.
    index: u32,
}

impl DeathNotice {
    /// Cancels the callback and drops it, here. False if it has run or is running.
    pub fn cancel(self) -> bool {
        self.shared.deaths.table.extra(self.index).take().is_some()
    }
}

impl Drop for DeathNotice {
    fn drop(&mut self) {
        self.shared.deaths.table.release(self.index);
    }
}

impl fmt::Debug for DeathNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeathNotice({})", self.index)
    }
}

impl Mutator<'_> {
    /// Runs `callback` when `object` is dead for good, after any finalizer has run and cannot have brought it back. It
    /// runs once, on the heap's finalizer thread, outside the heap (it may enter it), and must not wait for long; a panic
    /// is caught and counted. It does not run if the heap is closed before, but is dropped then. One that owns a
    /// [`Heap`](crate::Heap) keeps it open until it has run or been cancelled.
    ///
    /// Cost: a table entry and two boxes.
    pub fn on_death<T: Trace>(
        &self,
        object: Gc<'_, T>,
        callback: impl FnOnce() + Send + 'static,
    ) -> DeathNotice {
        // SAFETY: a mutator's heap is alive and in an `Arc`.
        let shared = unsafe { arc_of(self.shared) };
        let boxed: Box<Callback> = Box::new(Box::new(callback));
        let index = shared.deaths.table.insert_with(object.cell_ptr(), |e| {
            // Release: pairs with the Acquire of whoever takes it.
            e.callback.store(Box::into_raw(boxed), Release);
        });
        shared.deaths.table.retain(index);
        DeathNotice { shared, index }
    }
}
