//! Timer slack: how much later than asked the kernel may wake a thread in order to save power.

use std::error::Error;
use std::fmt;

/// The kernel refused [`set_timer_slack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlackRefused {
    /// The slack asked for, in nanoseconds.
    pub requested_ns: u64,
    /// The `errno` of `prctl(PR_SET_TIMERSLACK)`.
    pub errno: i32,
}

impl fmt::Display for SlackRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "timer slack of {} ns refused ({}): expect wake-ups up to 50 us late; a sandbox that filters prctl is the usual cause, SCHED_FIFO threads are not affected",
            self.requested_ns,
            std::io::Error::from_raw_os_error(self.errno)
        )
    }
}

impl Error for SlackRefused {}

/// Sets the timer slack of the calling thread, in nanoseconds (the default on Linux is 50 µs).
///
/// Has no effect on threads with a real-time policy, whose slack is always 0. A value of 0 is taken as 1, because to
/// the kernel 0 means "back to the default".
///
/// # Errors
/// [`SlackRefused`] if the kernel or a sandbox refuses.
pub fn set_timer_slack(ns: u64) -> Result<(), SlackRefused> {
    let slack = libc::c_ulong::try_from(ns.max(1)).unwrap_or(libc::c_ulong::MAX);
    nix::sys::prctl::set_timerslack(slack)
        .map_err(|errno| SlackRefused { requested_ns: ns, errno: errno as i32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reads_back_what_was_set() {
        // In a thread of its own: slack belongs to the thread.
        std::thread::spawn(|| {
            set_timer_slack(12_345).unwrap();
            assert_eq!(nix::sys::prctl::get_timerslack().unwrap(), 12_345);
            set_timer_slack(0).unwrap();
            assert_eq!(nix::sys::prctl::get_timerslack().unwrap(), 1);
        })
        .join()
        .unwrap();
    }
}
