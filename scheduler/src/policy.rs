//! The quantum decision: may the collector run now, for how long, and if not, when.
//!
//! After Metronome (Bacon, Cheng, Rajan, POPL 2003), which alternates mutator and collector quanta of
//! fixed length. Here the decision looks at the exact ledger instead, so that every sliding window
//! keeps the target and the whole allowance is usable. Proofs: [design](crate::design).

use crate::arith::{mul_div, mul_div_ceil, ppm};
use crate::ledger::Ledger;
use std::fmt;

/// Longest window accepted: one hour. Longer ones would keep no promise anybody can feel.
pub const MAX_WINDOW_NS: u64 = 3_600_000_000_000;

/// Most intervals that a scheduler's ledger keeps; beyond that neighbours are merged conservatively.
pub const MAX_INTERVALS: usize = 4096;

/// How quanta are placed inside the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread {
    /// As early as the window allows: the allowance is used up at the window's front, as in the
    /// original Metronome. At targets of 50 % and more each quantum is followed by as much mutator time
    /// as it was granted; below that quanta may follow each other without a gap.
    Eager,
    /// Each quantum granted `b` is followed by a gap of `b * u / (1 - u)`: windows shorter than the
    /// configured one then get the best utilization that quanta of that length can give.
    #[default]
    Even,
}

/// What the user asks for. Check it with [`Policy::validate`]; [`Scheduler::new`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Length of the sliding window, in nanoseconds, at most [`MAX_WINDOW_NS`].
    pub window_ns: u64,
    /// Share of every window that the mutators keep, in percent, 1 to 99.
    pub target_percent: u32,
    /// Longest quantum, in nanoseconds: the pause that the mutators feel by plan.
    pub quantum_ns: u64,
    /// Shortest quantum worth stopping for, in nanoseconds. The collector is sure to get the allowance
    /// less this much: at or below 3 % of the allowance that is 97 % of it. A larger value keeps quanta whole
    /// under [`Spread::Eager`] when many end early, at the price of some share.
    pub min_quantum_ns: u64,
    /// Placement of the quanta inside the window.
    pub spread: Spread,
}

impl Default for Policy {
    fn default() -> Self {
        Policy::DEFAULT
    }
}

impl Policy {
    /// 70 % of every 10 ms, quanta of 500 µs, evenly spread.
    pub const DEFAULT: Policy = Policy {
        window_ns: 10_000_000,
        target_percent: 70,
        quantum_ns: 500_000,
        min_quantum_ns: 50_000,
        spread: Spread::Even,
    };

    /// The collector's share of a window, in nanoseconds: `window_ns * (100 - target_percent) / 100`.
    #[must_use]
    pub fn allowance_ns(&self) -> u64 {
        mul_div(self.window_ns, u64::from(100u32.saturating_sub(self.target_percent)), 100)
    }

    /// Checks that the numbers can be kept together:
    /// `0 < min_quantum_ns <= quantum_ns <= window_ns * (100 - target_percent) / 100`.
    ///
    /// # Errors
    /// The inequality that fails, with the nearest value that works.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if !(1..=99).contains(&self.target_percent) {
            return Err(PolicyError::Target { target_percent: self.target_percent });
        }
        if self.window_ns > MAX_WINDOW_NS {
            return Err(PolicyError::WindowTooLong { window_ns: self.window_ns });
        }
        let collector_percent = u64::from(100 - self.target_percent);
        let allowance_ns = self.allowance_ns();
        if allowance_ns == 0 {
            let nearest_window_ns = mul_div_ceil(1, 100, collector_percent);
            return Err(PolicyError::WindowTooShort { window_ns: self.window_ns, nearest_window_ns });
        }
        if self.min_quantum_ns == 0 {
            return Err(PolicyError::MinQuantumZero);
        }
        if self.quantum_ns > allowance_ns {
            return Err(PolicyError::QuantumAboveAllowance {
                quantum_ns: self.quantum_ns,
                allowance_ns,
                nearest_window_ns: mul_div_ceil(self.quantum_ns, 100, collector_percent),
            });
        }
        if self.min_quantum_ns > self.quantum_ns {
            return Err(PolicyError::MinAboveQuantum {
                min_quantum_ns: self.min_quantum_ns,
                quantum_ns: self.quantum_ns,
            });
        }
        Ok(())
    }
}

