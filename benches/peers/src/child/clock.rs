//! Monotonic time, sleeping until an absolute time, and the priority of the periodic task.

/// `SCHED_FIFO` priority of the periodic task: below the collector's own threads.
pub(crate) const TASK_PRIORITY: i32 = 5;

/// Monotonic time in nanoseconds.
pub(crate) fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the result; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Sleeps until the clock shows `ns`.
pub(crate) fn sleep_until(ns: u64) {
    let t = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `t` is a valid time; no remainder is asked for. Interrupted sleeps go on, as the time is absolute.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &t, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

/// Gives the calling thread the periodic task's priority; whether the system allowed it.
pub(crate) fn become_task() -> bool {
    let param = libc::sched_param { sched_priority: TASK_PRIORITY };
    // SAFETY: 0 is the calling thread; `param` is valid.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0 }
}
