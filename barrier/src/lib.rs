//! The snapshot-at-the-beginning barrier of the Metronome collector: its phases, its rules, its logs.
//!
//! **Architecture invariant:** this crate knows no headers, no mark bits and no regions; a reference is an opaque
//! pointer to it, and what *shading* does with one is its caller's business.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod log;
pub mod phase;
mod sync;

pub use log::{CHUNK_ENTRIES, Chunk, Log, LogPool};
pub use phase::{BarrierFlags, Phase};

#[doc = include_str!("../DESIGN.md")]
pub mod design {}
