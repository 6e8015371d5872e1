//! Clocks in nanoseconds.
//!
//! *State*: a monotonic clock has none; a manual clock is one shared atomic.
//! *Who may touch what*: anyone may read; whoever holds a [`ManualClock`] may move it.
//! *Ordering*: see [`ManualClock`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// A source of time; cheap to clone, `Send` and `Sync`.
///
/// Policy code takes the time as an argument; a `Clock` is for the few places that have to ask for it.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, slewed by NTP, never stepped.
    #[default]
    Monotonic,
    /// Time that a test moves by hand.
    Manual(ManualClock),
}

impl Clock {
    /// The system's monotonic clock.
    pub const fn monotonic() -> Clock {
        Clock::Monotonic
    }

    /// A new manual clock that shows 0. Get a `Clock` that follows it from [`ManualClock::clock`].
    pub fn manual() -> ManualClock {
        ManualClock::default()
    }

    /// The time in nanoseconds since an arbitrary fixed point.
    ///
    /// Cost: about 25 ns for the monotonic clock where the vDSO can read the clock source (TSC and the paravirtual
    /// clocks); a system call, ten times as much or more, where it cannot. A manual clock costs one atomic load.
    #[inline]
    pub fn now(&self) -> u64 {
        match self {
            Clock::Monotonic => read(ClockId::CLOCK_MONOTONIC),
            Clock::Manual(manual) => manual.now(),
        }
    }
}

impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Clock {
        Clock::Manual(manual)
    }
}

/// Time that stands still until it is moved. Clones share one time.
///
/// It may be moved backward, which no real monotonic clock does, so that tests can see what a user of clocks makes of
/// it.
#[derive(Clone, Default)]
pub struct ManualClock {
    ns: Arc<CachePadded<AtomicU64>>,
}

impl ManualClock {
    /// A clock that shows the same time as this one, now and later.
    pub fn clock(&self) -> Clock {
        Clock::Manual(self.clone())
    }

    /// The time shown, in nanoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        // Acquire: pairs with the Release of `set`, `advance` and `rewind`, so that whoever sees a time also sees what
        // its setter did before, as with real time.
        self.ns.load(Ordering::Acquire)
    }

    /// Shows `ns` from now on, be it later or earlier than before.
    pub fn set(&self, ns: u64) {
        // Release: pairs with the Acquire of `now`.
        self.ns.store(ns, Ordering::Release);
    }

    /// Moves forward by `ns`, stopping at the end of time instead of wrapping; returns the new time.
    pub fn advance(&self, ns: u64) -> u64 {
        self.update(|time| time.saturating_add(ns))
    }

    /// Moves backward by `ns`, not beyond 0; returns the new time.
    pub fn rewind(&self, ns: u64) -> u64 {
        self.update(|time| time.saturating_sub(ns))
    }

    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        // AcqRel: the Release half pairs with the Acquire of `now`, the Acquire half with a concurrent setter's Release;
        // Relaxed on failure, because the value is only used to try again.
        match self.ns.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |time| Some(change(time))) {
            Ok(before) | Err(before) => change(before),
        }
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

/// Processor time consumed by the calling thread so far, in nanoseconds (`CLOCK_THREAD_CPUTIME_ID`).
///
/// Cost: a system call, about 0.5 µs; the vDSO does not serve this clock. Meant for once per quantum, not per step.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> u64 {
    // The kernel has both clocks since 2.6 and the pointer is a local of nix's, so that the call cannot fail.
    let time = clock_gettime(clock).expect("Linux always has the monotonic and the thread clock");
    to_ns(time)
}

/// Nanoseconds of a clock reading, 0 for the negative ones that these clocks never give.
fn to_ns(time: TimeSpec) -> u64 {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec()).unwrap_or(0);
    seconds.saturating_mul(NS_PER_S).saturating_add(rest)
}

/// The reading of a clock that shows `ns`.
pub(crate) fn to_timespec(ns: u64) -> TimeSpec {
    // Narrower `time_t` (32-bit targets) saturates: the sleeper then wakes early and goes to sleep again.
    let seconds = (ns / NS_PER_S).try_into().unwrap_or(libc::time_t::MAX);
    // Below 10^9, which fits every C long.
    TimeSpec::new(seconds, (ns % NS_PER_S) as _)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_does_not_go_back() {
        let clock = Clock::monotonic();
        let mut before = clock.now();
        assert!(before > 0);
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= before);
            before = now;
        }
    }

    #[test]
    fn monotonic_time_is_the_standard_librarys() {
        // The oracle is another reader of the same clock: a span of ours encloses a span of its.
        let clock = Clock::monotonic();
        let outer_start = clock.now();
        let inner_start = std::time::Instant::now();
        std::thread::yield_now();
        let inner = inner_start.elapsed();
        let outer = clock.now() - outer_start;
        assert!(u128::from(outer) >= inner.as_nanos());
    }

    #[test]
    fn clones_of_a_manual_clock_share_the_time() {
        let manual = Clock::manual();
        let clock = manual.clock();
        let other = Clock::from(manual.clone());
        assert_eq!(clock.now(), 0);
        manual.set(100);
        assert_eq!((clock.now(), other.now()), (100, 100));
        assert_eq!(manual.advance(50), 150);
        assert_eq!(manual.rewind(120), 30);
        assert_eq!(clock.now(), 30);
        manual.set(7);
        assert_eq!(clock.clone().now(), 7);
    }

    #[test]
    fn manual_time_saturates_at_both_ends() {
        let manual = Clock::manual();
        assert_eq!(manual.rewind(1), 0);
        manual.set(u64::MAX - 1);
        assert_eq!(manual.advance(5), u64::MAX);
    }

    #[test]
    fn concurrent_advances_all_count() {
        let manual = Clock::manual();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| _ = manual.advance(3)));
            }
        });
        assert_eq!(manual.now(), 12_000);
    }

    #[test]
    fn thread_time_counts_work_of_this_thread_only() {
        let before = thread_cpu_ns();
        // Until the clock moves: it must, because this thread is working.
        while thread_cpu_ns() == before {
            std::hint::spin_loop();
        }
        let fresh = std::thread::spawn(thread_cpu_ns).join().unwrap();
        let spent = thread_cpu_ns();
        assert!(spent > before);
        assert!(fresh > 0);
    }

    #[test]
    fn times_survive_the_conversion() {
        for ns in [0, 1, 999_999_999, 1_000_000_000, 1_000_000_001, 1_234_567_890_123_456_789, u64::MAX] {
            assert_eq!(to_ns(to_timespec(ns)), ns);
        }
    }
}
