//! Atomics and futexes for slots, the stop protocol, the wait-free queues and the ring of events; the loom tests of these put
//! a module of their own in this one's place.

pub(crate) use metronome_arraylet::IndexStack;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// The standard library's mutex, for what may wait: the ends of queues that ordinary threads share, attaching, what the
/// program's own threads have to tell. Neither a quantum nor an end of a queue that is without waiting takes one.
#[expect(clippy::disallowed_types, reason = "the one name for it in modules that also have real-time code")]
pub(crate) type SlowMutex<T> = std::sync::Mutex<T>;

/// The standard library's cell with loom's way to get at the content.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Sleeps while `*word == expected`, until woken or until the monotonic time `deadline_ns` (`None`: no limit). May
/// return early. Linux futex, private to the process.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
    let ts = deadline_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = ts.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // To wait is what the caller wants.
    let wait = || {
        // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC deadline.
        // SAFETY: the word and the timeout outlive the call; the kernel only reads them.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                expected,
                timeout,
                std::ptr::null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            );
        }
    };
    crate::rtsan::excluded(wait);
}

/// Wakes up to `count` threads that sleep on `word`.
pub(crate) fn futex_wake(word: &AtomicU32, count: u32) {
    // A system call that does not wait: bounded by the number of sleepers.
    // SAFETY: the kernel uses the address as a key only.
    crate::rtsan::excluded(|| unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            count.min(i32::MAX as u32),
        );
    });
}
