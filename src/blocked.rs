//! Finds out whether a straggler sleeps in the kernel: a mutator that waits there without `Mutator::blocking`.
//!
//! A thread that did not arrive at a stop either computes without polling, has no CPU, or sleeps in a system call while it
//! counts as running. Only the last is the mistake looked for here, and only it shows in `/proc` as one sleep that lasts
//! from one look to the next: state `S` or `D` both times, without a context switch in between.
//!
//! Reads files: for ordinary threads only (the writer's).

use std::path::PathBuf;
use std::time::Duration;

/// Between the two looks.
const BETWEEN: Duration = Duration::from_millis(2);

/// A thread's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// As in `/proc`: `R`, `S`, `D`, …
    state: char,
    /// Context switches so far.
    switches: u64,
}

impl Look {
    fn asleep(self) -> bool {
        matches!(self.state, 'S' | 'D')
    }
}

/// Looks twice at the thread `tid` of this process, a few milliseconds apart; `running` says whether it still counts as
/// a running mutator. Where it sleeps, in words, if it slept all the time and counted as running all the time.
///
/// `None` also where the system does not tell (no `/proc`).
pub(crate) fn asleep_while(tid: i32, running: impl Fn() -> bool) -> Option<String> {
    let look = || {
        let file = |name| std::fs::read_to_string(path(tid, name)).ok();
        let look = Look { state: state(&file("stat")?)?, switches: switches(&file("status")?)? };
        // After the look: one that has said that it waits meanwhile has done nothing wrong.
        (look.asleep() && running()).then_some(look)
    };
    let first = look()?;
    let file = |name| std::fs::read_to_string(path(tid, name)).unwrap_or_default();
    let place = place(&file("syscall"), &file("wchan"));
    std::thread::sleep(BETWEEN);
    (look()? == first).then_some(place)
}

fn path(tid: i32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/task/{tid}/{file}"))
}

/// The state in a `stat` file: the first field after the name, which is in parentheses and may contain everything.
fn state(stat: &str) -> Option<char> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut field = after.split_whitespace().next()?.chars();
    let state = field.next()?;
    (field.next().is_none() && state.is_ascii_alphabetic()).then_some(state)
}

/// Context switches, of both kinds, in a `status` file. (A name in it cannot contain a line break: it is escaped.)
fn switches(status: &str) -> Option<u64> {
    let of = |key: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().parse::<u64>().ok()
    };
    of("voluntary_ctxt_switches")?.checked_add(of("nonvoluntary_ctxt_switches")?)
}

/// Where a thread sleeps, from its `syscall` and `wchan` files; each may be empty or say nothing.
fn place(syscall: &str, wchan: &str) -> String {
    let number = syscall.split_whitespace().next().and_then(|n| n.parse::<libc::c_long>().ok());
    let call = match number {
        Some(-1) => Some("no system call, as in a page fault".to_owned()),
        Some(n) => Some(name(n).map_or_else(|| format!("system call {n}"), str::to_owned)),
        None => None,
    };
    // "0" is what the kernel says if it does not want to tell.
    let wchan = Some(wchan.trim()).filter(|w| !w.is_empty() && *w != "0");
    match (call, wchan) {
        (Some(call), Some(wchan)) => format!("{call}, at {wchan}"),
        (Some(call), None) => call,
        (None, Some(wchan)) => wchan.to_owned(),
        (None, None) => "at a place that the system does not tell".to_owned(),
    }
}

