//! Random numbers that a seed determines, and what the environment asks for.

use std::ffi::OsStr;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// What an operation picks by: small, so that shrinking is quick.
    pub(crate) fn pick(&mut self) -> u8 {
        self.below(12) as u8
    }
}

/// A number from the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var_os(name).map(|text| number(name, &text))
}

/// The number that a variable holds.
pub(crate) fn number(name: &str, text: &OsStr) -> u64 {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{name}={} is not a number", text.display()))
}

/// How many programs the environment asks for, else 1,000.
pub(crate) fn programs() -> u64 {
    at_least_one(variable("METRONOME_PROGRAMS").unwrap_or(1_000))
}

/// None would pass without having shown anything.
pub(crate) fn at_least_one(programs: u64) -> u64 {
    assert!(programs > 0, "METRONOME_PROGRAMS=0 runs nothing: give the number of programs, at least 1");
    programs
}

/// The seeds of so many programs; after the largest comes 0.
pub(crate) fn seeds(first: u64, programs: u64) -> impl Iterator<Item = u64> {
    (0..programs).map(move |i| first.wrapping_add(i))
}

/// The seed that the environment asks for, or one of the clock.
pub(crate) fn first_seed() -> u64 {
    variable("METRONOME_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |d| d.as_nanos() as u64) & 0xffff_ffff
    })
}
