//! Pinning the calling thread to one CPU.

use std::error::Error;
use std::fmt;

use core_affinity::CoreId;

/// CPUs that the fixed-size mask of the system call can name.
const MASK_CPUS: usize = libc::CPU_SETSIZE as usize;

/// Why [`pin`] could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AffinityRefused {
    /// The CPU's number is beyond what the kernel's mask can hold.
    NoSuchCpu {
        /// The CPU asked for.
        cpu: usize,
        /// How many CPUs a mask holds.
        mask_cpus: usize,
    },
    /// The kernel refused: the CPU is offline, absent, or outside this process's cpuset.
    NotAllowed {
        /// The CPU asked for.
        cpu: usize,
        /// The CPUs that the thread may run on; empty if they cannot be read.
        allowed: Vec<usize>,
    },
}

impl fmt::Display for AffinityRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AffinityRefused::NoSuchCpu { cpu, mask_cpus } => {
                write!(f, "CPU {cpu} cannot be named in a mask of {mask_cpus} CPUs: choose a smaller number")
            }
            AffinityRefused::NotAllowed { cpu, allowed } => {
                write!(
                    f,
                    "pinning to CPU {cpu} refused; the thread may run on {allowed:?}: choose one of them, bring the CPU online, or widen the cpuset"
                )
            }
        }
    }
}

impl Error for AffinityRefused {}

/// Pins the calling thread to `cpu` (numbered as the kernel does, from 0). One system call; threads spawned afterwards
/// by this thread inherit the mask.
///
/// # Errors
/// [`AffinityRefused`]; the thread then keeps the mask it had.
pub fn pin(cpu: usize) -> Result<(), AffinityRefused> {
    if cpu >= MASK_CPUS {
        return Err(AffinityRefused::NoSuchCpu { cpu, mask_cpus: MASK_CPUS });
    }
    // Asked of the kernel and not of the present mask, which an earlier `pin` may have narrowed.
    if core_affinity::set_for_current(CoreId { id: cpu }) {
        Ok(())
    } else {
        Err(AffinityRefused::NotAllowed { cpu, allowed: allowed() })
    }
}

/// The CPUs that the calling thread may run on, in rising order; empty if the kernel does not say.
pub fn allowed() -> Vec<usize> {
    core_affinity::get_core_ids().map(|ids| ids.into_iter().map(|core| core.id).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_there_only_and_may_move_again() {
        std::thread::spawn(|| {
            let before = allowed();
            assert!(!before.is_empty());
            for &cpu in [before[0], before[before.len() - 1]].iter() {
                pin(cpu).unwrap();
                assert_eq!(allowed(), [cpu]);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn absent_cpus_are_refused_and_the_mask_stays() {
        std::thread::spawn(|| {
            let before = allowed();
            for cpu in [MASK_CPUS, usize::MAX] {
                assert_eq!(pin(cpu), Err(AffinityRefused::NoSuchCpu { cpu, mask_cpus: MASK_CPUS }));
            }
            let present = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
            if let Some(last) =
                present.trim().rsplit(['-', ',']).next().and_then(|text| text.parse::<usize>().ok())
                && last + 1 < MASK_CPUS
            {
                let cpu = last + 1;
                assert_eq!(pin(cpu), Err(AffinityRefused::NotAllowed { cpu, allowed: before.clone() }));
            }
            assert_eq!(allowed(), before);
        })
        .join()
        .unwrap();
    }
}