/// Name of a system call in which threads wait.
fn name(number: libc::c_long) -> Option<&'static str> {
    macro_rules! names {
        ($($(#[$attr:meta])* $call:ident => $name:literal),* $(,)?) => {
            &[$($(#[$attr])* (libc::$call, $name)),*]
        };
    }
    const NAMES: &[(libc::c_long, &str)] = names![
        SYS_futex => "futex",
        SYS_read => "read",
        SYS_readv => "readv",
        SYS_pread64 => "pread64",
        SYS_write => "write",
        SYS_writev => "writev",
        SYS_pwrite64 => "pwrite64",
        SYS_openat => "openat",
        SYS_fsync => "fsync",
        SYS_fdatasync => "fdatasync",
        SYS_flock => "flock",
        SYS_fcntl => "fcntl",
        SYS_ioctl => "ioctl",
        SYS_ppoll => "ppoll",
        SYS_pselect6 => "pselect6",
        SYS_epoll_pwait => "epoll_pwait",
        SYS_nanosleep => "nanosleep",
        SYS_clock_nanosleep => "clock_nanosleep",
        SYS_accept => "accept",
        SYS_accept4 => "accept4",
        SYS_connect => "connect",
        SYS_recvfrom => "recvfrom",
        SYS_recvmsg => "recvmsg",
        SYS_sendto => "sendto",
        SYS_sendmsg => "sendmsg",
        SYS_wait4 => "wait4",
        SYS_waitid => "waitid",
        SYS_rt_sigtimedwait => "rt_sigtimedwait",
        SYS_io_uring_enter => "io_uring_enter",
        SYS_munmap => "munmap",
        SYS_madvise => "madvise",
        #[cfg(target_arch = "x86_64")]
        SYS_open => "open",
        #[cfg(target_arch = "x86_64")]
        SYS_poll => "poll",
        #[cfg(target_arch = "x86_64")]
        SYS_select => "select",
        #[cfg(target_arch = "x86_64")]
        SYS_epoll_wait => "epoll_wait",
        #[cfg(target_arch = "x86_64")]
        SYS_pause => "pause",
    ];
    NAMES.iter().find(|(n, _)| *n == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

    #[test]
    fn the_state_is_found_after_any_name() {
        for (name, expected) in [
            ("(worker)", 'S'),
            ("(a b)", 'D'),
            ("(odd) R 1 (name)", 'S'),
            ("())", 'R'),
            ("(((", 'S'),
            ("(S) D", 'R'),
        ] {
            // A name without its closing parenthesis gets one here.
            let name = if name.ends_with(')') { name.to_owned() } else { format!("{name})") };
            let stat = format!("12345 {name} {expected} 1 12345 12345 0 -1 4194304 115 0 0 0\n");
            assert_eq!(state(&stat), Some(expected), "{stat}");
        }
        for bad in ["", "1 (x)", "1 (x) ", "1 x S 1", "1 (x) 7 1", "1 (x) SS 1"] {
            assert_eq!(state(bad), None, "{bad}");
        }
    }

    #[test]
    fn switches_are_summed_from_their_own_lines() {
        let status = "Name:\tvoluntary_ctxt_switches: 9\\nvoluntary_ctxt_switches:\t8\nState:\tS (sleeping)\n\
                      voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(switches(status), Some(695));
        assert_eq!(switches("voluntary_ctxt_switches:\t1\n"), None);
        assert_eq!(switches("voluntary_ctxt_switches:\tx\nnonvoluntary_ctxt_switches:\t5\n"), None);
        assert_eq!(
            switches("voluntary_ctxt_switches: 18446744073709551615\nnonvoluntary_ctxt_switches: 1\n"),
            None
        );
    }

    #[test]
    fn the_place_is_told_as_far_as_it_is_known() {
        let futex = format!("{} 0x7f2d 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f2d\n", libc::SYS_futex);
        assert_eq!(place(&futex, "futex_wait_queue"), "futex, at futex_wait_queue");
        assert_eq!(place(&futex, "0"), "futex");
        assert_eq!(place("", "pipe_read\n"), "pipe_read");
        assert_eq!(place("99999 0x0", ""), "system call 99999");
        assert_eq!(
            place("-1 0x7ffd 0x7f2d", "folio_wait_bit"),
            "no system call, as in a page fault, at folio_wait_bit"
        );
        assert_eq!(place("running\n", "0"), "at a place that the system does not tell");
    }

    /// A thread that publishes its id, then does `f`.
    fn with_thread<R>(f: impl FnOnce() + Send, look: impl FnOnce(i32) -> R) -> R {
        let id = AtomicI32::new(0);
        std::thread::scope(|s| {
            s.spawn(|| {
                let me = std::fs::read_link("/proc/thread-self").unwrap_or_default();
                let me = me.file_name().and_then(|n| n.to_str()?.parse().ok());
                id.store(me.unwrap_or(-1), SeqCst);
                f();
            });
            loop {
                match id.load(SeqCst) {
                    0 => std::thread::yield_now(),
                    id => break look(id),
                }
            }
        })
    }

    #[test]
    fn a_sleeping_thread_is_found_and_one_that_computes_or_waits_as_native_is_not() {
        use std::io::{Read, Write};
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let read = move || reader.read_exact(&mut [0u8]).unwrap();
        with_thread(read, |id| {
            if id < 0 {
                println!("skipped: no /proc/thread-self here");
            } else {
                // It may still be on its way into the kernel.
                let place = (0..5000).find_map(|_| asleep_while(id, || true)).expect("it sleeps in read");
                assert!(place.contains("read") || place.contains("does not tell"), "{place}");
                assert_eq!(asleep_while(id, || false), None);
            }
            writer.write_all(&[1]).unwrap();
        });
        let quit = AtomicBool::new(false);
        let spin = || {
            while !quit.load(SeqCst) {
                std::hint::spin_loop();
            }
        };
        with_thread(spin, |id| {
            let found = (0..50).find_map(|_| asleep_while(id, || true));
            quit.store(true, SeqCst);
            assert_eq!(found, None);
        });
    }

    #[test]
    fn a_thread_that_is_gone_is_no_error() {
        assert_eq!(asleep_while(i32::MAX, || true), None);
    }
}
