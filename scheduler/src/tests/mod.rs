//! Property tests against naive oracles. All time is virtual.

mod contract;
mod faults;
mod ledger;
mod mmu;
mod pacing;
mod policy;
mod sim;

use quickcheck::{Arbitrary, Gen};
use std::ffi::OsString;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};

/// Tries `property` on so many arbitrary values. A failure prints the value and the seed; `METRONOME_SEED`
/// repeats it.
fn check<T: Arbitrary + Debug>(tests: usize, property: impl Fn(T) -> bool) {
    let seed = seed_of(std::env::var_os("METRONOME_SEED"));
    println!("METRONOME_SEED={seed}");
    let mut g = Gen::from_size_and_seed(100, seed);
    for number in 0..tests {
        let value = T::arbitrary(&mut g);
        let shown = format!("{value:?}");
        assert!(property(value), "METRONOME_SEED={seed}, value {number}: {shown}");
    }
}

/// The seed that is asked for, or a new one.
fn seed_of(asked: Option<OsString>) -> u64 {
    let Some(text) = asked else { return RandomState::new().hash_one(0) };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("METRONOME_SEED={} is not a number", text.display()))
}

#[test]
fn a_seed_is_used_as_it_is() {
    assert_eq!(seed_of(Some("18446744073709551615".into())), u64::MAX);
    assert_ne!(seed_of(None), seed_of(None));
}

#[test]
#[should_panic(expected = "METRONOME_SEED=abc is not a number")]
fn a_seed_that_is_none_is_refused() {
    seed_of(Some("abc".into()));
}

/// An arbitrary number in `low..=high`.
fn within(g: &mut Gen, low: u64, high: u64) -> u64 {
    low + u64::arbitrary(g) % (high - low + 1)
}

/// A small deterministic generator for decisions inside a simulation (xorshift64*).
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }
}
