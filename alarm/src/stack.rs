//! Makes the calling thread's stack resident before it matters: touched page by page, and locked where that is allowed.
//!
//! A thread's stack is mapped when the thread starts and backed by memory when it is first touched: each first use of
//! a deeper page is a fault, which takes microseconds, and may take a disk. A real-time thread takes all of them at
//! its start.

use std::error::Error;
use std::fmt;
use std::hint::black_box;

use crate::sys;

/// The smallest page size of the systems we run on: what one level of the touching recursion covers.
const PAGE: usize = 4096;
/// Left untouched above the guard page, for the frames of the calls made here and of a signal handler.
const SPARE: usize = 64 << 10;

/// What [`prefault_stack`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prefaulted {
    /// Bytes below the caller's frame that were touched: what was asked for, or what the stack had left.
    pub touched_bytes: usize,
    /// Bytes locked in memory, from there to the stack's end: 0 if the kernel refused.
    pub locked_bytes: usize,
    /// What could not be had; of several, the lock.
    pub refused: Option<StackRefused>,
}

/// Why [`prefault_stack`] could not do all that was asked. The thread runs on with what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackRefused {
    /// The stack has less room below the caller than was asked for; all of it but a spare was touched and locked.
    TooSmall {
        /// Bytes asked for.
        requested_bytes: usize,
        /// Bytes that could be touched.
        available_bytes: usize,
    },
    /// The kernel did not lock the stack in memory (`mlock`); it was touched all the same.
    NotLocked {
        /// Bytes that were to be locked.
        bytes: usize,
        /// The soft limit `RLIMIT_MEMLOCK` in bytes; `None` if it could not be read.
        memlock_limit: Option<u64>,
        /// The `errno`.
        errno: i32,
    },
    /// The C library does not tell where the stack lies; nothing was done.
    Unknown {
        /// The `errno`.
        errno: i32,
    },
    /// Variables do not live on the thread's stack, as under AddressSanitizer; nothing was done.
    Elsewhere,
}

impl fmt::Display for StackRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StackRefused::TooSmall { requested_bytes, available_bytes } => write!(
                f,
                "the stack has room for {available_bytes} of {requested_bytes} bytes to prefault: start the thread with a larger stack"
            ),
            StackRefused::NotLocked { bytes, memlock_limit, errno } => {
                write!(
                    f,
                    "locking {bytes} bytes of stack refused ({}; RLIMIT_MEMLOCK is ",
                    std::io::Error::from_raw_os_error(errno)
                )?;
                match memlock_limit {
                    Some(u64::MAX) => f.write_str("unlimited")?,
                    Some(limit) => write!(f, "{limit}")?,
                    None => f.write_str("unknown")?,
                }
                f.write_str(
                    "): raise it (ulimit -l, memlock in limits.conf, LimitMEMLOCK= in systemd), or grant CAP_IPC_LOCK",
                )
            }
            StackRefused::Unknown { errno } => write!(
                f,
                "the bounds of the stack are unknown ({}), so it is not prefaulted: see whether /proc is mounted",
                std::io::Error::from_raw_os_error(errno)
            ),
            StackRefused::Elsewhere => f.write_str(
                "variables are not on the thread's stack, so it is not prefaulted: build without a sanitizer",
            ),
        }
    }
}

impl Error for StackRefused {}

/// Touches `bytes` of the calling thread's stack below the caller's frame, and locks them and what lies above.
///
/// Bounded: `bytes` / 4096 pages and two system calls, and never more than the stack has left but a spare of 64 KiB.
/// Allocates nothing on threads that were spawned (on the main thread the C library reads `/proc/self/maps`). The lock
/// lasts as long as the mapping, which the C library may keep for a later thread.
///
/// What was refused is in the result; the thread can go on in any case.
pub fn prefault_stack(bytes: usize) -> Prefaulted {
    let nothing = |refused| Prefaulted { touched_bytes: 0, locked_bytes: 0, refused: Some(refused) };
    let (bottom, top) = match sys::stack_bounds() {
        Ok(bounds) => bounds,
        Err(errno) => return nothing(StackRefused::Unknown { errno }),
    };
    let here = here();
    if !(bottom..top).contains(&here) {
        return nothing(StackRefused::Elsewhere);
    }
    let available = here.saturating_sub(bottom.saturating_add(SPARE));
    let touched = bytes.min(available);
    let low = here - touched;
    touch(low, touched.div_ceil(PAGE));
    let mut refused = (touched < bytes)
        .then_some(StackRefused::TooSmall { requested_bytes: bytes, available_bytes: available });
    let mut locked = top.saturating_sub(low);
    if let Err(errno) = sys::lock_stack(low, locked) {
        refused = Some(StackRefused::NotLocked { bytes: locked, memlock_limit: memlock_limit(), errno });
        locked = 0;
    }
    Prefaulted { touched_bytes: touched, locked_bytes: locked, refused }
}

/// An address in the frame of the caller or just below it.
#[inline(never)]
fn here() -> usize {
    let mark = 0u8;
    black_box(&raw const mark).addr()
}

