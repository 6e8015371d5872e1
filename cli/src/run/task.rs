//! The periodic task: what a real-time thread beside the collector feels.
//!
//! Open loop: the intended start times lie on a fixed grid, whatever came late before, and a response is counted from
//! the intended start, so that one long delay is felt by every start that it covers.

use super::env::{Env, Failure};
use crate::workload::Tally;
use crate::workload::wander::Wanderers;
use hdrhistogram::Histogram;
use metronome_gc::alarm::priority;
use metronome_gc::{AllocError, Gc, GcArray, Mutator, Root, Slot, Trace};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Period of the task.
pub(crate) const PERIOD_NS: u64 = 1_000_000;
/// Below the collector (10) and the alarm (11) by default.
const PRIORITY: u8 = 5;
const BEADS: u64 = 64;
/// Objects that the task moves about, one at each beat.
const WANDERERS: usize = 32;

#[derive(Trace)]
struct Bead {
    serial: u64,
    twin: Slot<Twin>,
}

#[derive(Trace)]
struct Twin {
    serial: u64,
}

/// What the task measured.
#[derive(Debug)]
pub(crate) struct TaskReport {
    /// Completion minus intended start, in nanoseconds.
    pub(crate) response: Histogram<u64>,
    /// Responses longer than the period.
    pub(crate) missed: u64,
    /// What the task found wrong in its structure.
    pub(crate) difference: Option<String>,
    pub(crate) failure: Option<Failure>,
    /// Why it does not run under `SCHED_FIFO`.
    pub(crate) refused: Option<String>,
}

/// Monotonic time in nanoseconds.
fn now() -> u64 {
    // The monotonic clock cannot fail on Linux; 0 would show as a huge response, not as a good one.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| u64::try_from(t.num_nanoseconds()).unwrap_or(0))
}

fn sleep_until(ns: u64) {
    let at = TimeSpec::nanoseconds(i64::try_from(ns).unwrap_or(i64::MAX));
    while let Err(nix::errno::Errno::EINTR) =
        clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at)
    {}
}

/// Runs the task until the workload has ended, its final check included.
pub(crate) fn run(env: &Env, m: &mut Mutator<'_>) -> TaskReport {
    let mut report = TaskReport {
        // Up to an hour, three digits: these bounds are valid, and what is beyond is clamped.
        response: Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds"),
        missed: 0,
        difference: None,
        failure: None,
        refused: priority::set_fifo(PRIORITY).err().map(|e| e.to_string()),
    };
    if let Err(e) = beats(env, m, &mut report) {
        report.failure = Some(e);
        env.stop();
    }
    report
}

fn beats(env: &Env, m: &mut Mutator<'_>, report: &mut TaskReport) -> Result<(), Failure> {
    let ring = env.insist(m, string)?;
    let mut wanderers = Wanderers::new(env, m, WANDERERS, 0x7a5c, false)?;
    let mut tally = Tally::default();
    let start = now() + PERIOD_NS;
    for k in 0_u64.. {
        // Once at least, however late this thread got a CPU.
        if k > 0 && env.over() {
            break;
        }
        let intended = start + k * PERIOD_NS;
        if now() < intended {
            m.blocking(|| sleep_until(intended));
        }
        let sum = env.insist(m, |m| job(m, ring.get(m), k + BEADS))?;
        let kept = wanderers.step(env, m, &mut tally)? && wanderers.look(m, &mut tally);
        let response = now().saturating_sub(intended);
        report.response.saturating_record(response.max(1));
        report.missed += u64::from(response > PERIOD_NS);
        // Before its replacement number k the ring holds the serials k..k + BEADS.
        let expected = BEADS * k + BEADS * (BEADS - 1) / 2;
        if sum != Some(expected) {
            report.difference =
                Some(format!("task: the ring held the sum {sum:?} instead of {expected} at beat {k}"));
        }
        if report.difference.is_some() || !kept {
            // Something was lost: what follows could only be worse.
            env.stop();
            break;
        }
    }
    if report.difference.is_none() {
        wanderers.compare_all(m, &mut tally);
        report.difference = tally.differences().first().map(|what| format!("task: {what}"));
    }
    Ok(())
}

fn bead<'m>(m: &'m Mutator<'_>, serial: u64) -> Result<Gc<'m, Bead>, AllocError> {
    let twin = m.alloc(Twin { serial })?;
    m.alloc(BeadInit { serial, twin: Some(twin) })
}

fn string(m: &Mutator<'_>) -> Result<Root<GcArray<Slot<Bead>>>, AllocError> {
    let ring = m.alloc_slots(BEADS as usize)?;
    for serial in 0..BEADS {
        ring.store(m, serial as usize, bead(m, serial)?);
    }
    Ok(Root::new(m, ring))
}

/// One beat's work: reads the whole ring, then replaces its oldest bead. `None` if a bead is not what was stored.
fn job(m: &Mutator<'_>, ring: Gc<'_, GcArray<Slot<Bead>>>, serial: u64) -> Result<Option<u64>, AllocError> {
    let mut sum = Some(0);
    for i in 0..ring.len() {
        let whole = ring.load(m, i).and_then(|b| b.twin.load(m).filter(|t| t.serial == b.serial));
        sum = sum.zip(whole).map(|(sum, twin)| sum + twin.serial);
    }
    ring.store(m, (serial % BEADS) as usize, bead(m, serial)?);
    Ok(sum)
}
