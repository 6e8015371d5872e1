//! The memory thread: watches the system for low memory, grows a prefaulted heap, gives memory back. An ordinary thread;
//! nothing of it is on the real-time path.
//!
//! # State
//! The size of the heap is the space's limit. It is raised by mutators that find no region (O(1)), by the driver at the
//! end of a cycle when the contract asks for more (O(1)), or here, when growing means touching pages. It is lowered here
//! only: when no cycle has run for `idle-trim`.
//!
//! # Who may touch what
//! Everybody may ask ([`Shared::wake_memory`]); what came of it is put into the outbox, for the writer.

use crate::notice::Notification;
use crate::pressure::{Options, Watcher};
use crate::shared::Shared;
use crate::sync::futex_wait;
use metronome_arraylet::REGION_BYTES;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// Regions trimmed at once; other threads may use the heap in between.
const TRIM_CHUNK: u32 = if cfg!(metronome_tiny) { 2 } else { 64 };
/// How often the thread looks at a heap that may have to shrink.
const LOOK_NS: u64 = 1_000_000_000;
/// How often it looks whether a cycle that it waits for has ended.
const SOON_NS: u64 = 10_000_000;

/// Whether a heap of this configuration has something for the thread to do.
pub(crate) fn is_needed(s: &Shared) -> bool {
    s.config.memory_watch || s.space.max_regions() > s.space.limit_regions()
}

/// The watcher that the configuration asks for; what was refused.
pub(crate) fn watcher(s: &Shared) -> (Option<Watcher>, Vec<String>) {
    if !s.config.memory_watch {
        return (None, Vec::new());
    }
    let percent = s.config.memory_low_percent;
    let options = Options { available_percent: percent, group_percent: percent, ..Options::default() };
    match Watcher::new(options) {
        Ok(w) => (Some(w), Vec::new()),
        Err(e) => (None, vec![format!("memory-watch: {e}")]),
    }
}

/// The thread's body, until the heap is closed.
pub(crate) fn run(s: &Arc<Shared>, mut watcher: Option<Watcher>) {
    crate::thread::set_service();
    // The cycle after which everything that is free is given back.
    let mut trim_after = None;
    let mut shrunk_ns = s.clock.now();
    loop {
        // Acquire: pairs with the Release in `wake_memory`; taken before anything is looked at.
        let seen = s.memory_thread_seq.load(Acquire);
        // Relaxed: stored before the wake-up that the Acquire above has seen, or that ends the wait below.
        if s.shutdown.load(Relaxed) {
            return;
        }
        grow_as_asked(s);
        if trim_after.is_some_and(|cycle| s.has_ended(cycle)) {
            trim_after = None;
            s.trim_all("low memory");
        }
        shrink_if_idle(s, &mut shrunk_ns);
        let wait_ns = match trim_after {
            Some(_) => SOON_NS,
            None => s.config.idle_trim_ns.map_or(LOOK_NS, |t| t.clamp(SOON_NS, LOOK_NS)),
        };
        let low = match &mut watcher {
            Some(w) => w.wait(Some(Duration::from_nanos(wait_ns))).low.map(|low| low.to_string()),
            None => {
                futex_wait(&s.memory_thread_seq, seen, Some(s.clock.now().saturating_add(wait_ns)));
                None
            }
        };
        #[cfg(any(test, feature = "hooks"))]
        let low = low.or_else(|| s.hooks.take_low_memory());
        if let Some(text) = low {
            // Relaxed: a hint for the collector, which is woken below.
            s.low_memory.store(true, Relaxed);
            trim_after = Some(s.request_cycle());
            s.tell(Notification::LowMemory { text });
        }
    }
}

/// Growing that has to touch pages first.
fn grow_as_asked(s: &Shared) {
    // Relaxed: a hint; the space decides.
    let wanted = s.grow_to.swap(0, Relaxed);
    if wanted <= s.space.limit_regions() {
        return;
    }
    let grown = s.space.grow(wanted);
    // Relaxed: a hint for those who wait for it.
    s.growth_refused.store(grown.is_err(), Relaxed);
    match grown {
        Ok((_, refusals)) => refusals.into_iter().for_each(|r| s.note(format!("growing the heap: {r}"))),
        Err(e) => s.note(format!("the heap cannot grow: {e}")),
    }
    s.announce_memory();
}

