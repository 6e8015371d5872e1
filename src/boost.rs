//! Helps mutators that are ready but not running to arrive at a stop.
//!
//! A mutator that lost its CPU to another thread cannot poll before the system gives it back, which takes whole
//! milliseconds where more threads than CPUs want to run. While the collector waits for it under SCHED_FIFO, the
//! mutator is given the priority just below the collector's, so that it runs to its next poll at once; when the stop is
//! over, and it can run on, it gets its own policy back. This is priority inheritance across the stop; it needs the same right as the collector's own
//! priority, and is left out where that was refused.
//!
//! # Who may touch what
//! The collector thread only. A record that is `Running` belongs to a living thread that is inside the heap, so its
//! thread id is valid when it is boosted. It may have ended when it gets its policy back: an error of the system call.

use crate::shared::{MutatorState, Shared};
use std::sync::atomic::Ordering::Relaxed;

/// Mutators boosted at once; more wait for their turn as usual.
const MAX: usize = 64;
/// Records looked at in a stop: the bound of this help.
pub(crate) const LOOK_AT: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Saved {
    thread: i32,
    policy: i32,
    param: libc::sched_param,
}

/// Mutators that run at a borrowed priority.
pub(crate) struct Boosted {
    priority: i32,
    saved: [Option<Saved>; MAX],
    len: usize,
}

impl std::fmt::Debug for Boosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Boosted({} at {})", self.len, self.priority)
    }
}

impl Boosted {
    /// For a collector at SCHED_FIFO `collector_priority`; `None` if there is no priority below it.
    pub(crate) fn new(collector_priority: u8) -> Option<Boosted> {
        let priority = i32::from(collector_priority) - 1;
        (priority >= 1).then_some(Boosted { priority, saved: [None; MAX], len: 0 })
    }

    /// Boosts the mutators that still run. Three system calls for each; reads each record once.
    pub(crate) fn boost(&mut self, shared: &Shared) {
        for r in shared.records().take(LOOK_AT) {
            if self.len == MAX {
                return;
            }
            if r.state() != MutatorState::Running {
                continue;
            }
            // Relaxed: written before the thread became running.
            let thread = r.thread_id.load(Relaxed);
            // System calls that do not wait: three at most for each of `MAX` threads.
            if let Some(saved) = crate::rtsan::excluded(|| raise(thread, self.priority)) {
                self.saved[self.len] = Some(saved);
                self.len += 1;
            }
        }
    }

    /// Whether somebody is boosted.
    pub(crate) fn any(&self) -> bool {
        self.len > 0
    }

    /// Gives all of them their own policies back.
    pub(crate) fn restore(&mut self) {
        for s in &mut self.saved[..self.len] {
            if let Some(s) = s.take() {
                // As in `boost`.
                crate::rtsan::excluded(|| restore(&s));
            }
        }
        self.len = 0;
    }
}

/// Whether mutators are helped at once: after stops of which more than one in [`Help::EACH`] needed it.
///
/// Not after a single one: a virtual CPU that its host took away for a moment cannot be helped, and a boost moves the mutator
/// that the collector has preempted to another one's CPU.
#[derive(Debug, Default)]
pub(crate) struct Help {
    /// Stops to come.
    at_once: u32,
    /// Rises by [`Help::EACH`] with each stop that needed help, falls by one with each other.
    need: u32,
}

impl Help {
    const EACH: u32 = 8;
    const ENOUGH: u32 = 6 * Help::EACH;
    /// So many stops at once, then one that shows whether it is still so.
    const STOPS: u32 = 31;

    /// Whether the next stop's mutators are helped at once.
    pub(crate) fn at_once(&self) -> bool {
        self.at_once > 0
    }

    /// A stop is over, in which somebody was helped or nobody.
    pub(crate) fn stopped(&mut self, helped: bool) {
        if self.at_once > 0 {
            self.at_once -= 1;
        } else if !helped {
            self.need = self.need.saturating_sub(1);
        } else {
            self.need += Help::EACH;
            if self.need > Help::ENOUGH {
                (self.at_once, self.need) = (Help::STOPS, Help::ENOUGH);
            }
        }
    }
}

/// Raises a thread that has no real-time policy; what it had.
fn raise(thread: i32, priority: i32) -> Option<Saved> {
    // SAFETY: integers only.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: both calls take a thread id of this process (or a stale one, which is an error or another thread's
    // scheduling at worst) and a pointer to a live local.
    unsafe {
        let policy = libc::syscall(libc::SYS_sched_getscheduler, thread) as i32;
        if policy < 0 || libc::syscall(libc::SYS_sched_getparam, thread, &raw mut param) != 0 {
            return None;
        }
        let plain = policy & !libc::SCHED_RESET_ON_FORK;
        if ![libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&plain) {
            return None;
        }
        let mut high = param;
        high.sched_priority = priority;
        // Threads that it may start meanwhile must not inherit the priority.
        let fifo = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        (libc::syscall(libc::SYS_sched_setscheduler, thread, fifo, &raw const high) == 0).then_some(Saved {
            thread,
            policy,
            param,
        })
    }
}

fn restore(s: &Saved) {
    // SAFETY: as in `raise`.
    unsafe {
        // A thread that has set its own policy meanwhile keeps it.
        let now = libc::syscall(libc::SYS_sched_getscheduler, s.thread) as i32;
        if now != libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK {
            return;
        }
        if libc::syscall(libc::SYS_sched_setscheduler, s.thread, s.policy, &raw const s.param) != 0 {
            // Without CAP_SYS_NICE the reset flag cannot be taken back; it does no harm to an ordinary thread.
            let policy = s.policy | libc::SCHED_RESET_ON_FORK;
            libc::syscall(libc::SYS_sched_setscheduler, s.thread, policy, &raw const s.param);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy_of(thread: i32) -> i32 {
        // SAFETY: reads a scheduling policy.
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) as i32 & !libc::SCHED_RESET_ON_FORK }
    }

    /// Numbers of stops, of `n`, in which mutators were helped at once, if every `each`th other one needed help.
    fn at_once(n: usize, each: usize) -> usize {
        let (mut help, mut at_once, mut others) = (Help::default(), 0, 0);
        for _ in 0..n {
            if help.at_once() {
                at_once += 1;
                help.stopped(true);
            } else {
                others += 1;
                help.stopped(others % each == 0);
            }
        }
        at_once
    }

    #[test]
    fn mutators_are_helped_at_once_only_where_many_stops_need_it() {
        assert_eq!(at_once(10_000, 10), 0);
        assert_eq!(at_once(10_000, 1_000), 0);
        // All of them need it: six stops until that is known, then 31 of 32.
        assert_eq!(at_once(6 + 32 * 10, 1), 31 * 10);
        assert!(at_once(10_000, 4) > 5_000);
    }

    #[test]
    fn a_thread_gets_its_policy_back() {
        std::thread::spawn(|| {
            // SAFETY: no preconditions.
            let me = unsafe { libc::gettid() };
            let before = policy_of(me);
            let Some(saved) = raise(me, 1) else {
                println!("skipped: no right to SCHED_FIFO here");
                return;
            };
            assert_eq!(policy_of(me), libc::SCHED_FIFO);
            assert!(raise(me, 2).is_none(), "a real-time thread is left alone");
            restore(&saved);
            assert_eq!(policy_of(me), before);
        })
        .join()
        .unwrap();
    }
}
