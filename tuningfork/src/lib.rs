//! Traces for Tuning Fork, the viewer of the original Metronome: format 1.4, written and read.
//!
//! ```
//! use metronome_tuningfork::{Attributes, EventType, Item, Reader, Writer, read_all};
//!
//! let mut trace = Writer::new(Vec::new())?;
//! trace.properties(&[("Tick Frequency", "1000000000")])?;
//! trace.add_feedlet(0, &[("name", "collector")])?;
//! trace.event_types(&[EventType::point(1, "free bytes")])?;
//! trace.event(0, 1_000, 1, &Attributes { doubles: vec![4096.0], ..Attributes::default() })?;
//! let bytes = trace.finish()?;
//!
//! let items = read_all(&bytes[..])?;
//! assert!(items.iter().any(|i| matches!(i, Item::Event(e) if e.time == 1_000)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`design`] lists the format.
//!
//! **Architecture invariant:** nothing here knows a collector, a clock, a thread or a file; there is no `unsafe` code and
//! no run-time dependency.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

mod bytes;
mod model;
mod reader;
mod writer;

pub use model::{Attribute, Attributes, Event, EventType, FeedletChange, GENERIC_SPACE, Item, Property};
pub use reader::{Error, Reader, read_all};
pub use writer::{FLUSH_BYTES, Writer};

/// The first four bytes of every trace.
pub const MAGIC: [u8; 4] = 0xcafe_feedu32.to_be_bytes();
