//! Channels whose waiting is native. The queue is in `queue.rs`.

use super::queue::{Queue, SendTimeoutError, deadline};
use crate::mutator::Mutator;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::time::Duration;

/// A channel without a bound: sending never waits for room, and allocates as the queue grows.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    ends(None)
}

/// A channel for at most `capacity` values: sending waits as native while it is full. Its memory is allocated here (up
/// to 1 MiB; beyond, as it fills). With a capacity of 0 a sender waits until its value has been taken.
pub fn sync_channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    ends(Some(capacity))
}

fn ends<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue::new(capacity));
    (Sender { queue: Arc::clone(&queue) }, Receiver { queue })
}

/// The sending end of a [`channel`] or [`sync_channel`]. Clone it for several senders; several threads can share one.
pub struct Sender<T> {
    queue: Arc<Queue<T>>,
}

impl<T> Sender<T> {
    /// Sends a value; waits as native if the channel is full.
    ///
    /// # Errors
    /// [`SendError`] with the value if there is no receiver any more.
    pub fn send(&self, m: &mut Mutator<'_>, value: T) -> Result<(), SendError<T>> {
        self.queue.send_at_once(value).or_else(|e| match e {
            TrySendError::Full(value) => m.blocking(|| self.send_outside(value)),
            TrySendError::Disconnected(value) => Err(SendError(value)),
        })
    }

    /// As [`send`](Sender::send), for at most `limit`.
    ///
    /// # Errors
    /// [`SendTimeoutError`] with the value.
    pub fn send_timeout(
        &self,
        m: &mut Mutator<'_>,
        value: T,
        limit: Duration,
    ) -> Result<(), SendTimeoutError<T>> {
        self.queue.send_at_once(value).or_else(|e| match e {
            TrySendError::Full(value) => m.blocking(|| self.send_outside_timeout(value, limit)),
            TrySendError::Disconnected(value) => Err(SendTimeoutError::Disconnected(value)),
        })
    }

    /// Sends if there is room (with a capacity of 0: if a receiver waits). Any thread; no safepoint.
    ///
    /// # Errors
    /// [`TrySendError`] with the value if the channel is full, or has no receiver any more.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.queue.try_send(value)
    }

    /// As [`send`](Sender::send), on a thread outside the heap.
    ///
    /// # Errors
    /// As `send`.
    pub fn send_outside(&self, value: T) -> Result<(), SendError<T>> {
        self.queue.send(value, None).map_err(|e| match e {
            SendTimeoutError::Disconnected(v) | SendTimeoutError::Timeout(v) => SendError(v),
        })
    }

    /// As [`send_timeout`](Sender::send_timeout), on a thread outside the heap.
    ///
    /// # Errors
    /// As `send_timeout`.
    pub fn send_outside_timeout(&self, value: T, limit: Duration) -> Result<(), SendTimeoutError<T>> {
        self.queue.send(value, deadline(limit))
    }

    /// Number of values in the channel now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the channel holds no value now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most values that the channel holds; `None` if it has no bound.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.queue.capacity()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.queue.add_sender();
        Sender { queue: Arc::clone(&self.queue) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.queue.drop_sender();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender { .. }")
    }
}

/// The receiving end of a [`channel`] or [`sync_channel`]. Each value goes to one receiver; clones share the queue.
///
/// When the last receiver is dropped, the values that are left are dropped on its thread.
pub struct Receiver<T> {
    queue: Arc<Queue<T>>,
}

impl<T> Receiver<T> {
    /// Takes the next value; waits for one as native if there is none.
    ///
    /// # Errors
    /// [`RecvError`] if there is none and no sender any more.
    pub fn recv(&self, m: &mut Mutator<'_>) -> Result<T, RecvError> {
        self.queue.recv_at_once().or_else(|e| match e {
            TryRecvError::Empty => m.blocking(|| self.recv_outside()),
            TryRecvError::Disconnected => Err(RecvError),
        })
    }

    /// As [`recv`](Receiver::recv), for at most `limit`.
    ///
    /// # Errors
    /// [`RecvTimeoutError`] if the time is over, or if there is no value and no sender any more.
    pub fn recv_timeout(&self, m: &mut Mutator<'_>, limit: Duration) -> Result<T, RecvTimeoutError> {
        self.queue.recv_at_once().or_else(|e| match e {
            TryRecvError::Empty => m.blocking(|| self.recv_outside_timeout(limit)),
            TryRecvError::Disconnected => Err(RecvTimeoutError::Disconnected),
        })
    }

    /// Takes the next value if there is one. Any thread; no safepoint.
    ///
    /// # Errors
    /// [`TryRecvError`] if there is none.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.queue.try_recv()
    }

    /// Calls `f` with each value until there is none and no sender any more.
    pub fn for_each<'h>(&self, m: &mut Mutator<'h>, mut f: impl FnMut(&mut Mutator<'h>, T)) {
        while let Ok(value) = self.recv(m) {
            f(m, value);
        }
    }

    /// The values that are there, without waiting for more. Any thread; no safepoint.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// As [`recv`](Receiver::recv), on a thread outside the heap.
    ///
    /// # Errors
    /// As `recv`.
    pub fn recv_outside(&self) -> Result<T, RecvError> {
        self.queue.recv(None).map_err(|_| RecvError)
    }

    /// As [`recv_timeout`](Receiver::recv_timeout), on a thread outside the heap.
    ///
    /// # Errors
    /// As `recv_timeout`.
    pub fn recv_outside_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        self.queue.recv(deadline(limit))
    }

    /// The values, waiting for each, until there is none and no sender any more: on a thread outside the heap.
    pub fn iter_outside(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Number of values in the channel now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the channel holds no value now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.queue.add_receiver();
        Receiver { queue: Arc::clone(&self.queue) }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.queue.drop_receiver();
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver { .. }")
    }
}

/// See [`Receiver::iter_outside`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv_outside().ok()
    }
}

/// See [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}
