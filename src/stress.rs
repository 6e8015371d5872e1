//! Stress modes: settings that make rare interleavings of collector and mutators common.
//!
//! `stress` is a list such as `steps=random,seed=7`. Modes never make a fast path longer; they act where the collector
//! decides how far a quantum goes.

use std::fmt;
use std::str::FromStr;

/// Most steps of one quantum with `steps=random`.
pub const RANDOM_STEPS_MAX: u32 = 16;

/// How many steps a quantum may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepLimit {
    /// This many, at least one.
    Exactly(u32),
    /// A number within `1..=`[`RANDOM_STEPS_MAX`], drawn for each quantum.
    Random,
}

/// The stress modes that are on. The default is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Stress {
    /// `steps=N` or `steps=random`: a quantum that is not synchronous ends after so many steps.
    pub steps: Option<StepLimit>,
    /// `seed=S`: start of the random numbers; without it each heap draws one and prints it.
    pub seed: Option<u64>,
}

impl Stress {
    /// Whether any mode is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        *self != Stress::default()
    }
}

/// Written so that `from_str` reads it back; nothing if no mode is on.
impl fmt::Display for Stress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        if let Some(steps) = self.steps {
            match steps {
                StepLimit::Exactly(n) => write!(f, "steps={n}")?,
                StepLimit::Random => f.write_str("steps=random")?,
            }
            comma = ",";
        }
        match self.seed {
            Some(seed) => write!(f, "{comma}seed={seed}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Stress {
    type Err = ();

    /// `Err` on an empty list, an unknown or repeated mode, a value that is not one; the options table says which text.
    fn from_str(text: &str) -> Result<Stress, ()> {
        let mut stress = Stress::default();
        for part in text.split(',') {
            let (mode, value) = part.trim().split_once('=').ok_or(())?;
            match mode {
                "steps" if stress.steps.is_none() => {
                    stress.steps = Some(match value {
                        "random" => StepLimit::Random,
                        n => StepLimit::Exactly(n.parse().ok().filter(|n| *n > 0).ok_or(())?),
                    });
                }
                "seed" if stress.seed.is_none() => stress.seed = Some(value.parse().map_err(|_| ())?),
                _ => return Err(()),
            }
        }
        Ok(stress)
    }
}

/// The driver's side: how many steps the next quantum takes.
#[derive(Debug)]
pub(crate) struct StepPlan {
    limit: Option<StepLimit>,
    state: u64,
}

impl StepPlan {
    /// A seed must have been chosen if the limit is random.
    pub(crate) fn new(stress: Stress) -> StepPlan {
        StepPlan { limit: stress.steps, state: stress.seed.unwrap_or(0) }
    }

    /// Steps of the next quantum; `u32::MAX` is no limit. A few instructions.
    pub(crate) fn next(&mut self) -> u32 {
        match self.limit {
            None => u32::MAX,
            Some(StepLimit::Exactly(n)) => n,
            Some(StepLimit::Random) => {
                // A 64-bit linear congruence; its high bits are the good ones.
                self.state = self
                    .state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                ((self.state >> 33) % u64::from(RANDOM_STEPS_MAX)) as u32 + 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_back() {
        for text in ["steps=1", "steps=random", "seed=0", "steps=4294967295,seed=18446744073709551615"] {
            assert_eq!(text.parse::<Stress>().unwrap().to_string(), text);
        }
        assert_eq!(" seed=3 , steps=2 ".parse::<Stress>().unwrap().to_string(), "steps=2,seed=3");
        for text in ["", ",", "steps", "steps=", "steps=0", "steps=-1", "steps=1,steps=2", "seed=x", "pace=1"]
        {
            assert_eq!(text.parse::<Stress>(), Err(()), "{text:?}");
        }
    }

    #[test]
    fn a_seed_repeats_its_numbers_and_all_numbers_occur() {
        let draw = |seed| {
            let mut plan = StepPlan::new(Stress { steps: Some(StepLimit::Random), seed: Some(seed) });
            (0..1000).map(|_| plan.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut seen = draw(3);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (1..=RANDOM_STEPS_MAX).collect::<Vec<_>>());
    }
}
