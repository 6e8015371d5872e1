//! The queue between senders and receivers. Knows no mutators: `channel.rs` decides where its waiting happens.
//!
//! # State
//! Values in order, each with the number of its turn; how many ends there are; how many receivers wait.
//! With a capacity of 0 a value in the queue belongs to a sender that waits until it is taken, or was put there by a
//! `try_send` that found more receivers waiting than values: each of these takes a value before it leaves, even if its
//! time is over, so such a value is always taken.
//!
//! # Who may touch what
//! All under one mutex, held for a few instructions and never while values are dropped. Lost wake-ups cannot be: a
//! waiter looks at the queue with the mutex locked before it waits and after, and whoever changes the queue notifies
//! after it.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError, TrySendError};
use std::time::{Duration, Instant};

/// A bounded channel's room is allocated at the start up to this many bytes, and above it as needed.
const PREALLOCATED_BYTES: usize = 1 << 20;

/// Why a value could not be sent within its time; it comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time was over before there was room (or, with a capacity of 0, before the value was taken).
    Timeout(T),
    /// There is no receiver any more.
    Disconnected(T),
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => {
                "the channel stayed full for the whole time limit: wait longer, or receive faster"
            }
            SendTimeoutError::Disconnected(_) => {
                "all receivers of the channel are gone: keep one as long as values are sent"
            }
        })
    }
}

impl<T> std::error::Error for SendTimeoutError<T> {}

struct State<T> {
    values: VecDeque<(u64, T)>,
    next_turn: u64,
    senders: usize,
    receivers: usize,
    waiting_receivers: usize,
}

/// What senders and receivers share.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    /// `None`: unbounded.
    capacity: Option<usize>,
    not_empty: Condvar,
    not_full: Condvar,
}

impl<T> Queue<T> {
    /// With one sender and one receiver.
    pub(super) fn new(capacity: Option<usize>) -> Queue<T> {
        let room = capacity.unwrap_or(0).min(PREALLOCATED_BYTES / size_of::<(u64, T)>());
        let state = State {
            values: VecDeque::with_capacity(room),
            next_turn: 0,
            senders: 1,
            receivers: 1,
            waiting_receivers: 0,
        };
        Queue { state: Mutex::new(state), capacity, not_empty: Condvar::new(), not_full: Condvar::new() }
    }

    /// Number of values in the queue.
    pub(super) fn len(&self) -> usize {
        self.state.lock().values.len()
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    fn has_room(&self, s: &State<T>) -> bool {
        match self.capacity {
            None => true,
            Some(0) => s.values.len() < s.waiting_receivers,
            Some(n) => s.values.len() < n,
        }
    }

    /// Puts a value at the end; the number of its turn.
    fn push(&self, mut s: MutexGuard<'_, State<T>>, value: T) -> u64 {
        let turn = s.next_turn;
        s.next_turn += 1;
        s.values.push_back((turn, value));
        drop(s);
        self.not_empty.notify_one();
        turn
    }

    fn pop(&self, mut s: MutexGuard<'_, State<T>>) -> Option<T> {
        let (_, value) = s.values.pop_front()?;
        drop(s);
        match self.capacity {
            None => {}
            // Each sender waits for its own value: the one that is meant must be among the woken.
            Some(0) => {
                self.not_full.notify_all();
            }
            Some(_) => {
                self.not_full.notify_one();
            }
        }
        Some(value)
    }

    fn send_locked(&self, s: MutexGuard<'_, State<T>>, value: T) -> Result<(), TrySendError<T>> {
        if s.receivers == 0 {
            return Err(TrySendError::Disconnected(value));
        }
        if !self.has_room(&s) {
            return Err(TrySendError::Full(value));
        }
        self.push(s, value);
        Ok(())
    }

    fn recv_locked(&self, s: MutexGuard<'_, State<T>>) -> Result<T, TryRecvError> {
        let none = if s.senders == 0 { TryRecvError::Disconnected } else { TryRecvError::Empty };
        self.pop(s).ok_or(none)
    }

    /// Sends if there is room. Waits at most for another thread's few instructions inside the queue.
    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.send_locked(self.state.lock(), value)
    }

