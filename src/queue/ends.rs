//! The four ends of the two queues, without the heap: who closes what, who drops what is left, who sleeps.
//!
//! # Who may touch what
//! A wait-free end owns its side of the ring. The threads of a blocking end share its side behind a lock, which no
//! wait-free end ever takes, and which is held for one step of the ring, never while waiting.
//!
//! # Closing
//! Whatever end goes last, no value is lost: it is read, given back, or dropped once.
//! - *Write queue*: the reading end, going, says so and empties the ring. A write that comes too late to be read sees
//!   that, by the fences of `leave` and `notify`, and takes its value back. So nothing is left for the writer.
//! - *Read queue*: what the writers wrote stays readable; the end that goes last drops what is left.

use super::error::{ForceError, ReadError, ReaderGone, WriteError, WriterGone};
use super::ring::{Consumer, Producer, READER_GONE, WRITER_GONE, locked};
use crate::sync::SlowMutex;
use std::sync::TryLockError;

/// The wait-free end of a write queue.
pub(crate) struct FreeWriter<T: 'static>(Producer<T>);

/// The blocking end of a write queue.
pub(crate) struct SharedReader<T: 'static>(SlowMutex<Consumer<T>>);

/// The wait-free end of a read queue.
pub(crate) struct FreeReader<T: 'static>(Consumer<T>);

/// The blocking end of a read queue.
pub(crate) struct SharedWriter<T: 'static>(SlowMutex<Producer<T>>);

impl<T> FreeWriter<T> {
    pub(crate) fn new(producer: Producer<T>) -> FreeWriter<T> {
        FreeWriter(producer)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.ring().capacity()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn write(&mut self, value: T) -> Result<(), WriteError<T>> {
        let ring = self.0.ring();
        if ring.is_gone(READER_GONE) {
            return Err(WriteError::Disconnected(value));
        }
        self.0.push(value).map_err(WriteError::Full)?;
        ring.notify(1);
        // After the fence of `notify`: either the reader's last look saw the value, or this sees that it has left.
        match ring.is_gone(READER_GONE).then(|| self.0.take_back()).flatten() {
            Some(value) => Err(WriteError::Disconnected(value)),
            None => Ok(()),
        }
    }

    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn force(&mut self, value: T) -> Result<Option<T>, ForceError<T>> {
        let ring = self.0.ring();
        if ring.is_gone(READER_GONE) {
            return Err(ForceError { value, replaced: None });
        }
        let replaced = self.0.force(value);
        // Also when nothing was added: a reader that came while the value was being replaced saw none.
        ring.notify(1);
        // As in `write`.
        match ring.is_gone(READER_GONE).then(|| self.0.take_back()).flatten() {
            Some(value) => Err(ForceError { value, replaced }),
            None => Ok(replaced),
        }
    }
}

impl<T> Drop for FreeWriter<T> {
    fn drop(&mut self) {
        let ring = self.0.ring();
        ring.leave(WRITER_GONE);
        ring.notify(u32::MAX);
    }
}

impl<T> SharedReader<T> {
    pub(crate) fn new(consumer: Consumer<T>) -> SharedReader<T> {
        SharedReader(SlowMutex::new(consumer))
    }

    fn attempt(consumer: &mut Consumer<T>) -> Result<T, ReadError> {
        let gone = consumer.ring().is_gone(WRITER_GONE);
        // Looked at after `gone`, so that a last value is not missed.
        consumer.pop().ok_or(if gone { ReadError::Disconnected } else { ReadError::Empty })
    }

