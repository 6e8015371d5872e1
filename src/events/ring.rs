//! The ring that events go through: one thread puts in, one takes out, and neither ever waits. What finds it full is lost,
//! and counted.
//!
//! # Who may touch what
//! Both ends count what they have done; a count is written by its end alone. The place of number `n` is the consumer's while
//! `read <= n < written`, and the producer's otherwise (INV-EVENT-OWNER). Each end keeps the other's count as last seen, and
//! looks again only when it can go no further.
//!
//! # Ordering
//! A count releases what its end did to the places before, and the other end acquires it.

use crate::sync::{
    Arc, AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    UnsafeCell,
};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;

#[derive(Debug)]
struct Ring<T> {
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// How many the producer has put in.
    written: CachePadded<AtomicU64>,
    /// How many the consumer has taken out.
    read: CachePadded<AtomicU64>,
    /// How many found no room.
    lost: AtomicU64,
    /// One end is gone; the other one asks.
    gone: AtomicBool,
}

// SAFETY: a place is touched by one end at a time (INV-EVENT-OWNER), and values move between threads: T is Send.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.places.len() { 0 } else { at + 1 }
    }
}

/// The end that puts in.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Arc<Ring<T>>,
    written: u64,
    /// The consumer's count as last seen.
    read: u64,
    /// The place of number `written`.
    at: usize,
}

/// The end that takes out.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    read: u64,
    /// The producer's count as last seen.
    written: u64,
    /// The place of number `read`.
    at: usize,
}

/// A ring for `capacity` values (at least one), allocated now.
pub(crate) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let ring = Arc::new(Ring {
        places: (0..capacity.max(1)).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        written: CachePadded::new(AtomicU64::new(0)),
        read: CachePadded::new(AtomicU64::new(0)),
        lost: AtomicU64::new(0),
        gone: AtomicBool::new(false),
    });
    let producer = Producer { ring: Arc::clone(&ring), written: 0, read: 0, at: 0 };
    (producer, Consumer { ring, read: 0, written: 0, at: 0 })
}

impl<T> Producer<T> {
    /// Puts a value in, or gives it back if there is no room. Wait-free: one load at most, the move, one store.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let capacity = self.ring.places.len() as u64;
        if self.written - self.read == capacity {
            // Acquire: pairs with the Release in `pop`; places that are free have been emptied.
            self.read = self.ring.read.load(Acquire);
            if self.written - self.read == capacity {
                return Err(value);
            }
        }
        // SAFETY: number `written` is this end's, since it is less than `read + capacity` (INV-EVENT-OWNER); its place was
        // never filled, or emptied before `read` came to where it was seen.
        self.ring.places[self.at].with_mut(|p| unsafe { (*p).write(value) });
        self.at = self.ring.after(self.at);
        self.written += 1;
        // Release: pairs with the Acquire in `pop`.
        self.ring.written.store(self.written, Release);
        Ok(())
    }

    /// Puts a value in, or counts it as lost. Wait-free.
    pub(crate) fn offer(&mut self, value: T) {
        if self.push(value).is_err() {
            // Relaxed: a counter.
            self.ring.lost.fetch_add(1, Relaxed);
        }
    }

    /// Whether the consumer is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        // Acquire: pairs with the Release in the other end's `drop`.
        self.ring.gone.load(Acquire)
    }
}

impl<T> Consumer<T> {
    /// Takes the oldest value out. Wait-free: one load at most, the move, one store.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.read == self.written {
            // Acquire: pairs with the Release in `push`; values that are there have been put in.
            self.written = self.ring.written.load(Acquire);
            if self.read == self.written {
                return None;
            }
        }
        // SAFETY: number `read` is this end's, since it is less than `written` (INV-EVENT-OWNER); its place was filled before
        // `written` came to where it was seen, and is emptied once, since `read` goes on.
        let value = self.ring.places[self.at].with_mut(|p| unsafe { (*p).assume_init_read() });
        self.at = self.ring.after(self.at);
        self.read += 1;
        // Release: pairs with the Acquire in `push`.
        self.ring.read.store(self.read, Release);
        Some(value)
    }

    /// Values that found no room so far.
    pub(crate) fn lost(&self) -> u64 {
        // Relaxed: a counter.
        self.ring.lost.load(Relaxed)
    }

    /// Whether the producer is gone and everything has been taken.
    pub(crate) fn has_ended(&self) -> bool {
        // In this order: what was put in before the producer went is seen to be there.
        // Acquire: pairs with the Release in the other end's `drop`.
        let gone = self.ring.gone.load(Acquire);
        // Relaxed: the load above has acquired the last count.
        gone && self.ring.written.load(Relaxed) == self.read
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        // Release: what was put in is there for who sees this; pairs with the Acquire in `has_ended`.
        self.ring.gone.store(true, Release);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `is_abandoned`.
        self.ring.gone.store(true, Release);
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Relaxed: both ends are gone, and the count of owners has ordered what they did before this.
        let (mut read, written) = (self.read.load(Relaxed), self.written.load(Relaxed));
        while read < written {
            let at = (read % self.places.len() as u64) as usize;
            // SAFETY: filled and not emptied (INV-EVENT-OWNER), and nobody else is left.
            drop(self.places[at].with_mut(|p| unsafe { (*p).assume_init_read() }));
            read += 1;
        }
    }
}
