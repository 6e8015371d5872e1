//! What a Metronome heap does, while it does it: a page on loopback, recordings, and traces for other viewers.
//!
//! ```
//! use metronome_gc::Heap;
//! use metronome_live::Serve;
//!
//! let heap = Heap::builder().heap_bytes(16 << 20).build()?;
//! let server = heap.serve(([127, 0, 0, 1], 0))?;
//! println!("open {}", server.url());
//! heap.bookmark("ready");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Serve::serve`] shows a heap on a page; [`serve_file`] replays a recording on the same page.
//! - [`Tap`] passes what a heap does to any number of [`Sink`]s: [`sink::Lines`] (a recording), [`sink::TuningFork`],
//!   [`sink::Chrome`] (Chrome's and Perfetto's trace viewer).
//! - [`input::open`] reads recordings, Tuning Fork traces and verbose GC logs as one kind of [`Record`]s.
//!
//! **Architecture invariant:** nothing here can hold up a heap: it takes from a bounded ring ([`metronome_gc::Watch`]) on a
//! thread of its own; what it cannot take in time is lost and said.
#![forbid(unsafe_code)]

#[doc = include_str!("../DESIGN.md")]
pub mod design {}

#[doc = include_str!("../../guide/live.md")]
pub mod guide {}

mod client;
mod figures;
mod hub;
pub mod input;
mod model;
mod server;
pub mod sink;
mod tap;

pub use client::{Client, ClientError};
pub use figures::{Figures, MutatorFigures, PhaseFigures};
pub use hub::{Batch, Hub};
pub use model::{Begin, Event, Heartbeat, Quantum, Record, VERSION, Word};
pub use server::{Options, Serve, ServeError, Server, serve_file};
pub use sink::Sink;
pub use tap::{Output, RING, Tap};
