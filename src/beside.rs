//! Marking beside the mutators: what helpers do between quanta, on CPUs that no mutator uses.
//!
//! A helper that is in need not leave when a quantum ends: why that is sound [`crew`](crate::crew) says. Where there are more
//! CPUs than running mutators, the collector lets as many helpers stay, at `SCHED_IDLE`, so that whoever else wants their CPU has it;
//! before the next stop they get the collector's priority back. Needs the right to that priority, which is looked at each time: a
//! process that gives it up has no helper that stays.
//!
//! # What it earns
//! While helpers come forward at least as fast as the quanta of the plan would, the collector leaves those quanta out
//! ([`Beside::earns`]): nobody is stopped for work that is being done anyway. As soon as they do not, or have nothing to do, quanta
//! are run as ever; so the plan's progress is the least, and the target is kept in either case. Pacing reckons with none of it: what
//! was marked beside is added to the cycle's time as if a quantum had done it, so a cycle starts early enough for the day on which
//! the other CPU is busy.
//!
//! # Who may touch what
//! The collector thread only. The thread ids are written before the heap can be used.

use crate::shared::Shared;
use std::sync::atomic::Ordering::Relaxed;

/// From so many objects on what they took says how long one takes.
const ENOUGH: u64 = 4096;

/// The collector's side.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Helpers that stay at present, at `SCHED_IDLE`.
    staying: usize,
    /// Objects that helpers had scanned when the last quantum ended, and when that was.
    scanned: u64,
    since_ns: u64,
    /// Objects of this cycle scanned between quanta.
    objects: u64,
    /// A helper could not get its priority back: none stays any more.
    refused: bool,
    /// Nanoseconds for an object in quanta, of the last cycles; 0: not known.
    object_ns: u64,
}

impl Beside {
    /// How many helpers may stay when the quantum that is about to begin ends. Two system calls.
    pub(crate) fn room(&self, shared: &Shared, running: u32) -> usize {
        // Relaxed: written before the heap could be used.
        let allowed = shared.config.concurrent
            && shared.collector_fifo.load(Relaxed)
            && !shared.config.stress.is_on()
            && !shared.gate.polls_always();
        if !allowed || self.refused || !may_raise(shared.config.gc_priority) {
            return 0;
        }
        (shared.cpus.saturating_sub(running) as usize).min(shared.crew.seats.len())
    }

    /// A quantum has ended, at `now`, and so many helpers stay. A system call for each of them.
    pub(crate) fn stay(&mut self, shared: &Shared, helpers: usize, now: u64) {
        self.staying = helpers;
        // Relaxed: a figure for pacing.
        self.scanned = shared.crew.scanned.load(Relaxed);
        self.since_ns = now;
        for i in 0..helpers {
            crate::rtsan::excluded(|| _ = set_policy(shared, i, libc::SCHED_IDLE, 0));
        }
    }

    /// A quantum is about to begin, or the heap to be verified: the helpers get their priority back. A system call for each.
    pub(crate) fn come_back(&mut self, shared: &Shared) {
        if self.staying == 0 {
            return;
        }
        for i in 0..std::mem::take(&mut self.staying) {
            let priority = i32::from(shared.config.gc_priority);
            self.refused |= !crate::rtsan::excluded(|| set_policy(shared, i, libc::SCHED_FIFO, priority));
        }
        let objects = self.progress(shared);
        self.objects += objects;
        // Relaxed: a report.
        shared.counts.marked_beside.fetch_add(objects, Relaxed);
    }

    /// Objects scanned since the last quantum.
    fn progress(&self, shared: &Shared) -> u64 {
        // Relaxed: a figure for pacing.
        shared.crew.scanned.load(Relaxed).saturating_sub(self.scanned)
    }

    /// Whether helpers that stay have come forward at least as fast since the last quantum as quanta would have, and still do:
    /// then none is needed now.
    pub(crate) fn earns(&self, shared: &Shared, now: u64) -> bool {
        self.staying > 0
            && shared.crew.is_busy()
            && keeps_pace(
                u128::from(self.progress(shared)) * u128::from(self.object_ns),
                now.saturating_sub(self.since_ns),
                shared.config.target_utilization,
            )
    }

