//! A helper's seat: one word that says who has its queue.
//!
//! # State
//! ```text
//!             call           invite            enter
//!   Shut ────────▶ Called ────────▶ Open ◀──────────▶ In
//!     ▲ ▲              │             │      rest      │ ▲
//!     │ └── withdraw ──┴─────────────┘        dismiss ▼ │ invite
//!     └───────────────── leave ─────────────────── Leaving
//!   any ── end ──▶ Ended ── gone ──▶ Gone ── come ──▶ Shut
//! ```
//! *Shut*: the helper waits or sleeps. *Called*: it is to be awake, an invitation is about to come. *Open*: it may come in.
//! *In*: it works. *Leaving*: it works, and is to leave after its step. *Ended*: it is to end (one that was in has still
//! its step to finish). *Gone*: there is no helper.
//!
//! # Who may touch what
//! The queue is the helper's from `enter` to `rest`, `leave` or `gone`, the collector's when `withdraw` or `dismiss` says so,
//! until `invite`. Collector: `call`, `invite`, `withdraw`, `dismiss`, `end`, `come`. Helper: the rest. Either side takes O(1)
//! instructions: an exchange fails only because the other side has moved, which it can twice at most meanwhile.
//!
//! # Ordering
//! Every transition is a read-modify-write of one word: the one that gives the queue away releases, the one that takes it
//! acquires. A helper sets the bit *asleep* before it sleeps; whoever changes the word sees it, and wakes.

use crate::sync::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
    UnsafeCell, futex_wait, futex_wake, spin_loop,
};
use crossbeam_utils::CachePadded;

const SHUT: u32 = 0;
const CALLED: u32 = 1;
const OPEN: u32 = 2;
const IN: u32 = 3;
const LEAVING: u32 = 4;
const ENDED: u32 = 5;
const GONE: u32 = 6;
const STATE: u32 = 7;
const ASLEEP: u32 = 8;

/// A helper's seat and its queue.
#[derive(Debug)]
pub(crate) struct Seat<Q> {
    word: CachePadded<AtomicU32>,
    queue: UnsafeCell<Q>,
}

// SAFETY: the queue is one thread's at a time, and passes on by the word (see the module's documentation).
unsafe impl<Q: Send> Sync for Seat<Q> {}

/// How a helper stands after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It goes on.
    In,
    /// It is to leave.
    Leaving,
    /// It is to end.
    Ended,
}

impl<Q> Seat<Q> {
    /// A seat without a helper.
    pub(crate) fn new(queue: Q) -> Seat<Q> {
        Seat { word: CachePadded::new(AtomicU32::new(GONE)), queue: UnsafeCell::new(queue) }
    }

    /// Changes the word as `to` says; returns the state before, and wakes a sleeper if it was changed.
    fn change(&self, to: impl Fn(u32) -> Option<u32>) -> u32 {
        // Acquire, and AcqRel below: each pairs with the AcqRel of the other side's exchange; the queue passes on by them, in
        // both directions.
        let mut w = self.word.load(Acquire);
        loop {
            let Some(next) = to(w) else { return w & STATE };
            match self.word.compare_exchange_weak(w, next, AcqRel, Acquire) {
                Ok(_) => {
                    if w & ASLEEP != 0 {
                        futex_wake(&self.word, 1);
                    }
                    return w & STATE;
                }
                Err(x) => w = x,
            }
        }
    }

    // ---- the collector --------------------------------------------------------------------------------------

    /// There is a helper from now on.
    pub(crate) fn come(&self) {
        self.change(|w| (w & STATE == GONE).then_some(SHUT));
    }

    /// Wakes the helper for an invitation that is about to come.
    pub(crate) fn call(&self) {
        self.change(|w| (w & STATE == SHUT).then_some(CALLED));
    }

    /// Lets the helper in. True if there is one that is in or may come in.
    pub(crate) fn invite(&self) -> bool {
        let before = self.change(|w| match w & STATE {
            SHUT | CALLED => Some(OPEN),
            // One that has given up looking out for work.
            OPEN if w & ASLEEP != 0 => Some(OPEN),
            LEAVING => Some(IN),
            _ => None,
        });
        before <= LEAVING
    }

    /// Takes the invitation back. Whether the helper is out, so that the queue is the collector's until the next one.
    pub(crate) fn withdraw(&self) -> bool {
        let before = self.change(|w| matches!(w & STATE, CALLED | OPEN).then_some(SHUT));
        !matches!(before, IN | LEAVING | ENDED)
    }

