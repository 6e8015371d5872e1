//! Notifications: what the writer tells the program and `tracing`, after it has let go of everything that a listener
//! might want.

use crate::reason::{CycleReason, DepartureReason, SyncReason};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Something that the program may want to know. Told by the writer thread up to 50 ms later, never on the real-time path;
/// when more happens than is told, the surplus is left out and counted (the counts in [`Stats`](crate::Stats) are exact).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notification {
    /// A cycle began.
    CycleStart {
        /// Why.
        reason: CycleReason,
        /// Free bytes.
        free_bytes: u64,
    },
    /// A cycle ended.
    CycleEnd {
        /// Its quanta.
        quanta: u64,
        /// Charged collector time.
        collector_ns: u64,
        /// From start to end.
        elapsed_ns: u64,
        /// Bytes kept.
        live_bytes: u64,
        /// Bytes freed.
        freed_bytes: u64,
    },
    /// Free memory fell below `headroom-low`. Told once, until twice as much was free again.
    HeadroomLow {
        /// Free bytes.
        free_bytes: u64,
        /// Size of the heap.
        heap_bytes: u64,
    },
    /// The collector left the target in this cycle.
    TargetMissed {
        /// Why.
        reason: DepartureReason,
        /// The heap that would have been enough: (1+f)(m+2A) by what was measured, if something was. With a static trigger
        /// at least what holds (1+f)A above it.
        enough_heap_bytes: Option<u64>,
    },
    /// A collection was synchronous.
    Synchronous {
        /// Why.
        reason: SyncReason,
        /// How long the mutators were stopped.
        ns: u64,
    },
    /// A stop was given up because this mutator did not arrive.
    Straggler {
        /// Its thread's name.
        mutator: String,
    },
    /// This mutator polls but comes by no safepoint; the cycle waits for it.
    SafepointOverdue {
        /// Its thread's name.
        mutator: String,
        /// For how long.
        ms: u64,
    },
    /// Allocations failed.
    AllocationFailed {
        /// How many, since this was last told.
        count: u64,
        /// The heap that would have been enough: (1+f)(m+2A) by what was measured, if something was.
        enough_heap_bytes: Option<u64>,
    },
    /// More objects than `finalizer-backlog` wait for their finalizers. Told once, until half as many waited.
    FinalizerBacklog {
        /// How many.
        waiting: u64,
    },
    /// A finalizer runs for longer than `finalizer-watchdog`.
    FinalizerStuck {
        /// The object's type.
        type_name: &'static str,
        /// For how long.
        ms: u64,
    },
    /// A finalizer or a callback about a death panicked.
    FinalizerPanicked {
        /// How many, since this was last told.
        count: u64,
    },
    /// Drop glue panicked.
    DropPanicked {
        /// How often, since this was last told.
        count: u64,
    },
    /// The system is low on memory.
    LowMemory {
        /// Where that was seen, and the figures.
        text: String,
    },
    /// The heap grew, shrank or gave memory back.
    Resized {
        /// Size before.
        from_bytes: u64,
        /// Size after.
        to_bytes: u64,
        /// Memory given back to the system.
        returned_bytes: u64,
        /// Why.
        reason: &'static str,
    },
    /// A mutator sleeps in the kernel outside [`Mutator::blocking`](crate::Mutator::blocking) (`report-blocked`).
    BlockedInKernel {
        /// Its thread's name.
        mutator: String,
        /// What it waits in, as far as the system tells.
        place: String,
    },
    /// Something else that is worth a line, such as what the system refused a thread.
    Note {
        /// The line.
        text: String,
    },
}

