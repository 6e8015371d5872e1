//! The ring under both queues: one producer, one consumer, each of whose steps is wait-free.
//!
//! # State
//! `capacity + 1` elements in a circle, each with a state:
//! ```text
//! producer:  FREE ──push──▶ FULL          FULL ──replace──▶ BUSY ──▶ FULL (with another value)
//! consumer:  FULL ──pop──▶ BUSY ──▶ FREE
//! ```
//! The two positions belong to the ends, by value; so nothing but the states is shared. The ring is full when the
//! element *after* the producer's is not free.
//!
//! # Who may touch what
//! An element's value: the producer while FREE at its own position; whoever made it BUSY, until the next state
//! (INV-RING-OWNER).
//!
//! # Ordering
//! The consumer frees an element before it claims the next one (INV-RING-ORDER), and each change of a state releases
//! what its acquirer needs: FULL the value, FREE the emptiness, BUSY all earlier FREEs. So a producer that sees an
//! element claimed or freed may fill every earlier one.
//!
//! Sleeping is the affair of the blocking end. *Either* the wait-free end's fence comes first, and the sleeper's try
//! sees its step; *or* the sleeper's comes first, and the wait-free end sees the sleeper and wakes it.

use crate::sync::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    SlowMutex, UnsafeCell, fence, futex_wait, futex_wake,
};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;
use std::sync::PoisonError;

/// Holds nothing.
const FREE: u32 = 0;
/// Holds a value.
const FULL: u32 = 1;
/// Holds a value that one end is moving out or replacing.
const BUSY: u32 = 2;

/// The writing end is gone.
pub(crate) const WRITER_GONE: u32 = 1;
/// The reading end is gone.
pub(crate) const READER_GONE: u32 = 2;

/// One place of the ring.
pub(crate) struct Element<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is touched by one thread at a time (INV-RING-OWNER), and moves between threads: T is Send.
unsafe impl<T: Send> Sync for Element<T> {}

impl<T> Element<T> {
    /// A free element.
    pub(crate) fn new() -> Element<T> {
        Element { state: AtomicU32::new(FREE), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Makes a full element this end's, if it is full.
    fn claim(&self) -> bool {
        // AcqRel: acquires the value (pairs with the Release in `fill`) and releases the earlier FREEs to a producer
        // that fails here; Acquire on failure: that failure, which sees a BUSY or FREE of the consumer's.
        self.state.compare_exchange(FULL, BUSY, AcqRel, Acquire).is_ok()
    }

    /// Moves the value in. By the element's owner.
    fn fill(&self, value: T) {
        // SAFETY: by this function's contract nobody else touches the value (INV-RING-OWNER); what was there has been
        // moved out.
        self.value.with_mut(|p| unsafe { (*p).write(value) });
        // Release: pairs with the Acquire in `claim`.
        self.state.store(FULL, Release);
    }

    /// Moves the value out.
    ///
    /// # Safety
    /// The caller's `claim` was successful, and neither `fill` nor `free` nor this has been called since.
    unsafe fn take(&self) -> T {
        // SAFETY: a FULL element holds a value, and by this function's contract it is moved out once.
        self.value.with_mut(|p| unsafe { (*p).assume_init_read() })
    }

    /// Ends a claim whose value was moved out.
    fn free(&self) {
        // Release: pairs with the Acquires in `push` and in a failed `claim`.
        self.state.store(FREE, Release);
    }
}

/// What both ends share.
pub(crate) struct Ring<T: 'static> {
    elements: &'static [Element<T>],
    /// Ends that are gone.
    gone: AtomicU32,
    /// Changes with each step of the wait-free end; threads of the blocking end sleep on it.
    signal: CachePadded<AtomicU32>,
    /// Threads of the blocking end that sleep or are about to.
    sleepers: CachePadded<AtomicU32>,
}

/// The end that fills. One per ring.
pub(crate) struct Producer<T: 'static> {
    ring: &'static Ring<T>,
    at: usize,
}

/// The end that empties. One per ring.
pub(crate) struct Consumer<T: 'static> {
    ring: &'static Ring<T>,
    at: usize,
}

impl<T> Ring<T> {
    /// A ring that holds one value less than there are elements, which are at least two and all free.
    pub(crate) fn new(elements: &'static mut [Element<T>]) -> Ring<T> {
        assert!(elements.len() >= 2, "a ring has an element more than it can hold");
        Ring {
            elements,
            gone: AtomicU32::new(0),
            signal: CachePadded::new(AtomicU32::new(0)),
            sleepers: CachePadded::new(AtomicU32::new(0)),
        }
    }

    /// Its two ends. The ring is borrowed mutably for ever, so there are no others.
    pub(crate) fn split(ring: &'static mut Ring<T>) -> (Producer<T>, Consumer<T>) {
        let ring: &'static Ring<T> = ring;
        (Producer { ring, at: 0 }, Consumer { ring, at: 0 })
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.elements.len() { 0 } else { at + 1 }
    }

    fn before(&self, at: usize) -> usize {
        if at == 0 { self.elements.len() - 1 } else { at - 1 }
    }

