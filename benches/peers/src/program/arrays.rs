//! Large arrays: made, filled, summed up, and let go of, a few kept at a time.

use super::Outcome;
use crate::child::params::Params;
use crate::child::random::Random;
use crate::family::Family;

/// Large arrays of numbers in a small table.
pub(crate) trait Arrays {
    /// Keeps the table alive.
    type Table;

    /// A table of `n` places, without arrays.
    fn arrays(&mut self, n: usize) -> Self::Table;
    /// Makes an array of `len` elements, element `i` being `seed + i`, over what was in the place.
    fn make(&mut self, table: &mut Self::Table, place: usize, len: usize, seed: u64);
    /// The sum of the elements of the array in a place; 0 if there is none.
    fn total(&mut self, table: &Self::Table, place: usize) -> u64;
}

/// The program: arrays of `min` to `max` bytes, `kept` at a time, `count` made.
///
/// # Errors
/// A size that is missing.
pub(crate) fn run<F: Family>(shared: &F::Shared, params: &Params) -> Result<Outcome, String>
where
    for<'a> F::Memory<'a>: Arrays,
{
    let (min, max) = (params.get("min")? / 8, params.get("max")? / 8);
    let (kept, count) = (params.get("kept")?, params.get("count")?);
    F::enter(shared, |memory| {
        let mut table = memory.arrays(kept as usize);
        let mut random = Random::new(0xa77a);
        let mut sum = 0_u64;
        for seed in 0..count {
            let (place, len) = (random.below(kept) as usize, min + random.below(max - min + 1));
            memory.make(&mut table, place, len as usize, seed);
            sum = sum.wrapping_mul(31).wrapping_add(memory.total(&table, random.below(kept) as usize));
        }
        Ok(Outcome::of(sum))
    })
}
