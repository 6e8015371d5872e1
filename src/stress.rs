//! Stress modes: settings that make rare interleavings of collector and mutators common.
//!
//! `stress` is a list such as `steps=random,seed=7`. Modes never make a fast path longer: they act on the slow paths of
//! mutators, which some of them make more frequent, and where the collector decides how far a quantum goes.

mod alloc;
mod poll;
#[cfg(test)]
mod tests;

pub(crate) use alloc::Allocations;
use metronome_barrier::Phase;
pub(crate) use poll::Asked;
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

/// Something was written into freed memory: the heap cannot be trusted, so the process ends.
fn found(violation: metronome_arraylet::Violation) {
    eprintln!("metronome: the allocator found: {violation}");
    std::process::abort();
}

/// Before which steps a quantum ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum YieldBefore {
    /// Each step that switches the phase.
    Any,
    /// The step that switches to this one.
    To(Phase),
}

/// The stress modes that are on. The default is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stress {
    /// `steps=N` or `steps=random`: a quantum that is not synchronous ends after so many steps.
    pub steps: Option<StepLimit>,
    /// `alloc=N`: every N allocations ask for a whole cycle.
    pub alloc: Option<u64>,
    /// `poll`: every poll and safepoint asks for one step and waits for it.
    pub poll: bool,
    /// `yield` or `yield=PHASE`: a quantum that is not synchronous ends before a step that switches the phase, and every
    /// mutator runs before the next one.
    pub yield_before: Option<YieldBefore>,
    /// `zap`: freed and fresh cells are filled, and the filling is checked.
    pub zap: bool,
    /// `protect`: free regions cannot be accessed.
    pub protect: bool,
    /// `seed=S`: start of the random numbers; without it each heap draws one and prints it.
    pub seed: Option<u64>,
}

impl Stress {
    /// No mode.
    pub const NONE: Stress = Stress {
        steps: None,
        alloc: None,
        poll: false,
        yield_before: None,
        zap: false,
        protect: false,
        seed: None,
    };

    /// Whether quanta follow each other whatever the target utilization is.
    pub(crate) fn unpaced(&self) -> bool {
        self.poll || self.alloc.is_some()
    }

    /// What the heap's memory has to do with it.
    pub(crate) fn of_space(&self) -> metronome_arraylet::SpaceStress {
        metronome_arraylet::SpaceStress {
            single_cells: self.alloc.is_some(),
            zap: if self.zap { Some(found) } else { None },
            protect: self.protect,
        }
    }

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
        let mut mode = |text: fmt::Arguments<'_>| write!(f, "{}{text}", std::mem::replace(&mut comma, ","));
        match self.steps {
            None => {}
            Some(StepLimit::Exactly(n)) => mode(format_args!("steps={n}"))?,
            Some(StepLimit::Random) => mode(format_args!("steps=random"))?,
        }
        if let Some(n) = self.alloc {
            mode(format_args!("alloc={n}"))?;
        }
        if self.poll {
            mode(format_args!("poll"))?;
        }
        match self.yield_before {
            None => {}
            Some(YieldBefore::Any) => mode(format_args!("yield"))?,
            Some(YieldBefore::To(phase)) => mode(format_args!("yield={}", phase.name()))?,
        }
        if self.zap {
            mode(format_args!("zap"))?;
        }
        if self.protect {
            mode(format_args!("protect"))?;
        }
        self.seed.map_or(Ok(()), |seed| mode(format_args!("seed={seed}")))
    }
}

impl FromStr for Stress {
    type Err = ();

    /// `Err` on an empty list, an unknown or repeated mode, a value that is not one; the options table says which text.
    fn from_str(text: &str) -> Result<Stress, ()> {
        let mut stress = Stress::default();
        let count =
            |value: Option<&str>| value.and_then(|n| n.parse().ok()).filter(|n: &u64| *n > 0).ok_or(());
        for part in text.split(',') {
            let part = part.trim();
            let (mode, value) =
                part.split_once('=').map_or((part, None), |(mode, value)| (mode, Some(value)));
            match (mode, value) {
                ("steps", Some("random")) if stress.steps.is_none() => stress.steps = Some(StepLimit::Random),
                ("steps", n) if stress.steps.is_none() => {
                    stress.steps = Some(StepLimit::Exactly(count(n)?.try_into().map_err(|_| ())?));
                }
                ("alloc", n) if stress.alloc.is_none() => stress.alloc = Some(count(n)?),
                ("poll", None) if !stress.poll => stress.poll = true,
                ("yield", None) if stress.yield_before.is_none() => {
                    stress.yield_before = Some(YieldBefore::Any);
                }
                ("yield", Some(name)) if stress.yield_before.is_none() => {
                    let phase = (0..=u8::MAX).map_while(Phase::from_u8).find(|p| p.name() == name);
                    // To arm is the first step of a quantum in any case.
                    let phase = phase.filter(|p| *p != Phase::Snapshot).ok_or(())?;
                    stress.yield_before = Some(YieldBefore::To(phase));
                }
                ("zap", None) if !stress.zap => stress.zap = true,
                ("protect", None) if !stress.protect => stress.protect = true,
                ("seed", Some(value)) if stress.seed.is_none() => {
                    stress.seed = Some(value.parse().map_err(|_| ())?);
                }
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

/// What mutators and the collector share under stress.
#[derive(Debug, Default)]
pub(crate) struct StressState {
    pub(crate) allocations: Allocations,
    pub(crate) asked: Asked,
}