/// Why a [`Policy`] cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// `1 <= target_percent <= 99` fails.
    Target {
        /// The value given.
        target_percent: u32,
    },
    /// `window_ns <= MAX_WINDOW_NS` fails.
    WindowTooLong {
        /// The value given.
        window_ns: u64,
    },
    /// `window_ns * (100 - target_percent) / 100 >= 1` fails: not a nanosecond is left to the collector.
    WindowTooShort {
        /// The value given.
        window_ns: u64,
        /// The shortest window that works with this target.
        nearest_window_ns: u64,
    },
    /// `min_quantum_ns >= 1` fails.
    MinQuantumZero,
    /// `min_quantum_ns <= quantum_ns` fails.
    MinAboveQuantum {
        /// The value given.
        min_quantum_ns: u64,
        /// The value given, which is also the largest minimum that works.
        quantum_ns: u64,
    },
    /// `quantum_ns <= window_ns * (100 - target_percent) / 100` fails: one quantum would break the target.
    QuantumAboveAllowance {
        /// The value given.
        quantum_ns: u64,
        /// The allowance, which is also the longest quantum that works.
        allowance_ns: u64,
        /// The shortest window in which this quantum would work.
        nearest_window_ns: u64,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PolicyError::Target { target_percent } => write!(
                f,
                "target_percent is {target_percent}, but 1 <= target_percent <= 99 must hold: set it to {}",
                target_percent.clamp(1, 99)
            ),
            PolicyError::WindowTooLong { window_ns } => write!(
                f,
                "window_ns is {window_ns}, but window_ns <= {MAX_WINDOW_NS} must hold: set it to {MAX_WINDOW_NS}"
            ),
            PolicyError::WindowTooShort { window_ns, nearest_window_ns } => write!(
                f,
                "window_ns is {window_ns}, but window_ns * (100 - target_percent) / 100 >= 1 must hold: \
                 set window_ns to {nearest_window_ns} or more"
            ),
            PolicyError::MinQuantumZero => {
                write!(f, "min_quantum_ns is 0, but min_quantum_ns >= 1 must hold: set it to 1 or more")
            }
            PolicyError::MinAboveQuantum { min_quantum_ns, quantum_ns } => write!(
                f,
                "min_quantum_ns is {min_quantum_ns}, but min_quantum_ns <= quantum_ns ({quantum_ns}) must hold: \
                 set min_quantum_ns to {quantum_ns} or less"
            ),
            PolicyError::QuantumAboveAllowance { quantum_ns, allowance_ns, nearest_window_ns } => write!(
                f,
                "quantum_ns is {quantum_ns}, but quantum_ns <= window_ns * (100 - target_percent) / 100 \
                 ({allowance_ns}) must hold: set quantum_ns to {allowance_ns} or less, or window_ns to \
                 {nearest_window_ns} or more"
            ),
        }
    }
}

impl std::error::Error for PolicyError {}

/// Answer of [`Scheduler::decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// A quantum may start now or later.
    Run {
        /// Longest it may hold the mutators, from the stop request to their release, in nanoseconds.
        budget_ns: u64,
    },
    /// No quantum of at least the minimum may start yet.
    Wait {
        /// The earliest reading of the clock at which one may, if nothing else is charged until then.
        until_ns: u64,
    },
}

/// Decides about quanta. One owner at a time; `Send`, so it can be handed over.
///
/// INV-WINDOW-TARGET: if every quantum that was granted keeps its budget and everything is recorded,
/// no window of the configured length that ends anywhere holds more GC time than the allowance.
/// A quantum that overruns can exceed it by what it overran, and the excess is paid back.
#[derive(Debug, Clone)]
pub struct Scheduler {
    policy: Policy,
    base_allowance_ns: u64,
    allowance_ns: u64,
    /// The last answer's grant, until a charge takes it; 0 after a `Wait`.
    pending_grant_ns: u64,
    /// The grant of the last charged quantum; 0 if it was charged without one.
    granted_ns: u64,
    ledger: Ledger,
}

impl Scheduler {
    /// A scheduler with an empty ledger. Allocates; nothing else in this type does.
    ///
    /// # Errors
    /// See [`Policy::validate`].
    pub fn new(policy: Policy) -> Result<Scheduler, PolicyError> {
        policy.validate()?;
        // As many quanta of the minimum length as could ever lie in a window, plus one at each edge.
        let fits = usize::try_from(policy.window_ns / policy.min_quantum_ns).unwrap_or(usize::MAX);
        Self::with_capacity(policy, fits.saturating_add(2).clamp(8, MAX_INTERVALS))
    }

    pub(crate) fn with_capacity(policy: Policy, capacity: usize) -> Result<Scheduler, PolicyError> {
        policy.validate()?;
        let allowance_ns = policy.allowance_ns();
        let ledger = Ledger::new(capacity, policy.window_ns, policy.quantum_ns);
        Ok(Scheduler {
            policy,
            base_allowance_ns: allowance_ns,
            allowance_ns,
            pending_grant_ns: 0,
            granted_ns: 0,
            ledger,
        })
    }

