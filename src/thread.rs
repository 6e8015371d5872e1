//! Which heap the current thread is inside, and its attachments.
//!
//! # State
//! `CURRENT` is the record that this thread runs as, if any: one at a time across all heaps (INV-ONE-TOKEN).
//! `ATTACHMENTS` keeps one record per heap that the thread has entered, until the thread ends; it holds heaps'
//! memory alive, not their collectors. `NO_HEAP` threads never have either.

use crate::error::EnterError;
use crate::shared::{Record, Shared};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

struct Attachment {
    shared: Arc<Shared>,
    record: NonNull<Record>,
    /// Inside this heap now (running, or in `blocking`).
    entered: bool,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: records live as long as their `Shared`, which this attachment holds.
        self.shared.detach(unsafe { self.record.as_ref() });
    }
}

thread_local! {
    /// The heap whose drop glue this thread runs; 0 is none.
    static DROPPING: Cell<u64> = const { Cell::new(0) };
    static SERVICE: Cell<bool> = const { Cell::new(false) };
    static NO_HEAP: Cell<bool> = const { Cell::new(false) };
    static CURRENT: Cell<Option<NonNull<Record>>> = const { Cell::new(None) };
    static ATTACHMENTS: RefCell<Vec<Attachment>> = const { RefCell::new(Vec::new()) };
}

/// Runs drop glue of an object of `shared`, which keeps this thread out of that heap meanwhile: the reaper must never wait
/// for memory that it alone can free.
pub(crate) fn while_dropping<R>(shared: &Shared, f: impl FnOnce() -> R) -> R {
    struct Back(u64);
    impl Drop for Back {
        fn drop(&mut self) {
            DROPPING.set(self.0);
        }
    }
    let _back = Back(DROPPING.replace(shared.id));
    f()
}

/// Marks this thread as one of a heap's own (reaper, writer): it never waits for another one to end.
pub(crate) fn set_service() {
    SERVICE.set(true);
}

/// Whether this is a heap's own thread.
pub(crate) fn is_service() -> bool {
    SERVICE.try_with(Cell::get).unwrap_or(false)
}

/// An attachment set aside for a thread that is about to be started.
pub(crate) struct Reserved {
    shared: Arc<Shared>,
    /// Of the record; `None` once a thread has it.
    index: Option<u32>,
}

impl Reserved {
    /// Whether a new thread can enter `shared` is decided here.
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Reserved, EnterError> {
        if shared.forked() {
            return Err(EnterError::Forked);
        }
        let max = shared.config.max_mutators;
        let record = shared.take_record().ok_or(EnterError::TooManyMutators { max })?;
        Ok(Reserved { shared: Arc::clone(shared), index: Some(record.index) })
    }

    /// The calling thread, which has never entered this heap, is the one that it was set aside for.
    pub(crate) fn adopt(mut self) {
        let Some(record) = self.index.take().and_then(|i| self.shared.record(i as usize)) else { return };
        self.shared.own(record);
        let record = NonNull::from(record);
        ATTACHMENTS.with_borrow_mut(|a| {
            a.push(Attachment { shared: Arc::clone(&self.shared), record, entered: false });
        });
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(record) = self.index.and_then(|i| self.shared.record(i as usize)) {
            self.shared.detach(record);
        }
    }
}

/// Marks this thread as a no-heap one, for as long as it lives: it never becomes a mutator (INV-NO-HEAP), and waits for
/// no other thread to end.
pub(crate) fn set_no_heap() {
    NO_HEAP.set(true);
}

/// Whether this is a no-heap thread.
pub(crate) fn is_no_heap() -> bool {
    // No drop glue, so it is there until the thread is gone.
    NO_HEAP.try_with(Cell::get).unwrap_or(false)
}

/// Marks this thread as inside `shared`; the record to run as.
pub(crate) fn enter(shared: &Arc<Shared>) -> Result<NonNull<Record>, EnterError> {
    if is_no_heap() {
        return Err(EnterError::NoHeapThread);
    }
    if DROPPING.get() == shared.id {
        return Err(EnterError::DropGlue);
    }
    if crate::fork::generation() != shared.fork_generation {
        return Err(EnterError::Forked);
    }
    if CURRENT.get().is_some() {
        return Err(EnterError::Nested);
    }
    // Attachments to closed heaps are of no use. They are dropped when the list is free again: with the last of a heap's
    // memory go things of the program, whose destructors may enter a heap.
    let mut closed = Vec::new();
    let entered = ATTACHMENTS
        .try_with(|a| {
            let mut a = a.borrow_mut();
            let found = match a.iter().position(|x| x.shared.id == shared.id) {
                Some(i) => i,
                None => {
                    // Relaxed: closed for good.
                    closed.extend(a.extract_if(.., |x| !x.entered && x.shared.shutdown.load(Relaxed)));
                    let max = shared.config.max_mutators;
                    let record = shared.attach().ok_or(EnterError::TooManyMutators { max })?;
                    let record = NonNull::from(record);
                    a.push(Attachment { shared: Arc::clone(shared), record, entered: false });
                    a.len() - 1
                }
            };
            let x = &mut a[found];
            if x.entered {
                return Err(EnterError::SameHeap);
            }
            x.entered = true;
            CURRENT.set(Some(x.record));
            Ok(x.record)
        })
        .unwrap_or(Err(EnterError::ThreadEnding));
    drop(closed);
    entered
}

/// Whether this thread is inside `shared`, running or in `blocking`.
pub(crate) fn is_inside(shared: &Shared) -> bool {
    ATTACHMENTS
        .try_with(|a| {
            a.try_borrow().map_or(true, |a| a.iter().any(|x| x.shared.id == shared.id && x.entered))
        })
        .unwrap_or(CURRENT.get().is_some())
}

/// The thread has left the heap of `record`.
pub(crate) fn leave(record: NonNull<Record>) {
    CURRENT.set(None);
    // If the thread's state is gone, so is the attachment.
    let _ = ATTACHMENTS.try_with(|a| {
        if let Some(x) = a.borrow_mut().iter_mut().find(|x| x.record == record) {
            x.entered = false;
        }
    });
}

/// The thread goes into `blocking`: it may enter another heap.
pub(crate) fn suspend(record: NonNull<Record>) {
    debug_assert_eq!(CURRENT.get(), Some(record));
    CURRENT.set(None);
}

/// The thread comes back from `blocking`.
pub(crate) fn resume(record: NonNull<Record>) {
    CURRENT.set(Some(record));
}
