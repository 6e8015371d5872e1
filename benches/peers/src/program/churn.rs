//! Churn beside a periodic task: a live set whose objects are replaced, at random places, at a given rate, while a task
//! works once in a millisecond. Open loop: a response is counted from the intended start, whatever came late before.

use super::{Outcome, join, start};
use crate::child::clock::{become_task, now, sleep_until};
use crate::child::params::Params;
use crate::child::random::{Random, mix};
use crate::family::{Family, Idle};

/// Tables of objects that are replaced; an object is its serial number and an array that follows from it.
pub(crate) trait Store: Idle {
    /// Keeps a table of objects alive.
    type Table;

    /// A table of `n` places, without objects.
    fn table(&mut self, n: usize) -> Self::Table;
    /// Puts a new object with these [`words`] into a place, over what was there.
    fn put(&mut self, table: &mut Self::Table, place: usize, serial: u64);
    /// The [`digest`] of the object in a place; 0 if there is none.
    fn digest(&mut self, table: &Self::Table, place: usize) -> u64;
}

/// Bytes of an object on average: its words, and about as much around them as any contestant needs.
const AVERAGE_BYTES: u64 = 32 * 8 + 56;
/// Objects replaced between looks at the clock.
const BATCH: u64 = 16;
/// Objects that the task keeps, replaces one at a time and looks at.
const BEADS: u64 = 64;
/// Serial number of the task's first object.
const TASK_SERIAL: u64 = 1 << 40;

/// Length of an object's array.
pub(crate) fn length(serial: u64) -> usize {
    4 + ((mix(serial) >> 33) % 57) as usize
}

/// Word `i` of an object's array.
pub(crate) fn word(serial: u64, i: usize) -> u64 {
    serial.wrapping_mul(0x0100_0000_01b3) ^ i as u64
}

/// All words of an object.
pub(crate) fn words(serial: u64) -> impl ExactSizeIterator<Item = u64> {
    (0..length(serial)).map(move |i| word(serial, i))
}

/// What an object holds, as one number.
pub(crate) fn digest<'a>(serial: u64, words: impl IntoIterator<Item = &'a u64>) -> u64 {
    words.into_iter().fold(serial, |sum, w| sum.wrapping_mul(31).wrapping_add(*w))
}

/// Replaces `count` objects at the rate and sums up what the table holds then.
fn churn<S: Store>(memory: &mut S, table: &mut S::Table, n: u64, count: u64, rate: u64) -> u64 {
    let mut random = Random::new(0xc0de);
    let (start, mut done) = (now(), 0);
    while done < count {
        let due = start + (done * AVERAGE_BYTES) * 1_000_000_000 / rate;
        if now() + 1_000_000 < due {
            memory.idle(|| sleep_until(due));
        }
        for _ in 0..BATCH.min(count - done) {
            memory.put(table, random.below(n) as usize, n + done);
            done += 1;
        }
    }
    (0..n as usize).fold(0, |sum, place| sum.wrapping_add(mix(memory.digest(table, place))))
}

/// The task: `beats` periods.
fn task<S: Store>(memory: &mut S, beats: u64, period: u64) -> (u64, Vec<u64>) {
    let mut table = memory.table(BEADS as usize);
    for k in 0..BEADS {
        memory.put(&mut table, k as usize, TASK_SERIAL + k);
    }
    // Written once, so that no page of it is touched for the first time in a response.
    let mut responses = vec![1_u64; beats as usize];
    let (mut sum, start) = (0_u64, now() + period);
    for k in 0..beats {
        let intended = start + k * period;
        if now() < intended {
            memory.idle(|| sleep_until(intended));
        }
        memory.put(&mut table, (k % BEADS) as usize, TASK_SERIAL + BEADS + k);
        for place in 0..BEADS as usize {
            sum = sum.wrapping_add(memory.digest(&table, place));
        }
        responses[k as usize] = now().saturating_sub(intended).max(1);
    }
    (sum, responses)
}

/// The program: `live` bytes, `rate` in bytes per second, `ms` of time, `period_us` of the task.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run<F: Family>(shared: &F::Shared, params: &Params) -> Result<Outcome, String>
where
    for<'a> F::Memory<'a>: Store,
{
    let (live, rate, ms) = (params.get("live")?, params.get("rate")?, params.get("ms")?);
    let period = params.get("period_us")? * 1000;
    let (n, count) = (live / AVERAGE_BYTES, rate * ms / 1000 / AVERAGE_BYTES);
    std::thread::scope(|scope| {
        F::enter(shared, |memory| {
            let mut table = memory.table(n as usize);
            for serial in 0..n {
                memory.put(&mut table, serial as usize, serial);
            }
            let beats = ms * 1_000_000 / period;
            let task = start(scope, "peers-task", move || {
                let allowed = become_task();
                (F::enter(shared, |memory| task(memory, beats, period)), allowed)
            })?;
            let sum = churn(memory, &mut table, n, count, rate);
            let ((task_sum, responses), allowed) = memory.idle(|| join(task));
            let notes = if allowed { vec![] } else { vec!["task not under SCHED_FIFO".to_owned()] };
            Ok(Outcome { checksum: sum ^ task_sum.rotate_left(32), responses, notes })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_as_large_as_the_rate_assumes() {
        let mean = (0..10_000).map(|s| length(s) as u64).sum::<u64>() / 10_000;
        assert!((31..=33).contains(&mean), "{mean}");
        assert_eq!(words(7).count(), length(7));
        assert_ne!(digest(7, &words(7).collect::<Vec<_>>()), digest(7, &words(8).collect::<Vec<_>>()));
    }
}
