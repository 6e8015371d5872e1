//! A condition variable whose waiting is native.

use super::mutex::MutexGuard;
use crate::mutator::Mutator;
use std::time::{Duration, Instant};

/// Lets threads wait, with a [`Mutex`](super::Mutex) unlocked meanwhile, until another one notifies them.
///
/// Unlocking and beginning to wait are one step: a notification by a thread that holds the mutex is never lost. A wait
/// always leaves the running state, so it is a safepoint. Use it with one mutex at a time.
///
/// Waits may end without a notification: look at the condition again, or use the `…_while` forms.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
}

/// Whether a wait with a limit ended because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was over.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar { inner: parking_lot::Condvar::new() }
    }

    /// Unlocks, waits as native for a notification, locks again.
    ///
    /// # Panics
    /// If another thread waits with another mutex at the same time. The guard is dropped then, and the mutator runs.
    pub fn wait<'a, T: ?Sized>(&self, m: &mut Mutator<'_>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        m.blocking(|| self.wait_outside(guard))
    }

    /// As [`wait`](Condvar::wait), for at most `limit`; locking again may take longer.
    ///
    /// # Panics
    /// As `wait`.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        m: &mut Mutator<'_>,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        m.blocking(|| self.wait_outside_timeout(guard, limit))
    }

    /// Waits as long as `condition` says so. It is asked with the mutex locked and the mutator running, first before any
    /// wait; if it says no at once, this is no safepoint.
    ///
    /// # Panics
    /// As [`wait`](Condvar::wait), and if `condition` does: the mutex is unlocked then.
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        m: &mut Mutator<'_>,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(m, guard);
        }
        guard
    }

    /// As [`wait_while`](Condvar::wait_while), for at most `limit`. Timed out means that the condition still holds.
    ///
    /// # Panics
    /// As `wait_while`.
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        m: &mut Mutator<'_>,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        // A limit beyond the clock's range is none.
        let deadline = Instant::now().checked_add(limit);
        while condition(&mut guard) {
            let left = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return (guard, WaitTimeoutResult(true));
            }
            (guard, _) = self.wait_timeout(m, guard, left);
        }
        (guard, WaitTimeoutResult(false))
    }

    /// As [`wait`](Condvar::wait), on a thread outside the heap.
    ///
    /// # Panics
    /// As `wait`.
    pub fn wait_outside<'a, T: ?Sized>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.inner.wait(&mut guard.inner);
        guard
    }

    /// As [`wait_timeout`](Condvar::wait_timeout), on a thread outside the heap.
    ///
    /// # Panics
    /// As `wait`.
    pub fn wait_outside_timeout<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let result = self.inner.wait_for(&mut guard.inner, limit);
        (guard, WaitTimeoutResult(result.timed_out()))
    }

    /// As [`wait_while`](Condvar::wait_while), on a thread outside the heap.
    ///
    /// # Panics
    /// As `wait_while`.
    pub fn wait_outside_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait_outside(guard);
        }
        guard
    }

    /// Wakes one waiting thread, if there is one. Any thread; one load if nobody waits, else a system call.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all waiting threads. Any thread; one load if nobody waits.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}
