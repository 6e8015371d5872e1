//! Figures and advice from Metronome verbose GC logs, of this project's collector and of IBM's and OpenJ9's.
//!
//! [`Analyzer`] takes a reader's items one by one and keeps bounded figures; [`analyze`] does so for a whole log.
//! [`advise`](advice::advise) applies the rules, with the evidence of each; [`contract`] measures what the program asks of
//! the collector, and says what follows.
//!
//! ```
//! use metronome_analysis::analyze;
//!
//! let log = &b"<gc-op id=\"1\" type=\"heartbeat\" timestamp=\"2026-08-31T13:43:29.821\">
//!   <quanta quantumCount=\"9\" quantumType=\"mark\" minTimeMs=\"3.008\" meanTimeMs=\"3.145\" maxTimeMs=\"3.368\" />
//! </gc-op>"[..];
//! let analysis = analyze(log)?;
//! assert_eq!(analysis.runs.rows[0].quantum.stat.max, 3_368_000);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! **Architecture invariant:** nothing here knows a heap, a terminal or a page; memory does not depend on a log's length.

#![forbid(unsafe_code)]

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

pub mod advice;
mod analyzer;
mod axis;
mod clock;
pub mod contract;
mod figures;
mod kept;
mod run;
mod series;
mod stat;

pub use analyzer::{Analyzer, analyze};
pub use figures::*;
pub use kept::Kept;
pub use series::{Bucket, MAX_BUCKETS, Series};
pub use stat::{Bar, Distribution, Peak, Stat, Trend};
