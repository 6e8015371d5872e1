//! Clocks and the tick thread of the Metronome collector.
//!
//! **Architecture invariant:** this crate knows no heap, phase, quantum or policy. It reads clocks, sleeps until
//! points of a fixed grid and calls the closure it was given; everything else is its user's.
//!
//! - [`Clock`]: monotonic time in nanoseconds, or a [`ManualClock`] that a test moves.
//! - [`Alarm`]: a thread that calls a closure on each beat of a fixed grid, measures how late it was, and never
//!   replays the beats it missed.
//! - [`Ticker`] and [`Grid`]: the arithmetic of that thread, pure, usable without a thread.
//! - [`LatenessHistogram`]: fixed-size, lock-free record of the lateness.
//! - [`priority`], [`affinity`], [`set_timer_slack`], [`prefault_stack`]: what a real-time thread asks of the kernel, each with a typed
//!   refusal that names the remedy.
//!
//! ```
//! use metronome_alarm::{Alarm, AlarmConfig};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! let beats = Arc::new(AtomicU64::new(0));
//! let seen = Arc::clone(&beats);
//! let alarm = Alarm::spawn(AlarmConfig::with_period(1_000_000), move |_tick| {
//!     seen.fetch_add(1, Ordering::Relaxed);
//! })?;
//! for refusal in alarm.report().refusals() {
//!     eprintln!("running without: {refusal}");
//! }
//! while beats.load(Ordering::Relaxed) < 3 {
//!     std::thread::yield_now();
//! }
//! let summary = alarm.stop();
//! assert!(summary.ticks >= 3);
//! # Ok::<(), std::io::Error>(())
//! ```

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(metronome_rtsan, feature(sanitize))]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "metronome-alarm needs Linux: it relies on clock_nanosleep with absolute deadlines, PR_SET_TIMERSLACK and SCHED_FIFO"
);

pub mod affinity;
mod alarm;
mod clock;
mod grid;
mod lateness;
pub mod priority;
mod slack;
mod stack;
mod sync;
#[allow(unsafe_code)]
mod sys;
mod tick_loop;

pub use alarm::{Alarm, AlarmConfig, AlarmControl, AlarmReport, AlarmSummary, MAX_PERIOD_NS, MIN_PERIOD_NS};
pub use clock::{Clock, ManualClock, thread_cpu_ns};
pub use grid::{Grid, Tick, Ticker, Wake};
pub use lateness::{Bucket, LatenessHistogram, LatenessSnapshot};
pub use slack::{SlackRefused, set_timer_slack};
pub use stack::{Prefaulted, StackRefused, prefault_stack};

/// The design of this crate: requirements, algorithm, invariants and what may go wrong.
#[doc = include_str!("../DESIGN.md")]
pub mod design {}