    /// Most values that it can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.elements.len() - 1
    }

    /// Whether the end `which` is gone.
    pub(crate) fn is_gone(&self, which: u32) -> bool {
        // Acquire: pairs with the AcqRel in `leave`; that end's last step is seen by whoever sees it gone.
        self.gone.load(Acquire) & which != 0
    }

    /// Notes that the end `which` is gone. Returns whether the other one was gone before.
    pub(crate) fn leave(&self, which: u32) -> bool {
        // AcqRel: publishes this end's last step, and sees the other's; pairs with `is_gone` and with the other `leave`.
        let before = self.gone.fetch_or(which, AcqRel);
        // SeqCst: between this and what the caller looks at next; pairs with the fence in `notify`.
        fence(SeqCst);
        before != 0
    }

    /// Tells up to `count` sleepers of a step. The wait-free end. At most one system call.
    pub(crate) fn notify(&self, count: u32) {
        // Relaxed: nobody else writes it.
        let step = self.signal.load(Relaxed).wrapping_add(1);
        // Release: the step is seen by a sleeper that sees the signal; pairs with the Acquire in `wait`.
        self.signal.store(step, Release);
        // SeqCst: the step comes before the look for sleepers (and for the other end's being gone); pairs with the
        // fences in `wait` and `leave`.
        fence(SeqCst);
        // Relaxed: see the fence.
        if self.sleepers.load(Relaxed) > 0 {
            futex_wake(&self.signal, count);
        }
    }

    /// Tries until there is an answer, sleeping in between until the wait-free end has done a step. `None` if there is
    /// none at `deadline_ns` (`now` reads that clock). A thread of the blocking end.
    pub(crate) fn wait<R>(
        &self,
        deadline_ns: Option<u64>,
        now: impl Fn() -> u64,
        mut attempt: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        struct Awake<'a>(&'a AtomicU32);
        impl Drop for Awake<'_> {
            fn drop(&mut self) {
                // Relaxed: too late costs a needless wake-up.
                self.0.fetch_sub(1, Relaxed);
            }
        }
        // Relaxed: see the fence.
        self.sleepers.fetch_add(1, Relaxed);
        let _awake = Awake(&self.sleepers);
        // SeqCst: the sleeper is to be seen before the try looks; pairs with the fence in `notify`.
        fence(SeqCst);
        loop {
            // Acquire: pairs with the Release in `notify`.
            let seen = self.signal.load(Acquire);
            // Also after the last wake-up, which may have been meant for this thread and no other.
            if let Some(answer) = attempt() {
                return Some(answer);
            }
            if deadline_ns.is_some_and(|d| now() >= d) {
                return None;
            }
            futex_wait(&self.signal, seen, deadline_ns);
        }
    }

    /// Drops all values that are left, in no particular order.
    ///
    /// # Safety
    /// Both ends are gone, as `leave` has told this thread.
    pub(crate) unsafe fn drain(&self) {
        for e in self.elements {
            if e.claim() {
                // SAFETY: claimed in this line's condition.
                let value = unsafe { e.take() };
                e.free();
                drop(value);
            }
        }
    }
}

impl<T> Producer<T> {
    pub(crate) fn ring(&self) -> &'static Ring<T> {
        self.ring
    }

    /// Whether there is no room now.
    pub(crate) fn is_full(&self) -> bool {
        // Acquire: pairs with the Release in `free`.
        self.ring.elements[self.ring.after(self.at)].state.load(Acquire) != FREE
    }

    /// Puts a value in; gives it back if the ring is full. One load, the move, one store.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        if self.is_full() {
            return Err(value);
        }
        // The element after this one is free. If it was used before, this one was freed before it (INV-RING-ORDER);
        // if not, neither was this one, or it was freed a lap ago.
        self.fill(value);
        Ok(())
    }

    /// Fills the element at this end's position, which is free.
    fn fill(&mut self, value: T) {
        self.ring.elements[self.at].fill(value);
        self.at = self.ring.after(self.at);
    }

    /// Puts a value in; if the ring is full, in the place of the value put in last, which is returned. At most one
    /// exchange more than `push`.
    pub(crate) fn force(&mut self, value: T) -> Option<T> {
        let Err(value) = self.push(value) else { return None };
        // Full, so there is a last value.
        let last = &self.ring.elements[self.ring.before(self.at)];
        if last.claim() {
            // SAFETY: claimed by the condition.
            let old = unsafe { last.take() };
            last.fill(value);
            return Some(old);
        }
        // The consumer has claimed it meanwhile; so all earlier ones are free, among them this end's own: with two
        // elements or more it is not `last` (INV-RING-ORDER; the failed claim has acquired it).
        self.fill(value);
        None
    }

    /// Takes the value put in last out again, unless the consumer has claimed it.
    pub(crate) fn take_back(&mut self) -> Option<T> {
        let at = self.ring.before(self.at);
        let last = &self.ring.elements[at];
        if !last.claim() {
            return None;
        }
        // SAFETY: claimed above.
        let value = unsafe { last.take() };
        last.free();
        self.at = at;
        Some(value)
    }
}

impl<T> Consumer<T> {
    pub(crate) fn ring(&self) -> &'static Ring<T> {
        self.ring
    }

    /// Whether there is nothing to take now.
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a hint; `pop` looks again.
        self.ring.elements[self.at].state.load(Relaxed) != FULL
    }

    /// Takes the oldest value out. One exchange, the move, one store.
    ///
    /// `None` also while the producer is replacing the only value.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let e = &self.ring.elements[self.at];
        if !e.claim() {
            return None;
        }
        // SAFETY: claimed above.
        let value = unsafe { e.take() };
        // Before the next claim (INV-RING-ORDER): the consumer is `&mut`, or behind a lock.
        e.free();
        self.at = self.ring.after(self.at);
        Some(value)
    }
}

/// Runs `f` on what the lock holds. Nothing here panics while it holds one, so a poisoned lock means nothing.
pub(crate) fn locked<T, R>(lock: &SlowMutex<T>, f: impl FnOnce(&mut T) -> R) -> R {
    f(&mut lock.lock().unwrap_or_else(PoisonError::into_inner))
}
