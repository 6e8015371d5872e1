//! Waiting for other threads without being in the collector's way: a mutex, a condition variable, channels.
//!
//! A mutator that waits in the kernel while it counts as running holds up every quantum until the stop is cancelled. So
//! the operations here that may wait take the mutator, and wait *native* (inside [`Mutator::blocking`]): quanta neither
//! wait for the waiter nor delay it, and cycles complete meanwhile.
//!
//! # What an operation costs, and when it is a safepoint
//! - By type, each operation that takes `&mut Mutator` is a safepoint: no `Gc` may be alive across it.
//! - If it need not wait, it does not leave the running state: `lock` is one compare-and-exchange, `send` and `recv` are
//!   one to lock the channel and one to unlock it. Nothing else happens then: no safepoint is noted for the cycle, no stop
//!   is answered. So a loop of operations that never wait must still poll, and come by a safepoint, as every other loop.
//! - If it waits, it is a safepoint before and after, as `blocking` is: the thread gives back the cells that it has set
//!   aside, and coming back waits for the end of a quantum if one is running.
//! - `try_…` and the dropping of guards, senders and receivers take no mutator and `Gc`s live on across them. They wait for
//!   nobody but (on channels) a thread that is just between two instructions of the same channel's few.
//! - `…_outside` is for threads outside the heap. On a running mutator it would hold up stops as any other wait in the
//!   kernel does; the option `report-blocked` names such threads.
//!
//! The value inside a lock or on its way through a channel needs no barrier and is not traced, so it can be no `Gc`: a
//! `Gc` is not `Send`, and its lifetime ends at the wait. Pass a [`Global`](crate::Global).
//!
//! # Deadlock, priorities, panics
//! The collector takes none of these locks, and a thread that waits for one counts as stopped; so a quantum that pauses
//! the holder delays the waiter, and can never meet it in a circle. Two mutators that lock two mutexes in opposite order
//! wait for ever, as everywhere.
//!
//! There is no priority inheritance: a real-time thread that waits for a lock waits as long as its holder is kept from
//! running. Keep what real-time threads lock to them, or use `try_lock`. The first wait of a thread may allocate.
//!
//! There is **no poisoning**: a panic in a critical section unlocks, and the next thread finds the value as it was left.
//! A panic leaves the mutator running whatever it was waiting for.
//!
//! # Why `parking_lot`
//! It has what the standard library's locks lack, waiting with a time limit for the mutex itself, and no poisoning; it
//! parks on the kernel's futex after a bounded spin. The channels are a queue under such a mutex, and not a lock-free
//! one, because those known to us spin (or yield) without a bound while another thread is in the middle of an operation:
//! under SCHED_FIFO, where yielding lets no thread of lower priority run, that can last for ever.
//!
//! [`Mutator::blocking`]: crate::Mutator::blocking

mod channel;
mod condvar;
mod mutex;
mod queue;

pub use channel::{Iter, Receiver, Sender, TryIter, channel, sync_channel};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use queue::SendTimeoutError;
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

#[cfg(test)]
mod tests;
