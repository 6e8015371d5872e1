//! A lock-free map: each bucket an immutable list that is replaced as a whole, up to the changed entry, by
//! compare-and-swap of its head. Every change makes garbage, which some other thread may be reading.

use super::{Outcome, join, start};
use crate::child::params::Params;
use crate::child::random::Random;
use crate::family::Family;

/// A map that several threads use.
pub(crate) trait Map: Family {
    /// The map, for all threads.
    type Map: Sync;

    /// An empty one with as many buckets, a power of two.
    fn map(memory: &mut Self::Memory<'_>, buckets: usize) -> Self::Map;
    /// The value of a key.
    fn get(memory: &mut Self::Memory<'_>, map: &Self::Map, key: u64) -> Option<u64>;
    /// Sets the value of a key.
    fn put(memory: &mut Self::Memory<'_>, map: &Self::Map, key: u64, value: u64);
}

/// The program: `threads` that look up `keys` three times of four and put the fourth, `count` times each. A thread
/// puts keys of its own only, and so the map's contents at the end follow from the program.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run<F: Map>(shared: &F::Shared, params: &Params) -> Result<Outcome, String> {
    let (threads, keys, count) = (params.get("threads")?, params.get("keys")?, params.get("count")?);
    let map = F::enter(shared, |memory| F::map(memory, (keys as usize / 2).next_power_of_two()));
    let work = |t: u64| {
        F::enter(shared, |memory| {
            let mut random = Random::new(0x3a9 + t);
            // Looked up only so that the reads are not for nothing: what they find depends on the other threads.
            let mut found = 0_u64;
            for k in 0..count {
                let key = random.below(keys);
                if k % 4 == 0 {
                    F::put(memory, &map, key / threads * threads + t, k);
                } else {
                    found += u64::from(F::get(memory, &map, key).is_some());
                }
            }
            std::hint::black_box(found);
        });
    };
    std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..threads).map(|t| start(scope, "map", move || work(t))).collect::<Result<_, _>>()?;
        all.into_iter().for_each(join);
        let sum = F::enter(shared, |memory| {
            (0..keys + threads).fold(0_u64, |sum, key| {
                let value = F::get(memory, &map, key).map_or(0, |v| v + 1);
                sum.wrapping_mul(31).wrapping_add(value)
            })
        });
        Ok(Outcome::of(sum))
    })
}