/// Writes to each page from here down to the address `low`, at most `levels` of them: one frame of a page's size for
/// each. Ordinary calls and not stores below the stack pointer, so that there is nothing to be unsafe about.
#[inline(never)]
fn touch(low: usize, levels: usize) {
    let mut page = [0u8; PAGE];
    let at = black_box(&mut page).as_ptr().addr();
    // The number of levels is a second bound, which rests on no address.
    if at > low && levels > 0 {
        touch(low, levels - 1);
    }
    // Used after the call, so that it is no tail call that would reuse the frame.
    black_box(&mut page);
}

/// The soft limit `RLIMIT_MEMLOCK` in bytes.
fn memlock_limit() -> Option<u64> {
    nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK).ok().map(|(soft, _)| soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minor and major faults of the calling thread so far.
    fn faults() -> i64 {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD).unwrap();
        usage.minor_page_faults() + usage.major_page_faults()
    }

    fn on_thread<R: Send + 'static>(stack: usize, f: impl FnOnce() -> R + Send + 'static) -> R {
        std::thread::Builder::new().stack_size(stack).spawn(f).unwrap().join().unwrap()
    }

    /// Under a sanitizer there is nothing to see.
    fn elsewhere(done: &Prefaulted) -> bool {
        if done.refused == Some(StackRefused::Elsewhere) {
            assert_eq!((done.touched_bytes, done.locked_bytes), (0, 0));
            println!("skipped: {}", StackRefused::Elsewhere);
            return true;
        }
        false
    }

    /// Uses `levels` pages of stack.
    #[inline(never)]
    fn dive(levels: usize) -> u64 {
        let mut page = [1u8; PAGE];
        black_box(&mut page);
        let below = if levels > 0 { dive(levels - 1) } else { 0 };
        below + u64::from(black_box(&mut page)[0])
    }

    #[test]
    fn what_was_prefaulted_faults_no_more() {
        // 2 MiB are touched, and 1 MiB used afterwards; the control uses the same without having touched it. A stack
        // of a size that no other test uses, so that the C library has none in store that was touched before.
        let (done, with) = on_thread(5 << 20, || {
            let done = prefault_stack(2 << 20);
            let before = faults();
            dive(200);
            (done, faults() - before)
        });
        let without = on_thread(6 << 20, || {
            let before = faults();
            dive(200);
            faults() - before
        });
        if elsewhere(&done) {
            return;
        }
        assert_eq!(done.touched_bytes, 2 << 20);
        // Where the system maps stacks in huge pages neither faults often, and there is nothing to compare.
        if without > 50 {
            assert!(with < without / 10, "{with} faults with, {without} without");
        } else {
            println!("skipped: an untouched stack faults {without} times only");
        }
    }

    #[test]
    fn the_answer_to_a_request_beyond_the_stack_says_so_and_what_was_done() {
        let done = on_thread(1 << 20, || prefault_stack(64 << 20));
        if elsewhere(&done) {
            return;
        }
        // The C library may give the thread a larger stack that another test's thread has left.
        assert!(done.touched_bytes < 64 << 20 && done.touched_bytes > 256 << 10, "{done:?}");
        match done.refused {
            Some(StackRefused::TooSmall { requested_bytes, available_bytes }) => {
                assert_eq!((requested_bytes, available_bytes), (64 << 20, done.touched_bytes));
                assert!(done.locked_bytes >= done.touched_bytes);
            }
            Some(StackRefused::NotLocked { .. }) => assert_eq!(done.locked_bytes, 0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_locked_is_what_the_kernel_counts() {
        // `VmLck` is of the whole process: other tests lock too, but each less than this.
        let locked_kib = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let line = status.lines().find(|l| l.starts_with("VmLck:")).map(str::to_owned);
            line.and_then(|l| l.split_whitespace().nth(1)?.parse::<usize>().ok())
        };
        on_thread(48 << 20, move || {
            let done = prefault_stack(32 << 20);
            if done.locked_bytes == 0 {
                println!("skipped: {}", done.refused.expect("a reason"));
            } else if let Some(kib) = locked_kib() {
                assert!(kib << 10 >= done.locked_bytes, "{kib} KiB locked, {done:?}");
            }
        });
    }

    #[test]
    fn nothing_asked_nothing_touched() {
        let done = on_thread(1 << 20, || prefault_stack(0));
        assert_eq!(done.touched_bytes, 0);
    }

    #[test]
    fn refusals_are_one_line_and_name_the_remedy() {
        let texts = [
            StackRefused::TooSmall { requested_bytes: 10, available_bytes: 5 }.to_string(),
            StackRefused::NotLocked { bytes: 9, memlock_limit: Some(8192), errno: libc::ENOMEM }.to_string(),
            StackRefused::NotLocked { bytes: 9, memlock_limit: None, errno: libc::EPERM }.to_string(),
            StackRefused::Unknown { errno: libc::ENOENT }.to_string(),
            StackRefused::Elsewhere.to_string(),
        ];
        assert!(texts[0].contains("5 of 10 bytes") && texts[0].contains("larger stack"), "{}", texts[0]);
        assert!(
            texts[1].contains("RLIMIT_MEMLOCK is 8192") && texts[1].contains("ulimit -l"),
            "{}",
            texts[1]
        );
        assert!(texts[2].contains("RLIMIT_MEMLOCK is unknown"), "{}", texts[2]);
        assert!(texts.iter().all(|t| !t.contains('\n')));
    }
}