    /// Takes the first value if there is one. Waits at most as `try_send`.
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.recv_locked(self.state.lock())
    }

    /// As `try_send`, but `Full` also if the lock is taken: then the caller waits elsewhere.
    pub(super) fn send_at_once(&self, value: T) -> Result<(), TrySendError<T>> {
        match self.state.try_lock() {
            Some(s) => self.send_locked(s, value),
            None => Err(TrySendError::Full(value)),
        }
    }

    /// As `try_recv`, but `Empty` also if the lock is taken: then the caller waits elsewhere.
    pub(super) fn recv_at_once(&self) -> Result<T, TryRecvError> {
        self.state.try_lock().map_or(Err(TryRecvError::Empty), |s| self.recv_locked(s))
    }

    /// Sends, waiting for room until `deadline`.
    pub(super) fn send(&self, value: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let mut s = self.state.lock();
        if self.capacity == Some(0) {
            return self.hand_over(s, value, deadline);
        }
        loop {
            // The time is looked at first: a value that is ready when it is over is still taken.
            let over = is_over(deadline);
            if s.receivers == 0 {
                return Err(SendTimeoutError::Disconnected(value));
            }
            if self.has_room(&s) {
                self.push(s, value);
                return Ok(());
            }
            if over {
                return Err(SendTimeoutError::Timeout(value));
            }
            wait(&self.not_full, &mut s, deadline);
        }
    }

    /// Sends with a capacity of 0: waits until the value has been taken, or takes it back.
    fn hand_over(
        &self,
        s: MutexGuard<'_, State<T>>,
        value: T,
        deadline: Option<Instant>,
    ) -> Result<(), SendTimeoutError<T>> {
        if s.receivers == 0 {
            return Err(SendTimeoutError::Disconnected(value));
        }
        let turn = self.push(s, value);
        let mut s = self.state.lock();
        loop {
            let over = is_over(deadline);
            // Turns rise along the queue.
            let Ok(at) = s.values.binary_search_by_key(&turn, |(t, _)| *t) else { return Ok(()) };
            let gone = s.receivers == 0;
            if gone || over {
                let Some((_, value)) = s.values.remove(at) else { return Ok(()) };
                return Err(if gone {
                    SendTimeoutError::Disconnected(value)
                } else {
                    SendTimeoutError::Timeout(value)
                });
            }
            wait(&self.not_full, &mut s, deadline);
        }
    }

    /// Takes the first value, waiting for one until `deadline`.
    pub(super) fn recv(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut s = self.state.lock();
        loop {
            let over = is_over(deadline);
            if !s.values.is_empty() || s.senders == 0 {
                return self.pop(s).ok_or(RecvTimeoutError::Disconnected);
            }
            if over {
                return Err(RecvTimeoutError::Timeout);
            }
            s.waiting_receivers += 1;
            wait(&self.not_empty, &mut s, deadline);
            s.waiting_receivers -= 1;
        }
    }

    pub(super) fn add_sender(&self) {
        self.state.lock().senders += 1;
    }

    pub(super) fn add_receiver(&self) {
        self.state.lock().receivers += 1;
    }

    pub(super) fn drop_sender(&self) {
        let mut s = self.state.lock();
        s.senders -= 1;
        let last = s.senders == 0;
        drop(s);
        if last {
            self.not_empty.notify_all();
        }
    }

    pub(super) fn drop_receiver(&self) {
        let mut s = self.state.lock();
        s.receivers -= 1;
        if s.receivers > 0 {
            return;
        }
        // With a capacity of 0 each value is its sender's, which takes it back.
        let left = if self.capacity == Some(0) { VecDeque::new() } else { std::mem::take(&mut s.values) };
        drop(s);
        self.not_full.notify_all();
        // Foreign code: nothing is locked here.
        drop(left);
    }
}

fn wait<T>(condvar: &Condvar, s: &mut MutexGuard<'_, State<T>>, deadline: Option<Instant>) {
    match deadline {
        None => condvar.wait(s),
        Some(d) => {
            // Whoever waits looks at the time itself.
            let _ = condvar.wait_until(s, d);
        }
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|d| Instant::now() >= d)
}

/// The end of a time limit that begins now; `None` if it is beyond the clock's range.
pub(super) fn deadline(limit: Duration) -> Option<Instant> {
    Instant::now().checked_add(limit)
}
