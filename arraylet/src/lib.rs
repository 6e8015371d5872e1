//! The heap of the Metronome collector: regions, size classes, cells, mark and allocation bitmaps, arraylets.
//!
//! **Architecture invariant:** this crate knows no roots, no barriers, no threads' states and no time. It hands
//! out cells and takes them back; *when* that is allowed is its caller's business, stated at each function as
//! one of three access rules:
//!
//! * **running**: the caller is a running mutator (no collector step runs at the same time);
//! * **stopped**: the caller is the collector while no mutator runs;
//! * **aside**: any thread but never in a quantum: the call may wait for a lock and for the system (a running mutator
//!   that makes it delays a stop).
//!
//! Cells start with one header word that belongs to the caller; the crate looks at it in one place only (a zero
//! header in a region with drop glue means "no object here").
#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(metronome_rtsan, feature(sanitize))]

pub mod array;
pub mod bits;
pub mod class;
#[cfg(feature = "hooks")]
#[doc(hidden)]
pub mod corrupt;
pub mod cursor;
pub mod marking;
#[allow(unsafe_code)]
pub mod os;
#[allow(unsafe_code)]
mod poison;
mod pool;
pub mod promise;
pub mod region;
mod side;
pub mod size;
#[expect(
    clippy::disallowed_types,
    reason = "held by those who change which memory is resident, which no mutator and no quantum does"
)]
pub mod space;
pub mod stack;
pub mod stress;
pub mod sweep;
mod sync;
pub mod verify;

pub use array::ArrayShape;
pub use class::{CELL_ALIGN_MAX, CELL_MAX, Class, LEAF_BYTES, LEAF_CLASS, REGION_BYTES};
pub use cursor::Cursors;
pub use os::{OsOptions, ReserveError};
pub use promise::{regions_for_bytes, regions_for_cells};
pub use region::{RegionId, RegionState};
pub use space::{Colour, Space, SpaceOptions, SpaceStats};
pub use stack::IndexStack;
pub use stress::SpaceStress;
pub use sweep::{ReapBatch, SweepOutcome};
pub use verify::Violation;

#[doc = include_str!("../DESIGN.md")]
pub mod design {}
