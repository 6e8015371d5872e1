//! Churn: a live set of a given size whose objects are replaced, at random places, at a given rate.
//!
//! An object's size and contents follow from its serial number. The independent implementation replays the random
//! choices on a plain vector of serial numbers and computes what the heap's objects must hold. Beside them, wanderers
//! move from place to place as references only (see [`super::wander`]).

use super::random::{Random, mix};
use super::wander::Wanderers;
use super::{Tally, Workload};
use crate::quantity;
use crate::run::env::{Env, Failure};
use metronome_gc::{AllocError, Gc, GcArray, Mutator, Root, Slot, Trace};
use serde_json::json;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Average bytes of an object: see [`words`], plus two headers, the array's length and shape, and rounding up.
const AVERAGE_BYTES: u64 = 680;
/// Wanderers of each thread: more than move during one marking, as each move may save what an earlier one lost.
const WANDERERS_MAX: u64 = 2048;
/// Objects replaced between looks at the clock.
const BATCH: u64 = 16;

/// The workload's sizes, for each thread.
#[derive(Debug)]
pub(crate) struct Churn {
    mutators: u64,
    objects: u64,
    wanderers: u64,
    bytes_per_second: u64,
}

/// An object of the live set.
#[derive(Trace)]
struct Block {
    serial: u64,
    words: Slot<GcArray<u64>>,
}

/// Words of an object: mostly 4 to 127, one in 256 so many that they lie in several leaves.
fn words(serial: u64) -> usize {
    let r = mix(serial ^ 0x5eed);
    (if r & 0xff == 0 { 1024 + (r >> 8) % 3072 } else { 4 + (r >> 8) % 124 }) as usize
}

/// Word `i` of an object.
fn word(serial: u64, i: usize) -> u64 {
    serial.wrapping_mul(0x0100_0000_01b3) ^ i as u64
}

impl Churn {
    /// `live` and `rate` are for all threads together.
    ///
    /// # Errors
    /// What to change, if the live set cannot fit.
    pub(crate) fn new(heap_bytes: u64, live: u64, rate: u64, mutators: u32) -> Result<Churn, String> {
        let mutators = u64::from(mutators);
        if live > heap_bytes / 100 * 95 {
            return Err(format!(
                "--live {} does not fit into a heap of {}: set --live lower, or --heap to {} or more",
                quantity::bytes(live),
                quantity::bytes(heap_bytes),
                quantity::bytes(live.saturating_mul(2))
            ));
        }
        let objects = (live / mutators / AVERAGE_BYTES).max(1);
        Ok(Churn {
            mutators,
            objects,
            wanderers: (objects / 8).clamp(8, WANDERERS_MAX),
            bytes_per_second: (rate / mutators).max(1),
        })
    }

    fn random(i: usize) -> Random {
        Random::new(0xc0de + i as u64)
    }
}

fn block<'m>(m: &'m Mutator<'_>, serial: u64) -> Result<Gc<'m, Block>, AllocError> {
    let words = m.alloc_array(words(serial), |i| word(serial, i))?;
    m.alloc(BlockInit { serial, words: Some(words) })
}

/// Bytes that allocating the object takes, about.
fn block_bytes(serial: u64) -> u64 {
    words(serial) as u64 * 8 + 56
}

/// What an object of the heap holds: a digest of its serial and all its words.
fn digest(m: &Mutator<'_>, block: Gc<'_, Block>) -> u64 {
    let mut sum = block.serial;
    if let Some(words) = block.words.load(m) {
        for leaf in words.leaves() {
            sum = leaf.iter().fold(sum, |sum, w| sum.wrapping_mul(31).wrapping_add(*w));
            m.poll();
        }
    }
    sum
}

/// The same from the serial alone.
fn digest_of(serial: u64) -> u64 {
    (0..words(serial)).fold(serial, |sum, i| sum.wrapping_mul(31).wrapping_add(word(serial, i)))
}

