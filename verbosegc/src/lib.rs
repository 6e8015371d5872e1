//! Model, writer and tolerant reader of Metronome verbose GC logs.
//!
//! Two generations of the format are in the field: the one of 2007 (`<gc type="heartbeat">`) and the one of
//! today's OpenJ9 (`<gc-op type="heartbeat">`). This crate writes both with [`writer::LogWriter`], reads both
//! with [`reader::Reader`], and gives what it read as the typed events of [`model`].
//! [`design`] lists the elements, the aggregation rules and this project's own elements.
//!
//! ```
//! use metronome_verbosegc::{model::Event, reader::read_log};
//!
//! let log = read_log(&b"<trigger-start id=\"1\" timestamp=\"2026-08-31T13:43:28.916\" />"[..])?;
//! assert!(matches!(log.runs[0].events[0].event, Event::TriggerStart { .. }));
//! assert!(!log.complete, "a fragment has no end tag");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! **Architecture invariant:** nothing here knows a collector, a clock or a thread; there is no `unsafe` code. Without the
//! feature `files` nothing knows a file either, and there is no run-time dependency.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

mod attrs;
mod fields;
#[cfg(feature = "files")]
pub mod files;
pub mod model;
pub mod reader;
mod time;
pub mod writer;
mod xml;

pub use time::{LogTime, WallClock};
