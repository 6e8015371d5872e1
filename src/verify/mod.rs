//! The verifier: checks the collector's invariants at the edges of phases and on demand, against traversals of its own.
//!
//! # What is checked
//! Three checkers, chosen by the option `verify`: *heap* ([`heap`], [`tables`]), *snapshot* ([`snapshot`]) and *remark*
//! ([`remark`]). They share one view of the heap ([`graph`]), which follows no reference that it has not looked at first.
//!
//! # Who may touch what
//! The thread that drives the collector, while stopped (INV-STOP-EXCLUSIVE). A thread that is no mutator may meanwhile
//! drop handles, and the reaper may run drop glue of condemned objects; so a reference in a table is read once, may
//! vanish, and never appears.
//!
//! # Cost
//! Off: a branch at each edge. On: O(heap) time and memory at each edge, with the world stopped. Without the feature
//! `verify` none of it is compiled.
//!
//! # Safety
//! Cells are read in [`graph`] only, and only those that hold a complete object.

#[cfg(not(feature = "verify"))]
mod absent;
#[expect(
    clippy::disallowed_types,
    reason = "verifying on demand stops the world for as long as it takes: not for real-time use"
)]
pub(crate) mod demand;
#[cfg(feature = "verify")]
#[allow(unsafe_code)]
mod graph;
#[cfg(feature = "verify")]
mod heap;
mod outcome;
#[cfg(feature = "verify")]
mod remark;
#[cfg(feature = "verify")]
#[allow(unsafe_code)]
mod report;
#[cfg(feature = "verify")]
mod snapshot;
#[cfg(feature = "verify")]
#[allow(unsafe_code)]
mod tables;
#[cfg(feature = "verify")]
mod verifier;

#[cfg(not(feature = "verify"))]
pub(crate) use absent::Verifier;
pub(crate) use outcome::{Edge, Found, View};
pub use outcome::{Floating, VerifyError, VerifyReport, Violation};
#[cfg(feature = "verify")]
pub(crate) use verifier::Verifier;
