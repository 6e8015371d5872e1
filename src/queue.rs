//! Wait-free queues between no-heap threads and heap threads, with their elements in immortal memory.
//!
//! After the Real-Time Specification for Java's `WaitFreeWriteQueue` and `WaitFreeReadQueue`. One end is wait-free and
//! belongs to one thread, meant to be a no-heap one: its operations take a bounded number of steps whatever other
//! threads do, and never wait for a quantum, a lock or another thread's being scheduled. The other end is shared by any
//! number of heap threads and blocks; while it does, its threads count as stopped, as in
//! [`Mutator::blocking`].
//!
//! | queue | no-heap thread | heap threads |
//! |---|---|---|
//! | [`WaitFreeWriteQueue`] | `write`, `force` | [`QueueReader`]: `read`, `try_read`, `read_timeout` |
//! | [`WaitFreeReadQueue`] | `read` | [`QueueWriter`]: `write`, `try_write` |
//!
//! Both are first in, first out, and lose or repeat nothing. Values cross by move; they need to be `Send`, so nothing
//! that refers into the heap goes through but a [`Global`](crate::Global).
//!
//! # Closing
//! An end that is dropped (for the shared ones: the last clone) is seen by the other one: a reader still gets what is in
//! the queue and then [`ReadError::Disconnected`]; a writer gets its value back at once. Values that nobody has read:
//! of a write queue, the shared reader drops them when it goes, or the writer gets its value back, so **a no-heap thread
//! never drops any**; of a read queue, the end that goes last drops them. A no-heap thread that must not run their
//! drop glue reads until `Disconnected`, or returns its end to whoever joins it. The elements' memory is immortal: it is
//! never given back, so make queues at the start.

#[allow(unsafe_code)]
mod ends;
mod error;
#[allow(unsafe_code)]
mod ring;

use crate::immortal::{ImmortalArea, ImmortalError};
use crate::mutator::Mutator;
use ends::{FreeReader, FreeWriter, SharedReader, SharedWriter};
pub use error::{ForceError, ReadError, ReaderGone, WriteError, WriterGone};
use metronome_alarm::Clock;
use ring::{Consumer, Element, Producer, Ring};
use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a queue could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueError {
    /// A queue must have room for one value at least.
    NoCapacity,
    /// The elements do not fit into immortal memory.
    Memory(ImmortalError),
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueError::NoCapacity => {
                f.write_str("a queue of capacity 0 holds nothing: choose a capacity of 1 or more")
            }
            QueueError::Memory(e) => write!(f, "no memory for a queue: {e}, or choose a smaller capacity"),
        }
    }
}

impl std::error::Error for QueueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            QueueError::NoCapacity => None,
            QueueError::Memory(e) => Some(e),
        }
    }
}

/// A ring in immortal memory: its elements, then its header.
fn ring<T: Send + 'static>(
    area: &ImmortalArea,
    capacity: usize,
) -> Result<(Producer<T>, Consumer<T>), QueueError> {
    if capacity == 0 {
        return Err(QueueError::NoCapacity);
    }
    let elements = capacity.checked_add(1);
    let layout = elements
        .and_then(|n| Layout::array::<Element<T>>(n).ok())
        .and_then(|elements| elements.extend(Layout::new::<Ring<T>>()).ok());
    let (Some(n), Some((layout, _))) = (elements, layout) else {
        return Err(QueueError::Memory(area.too_large()));
    };
    let mut claim = area.claim(layout).map_err(QueueError::Memory)?;
    let elements = claim.place_all(n, Element::new);
    Ok(Ring::split(claim.place(Ring::new(elements))))
}

/// The wait-free writing end of a queue that heap threads read by a [`QueueReader`].
///
/// For one thread at a time: `Send`, not `Clone`, and its operations take `&mut self`. Each is a bounded number of
/// steps; the only system call is one wake-up, and only while a reader sleeps.
pub struct WaitFreeWriteQueue<T: Send + 'static>(FreeWriter<T>);

impl<T: Send + 'static> WaitFreeWriteQueue<T> {
    /// A queue with room for `capacity` values in `area`, and its two ends. For the start of a program: it touches each
    /// element, and allocates the shared end on the ordinary heap.
    ///
    /// # Errors
    /// [`QueueError`] for a capacity of 0, or one that does not fit.
    pub fn new(
        area: &ImmortalArea,
        capacity: usize,
    ) -> Result<(WaitFreeWriteQueue<T>, QueueReader<T>), QueueError> {
        let (producer, consumer) = ring(area, capacity)?;
        Ok((
            WaitFreeWriteQueue(FreeWriter::new(producer)),
            QueueReader(Arc::new(SharedReader::new(consumer))),
        ))
    }

    /// Most values that the queue can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Whether a [`write`](WaitFreeWriteQueue::write) would fail now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Writes a value. Wait-free: the move of the value, and at most two exchanges, a fence and a wake-up.
    ///
    /// # Errors
    /// [`WriteError`] with the value, if the queue is full or nobody will read.
    pub fn write(&mut self, value: T) -> Result<(), WriteError<T>> {
        self.0.write(value)
    }

    /// Writes a value in any case: if the queue is full, in the place of the value written last, which is returned.
    /// Wait-free, one exchange more than [`write`](WaitFreeWriteQueue::write). A queue of capacity 1 is a mailbox that
    /// always holds the latest value.
    ///
    /// While it replaces the only value in the queue, a reader may find none, and is told when it is there.
    ///
    /// # Errors
    /// [`ForceError`] with the value, if nobody will read.
    pub fn force(&mut self, value: T) -> Result<Option<T>, ForceError<T>> {
        self.0.force(value)
    }
}