impl Notification {
    /// Calls the program's `tracing` subscriber, if it has one.
    pub(crate) fn trace(&self) {
        macro_rules! tell {
            ($level:ident, $($rest:tt)*) => { tracing::$level!(target: "metronome", $($rest)*) };
        }
        match self {
            Notification::CycleStart { reason, free_bytes } => {
                tell!(debug, %reason, free_bytes, "cycle start")
            }
            Notification::CycleEnd { quanta, collector_ns, elapsed_ns, live_bytes, freed_bytes } => tell!(
                debug,
                quanta,
                collector_us = collector_ns / 1000,
                elapsed_ms = elapsed_ns / 1_000_000,
                live_bytes,
                freed_bytes,
                "cycle end"
            ),
            Notification::HeadroomLow { free_bytes, heap_bytes } => {
                tell!(warn, free_bytes, heap_bytes, "headroom low");
            }
            Notification::TargetMissed { reason, enough_heap_bytes } => {
                tell!(warn, %reason, enough_heap_bytes, "departure from the utilization target");
            }
            Notification::Synchronous { reason, ns } => {
                tell!(warn, %reason, ms = ns / 1_000_000, "synchronous collection");
            }
            Notification::Straggler { mutator } => {
                tell!(warn, %mutator, "stop cancelled: the mutator did not arrive");
            }
            Notification::SafepointOverdue { mutator, ms } => tell!(warn, %mutator, ms, "safepoint overdue"),
            Notification::AllocationFailed { count, enough_heap_bytes } => {
                tell!(warn, count, enough_heap_bytes, "allocations failed");
            }
            Notification::FinalizerBacklog { waiting } => tell!(warn, waiting, "finalizers wait"),
            Notification::FinalizerStuck { type_name, ms } => {
                tell!(warn, type_name, ms, "a finalizer does not end")
            }
            Notification::FinalizerPanicked { count } => {
                tell!(warn, count, "finalizers or callbacks panicked")
            }
            Notification::DropPanicked { count } => tell!(warn, count, "drop glue panicked"),
            Notification::LowMemory { text } => tell!(warn, %text, "the system is low on memory"),
            Notification::Resized { from_bytes, to_bytes, returned_bytes, reason } => {
                tell!(info, from_bytes, to_bytes, returned_bytes, reason, "heap resized");
            }
            Notification::Note { text } => tell!(warn, "{text}"),
            Notification::BlockedInKernel { mutator, place } => {
                tell!(warn, %mutator, %place, "a mutator sleeps in the kernel outside blocking");
            }
        }
    }
}

type Callback = dyn FnMut(&Notification) + Send;

/// The program's listeners.
#[derive(Default)]
pub(crate) struct Listeners {
    list: Mutex<Vec<Weak<Mutex<Box<Callback>>>>>,
}

/// Keeps a listener; dropping it ends its calls (one that is under way on another thread may still end).
#[must_use = "dropping it ends the notifications"]
pub struct Subscription {
    _listener: Arc<Mutex<Box<Callback>>>,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription")
    }
}

impl Listeners {
    pub(crate) fn add(&self, f: Box<Callback>) -> Subscription {
        let listener = Arc::new(Mutex::new(f));
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&listener));
        Subscription { _listener: listener }
    }

    /// Tells everybody, with no lock held but a listener's own. Returns how many of them panicked.
    pub(crate) fn tell(&self, notifications: &[Notification]) -> u64 {
        let mut panics = 0;
        for n in notifications {
            // Each time anew: a listener may end its own or others' subscriptions, and begin some.
            let all = {
                let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
                list.retain(|l| l.strong_count() > 0);
                list.clone()
            };
            // The program's code in both.
            panics += u64::from(panicked(|| n.trace()));
            for listener in all.iter().filter_map(Weak::upgrade) {
                let call = || listener.lock().unwrap_or_else(PoisonError::into_inner)(n);
                panics += u64::from(panicked(call));
                // The last owner, if the subscription has ended meanwhile: what the closure holds is dropped here.
                panics += u64::from(panicked(|| drop(listener)));
            }
        }
        panics
    }
}

/// Runs foreign code; whether it panicked.
fn panicked(f: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(()) => false,
        Err(value) => {
            // What was thrown may have a destructor that panics too.
            std::mem::forget(value);
            true
        }
    }
}
