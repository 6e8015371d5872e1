//! A garbage-collected heap for Rust whose pauses are short, evenly spread and accounted for.
//!
//! **Architecture invariant:** this crate owns what needs all parts at once (mutators, safepoints, roots, the
//! collector and its driver); memory, barrier rules, policy, clocks and log formats are in crates that do not know
//! each other.
#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(metronome_rtsan, feature(sanitize))]

#[allow(unsafe_code)]
mod array;
#[allow(unsafe_code)]
mod beside;
#[expect(
    clippy::disallowed_methods,
    reason = "the writer's thread, which looks twice at a thread that does not answer"
)]
mod blocked;
#[allow(unsafe_code)]
mod boost;
#[allow(unsafe_code)]
mod collect;
#[allow(unsafe_code)]
mod collector;
pub mod config;
#[allow(unsafe_code)]
mod crew;
#[allow(unsafe_code)]
mod death;
mod driver;
#[allow(unsafe_code)]
mod ephemeron;
mod error;
mod events;
#[allow(unsafe_code)]
#[expect(clippy::disallowed_types, reason = "says once that its thread is attached, before it serves")]
mod finalize;
#[allow(unsafe_code)]
mod fork;
mod gate;
#[allow(unsafe_code)]
mod gc;
pub mod guide;
#[allow(unsafe_code)]
mod handle;
#[allow(unsafe_code)]
mod header;
#[allow(unsafe_code)]
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "starting and closing a heap")]
mod heap;
mod hooks;
#[allow(unsafe_code)]
mod immortal;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the writer's thread and the sink's own"
)]
mod log_sink;
#[allow(unsafe_code)]
mod mark;
mod memory;
mod meter;
#[allow(unsafe_code)]
mod mutator;
pub mod no_heap;
#[expect(clippy::disallowed_types, reason = "listeners run on the writer's thread")]
mod notice;
#[allow(unsafe_code)]
mod placement;
#[expect(clippy::disallowed_methods, reason = "the memory thread, which waits for the system")]
pub mod pressure;
pub mod queue;
#[allow(unsafe_code)]
#[expect(clippy::disallowed_types, reason = "says once that its thread is attached, before it serves")]
mod reaper;
mod reason;
#[expect(clippy::disallowed_types, reason = "for ordinary threads; the finalizer thread sends")]
mod reference_queue;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "for ordinary threads that may wait: they say so to the collector"
)]
pub mod rendezvous;
#[allow(unsafe_code)]
#[expect(clippy::disallowed_types, reason = "the writer's thread")]
mod report;
#[allow(unsafe_code)]
mod reserve;
#[allow(unsafe_code)]
mod rtsan;
#[allow(unsafe_code)]
mod shared;
mod slot;
mod spawn;
mod stats;
mod step_times;
pub mod stress;
#[allow(unsafe_code)]
mod sync;
#[allow(unsafe_code)]
mod table;
#[cfg(all(test, not(loom)))]
mod teeth_tests;
#[cfg(feature = "hooks")]
#[doc(hidden)]
#[allow(unsafe_code)]
#[expect(clippy::disallowed_types, reason = "tests drive this heap, not a thread of its own")]
pub mod testing;
#[allow(unsafe_code)]
mod thread;
#[allow(unsafe_code)]
mod trace;
mod verify;
pub mod watch;
#[allow(unsafe_code)]
mod weak;
#[expect(clippy::disallowed_types, reason = "for ordinary threads; nothing of the collector looks at it")]
mod weak_map;

pub use array::{GcArray, Leaves};
pub use collect::{Collect, CollectError, Collected};
pub use config::{Config, Verify};
pub use death::DeathNotice;
pub use ephemeron::Ephemeron;
pub use error::{AllocError, BuildError, EnterError, Remedy, Shortage, SpawnError};
pub use finalize::{DrainError, DrainStop, Finalize};
pub use gc::{Gc, Slot};
pub use handle::{Global, Pinned, Root};
pub use heap::{Glance, Heap, HeapBuilder};
pub use immortal::{Immortal, ImmortalArea, ImmortalError};
pub use metronome_derive::Trace;
pub use mutator::Mutator;
pub use no_heap::{NoHeap, NoHeapOptions, NoHeapThread};
pub use notice::{Notification, Subscription};
pub use reason::{CycleReason, DepartureReason, SyncReason};
pub use reference_queue::ReferenceQueue;
pub use reserve::Reserved;
pub use spawn::{JoinHandle, RealtimeOptions, RealtimeThread};
pub use stats::{
    Distribution, FinalizerCounts, Mmu, PhaseSteps, Predicted, ReferenceCounts, Stats, StepKind,
};
pub use trace::{Init, Payload, Trace, Tracer};
pub use verify::{Floating, VerifyError, VerifyReport, Violation};
pub use watch::Watch;
pub use weak::{Soft, Weak, WeakLong};
pub use weak_map::WeakMap;

pub use metronome_alarm as alarm;
pub use metronome_scheduler as scheduler;
pub use metronome_verbosegc as verbosegc;

/// What the derive macro's output refers to. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::trace::{PayloadField as Payload, RawRef};
}

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
