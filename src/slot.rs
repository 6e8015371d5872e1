//! The word of a slot: loads, stores and exchanges, with the barrier around them.
//!
//! # Who may touch what
//! Any running mutator may read and write a slot, several at once; the collector reads it while they are stopped. There is
//! no pause point in any of these functions (rule 10 of the barrier), so the collector sees a write and its shading
//! together.
//!
//! # Ordering
//! A write releases and `load` acquires, so that whoever gets a reference sees the object complete. Exactly the value that
//! a write removes is shaded (rule 1): it comes from the read-modify-write that removes it. With a load and a store in its
//! place, two threads that write one slot would shade one value twice and lose another (`tests/loom_slot.rs`).

use crate::sync::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The mutator that writes: what the phase asks of it.
pub(crate) trait Barrier {
    /// Whether anything is to be shaded now.
    fn armed(&self) -> bool;
    /// Shades a value that is written, if the phase asks for it.
    fn shade_new(&self, cell: *mut u8);
    /// Shades a value that was removed, if the phase asks for it.
    fn shade_overwritten(&self, cell: *mut u8);
}

/// The address of an object's cell, or null.
#[repr(transparent)]
pub(crate) struct SlotWord(AtomicPtr<u8>);

impl SlotWord {
    #[inline(always)]
    pub(crate) fn new(cell: *mut u8) -> SlotWord {
        SlotWord(AtomicPtr::new(cell))
    }

    /// For the collector while stopped, for comparisons with null, and for show.
    #[inline(always)]
    pub(crate) fn peek(&self) -> *mut u8 {
        // Relaxed: the stop orders the mutators' stores; nothing else is read through the value.
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> *mut u8 {
        // Acquire: pairs with the Release of the store that published the object.
        self.0.load(Acquire)
    }

    #[inline(always)]
    pub(crate) fn store(&self, barrier: &impl Barrier, new: *mut u8) {
        if barrier.armed() {
            return self.store_slow(barrier, new);
        }
        // Release: publishes the object; pairs with the Acquire in `load`.
        self.0.store(new, Release);
    }

    #[cold]
    #[inline(never)]
    fn store_slow(&self, barrier: &impl Barrier, new: *mut u8) {
        barrier.shade_new(new);
        // AcqRel: publishes the new object, pairs with the Acquire in `load`; the removed one may be scanned by way of
        // this thread's log, so its Release is acquired here.
        let old = self.0.swap(new, AcqRel);
        barrier.shade_overwritten(old);
    }

    /// The value that was there.
    #[inline(always)]
    pub(crate) fn swap(&self, barrier: &impl Barrier, new: *mut u8) -> *mut u8 {
        let armed = barrier.armed();
        if armed {
            barrier.shade_new(new);
        }
        // AcqRel: pairs with the Acquire and Release of `load` and `store`, as in `store_slow`.
        let old = self.0.swap(new, AcqRel);
        if armed {
            barrier.shade_overwritten(old);
        }
        old
    }

    /// The value that was there: `current`, or the one that kept `new` from being stored.
    #[inline(always)]
    pub(crate) fn compare_exchange(
        &self,
        barrier: &impl Barrier,
        current: *mut u8,
        new: *mut u8,
    ) -> Result<*mut u8, *mut u8> {
        let armed = barrier.armed();
        if armed {
            barrier.shade_new(new);
        }
        // AcqRel: pairs with the Acquire and Release of `load` and `store`, as in `store_slow`.
        // Acquire, on failure: pairs with the Release of the store that published what was found, as in `load`.
        let out = self.0.compare_exchange(current, new, AcqRel, Acquire);
        if armed && let Ok(old) = out {
            barrier.shade_overwritten(old);
        }
        out
    }
}
