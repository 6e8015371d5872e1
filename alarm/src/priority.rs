//! Real-time priority of the calling thread, with refusals that say what to do.

use std::error::Error;
use std::fmt;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use crate::sys;

/// Lowest `SCHED_FIFO` priority on Linux.
pub const MIN_PRIORITY: u8 = 1;
/// Highest `SCHED_FIFO` priority on Linux.
pub const MAX_PRIORITY: u8 = 99;

/// Why [`set_fifo`] could not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PriorityRefused {
    /// The priority is not within [`MIN_PRIORITY`]`..=`[`MAX_PRIORITY`].
    OutOfRange {
        /// The priority asked for.
        requested: u8,
    },
    /// The process may not use this priority (`EPERM`).
    NotPermitted {
        /// The priority asked for.
        requested: u8,
        /// The soft limit `RLIMIT_RTPRIO`; `None` if it could not be read.
        rtprio_limit: Option<u64>,
    },
    /// Another error of the kernel, a sandbox or the C library.
    Other {
        /// The priority asked for.
        requested: u8,
        /// The `errno`.
        errno: i32,
    },
}

impl PriorityRefused {
    /// What an administrator or user can do about it, in one sentence.
    pub fn remedy(&self) -> &'static str {
        match *self {
            PriorityRefused::OutOfRange { .. } => "choose a priority from 1 to 99",
            PriorityRefused::NotPermitted { requested, rtprio_limit: Some(limit) }
                if limit >= u64::from(requested) =>
            {
                "RLIMIT_RTPRIO would allow it, so a control group without real-time run time (cpu.rt_runtime_us) or a sandbox refuses: give the group run time, or start the process outside it"
            }
            PriorityRefused::NotPermitted { .. } => {
                "raise RLIMIT_RTPRIO (ulimit -r, rtprio in limits.conf, LimitRTPRIO= in systemd) to at least this priority, or grant CAP_SYS_NICE"
            }
            PriorityRefused::Other { .. } => "see whether a sandbox (seccomp) filters sched_setscheduler",
        }
    }
}

impl fmt::Display for PriorityRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PriorityRefused::OutOfRange { requested } => {
                write!(f, "SCHED_FIFO priority {requested} does not exist: {}", self.remedy())
            }
            PriorityRefused::NotPermitted { requested, rtprio_limit } => {
                write!(f, "SCHED_FIFO priority {requested} not permitted (RLIMIT_RTPRIO is ")?;
                match rtprio_limit {
                    Some(limit) => write!(f, "{limit}")?,
                    None => f.write_str("unknown")?,
                }
                write!(f, "): {}", self.remedy())
            }
            PriorityRefused::Other { requested, errno } => write!(
                f,
                "SCHED_FIFO priority {requested} refused ({}): {}",
                std::io::Error::from_raw_os_error(errno),
                self.remedy()
            ),
        }
    }
}

impl Error for PriorityRefused {}

/// Gives the calling thread the policy `SCHED_FIFO` with this priority. One system call; threads spawned afterwards by
/// this thread inherit it.
///
/// # Errors
/// [`PriorityRefused`], with the reason and the remedy; the thread then keeps the policy it had.
pub fn set_fifo(priority: u8) -> Result<(), PriorityRefused> {
    if !(MIN_PRIORITY..=MAX_PRIORITY).contains(&priority) {
        return Err(PriorityRefused::OutOfRange { requested: priority });
    }
    sys::set_policy(libc::SCHED_FIFO, i32::from(priority))
        .map_err(|errno| refusal(priority, errno, rtprio_limit()))
}

/// Gives the calling thread the ordinary policy `SCHED_OTHER` back.
///
/// # Errors
/// The operating system's error; lowering a thread is always permitted, so only a sandbox is known to cause one.
pub fn set_other() -> std::io::Result<()> {
    sys::set_policy(libc::SCHED_OTHER, 0).map_err(std::io::Error::from_raw_os_error)
}

/// The `SCHED_FIFO` priority of the calling thread, or `None` if it has another policy or that cannot be read.
pub fn current_fifo() -> Option<u8> {
    match sys::get_policy() {
        Ok((libc::SCHED_FIFO, priority)) => u8::try_from(priority).ok(),
        _ => None,
    }
}

/// The soft limit `RLIMIT_RTPRIO`: the highest real-time priority an unprivileged thread of this process may take.
/// `None` if it cannot be read.
pub fn rtprio_limit() -> Option<u64> {
    getrlimit(Resource::RLIMIT_RTPRIO).ok().map(|(soft, _)| soft)
}

/// Classifies an error number; apart so that refusals can be tested by a process that may do everything.
fn refusal(requested: u8, errno: i32, rtprio_limit: Option<u64>) -> PriorityRefused {
    if errno == Errno::EPERM as i32 {
        PriorityRefused::NotPermitted { requested, rtprio_limit }
    } else {
        PriorityRefused::Other { requested, errno }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_that_do_not_exist_are_refused_before_the_kernel_is_asked() {
        for requested in [0, 100, 255] {
            assert_eq!(set_fifo(requested), Err(PriorityRefused::OutOfRange { requested }));
        }
    }

    #[test]
    fn granted_or_refused_the_thread_has_what_the_answer_says() {
        std::thread::spawn(|| match set_fifo(7) {
            Ok(()) => {
                assert_eq!(current_fifo(), Some(7));
                set_other().unwrap();
                assert_eq!(current_fifo(), None);
            }
            Err(refused) => {
                assert_eq!(current_fifo(), None, "{refused}");
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_remedy_fits_the_cause() {
        let by_limit = refusal(10, libc::EPERM, Some(0));
        assert_eq!(by_limit, PriorityRefused::NotPermitted { requested: 10, rtprio_limit: Some(0) });
        let text = by_limit.to_string();
        assert!(text.contains("RLIMIT_RTPRIO is 0") && text.contains("CAP_SYS_NICE"), "{text}");

        let by_group = refusal(10, libc::EPERM, Some(50)).to_string();
        assert!(by_group.contains("control group") && !by_group.contains("CAP_SYS_NICE"), "{by_group}");

        let by_sandbox = refusal(10, libc::ENOSYS, Some(50));
        assert_eq!(by_sandbox, PriorityRefused::Other { requested: 10, errno: libc::ENOSYS });
        for text in [text, by_group, by_sandbox.to_string()] {
            assert!(!text.contains('\n'), "one line: {text}");
        }
    }
}