/// The shared, blocking reading end of a [`WaitFreeWriteQueue`]. Clones are the same end; each value goes to one of
/// them.
pub struct QueueReader<T: Send + 'static>(Arc<SharedReader<T>>);

impl<T: Send + 'static> QueueReader<T> {
    /// Takes the oldest value; waits for one if there is none, as [`Mutator::blocking`] does: a safepoint, and the
    /// thread counts as stopped while it waits.
    ///
    /// # Errors
    /// [`WriterGone`] if none is left and none will come.
    pub fn read(&self, m: &mut Mutator<'_>) -> Result<T, WriterGone> {
        match self.0.look() {
            Some(Ok(value)) => Ok(value),
            Some(Err(ReadError::Disconnected)) => Err(WriterGone),
            Some(Err(ReadError::Empty)) | None => m.blocking(|| self.0.read()),
        }
    }

    /// Takes the oldest value if there is one. Waits at most for other threads' tries at this end, as native.
    ///
    /// # Errors
    /// [`ReadError`] if there is none now, or none will come.
    pub fn try_read(&self, m: &mut Mutator<'_>) -> Result<T, ReadError> {
        match self.0.look() {
            Some(answer) => answer,
            None => m.blocking(|| self.0.try_read()),
        }
    }

    /// Takes the oldest value; waits for one at most this long (a time beyond what the clock can show is no limit).
    ///
    /// # Errors
    /// [`ReadError::Empty`] if none came in time, [`ReadError::Disconnected`] if none will come.
    pub fn read_timeout(&self, m: &mut Mutator<'_>, timeout: Duration) -> Result<T, ReadError> {
        if let Some(answer) = self.0.look()
            && !matches!(answer, Err(ReadError::Empty))
        {
            return answer;
        }
        let clock = Clock::monotonic();
        let deadline = u64::try_from(timeout.as_nanos()).ok().and_then(|ns| clock.now().checked_add(ns));
        m.blocking(|| self.0.read_until(deadline, || clock.now()))
    }
}

impl<T: Send + 'static> Clone for QueueReader<T> {
    fn clone(&self) -> Self {
        QueueReader(Arc::clone(&self.0))
    }
}

/// The wait-free reading end of a queue that heap threads write by a [`QueueWriter`].
///
/// For one thread at a time: `Send`, not `Clone`, and its operations take `&mut self`. Each is a bounded number of
/// steps; the only system call is one wake-up, and only while a writer sleeps.
pub struct WaitFreeReadQueue<T: Send + 'static>(FreeReader<T>);

impl<T: Send + 'static> WaitFreeReadQueue<T> {
    /// A queue with room for `capacity` values in `area`, and its two ends. For the start of a program: it touches each
    /// element, and allocates the shared end on the ordinary heap.
    ///
    /// # Errors
    /// [`QueueError`] for a capacity of 0, or one that does not fit.
    pub fn new(
        area: &ImmortalArea,
        capacity: usize,
    ) -> Result<(WaitFreeReadQueue<T>, QueueWriter<T>), QueueError> {
        let (producer, consumer) = ring(area, capacity)?;
        Ok((WaitFreeReadQueue(FreeReader::new(consumer)), QueueWriter(Arc::new(SharedWriter::new(producer)))))
    }

    /// Most values that the queue can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Whether a [`read`](WaitFreeReadQueue::read) would find nothing now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the oldest value. Wait-free: the move of the value, one exchange, a fence and at most one wake-up.
    ///
    /// # Errors
    /// [`ReadError`] if there is none now, or none will come.
    pub fn read(&mut self) -> Result<T, ReadError> {
        self.0.read()
    }
}

/// The shared, blocking writing end of a [`WaitFreeReadQueue`]. Clones are the same end.
pub struct QueueWriter<T: Send + 'static>(Arc<SharedWriter<T>>);

impl<T: Send + 'static> QueueWriter<T> {
    /// Writes a value; waits for room if there is none, as [`Mutator::blocking`] does: a safepoint, and the thread counts
    /// as stopped while it waits.
    ///
    /// # Errors
    /// [`ReaderGone`] with the value if nobody will read it.
    pub fn write(&self, m: &mut Mutator<'_>, value: T) -> Result<(), ReaderGone<T>> {
        let value = match self.0.look(value) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(WriteError::Disconnected(value))) => return Err(ReaderGone(value)),
            Ok(Err(WriteError::Full(value))) | Err(value) => value,
        };
        m.blocking(|| self.0.write(value))
    }

    /// Writes a value if there is room. Waits at most for other threads' tries at this end, as native.
    ///
    /// # Errors
    /// [`WriteError`] with the value, if the queue is full or nobody will read.
    pub fn try_write(&self, m: &mut Mutator<'_>, value: T) -> Result<(), WriteError<T>> {
        match self.0.look(value) {
            Ok(answer) => answer,
            Err(value) => m.blocking(|| self.0.try_write(value)),
        }
    }
}

impl<T: Send + 'static> Clone for QueueWriter<T> {
    fn clone(&self) -> Self {
        QueueWriter(Arc::clone(&self.0))
    }
}

macro_rules! debug_by_name {
    ($($end:ident),*) => {$(
        impl<T: Send + 'static> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}<{}>", stringify!($end), std::any::type_name::<T>())
            }
        }
    )*};
}
debug_by_name!(WaitFreeWriteQueue, QueueReader, WaitFreeReadQueue, QueueWriter);
