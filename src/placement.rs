//! Gives the collector's CPU to a mutator that would have to share another one.
//!
//! With as many mutators as CPUs the collector preempts one of them, and the system soon moves that one to another mutator's
//! CPU: it is boosted there ([`boost`](crate::boost)), or woken there. When the collector sleeps again its CPU is free, and the two
//! go on sharing: a CPU that was idle for so short a time fetches nobody (on Linux for as long as it is idle less than
//! `sched_migration_cost`, half a millisecond, at a time). They would run at half their speed, and arrive at the next stops
//! one after the other.
//!
//! So mutators note their CPU when they arrive, and at the end of a stop the collector looks whether two of them noted the
//! same one and nobody the collector's. Then one of the two is sent there by its affinity, which it gets back at once.
//! It does not run meanwhile (it is paused), so what it may set for itself is not overwritten.
//!
//! # Who may touch what
//! `Record::cpu` is its mutator's while running, the collector's while stopped. The rest is the collector thread's.

use crate::collector::Stopped;
use crate::shared::{MutatorState, Record, Shared};
use std::sync::atomic::Ordering::Relaxed;

/// Mutators looked at: more are not spread.
const LOOK_AT: usize = 64;
/// CPUs told apart.
const CPUS: usize = 1024;
/// Quanta without another try after a mutator that may not run on the collector's CPU.
const BREAK: u32 = 1000;

/// The CPU that the calling thread runs on. A few nanoseconds, no system call where the C library or the vDSO knows it.
pub(crate) fn current_cpu() -> u32 {
    // SAFETY: no preconditions.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(u32::MAX)
}

/// The collector's side.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// Quanta until the next look.
    rest: u32,
}

impl Placement {
    /// At the end of a stop: sends one mutator to this thread's CPU if two share another one and nobody waits for this one.
    /// Reads [`LOOK_AT`] records; three system calls if somebody is sent.
    pub(crate) fn spread(&mut self, shared: &Shared, _: &Stopped<'_>) {
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        let here = current_cpu();
        let paused = shared
            .records()
            .take(LOOK_AT)
            .filter(|r| matches!(r.state(), MutatorState::Paused | MutatorState::AtSafepoint));
        let Some(sharer) = sharer(paused, here) else { return };
        // Relaxed: ordered by the gate.
        let thread = sharer.thread_id.load(Relaxed);
        if crate::rtsan::excluded(|| send(thread, here as usize)) {
            // Relaxed: ordered by the gate.
            sharer.cpu.store(here, Relaxed);
        } else {
            self.rest = BREAK;
        }
    }
}

/// One of the records that noted the same CPU as another; nobody if one noted `here`.
fn sharer<'a>(paused: impl Iterator<Item = &'a Record>, here: u32) -> Option<&'a Record> {
    let mut seen = [0u64; CPUS / 64];
    let mut found = None;
    for r in paused {
        // Relaxed: ordered by the gate.
        let cpu = r.cpu.load(Relaxed);
        if cpu == here || here as usize >= CPUS {
            return None;
        }
        let Some(word) = seen.get_mut(cpu as usize / 64) else { continue };
        let bit = 1 << (cpu % 64);
        if *word & bit != 0 {
            found = Some(r);
        }
        *word |= bit;
    }
    found
}

/// Moves a thread to `cpu` and leaves its affinity as it was. False if it may not run there, or the system refuses.
fn send(thread: i32, cpu: usize) -> bool {
    const SIZE: usize = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of bits, for which zero is a value.
    let mut own: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let mut one = own;
    // SAFETY: the calls take a thread id of this process (a paused mutator's) and pointers to live locals; `cpu` is below
    // the number of bits in a set.
    unsafe {
        if libc::sched_getaffinity(thread, SIZE, &raw mut own) != 0 || !libc::CPU_ISSET(cpu, &own) {
            return false;
        }
        libc::CPU_SET(cpu, &mut one);
        let sent = libc::sched_setaffinity(thread, SIZE, &raw const one) == 0;
        // Whatever came of it.
        libc::sched_setaffinity(thread, SIZE, &raw const own);
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(cpus: &[u32]) -> Vec<Record> {
        let record = |&cpu: &u32| {
            let r = Record::new(0);
            // Relaxed: one thread.
            r.cpu.store(cpu, Relaxed);
            r
        };
        cpus.iter().map(record).collect()
    }

    /// Index of the mutator that is sent to CPU `here`.
    fn sent(cpus: &[u32], here: u32) -> Option<usize> {
        let all = records(cpus);
        let found = sharer(all.iter(), here)?;
        all.iter().position(|r| std::ptr::eq(r, found))
    }

    #[test]
    fn one_of_two_on_a_cpu_is_sent_where_nobody_is() {
        assert_eq!(sent(&[1, 1], 0), Some(1));
        assert_eq!(sent(&[3, 2, 70, 2], 0), Some(3));
        assert_eq!(sent(&[1, 2, 3], 0), None, "nobody shares");
        assert_eq!(sent(&[1, 1, 0], 0), None, "somebody waits for this CPU");
        assert_eq!(sent(&[], 0), None);
        // Not known, or more than are told apart.
        assert_eq!(sent(&[u32::MAX, u32::MAX], 0), None);
        assert_eq!(sent(&[1, 1], u32::MAX), None);
    }

    /// The CPUs that the calling thread may use.
    fn own() -> Vec<usize> {
        // SAFETY: a set of bits, for which zero is a value; the call gets a live local.
        let set: libc::cpu_set_t = unsafe {
            let mut set = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
            set
        };
        // SAFETY: below the number of bits in the set.
        (0..CPUS).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
    }

    #[test]
    fn a_thread_is_sent_and_keeps_its_affinity() {
        let before = own();
        // SAFETY: no preconditions.
        let me = unsafe { libc::gettid() };
        for &cpu in &before {
            assert!(send(me, cpu));
            assert_eq!(own(), before);
        }
        if let Some(other) = (0..CPUS).find(|cpu| !before.contains(cpu)) {
            assert!(!send(me, other), "a CPU that the thread may not use");
        }
        assert_eq!(own(), before);
    }
}