impl Workload for Churn {
    fn name(&self) -> &'static str {
        "churn"
    }

    fn round_name(&self) -> &'static str {
        "replacements"
    }

    fn size_classes(&self) -> u64 {
        // Of 8 per doubling, those between the smallest and the largest array of words; leaves; the other objects.
        30
    }

    fn live_estimate(&self) -> u64 {
        self.mutators * (self.objects * (AVERAGE_BYTES + 8) + Wanderers::bytes(self.wanderers))
    }

    fn plan(&self) -> Vec<String> {
        vec![format!(
            "each thread keeps {} objects (about {}), replaces {} per second, and moves {} more from place to place",
            quantity::grouped(self.objects),
            quantity::bytes(self.objects * AVERAGE_BYTES),
            quantity::bytes(self.bytes_per_second),
            quantity::grouped(self.wanderers)
        )]
    }

    fn facts(&self) -> serde_json::Value {
        json!({
            "objects_per_thread": self.objects,
            "wanderers_per_thread": self.wanderers,
            "bytes_per_second_per_thread": self.bytes_per_second,
        })
    }

    fn run(&self, env: &Env, i: usize, m: &mut Mutator<'_>) -> Result<Tally, Failure> {
        let n = self.objects;
        let mut tally = Tally::default();
        let table = env.insist(m, |m| Ok(Root::new(m, m.alloc_slots::<Block>(n as usize)?)))?;
        for serial in 0..n {
            env.insist(m, |m| {
                table.get(m).store(m, serial as usize, block(m, serial)?);
                Ok(())
            })?;
        }
        let mut wanderers = Wanderers::new(env, m, self.wanderers as usize, 1 + i as u64, true)?;
        let mut random = Self::random(i);
        let (mut replaced, mut bytes) = (0, 0_u64);
        let start = Instant::now();
        while !env.stopping() {
            if !wanderers.step(env, m, &mut tally)? || !wanderers.look(m, &mut tally) {
                // Something was lost: what follows could only be worse.
                env.stop();
                break;
            }
            let due = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
            let ahead = due.saturating_sub(start.elapsed());
            if ahead > Duration::from_millis(1) {
                // Short sleeps, so that the end of the run is noticed.
                m.blocking(|| std::thread::sleep(ahead.min(Duration::from_millis(20))));
                continue;
            }
            for _ in 0..BATCH {
                let place = random.below(n) as usize;
                let serial = n + replaced;
                env.insist(m, |m| {
                    table.get(m).store(m, place, block(m, serial)?);
                    Ok(())
                })?;
                replaced += 1;
                bytes += block_bytes(serial);
            }
            // Relaxed: a counter for reports.
            env.counters.rounds.fetch_add(BATCH, Relaxed);
        }
        let elapsed = start.elapsed();
        tally.count("replacements", replaced);
        tally.count("replaced_bytes", bytes);
        tally.count("replaced_bytes_per_second", (bytes as f64 / elapsed.as_secs_f64().max(1e-9)) as u64);
        tally.count("objects", n);

        let expected = m.blocking(|| {
            let mut random = Self::random(i);
            let mut model: Vec<u64> = (0..n).collect();
            for serial in n..n + replaced {
                model[random.below(n) as usize] = serial;
            }
            model
        });
        for (place, &serial) in expected.iter().enumerate() {
            let found = table.get(m).load(m, place).map(|b| (b.serial, digest(m, b)));
            let sum = digest_of(serial);
            tally.add(mix(found.map_or(0, |f| f.1)), mix(sum));
            if found != Some((serial, sum)) {
                tally.differs(|| format!("place {place} holds {found:?} instead of {:?}", (serial, sum)));
            }
            m.safepoint();
        }
        wanderers.compare_all(m, &mut tally);
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_object_is_as_large_as_the_plan_says() {
        let n = 100_000;
        let average = (0..n).map(|s| block_bytes(s) * 17 / 16).sum::<u64>() / n;
        assert!((AVERAGE_BYTES * 8 / 10..=AVERAGE_BYTES * 12 / 10).contains(&average), "{average}");
    }

    #[test]
    fn a_live_set_that_cannot_fit_is_refused_with_a_size_that_does() {
        let error = Churn::new(64 << 20, 80 << 20, 1 << 20, 2).unwrap_err();
        assert!(error.contains("160.0 MiB") && !error.contains('\n'), "{error}");
        assert!(Churn::new(64 << 20, 32 << 20, 1, 2).is_ok());
    }
}
