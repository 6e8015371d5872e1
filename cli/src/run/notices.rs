//! What the heap tells while it runs, kept for the summary.
//!
//! The library leaves out what comes in too great a number, so counts here are what was told: the figures of
//! [`Stats`](metronome_gc::Stats) are exact.

use metronome_gc::{Heap, Notification, Subscription};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Departures from the target by reason.
    pub(crate) departures: BTreeMap<&'static str, u64>,
    /// The largest heap that, by what was measured then, would have been enough.
    pub(crate) enough_heap_bytes: Option<u64>,
    /// Synchronous collections by reason.
    pub(crate) synchronous: BTreeMap<String, u64>,
    /// Times the heap grew.
    pub(crate) grown: u64,
    /// Times the heap shrank or gave memory back.
    pub(crate) trimmed: u64,
    /// Memory given back to the system.
    pub(crate) returned_bytes: u64,
    /// Times the system was low on memory.
    pub(crate) low_memory: u64,
    /// Where that was seen the last time, and the figures.
    pub(crate) low_memory_last: Option<String>,
    /// Times free memory fell below `headroom-low`.
    pub(crate) headroom_low: u64,
}

impl Told {
    fn add(&mut self, n: &Notification) {
        match n {
            Notification::TargetMissed { reason, enough_heap_bytes } => {
                *self.departures.entry(reason.text()).or_default() += 1;
                self.enough_heap_bytes = self.enough_heap_bytes.max(*enough_heap_bytes);
            }
            Notification::AllocationFailed { enough_heap_bytes, .. } => {
                self.enough_heap_bytes = self.enough_heap_bytes.max(*enough_heap_bytes);
            }
            Notification::Synchronous { reason, .. } => {
                *self.synchronous.entry(reason.to_string()).or_default() += 1;
            }
            Notification::HeadroomLow { .. } => self.headroom_low += 1,
            Notification::LowMemory { text } => {
                self.low_memory += 1;
                self.low_memory_last = Some(text.clone());
            }
            Notification::Resized { from_bytes, to_bytes, returned_bytes, .. } => {
                self.grown += u64::from(to_bytes > from_bytes);
                self.trimmed += u64::from(to_bytes < from_bytes || *returned_bytes > 0);
                self.returned_bytes += returned_bytes;
            }
            // The rest is in the statistics.
            _ => {}
        }
    }
}

/// `a 2, b 1`.
pub(crate) fn listed<K: std::fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let each: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
    each.join(", ")
}

/// Listens to a heap.
#[derive(Debug)]
pub(crate) struct Listener {
    told: Arc<Mutex<Told>>,
    _subscription: Subscription,
}

impl Listener {
    /// From now on.
    pub(crate) fn of(heap: &Heap) -> Listener {
        let told = Arc::new(Mutex::new(Told::default()));
        let to = Arc::clone(&told);
        let _subscription = heap.subscribe(move |n| to.lock().unwrap_or_else(PoisonError::into_inner).add(n));
        Listener { told, _subscription }
    }

    /// What was told so far; all of it once the heap is closed.
    pub(crate) fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metronome_gc::DepartureReason;

    #[test]
    fn notifications_add_up() {
        let mut told = Told::default();
        let missed = |reason, enough_heap_bytes| Notification::TargetMissed { reason, enough_heap_bytes };
        for n in [
            missed(DepartureReason::HeadroomLow, Some(9)),
            missed(DepartureReason::HeadroomLow, Some(7)),
            missed(DepartureReason::OutOfMemory, None),
            Notification::Resized { from_bytes: 1, to_bytes: 2, returned_bytes: 0, reason: "need" },
            Notification::Resized { from_bytes: 2, to_bytes: 1, returned_bytes: 5, reason: "idle" },
            Notification::Resized { from_bytes: 2, to_bytes: 2, returned_bytes: 6, reason: "explicit" },
            Notification::LowMemory { text: "there".into() },
        ] {
            told.add(&n);
        }
        assert_eq!(listed(&told.departures), "headroom low 2, out of memory 1");
        assert_eq!(told.enough_heap_bytes, Some(9));
        assert_eq!((told.grown, told.trimmed, told.returned_bytes), (1, 2, 11));
        assert_eq!((told.low_memory, told.low_memory_last.as_deref()), (1, Some("there")));
    }
}
