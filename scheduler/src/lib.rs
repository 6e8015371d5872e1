//! Pure policy of the Metronome collector: who gets the next slice of time, when a cycle starts,
//! and what the resulting utilization was.
//!
//! **Architecture invariant:** this crate has no clock, no thread, no atomic, no float and no
//! unsafe code. Time goes in as nanoseconds of one monotonic clock, decisions come out.
//!
//! | module | question it answers |
//! |---|---|
//! | [`ledger`] | How much time did the collector take inside this window? |
//! | [`policy`] | May a quantum start now, how long may it be, and if not now, when? |
//! | [`pacing`] | At which heap occupancy must the next cycle start? |
//! | [`contract`] | Which heap does a utilization need, which utilization does a heap allow? |
//! | [`mmu`] | What was the minimum mutator utilization of a run? |
//!
//! The reasoning behind the algorithms, with proofs and the list of invariants, is in [`design`].
//!
//! # Example
//!
//! ```
//! use metronome_scheduler::{Decision, Policy, Scheduler};
//!
//! let mut scheduler = Scheduler::new(Policy::DEFAULT)?;
//! let tick_ns = 1_000_000;
//! match scheduler.decide(tick_ns) {
//!     Decision::Run { budget_ns } => {
//!         // Stop the mutators, collect for at most `budget_ns`, let them go on, then charge it all.
//!         scheduler.record(tick_ns, tick_ns + budget_ns);
//!     }
//!     Decision::Wait { until_ns } => println!("nothing before {until_ns}"),
//! }
//! assert!(scheduler.window_utilization_ppm(2_000_000) >= 700_000);
//! # Ok::<(), metronome_scheduler::PolicyError>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod arith;
pub mod contract;
mod forecast;
pub mod ledger;
pub mod mmu;
pub mod pacing;
pub mod policy;

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

#[cfg(test)]
mod tests;

pub use contract::{Contract, ContractError};
pub use ledger::{Interval, Ledger, LedgerFault};
pub use mmu::MmuTracker;
pub use pacing::{CycleFacts, CycleReport, Pacer, PacerConfig, PacerError, Prediction, Trigger};
pub use policy::{Decision, Policy, PolicyError, Scheduler, Spread};
