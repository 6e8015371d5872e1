//! The host's own noise: the periodic task's period and priority, and nothing else in the process.

use super::Outcome;
use crate::child::clock::{become_task, now, sleep_until};
use crate::child::params::Params;

/// `ms` of time, `period_us`.
///
/// # Errors
/// A size that is missing.
pub(crate) fn run(params: &Params) -> Result<Outcome, String> {
    let period = params.get("period_us")? * 1000;
    let beats = params.get("ms")? * 1_000_000 / period;
    let allowed = become_task();
    let mut responses = vec![1_u64; beats as usize];
    let start = now() + period;
    for (k, response) in (0..).zip(&mut responses) {
        let intended = start + k * period;
        if now() < intended {
            sleep_until(intended);
        }
        *response = now().saturating_sub(intended).max(1);
    }
    let notes = if allowed { vec![] } else { vec!["task not under SCHED_FIFO".to_owned()] };
    Ok(Outcome { checksum: 0, responses, notes })
}
