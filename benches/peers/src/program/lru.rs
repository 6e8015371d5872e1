//! A cache that drops the entry used longest ago, under a fixed rate of requests. Open loop: the requests' intended
//! times lie on a grid, and a response is counted from there.

use super::Outcome;
use crate::child::clock::{now, sleep_until};
use crate::child::params::Params;
use crate::child::random::{Random, mix};
use crate::family::{Family, Idle};

/// A hash table with chains whose entries also form a list in the order of their use.
pub(crate) trait Cache: Idle {
    /// Keeps a cache alive.
    type Cache;

    /// An empty one of `capacity` entries.
    fn cache(&mut self, capacity: usize) -> Self::Cache;
    /// The digest of the value of a key, whose entry becomes the latest used.
    fn look(&mut self, cache: &mut Self::Cache, key: u64) -> Option<u64>;
    /// Adds an entry with the [`words`](super::churn::words) of a key that is not there, as the latest used; drops the
    /// one used longest ago if the cache is full.
    fn insert(&mut self, cache: &mut Self::Cache, key: u64);
}

/// The bucket of a key among `buckets`, a power of two.
pub(crate) fn bucket(key: u64, buckets: usize) -> usize {
    mix(key) as usize & (buckets - 1)
}

/// A key of `keys`, small ones more often: the smallest of three.
pub(crate) fn key(random: &mut Random, keys: u64) -> u64 {
    let (a, b, c) = (random.below(keys), random.below(keys), random.below(keys));
    a.min(b).min(c)
}

fn serve<C: Cache>(memory: &mut C, params: &Params) -> Result<Outcome, String> {
    let (capacity, keys) = (params.get("capacity")?, params.get("keys")?);
    let period = 1_000_000_000 / params.get("rate")?;
    let requests = params.get("ms")? * params.get("rate")? / 1000;
    let mut cache = memory.cache(capacity as usize);
    for key in (0..capacity).rev() {
        memory.insert(&mut cache, key);
    }
    let mut random = Random::new(0x1234);
    let mut responses = vec![1_u64; requests as usize];
    let (mut sum, mut hits, start) = (0_u64, 0_u64, now() + period);
    for (k, response) in (0..).zip(&mut responses) {
        let intended = start + k * period;
        if now() < intended {
            memory.idle(|| sleep_until(intended));
        }
        let key = key(&mut random, keys);
        match memory.look(&mut cache, key) {
            Some(found) => {
                sum = sum.wrapping_add(found);
                hits += 1;
            }
            None => memory.insert(&mut cache, key),
        }
        *response = now().saturating_sub(intended).max(1);
    }
    Ok(Outcome { checksum: sum ^ hits.rotate_left(32), responses, notes: vec![] })
}

/// The program: `capacity` entries, `keys`, `rate` of requests per second, `ms` of time.
///
/// # Errors
/// A size that is missing.
pub(crate) fn run<F: Family>(shared: &F::Shared, params: &Params) -> Result<Outcome, String>
where
    for<'a> F::Memory<'a>: Cache,
{
    F::enter(shared, |memory| serve(memory, params))
}
