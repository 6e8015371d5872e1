//! Notices a fork: a child process has no collector thread, so it must not touch the heap.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    // Relaxed: the child has one thread.
    GENERATION.fetch_add(1, Relaxed);
}

/// Number of forks between the first heap of the process's ancestors and this process. O(1).
pub(crate) fn generation() -> u32 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler is async-signal-safe: it changes one atomic.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    // Relaxed: see above.
    GENERATION.load(Relaxed)
}