/// Lowers the limit of a heap that has been idle, and gives back what is above it: half of what it has grown by each time,
/// so that a pause of the program does not cost all that it will soon need again, but not below what is in use and a quarter
/// more.
fn shrink_if_idle(s: &Shared, shrunk_ns: &mut u64) {
    let Some(idle) = s.config.idle_trim_ns else { return };
    let now = s.clock.now();
    // Relaxed: hints.
    let since = now.saturating_sub(s.last_cycle_ns.load(Relaxed).max(*shrunk_ns));
    let initial = s.initial_regions;
    let (limit, done) = (s.space.limit_regions(), s.has_ended(s.cycle.load(Relaxed)));
    if limit <= initial || since < idle || !done {
        return;
    }
    *shrunk_ns = now;
    let used = s.space.used_bytes();
    let kept = used.saturating_add(used / 4).div_ceil(REGION_BYTES as u64);
    let to = u32::try_from(kept).unwrap_or(u32::MAX).max(initial + (limit - initial) / 2);
    if to >= limit {
        return;
    }
    let size = s.space.shrink(to);
    let surplus = s.space.resident_regions().saturating_sub(size);
    let returned = trim(s, surplus);
    if size < limit || returned > 0 {
        s.tell(Notification::Resized {
            from_bytes: u64::from(limit) * REGION_BYTES as u64,
            to_bytes: u64::from(size) * REGION_BYTES as u64,
            returned_bytes: returned,
            reason: "idle",
        });
    }
}

/// Gives back up to `regions` free regions; how many bytes that were.
fn trim(s: &Shared, regions: u32) -> u64 {
    let mut left = regions;
    let mut returned = 0;
    while left > 0 {
        let n = s.space.trim(left.min(TRIM_CHUNK));
        if n == 0 {
            break;
        }
        left -= n.min(left);
        returned += u64::from(n) * REGION_BYTES as u64;
    }
    returned
}

impl Shared {
    /// Gives all free regions' memory back to the system; how many bytes that were. Not for real-time threads.
    pub(crate) fn trim_all(&self, reason: &'static str) -> u64 {
        let returned = trim(self, self.space.max_regions());
        let size = self.space.heap_bytes();
        if returned > 0 {
            self.tell(Notification::Resized {
                from_bytes: size,
                to_bytes: size,
                returned_bytes: returned,
                reason,
            });
        }
        returned
    }

    /// Makes room for a mutator that found no region, if the heap may grow: an eighth more. O(1); with pages to touch
    /// first, it is left to the memory thread, and false. A running mutator.
    pub(crate) fn grow_on_demand(&self) -> bool {
        let (limit, max) = (self.space.limit_regions(), self.space.max_regions());
        if limit >= max {
            return false;
        }
        self.grow_regions(limit.saturating_add((limit / 8).max(16)).min(max))
    }

    /// Whether the heap's memory is had in advance, so that growing means touching pages.
    pub(crate) fn backs_memory(&self) -> bool {
        self.config.prefault || self.config.lock_memory
    }

    /// Whether the memory thread can make the heap larger, as far as is known.
    pub(crate) fn grow_soon(&self) -> bool {
        // Relaxed: a hint.
        self.backs_memory()
            && self.space.limit_regions() < self.space.max_regions()
            && !self.growth_refused.load(Relaxed)
    }

    /// Grows to `regions`, or asks the memory thread to. Whether the heap is larger now.
    pub(crate) fn grow_regions(&self, regions: u32) -> bool {
        if self.backs_memory() {
            // Relaxed: a hint.
            self.grow_to.fetch_max(regions, Relaxed);
            self.wake_memory();
            return false;
        }
        self.space.grow(regions).is_ok()
    }
}
