//! Messages about the dead: a queue that tells which objects have died (Java: `ReferenceQueue`).

use crate::death::DeathNotice;
use crate::gc::Gc;
use crate::mutator::Mutator;
use crate::trace::Trace;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::fmt;
use std::time::Duration;

/// A queue of tokens of objects that have died. May be shared by threads; each token is given out once.
pub struct ReferenceQueue<K> {
    sender: Sender<K>,
    receiver: Receiver<K>,
}

impl<K: Send + 'static> ReferenceQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> ReferenceQueue<K> {
        let (sender, receiver) = unbounded();
        ReferenceQueue { sender, receiver }
    }

    /// Puts `token` into the queue when `object` is dead for good; see [`Mutator::on_death`].
    pub fn register<T: Trace>(&self, m: &Mutator<'_>, object: Gc<'_, T>, token: K) -> DeathNotice {
        let sender = self.sender.clone();
        // A queue that nobody reads any more is no error.
        m.on_death(object, move || drop(sender.send(token)))
    }

    /// The next token, if there is one.
    pub fn poll(&self) -> Option<K> {
        self.receiver.try_recv().ok()
    }

    /// The next token; waits as a native thread at most `timeout`. A safepoint.
    pub fn wait(&self, m: &mut Mutator<'_>, timeout: Duration) -> Option<K> {
        m.blocking(|| self.wait_outside(timeout))
    }

    /// The same for a thread that is outside the heap.
    pub fn wait_outside(&self, timeout: Duration) -> Option<K> {
        // The queue holds a sender itself, so it is never disconnected.
        self.receiver.recv_timeout(timeout).ok()
    }
}

impl<K: Send + 'static> Default for ReferenceQueue<K> {
    fn default() -> Self {
        ReferenceQueue::new()
    }
}

impl<K> fmt::Debug for ReferenceQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReferenceQueue<{}>", std::any::type_name::<K>())
    }
}