    /// May a quantum start at `now_ns`? Grants the longest that fits, up to the configured quantum, if
    /// that is at least the minimum.
    ///
    /// Takes `&mut self` because a reading behind the last charge moves the ledger's time base (the
    /// collector pays for clock steps). Cost: O(intervals in the window), at most [`MAX_INTERVALS`].
    pub fn decide(&mut self, now_ns: u64) -> Decision {
        let now = self.ledger.observe(now_ns);
        let earliest = self.earliest_by_window().max(self.earliest_by_gap());
        if now < earliest {
            self.pending_grant_ns = 0;
            return Decision::Wait { until_ns: self.ledger.to_clock(earliest) };
        }
        let edge = now.saturating_sub(self.policy.window_ns);
        // INV-WINDOW-TARGET: `earliest_by_window` implies that this difference is not negative.
        let slack = self.allowance_ns.saturating_sub(self.ledger.used_after(edge));
        let budget_ns = self.ledger.reach(edge, slack, self.policy.quantum_ns);
        debug_assert!(budget_ns >= self.policy.min_quantum_ns, "INV-UNTIL-EXACT");
        self.pending_grant_ns = budget_ns;
        Decision::Run { budget_ns }
    }

    /// Charges `[start_ns, end_ns)` to the collector: what the mutators felt, also for an attempt to stop
    /// them that was cancelled. Returns the length charged; see [`Ledger::record`] for odd clocks.
    pub fn record(&mut self, start_ns: u64, end_ns: u64) -> u64 {
        self.granted_ns = std::mem::take(&mut self.pending_grant_ns);
        self.ledger.record(start_ns, end_ns)
    }

    /// Replaces the allowance per window until the next call or [`reset_allowance`](Self::reset_allowance)
    /// and returns the value in force: `allowance_ns`, brought into `min_quantum_ns..=window_ns`.
    ///
    /// An allowance above [`base_allowance`](Self::base_allowance) departs from the configured target; the
    /// caller must report that. With the whole window as allowance the collector never waits.
    pub fn set_allowance(&mut self, allowance_ns: u64) -> u64 {
        self.allowance_ns = allowance_ns.clamp(self.policy.min_quantum_ns, self.policy.window_ns);
        self.allowance_ns
    }

    /// Back to the allowance that the policy gives.
    pub fn reset_allowance(&mut self) {
        self.allowance_ns = self.base_allowance_ns;
    }

    /// GC time per window in force, in nanoseconds.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        self.allowance_ns
    }

    /// GC time per window that the policy gives, in nanoseconds.
    #[must_use]
    pub fn base_allowance(&self) -> u64 {
        self.base_allowance_ns
    }

    /// The mutators' share of the window that ends at `now_ns`, in parts per million, rounded down. A
    /// reading behind the last charge counts as the time of that charge. Cost: as [`decide`](Self::decide).
    #[must_use]
    pub fn window_utilization_ppm(&self, now_ns: u64) -> u32 {
        let now = self.ledger.to_ledger(now_ns).max(self.ledger.last_end());
        let window = self.policy.window_ns;
        let used = self.ledger.used_after(now.saturating_sub(window));
        ppm(window.saturating_sub(used), window)
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The ledger, to read its counters.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// First ledger time at which the window lets a quantum of the minimum length start.
    fn earliest_by_window(&self) -> u64 {
        let min = self.policy.min_quantum_ns;
        // The window that ends when that quantum does must leave room for it.
        let edge = self.ledger.edge_leaving(self.allowance_ns.saturating_sub(min));
        edge.saturating_add(self.policy.window_ns).saturating_sub(min)
    }

    /// First ledger time at which the gap after the last quantum is over (INV-GAP).
    fn earliest_by_gap(&self) -> u64 {
        let Some(last) = self.ledger.newest() else { return 0 };
        // INV-SHARE: a quantum that ended early keeps the gap of its grant: the short gap of a short quantum would let
        // quanta shrink for good. An overrun is paid back through the window, not here.
        let length = last.len_ns().max(self.granted_ns).min(self.policy.quantum_ns);
        let mutator_ns = self.policy.window_ns - self.allowance_ns;
        let even_gap = mul_div(length, mutator_ns, self.allowance_ns);
        let gap = match self.policy.spread {
            Spread::Even => even_gap,
            Spread::Eager if self.policy.target_percent < 50 => 0,
            // A raised allowance beyond half of the window needs shorter gaps, or it could not be used.
            Spread::Eager => length.min(even_gap),
        };
        last.end_ns.saturating_add(gap)
    }

    /// Test hook: the ledger, to damage it.
    #[cfg(test)]
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}