    /// The same, and asks a helper that is in to leave after its step.
    pub(crate) fn dismiss(&self) -> bool {
        let before = self.change(|w| match w & STATE {
            CALLED | OPEN => Some(SHUT),
            IN => Some(LEAVING),
            _ => None,
        });
        !matches!(before, IN | LEAVING | ENDED)
    }

    /// Whether the helper is in: a hint.
    #[inline]
    pub(crate) fn is_in(&self) -> bool {
        // Relaxed: a hint; `withdraw` is what counts.
        matches!(self.word.load(Relaxed) & STATE, IN | LEAVING)
    }

    /// Sleeps while the word stays as it is, until `until_ns` of the monotonic clock. (A helper wakes nobody when it comes out: the
    /// time is what ends this.)
    pub(crate) fn await_move(&self, until_ns: u64) {
        // Relaxed: a hint.
        futex_wait(&self.word, self.word.load(Relaxed), Some(until_ns));
    }

    /// Asks the helper to end.
    pub(crate) fn end(&self) {
        self.change(|w| (w & STATE != GONE).then_some(ENDED));
    }

    /// Waits until the helper has ended. Not in a quantum.
    pub(crate) fn await_gone(&self) {
        loop {
            // Acquire: pairs with the helper's last exchange.
            let w = self.word.load(Acquire);
            if w & STATE == GONE {
                return;
            }
            futex_wait(&self.word, w, None);
        }
    }

    /// What `f` does with the queue.
    ///
    /// # Safety
    /// The caller has the queue: see the module's documentation.
    pub(crate) unsafe fn with<R>(&self, f: impl FnOnce(&mut Q) -> R) -> R {
        // SAFETY: by this function's contract.
        self.queue.with_mut(|q| f(unsafe { &mut *q }))
    }

    // ---- the helper -----------------------------------------------------------------------------------------

    /// Comes in if invited: the queue is the helper's then.
    pub(crate) fn enter(&self) -> bool {
        self.change(|w| (w & STATE == OPEN).then_some(IN)) == OPEN
    }

    /// Whether the seat is open: worth looking out for work.
    pub(crate) fn is_open(&self) -> bool {
        // Relaxed: a hint; `enter` is what counts.
        self.word.load(Relaxed) & STATE == OPEN
    }

    /// How the helper stands after a step. One load.
    pub(crate) fn standing(&self) -> Standing {
        // Relaxed: what follows from it is decided by an exchange.
        match self.word.load(Relaxed) & STATE {
            LEAVING => Standing::Leaving,
            ENDED => Standing::Ended,
            _ => Standing::In,
        }
    }

    /// Gives the queue back, empty: the helper may come in again. False if it is to leave or to end instead.
    pub(crate) fn rest(&self) -> bool {
        self.change(|w| (w & STATE == IN).then_some(OPEN)) == IN
    }

    /// Leaves with what is left in the queue. False if it is to stay after all, or to end.
    pub(crate) fn leave(&self) -> bool {
        self.change(|w| (w & STATE == LEAVING).then_some(SHUT)) == LEAVING
    }

    /// The helper is no more, whatever the state was.
    pub(crate) fn gone(&self) {
        self.change(|_| Some(GONE));
        // The one who waits for it sleeps on the same word.
        futex_wake(&self.word, u32::MAX);
    }

    /// Waits until invited or told to end; looks `spins` times before it sleeps. Whether to go on.
    pub(crate) fn wait(&self, spins: u32) -> bool {
        let mut left = spins;
        loop {
            // Acquire: pairs with the exchanges of `invite` and `end`.
            let w = self.word.load(Acquire);
            match w & STATE {
                OPEN => return true,
                ENDED => return false,
                CALLED if left > 0 => {
                    left -= 1;
                    spin_loop();
                    continue;
                }
                _ => {}
            }
            // AcqRel: announces the sleep, pairs with the exchange in `change`. Relaxed: a failed one has only seen that the
            // word has moved.
            if w & ASLEEP != 0 || self.word.compare_exchange(w, w | ASLEEP, AcqRel, Relaxed).is_ok() {
                futex_wait(&self.word, w | ASLEEP, None);
            }
        }
    }

    /// Sleeps while the seat stays open and nobody invites anew.
    pub(crate) fn idle(&self) {
        // Acquire: as in `wait`.
        let w = self.word.load(Acquire);
        // AcqRel, Relaxed: as in `wait`.
        if w == OPEN && self.word.compare_exchange(w, w | ASLEEP, AcqRel, Relaxed).is_ok() {
            futex_wait(&self.word, w | ASLEEP, None);
        }
    }
}
