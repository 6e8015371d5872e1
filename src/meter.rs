//! Measuring the steps of a quantum.

use crate::collector::StepName;
use crate::shared::Shared;
use metronome_alarm::thread_cpu_ns;
use metronome_barrier::Phase;

/// A step longer than this is measured in CPU time too, to tell the collector's work from a preemption.
const SUSPICIOUS_NS: u64 = 5_000;
/// More than any step can take by its own work: a step has at most 128 units and the slots of one object, some 1,200 visits,
/// even if every one of them misses all caches. A step above it was interrupted where the thread's CPU clock does not show
/// it: interrupts run on the thread's account, and so does, in most virtual machines, what the host takes.
pub(crate) const STEP_CEILING_NS: u64 = 200_000;
/// More than waking one sleeping mutator takes by its own work.
const WAKE_CEILING_NS: u64 = 20_000;

/// CPU time of the calling thread, which is the collector's.
#[inline]
pub(crate) fn cpu_ns(s: &Shared) -> u64 {
    #[cfg(any(test, feature = "hooks"))]
    if let Some(m) = s.hooks.machine() {
        return m.cpu_ns();
    }
    #[cfg(not(any(test, feature = "hooks")))]
    let _ = s;
    thread_cpu_ns()
}

/// Which of mark, sweep, other a step's time belongs to.
pub(crate) fn bucket(phase: Phase) -> usize {
    match phase {
        Phase::Snapshot | Phase::Mark | Phase::Finalize => 0,
        Phase::Sweep => 1,
        Phase::Idle | Phase::Weak | Phase::Phantom => 2,
    }
}

/// Finds the longest step of a quantum, in CPU time where wall time alone would blame the collector for a
/// preemption.
pub(crate) struct StepMeter {
    /// CPU clock and wall clock at the last reading of the CPU clock.
    cpu_ns: u64,
    wall_ns: u64,
    pub(crate) steps: u32,
    pub(crate) longest: StepName,
    pub(crate) longest_ns: u64,
    /// Steps (and the release) above the ceiling, and what they took above it.
    pub(crate) interrupted: u32,
    pub(crate) interrupted_ns: u64,
}

impl StepMeter {
    pub(crate) fn new(cpu_ns: u64, wall_ns: u64) -> StepMeter {
        StepMeter {
            cpu_ns,
            wall_ns,
            steps: 0,
            longest: StepName::Arm,
            longest_ns: 0,
            interrupted: 0,
            interrupted_ns: 0,
        }
    }

    /// A step that ended at `to` is counted but not measured: the heap was verified in it.
    #[cold]
    pub(crate) fn pass_over(&mut self, s: &Shared, to: u64) {
        self.steps += 1;
        (self.cpu_ns, self.wall_ns) = (cpu_ns(s), to);
    }

    /// A step ran from `from` to `to`: what it took of the thread's CPU time, as far as is known. Reads the CPU clock (about
    /// half a microsecond) only when the step looks longer than [`SUSPICIOUS_NS`]; what took less was not preempted.
    #[inline]
    pub(crate) fn step(&mut self, s: &Shared, name: StepName, from: u64, to: u64) -> u64 {
        self.steps += 1;
        let mut ns = to.saturating_sub(from);
        if ns > SUSPICIOUS_NS {
            ns = self.own(s, from, to, STEP_CEILING_NS);
        }
        if ns > self.longest_ns {
            (self.longest, self.longest_ns) = (name, ns);
        }
        ns
    }

    /// The mutators were woken ahead of the release, or let run on, from `from` to `to`, at most `woken` of them by a
    /// wake-up. No step, but a likely moment to lose the CPU at: in a virtual machine a wake-up of another CPU goes through the
    /// host.
    pub(crate) fn release(&mut self, s: &Shared, from: u64, to: u64, woken: u32) {
        let ceiling = STEP_CEILING_NS + u64::from(woken) * WAKE_CEILING_NS;
        if to.saturating_sub(from) > ceiling {
            self.own(s, from, to, ceiling);
        }
    }

    /// CPU time from `from` until now, which is `to`; notes what of it is above the ceiling.
    fn own(&mut self, s: &Shared, from: u64, to: u64, ceiling_ns: u64) -> u64 {
        let cpu = cpu_ns(s);
        // The steps since the last reading took at most their wall time; the rest was this stretch's.
        let since = cpu.saturating_sub(self.cpu_ns).saturating_sub(from.saturating_sub(self.wall_ns));
        let ns = to.saturating_sub(from).min(since.max(1));
        (self.cpu_ns, self.wall_ns) = (cpu, to);
        if ns > ceiling_ns {
            self.interrupted += 1;
            self.interrupted_ns += ns - ceiling_ns;
        }
        ns
    }
}