    /// A try that waits for nobody: `None` if another thread of this end is at it.
    pub(crate) fn look(&self) -> Option<Result<T, ReadError>> {
        match self.0.try_lock() {
            Ok(mut consumer) => Some(Self::attempt(&mut consumer)),
            Err(TryLockError::Poisoned(e)) => Some(Self::attempt(&mut e.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A try that waits for other threads of this end.
    pub(crate) fn try_read(&self) -> Result<T, ReadError> {
        locked(&self.0, Self::attempt)
    }

    /// Waits for a value until the deadline.
    pub(crate) fn read_until(&self, deadline_ns: Option<u64>, now: impl Fn() -> u64) -> Result<T, ReadError> {
        let ring = locked(&self.0, |consumer| consumer.ring());
        let answer = ring.wait(deadline_ns, now, || match self.try_read() {
            Err(ReadError::Empty) => None,
            answer => Some(answer),
        });
        answer.unwrap_or(Err(ReadError::Empty))
    }

    /// Waits for a value.
    pub(crate) fn read(&self) -> Result<T, WriterGone> {
        // Without a deadline the only error is that the writer is gone.
        self.read_until(None, || 0).map_err(|_| WriterGone)
    }
}

impl<T> Drop for SharedReader<T> {
    fn drop(&mut self) {
        locked(&self.0, |consumer| {
            // The fence in `leave`: a write that does not see this is seen by the last look below.
            consumer.ring().leave(READER_GONE);
            while let Some(value) = consumer.pop() {
                drop(value);
            }
        });
    }
}

impl<T> FreeReader<T> {
    pub(crate) fn new(consumer: Consumer<T>) -> FreeReader<T> {
        FreeReader(consumer)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.ring().capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn read(&mut self) -> Result<T, ReadError> {
        let ring = self.0.ring();
        let gone = ring.is_gone(WRITER_GONE);
        // Looked at after `gone`, so that a last value is not missed.
        match self.0.pop() {
            Some(value) => {
                ring.notify(1);
                Ok(value)
            }
            None if gone => Err(ReadError::Disconnected),
            None => Err(ReadError::Empty),
        }
    }
}

impl<T> Drop for FreeReader<T> {
    fn drop(&mut self) {
        let ring = self.0.ring();
        if ring.leave(READER_GONE) {
            // SAFETY: the writers went before, and this end makes no further step.
            unsafe { ring.drain() };
        } else {
            ring.notify(u32::MAX);
        }
    }
}

impl<T> SharedWriter<T> {
    pub(crate) fn new(producer: Producer<T>) -> SharedWriter<T> {
        SharedWriter(SlowMutex::new(producer))
    }

    fn attempt(producer: &mut Producer<T>, value: T) -> Result<(), WriteError<T>> {
        if producer.ring().is_gone(READER_GONE) {
            return Err(WriteError::Disconnected(value));
        }
        // If the reader goes just now, the value is dropped with this end.
        producer.push(value).map_err(WriteError::Full)
    }

    /// A try that waits for nobody: `Err` with the value if another thread of this end is at it.
    pub(crate) fn look(&self, value: T) -> Result<Result<(), WriteError<T>>, T> {
        match self.0.try_lock() {
            Ok(mut producer) => Ok(Self::attempt(&mut producer, value)),
            Err(TryLockError::Poisoned(e)) => Ok(Self::attempt(&mut e.into_inner(), value)),
            Err(TryLockError::WouldBlock) => Err(value),
        }
    }

    /// A try that waits for other threads of this end.
    pub(crate) fn try_write(&self, value: T) -> Result<(), WriteError<T>> {
        locked(&self.0, |producer| Self::attempt(producer, value))
    }

    /// Waits for room.
    pub(crate) fn write(&self, value: T) -> Result<(), ReaderGone<T>> {
        let ring = locked(&self.0, |producer| producer.ring());
        let mut waiting = Some(value);
        let answer = ring.wait(
            None,
            || 0,
            || match self.try_write(waiting.take()?) {
                Ok(()) => Some(Ok(())),
                Err(WriteError::Disconnected(value)) => Some(Err(ReaderGone(value))),
                Err(WriteError::Full(value)) => {
                    waiting = Some(value);
                    None
                }
            },
        );
        // Without a deadline there is always an answer.
        answer.unwrap_or(Ok(()))
    }
}

impl<T> Drop for SharedWriter<T> {
    fn drop(&mut self) {
        locked(&self.0, |producer| {
            let ring = producer.ring();
            if ring.leave(WRITER_GONE) {
                // SAFETY: the reader went before, and the last of the writers is going.
                unsafe { ring.drain() };
            }
        });
    }
}
