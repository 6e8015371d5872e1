//! A mutual exclusion lock whose waiting is native.

use crate::mutator::Mutator;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A lock around a value, which mutators wait for without holding up the collector.
///
/// Belongs to no heap: threads inside different heaps, and outside all, can share one. Not fair by the operation, but a
/// waiter is preferred after half a millisecond. No poisoning; locking twice on one thread waits for ever.
///
/// ```
/// use metronome_gc::Heap;
/// use metronome_gc::rendezvous::Mutex;
///
/// let heap = Heap::builder().heap_bytes(4 << 20).build()?;
/// let total = Mutex::new(0);
/// std::thread::scope(|s| {
///     for _ in 0..2 {
///         s.spawn(|| heap.enter(|m| *total.lock(m) += 21));
///     }
/// });
/// assert_eq!(total.into_inner(), 42);
/// # Ok::<(), metronome_gc::BuildError>(())
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    inner: parking_lot::Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { inner: parking_lot::Mutex::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks. One compare-and-exchange if nobody holds the lock, and no safepoint then; else waits as native.
    pub fn lock(&self, m: &mut Mutator<'_>) -> MutexGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => m.blocking(|| self.lock_outside()),
        }
    }

    /// Locks if nobody holds the lock. One compare-and-exchange; any thread; no safepoint.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().map(|inner| MutexGuard { inner })
    }

    /// As [`lock`](Mutex::lock), for at most `limit`. `None` if the time is over. The wait for the end of a quantum that
    /// may follow the wait for the lock is not counted in.
    pub fn lock_timeout(&self, m: &mut Mutator<'_>, limit: Duration) -> Option<MutexGuard<'_, T>> {
        match self.try_lock() {
            Some(guard) => Some(guard),
            None => m.blocking(|| self.lock_outside_timeout(limit)),
        }
    }

    /// Locks on a thread outside the heap. See the [module](super) for what it does on a running mutator.
    pub fn lock_outside(&self) -> MutexGuard<'_, T> {
        MutexGuard { inner: self.inner.lock() }
    }

    /// As [`lock_outside`](Mutex::lock_outside), for at most `limit`.
    pub fn lock_outside_timeout(&self, limit: Duration) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock_for(limit).map(|inner| MutexGuard { inner })
    }

    /// The value, without locking: the exclusive borrow shows that nobody else has the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A locked [`Mutex`]: gives access to the value, and unlocks when dropped, also by a panic.
///
/// Does not borrow the mutator, so the holder allocates, polls and comes by safepoints as always: the lock stays locked
/// meanwhile. Stays on its thread. Forgotten, it leaves the mutex locked for ever; no stop depends on that.
#[must_use = "dropped at once, it unlocks at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) inner: parking_lot::MutexGuard<'a, T>,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