    /// A cycle begins.
    pub(crate) fn begin_cycle(&mut self) {
        self.objects = 0;
    }

    /// The cycle has ended, of whose `scanned` objects quanta have marked some in `mark_ns`. What all would have taken in quanta.
    pub(crate) fn whole_ns(&mut self, scanned: u64, mark_ns: u64) -> u64 {
        let in_quanta = scanned.saturating_sub(self.objects);
        if in_quanta >= ENOUGH {
            self.object_ns = (mark_ns / in_quanta).max(1);
        }
        mark_ns.saturating_add(self.objects.saturating_mul(self.object_ns))
    }
}

/// Whether work of `worked_ns` is no less than quanta might have done in `elapsed_ns`. None at all (also of unknown worth) is less.
fn keeps_pace(worked_ns: u128, elapsed_ns: u64, target_percent: u32) -> bool {
    worked_ns > 0
        && worked_ns.saturating_mul(100) >= u128::from(elapsed_ns) * u128::from(100 - target_percent)
}

/// Whether a thread may be raised to this priority: a process may give its privileges up at any time, and would not get a helper up
/// again. Two system calls.
fn may_raise(priority: u8) -> bool {
    const CAP_SYS_NICE: u32 = 23;
    const VERSION_3: u32 = 0x2008_0522;
    crate::rtsan::excluded(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let mut head = [VERSION_3, 0];
        let mut sets = [0u32; 6];
        // SAFETY: the calls write to live locals of the sizes that they expect: two limits; of capabilities twice three words.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit) == 0
                && limit.rlim_cur >= u64::from(priority)
            {
                return true;
            }
            libc::syscall(libc::SYS_capget, head.as_mut_ptr(), sets.as_mut_ptr()) == 0
                && sets[0] & 1 << CAP_SYS_NICE != 0
        }
    })
}

/// Gives helper `index` a policy; whether it has it.
fn set_policy(shared: &Shared, index: usize, policy: i32, priority: i32) -> bool {
    // Relaxed: written before the heap could be used.
    let thread = shared.helper_threads[index].load(Relaxed);
    if thread == 0 {
        return true;
    }
    // SAFETY: the id of a thread that lives as long as the collector's, and a pointer to a live local.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = priority;
        libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const param) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quanta_are_left_out_while_the_plan_is_kept() {
        // 30 % of a millisecond.
        assert!(keeps_pace(300_000, 1_000_000, 70));
        assert!(!keeps_pace(299_999, 1_000_000, 70));
        assert!(keeps_pace(10_000, 1_000_000, 99));
        assert!(!keeps_pace(989_999, 1_000_000, 1));
        // A quantum that has just ended is no reason to leave the next one out.
        assert!(!keeps_pace(0, 0, 70));
        assert!(keeps_pace(u128::from(u64::MAX) * u128::from(u64::MAX), u64::MAX, 1));
    }

    #[test]
    fn what_was_marked_beside_counts_as_if_quanta_had_done_it() {
        // Nothing is known yet: the time is what it is.
        let mut b = Beside { objects: 1_000_000, ..Beside::default() };
        assert_eq!(b.whole_ns(1_001_000, 20_000), 20_000);
        // All in quanta: 20 ns for an object.
        b.begin_cycle();
        assert_eq!(b.whole_ns(1_000_000, 20_000_000), 20_000_000);
        // Three quarters beside.
        b.begin_cycle();
        b.objects = 750_000;
        assert_eq!(b.whole_ns(1_000_000, 5_000_000), 20_000_000);
        // Nearly all of it: what is left says nothing new.
        b.begin_cycle();
        b.objects = 999_000;
        assert_eq!(b.whole_ns(1_000_000, 500_000), 500_000 + 999_000 * 20);
    }
}
