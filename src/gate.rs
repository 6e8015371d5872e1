//! Stopping and resuming the mutators of one heap, bounded.
//!
//! # State
//! `word` = number of running mutators, and the stop bit. `poll` is odd while a stop is requested or lasts; under the stress mode
//! `poll` its second bit stays set, so that each poll takes the slow path.
//! ```text
//! mutator:   outside ──enter_running──▶ running ──leave_running──▶ outside (paused, at a safepoint, native)
//! collector: open ──stop──▶ stopped (count = 0) ──release──▶ open
//!                     └──▶ cancelled at the deadline (count > 0): open
//! ```
//! # Waiting without sleeping
//! Where every running mutator has a CPU and stops are short, those that have arrived spin until the release
//! (`let_spin`): it costs nobody a CPU, no CPU has to be woken, and none is taken for free by the system, which would move
//! the mutator that the collector has preempted there. One that has spun for half of its turns and sees that somebody
//! has still not arrived sleeps: it may be in the other's way.
//!
//! # The time of a stop
//! To set a timer and to cancel it takes longer than a stop, in a virtual machine above all. So a collector that waits for
//! the last mutator lets one that spins look at the clock (`watchers`): that one wakes it at the time that it left in `look_ns`, and
//! a watcher that stops spinning before everybody has arrived wakes it too. Should every watcher lose its CPU, the alarm's next
//! tick does (`look`). Without watchers the collector sets the timer.
//!
//! # The end of a stop
//! Waking a CPU that sleeps takes longer than some stops last. So the collector announces the end of a stop shortly before it
//! (`announce_end`): sleepers wake up and spin, for a bounded time, until the release, which then is two stores and needs no
//! system call. Whoever sleeps all the same (it had not yet gone to sleep when the end was announced, or has spun in vain) is
//! woken by the release as ever.
//!
//! # Who may touch what
//! One collector thread calls `stop`, `announce_end`, `release`; mutators call the rest. While stopped, the collector may touch
//! everything that running mutators may (INV-STOP-EXCLUSIVE): a mutator becomes running only by a
//! read-modify-write of `word` that fails while the stop bit is set.
//!
//! # Ordering
//! `leave_running` releases and `stop` acquires: what mutators wrote is seen by the collector. `release` releases
//! and `enter_running` acquires: what the collector wrote (the phase above all) is seen by a mutator before it
//! runs on. Because both are read-modify-writes of one word, one of "the mutator runs on" and "the collector stops
//! it" comes first; a store followed by a load could miss both.

use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    futex_wait, futex_wake, spin_loop,
};
use crossbeam_utils::CachePadded;

const STOP: u64 = 1 << 32;
const COUNT: u64 = STOP - 1;

/// Bits of `poll`: a stop, and the stress mode. The rest counts stops.
const REQUESTED: u32 = 1;
const ALWAYS: u32 = 2;

/// The gate between running and stopped. Cost: O(1) per transition, whatever the number of mutators.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    poll: CachePadded<AtomicU32>,
    word: CachePadded<AtomicU64>,
    /// Bumped by the last mutator to arrive; the collector sleeps on it.
    arrived: CachePadded<AtomicU32>,
    /// Mutators that sleep on `poll`.
    sleepers: AtomicU32,
    /// `poll` of the stop whose end was announced last.
    ending: AtomicU32,
    /// Turns for which mutators wait before they sleep.
    turns: AtomicU32,
    /// Mutators that spin, and look at the clock for the collector.
    watchers: AtomicU32,
    /// When they, or the alarm, wake the collector; [`NEVER`] while it does not rely on them.
    look_ns: LookAt,
}

/// A time that does not come.
const NEVER: u64 = u64::MAX;
/// A watcher looks at the clock every so many turns.
const LOOK_EACH: u32 = 8;

/// The collector waits so many turns for the first watcher: one or two microseconds, in which one arrives that has a CPU.
#[cfg(not(loom))]
const FIRST_WATCHER: u32 = 128;
#[cfg(loom)]
const FIRST_WATCHER: u32 = 1;

/// A time, at first [`NEVER`].
#[derive(Debug)]
struct LookAt(AtomicU64);

impl Default for LookAt {
    fn default() -> LookAt {
        LookAt(AtomicU64::new(NEVER))
    }
}

/// Turns of a mutator that was woken ahead of the release: some 50 us, twice the time that it is woken ahead by.
#[cfg(not(loom))]
const AHEAD: Spin = Spin(2_000);
#[cfg(loom)]
const AHEAD: Spin = Spin(1);

/// How long to spin before sleeping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin(pub(crate) u32);

impl Spin {
    /// What mutators do unless the collector lets them spin: a quantum takes longer than a little spinning, and where there
    /// are more mutators than CPUs one that spins keeps another from arriving.
    pub(crate) const NONE: Spin = Spin(0);
}

/// Why a stop did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled {
    /// Mutators still running at the deadline.
    pub(crate) running: u32,
}

impl Gate {
    /// Whether a stop is requested: the poll. One relaxed load.
    #[inline(always)]
    pub(crate) fn stop_requested(&self) -> bool {
        // Relaxed: a hint; the slow path's read-modify-write is what counts.
        self.poll.load(Relaxed) & (REQUESTED | ALWAYS) != 0
    }

    /// From now on each poll takes its slow path.
    pub(crate) fn poll_always(&self) {
        // Relaxed: a hint, as the poll's load.
        self.poll.fetch_or(ALWAYS, Relaxed);
    }

    /// Whether `poll_always` was called.
    pub(crate) fn polls_always(&self) -> bool {
        // Relaxed: as above.
        self.poll.load(Relaxed) & ALWAYS != 0
    }

    /// Becomes running; waits while stopped. Returns whether it had to wait. `now` reads the clock of the collector's stops.
    pub(crate) fn enter_running(&self, spin: Spin, now: impl Fn() -> u64) -> bool {
        let (mut waited, mut watched) = (false, false);
        // Relaxed: validated by the exchange.
        let mut w = self.word.load(Relaxed);
        loop {
            if w & STOP != 0 {
                waited = true;
                self.wait_open(spin, &now, &mut watched);
                w = self.word.load(Relaxed);
                continue;
            }
            // AcqRel: pairs with the Release in `release`, and with the AcqRel in `stop`, which is to see that this watcher is none any
            // more. Relaxed: a failed one is tried again.
            match self.word.compare_exchange_weak(w, w + 1, AcqRel, Relaxed) {
                Ok(_) => return waited,
                Err(x) => w = x,
            }
        }
    }

    /// Stops being a running mutator.
    pub(crate) fn leave_running(&self) {
        // Release: pairs with the Acquire in `stop`.
        let before = self.word.fetch_sub(1, Release);
        debug_assert!(before & COUNT > 0);
        if before == STOP + 1 {
            // Release: pairs with the Acquire load in `stop`; the sleeper re-checks `word` itself.
            self.arrived.fetch_add(1, Release);
            futex_wake(&self.arrived, 1);
        }
    }

    #[cold]
    fn wait_open(&self, spin: Spin, now: &impl Fn() -> u64, watched: &mut bool) {
        // The stop whose announced end was waited for in vain.
        let mut in_vain = None;
        // Relaxed: a hint.
        let mut spin = Spin(spin.0.max(self.turns.load(Relaxed)));
        while !self.spin_open(spin, now, watched) {
            if std::mem::take(watched) {
                self.end_watch();
            }
            let Some(ending) = self.sleep_through(in_vain) else { return };
            in_vain = Some(ending);
            spin = AHEAD;
        }
    }

    /// Whether the gate is open within so many turns. Watches meanwhile.
    fn spin_open(&self, spin: Spin, now: &impl Fn() -> u64, watched: &mut bool) -> bool {
        if spin.0 == 0 {
            return false;
        }
        *watched = true;
        // Relaxed: a collector that misses it sets its timer.
        self.watchers.fetch_add(1, Relaxed);
        let open = self.spin_and_look(spin, now);
        // Relaxed: published by the read-modify-write of `word` that follows, here or in `enter_running`.
        self.watchers.fetch_sub(1, Relaxed);
        open
    }

    fn spin_and_look(&self, spin: Spin, now: &impl Fn() -> u64) -> bool {
        for turn in 0..spin.0 {
            // Relaxed: re-checked by the caller's exchange.
            let w = self.word.load(Relaxed);
            if w & STOP == 0 {
                return true;
            }
            if w & COUNT > 0 {
                if turn > spin.0 / 2 {
                    return false;
                }
                if turn % LOOK_EACH == 0 {
                    self.look(now());
                }
            }
            spin_loop();
        }
        false
    }

    /// This watcher looks no more: wakes a collector that may rely on it.
    fn end_watch(&self) {
        // AcqRel: pairs with the AcqRel in `stop`. As both are read-modify-writes, either this one sees the stop, or `stop` comes after it
        // and sees one watcher less.
        let w = self.word.fetch_add(0, AcqRel);
        if w & STOP != 0 && w & COUNT > 0 {
            self.stir();
        }
    }

    /// Wakes a collector that relies on others to look at the clock, if it is time. One load unless it is.
    pub(crate) fn look(&self, now_ns: u64) {
        // Relaxed: a hint; the collector looks for itself.
        if now_ns >= self.look_ns.0.load(Relaxed) && self.look_ns.0.swap(NEVER, Relaxed) != NEVER {
            self.stir();
        }
    }

    /// Wakes the collector, if it waits for mutators to arrive.
    fn stir(&self) {
        // Release: pairs with the Acquire load in `stop`, which then sees one watcher less.
        self.arrived.fetch_add(1, Release);
        futex_wake(&self.arrived, 1);
    }

    /// Sleeps until the gate is open (`None`), or the end of a stop is announced that is not `in_vain`: which.
    fn sleep_through(&self, in_vain: Option<u32>) -> Option<u32> {
        // SeqCst, with the loads in `release`: either it sees this sleeper, or the futex sees the changed word.
        self.sleepers.fetch_add(1, SeqCst);
        let announced = loop {
            let p = self.poll.load(SeqCst);
            // Relaxed: re-checked by the caller's exchange.
            if self.word.load(Relaxed) & STOP == 0 {
                break None;
            }
            if p & REQUESTED == 0 {
                // Between the two stores of `release` or `stop`.
                spin_loop();
                continue;
            }
            // Relaxed: a hint; one that is missed leaves this thread asleep, to be woken by `release`.
            if self.ending.load(Relaxed) == p && in_vain != Some(p) {
                break Some(p);
            }
            futex_wait(&self.poll, p, None);
        };
        // SeqCst: as its increment above; too late costs the next `release` a needless wake-up.
        self.sleepers.fetch_sub(1, SeqCst);
        announced
    }

    /// Requests a stop and waits until no mutator runs, at most until `deadline_ns` (`now` reads that clock). If it
    /// still waits at `nudge.0`, calls `nudge.1` once. With `watched`, somebody calls [`Gate::look`] every now and then, and
    /// both times may be late by as much where all mutators that spin have lost their CPUs.
    ///
    /// # Errors
    /// [`Cancelled`]: a mutator had not arrived; all were released.
    pub(crate) fn stop(
        &self,
        deadline_ns: Option<u64>,
        now: impl Fn() -> u64,
        spin: Spin,
        watched: bool,
        mut nudge: Option<(u64, &mut dyn FnMut())>,
    ) -> Result<(), Cancelled> {
        // Release: pairs with the load of `poll` in `wait_open`. Mutators that see the odd poll find the bit, or soon will.
        self.poll.fetch_add(REQUESTED, Release);
        // AcqRel: pairs with the Release in `leave_running` and the Acquire in `enter_running`.
        let mut w = self.word.fetch_or(STOP, AcqRel);
        let mut spins = 0;
        // Nobody watches for the only one. Relaxed: this thread's own.
        let watched = watched && w & COUNT > 1 && self.turns.load(Relaxed) > 0;
        let mut looks = if watched { FIRST_WATCHER } else { 0 };
        loop {
            if w & COUNT == 0 {
                return Ok(());
            }
            // Acquire, here and below: pairs with the Release in `leave_running`.
            let arrived = self.arrived.load(Acquire);
            w = self.word.load(Acquire);
            if w & COUNT == 0 {
                return Ok(());
            }
            let t = now();
            if nudge.as_ref().is_some_and(|(at, _)| t >= *at)
                && let Some((_, help)) = nudge.take()
            {
                help();
            }
            if deadline_ns.is_some_and(|d| t >= d) {
                self.release();
                return Err(Cancelled { running: (w & COUNT) as u32 });
            }
            // Relaxed: a hint.
            if looks > 0 && self.watchers.load(Relaxed) == 0 {
                looks -= 1;
                spin_loop();
            } else if spins < spin.0 {
                spins += 1;
                spin_loop();
            } else {
                let nudge_ns = nudge.as_ref().map(|(at, _)| *at);
                let until = nudge_ns.into_iter().chain(deadline_ns).min();
                // Relaxed: a watcher that ends after this load changes `arrived`.
                match until {
                    Some(at) if watched && self.watchers.load(Relaxed) > 0 => {
                        // Relaxed: a hint for those who look. (A wake-up that comes late ends the next wait early.)
                        self.look_ns.0.store(at, Relaxed);
                        futex_wait(&self.arrived, arrived, None);
                        self.look_ns.0.store(NEVER, Relaxed);
                    }
                    _ => futex_wait(&self.arrived, arrived, until),
                }
                // Acquire: as above.
                w = self.word.load(Acquire);
            }
        }
    }

    /// Wakes the sleepers, who then wait for the release without sleeping, for a bounded time. While stopped. One system
    /// call if anybody sleeps, which takes a microsecond or some for each of them.
    pub(crate) fn announce_end(&self) {
        // Relaxed: this thread's own; a hint.
        self.ending.store(self.poll.load(Relaxed), Relaxed);
        // SeqCst: as in `release`; a sleeper that is not seen here sleeps until then.
        if self.sleepers.load(SeqCst) > 0 {
            futex_wake(&self.poll, u32::MAX);
        }
    }

    /// Lets the mutators run on.
    pub(crate) fn release(&self) {
        // Release: pairs with the Acquire in `enter_running`.
        self.word.fetch_and(!STOP, Release);
        // SeqCst, with the sleeper's counter in `wait_open`.
        // Takes the low bit off and counts; the second bit stays.
        self.poll.fetch_add(4 - REQUESTED, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            futex_wake(&self.poll, u32::MAX);
        }
    }

    /// Mutators may wait for so many turns before they sleep, in the stops from now on.
    pub(crate) fn let_spin(&self, spin: Spin) {
        // Relaxed: a hint.
        self.turns.store(spin.0, Relaxed);
    }

    /// Mutators that sleep until the release: a hint.
    pub(crate) fn sleepers(&self) -> u32 {
        // Relaxed: a hint.
        self.sleepers.load(Relaxed)
    }

    /// Running mutators: a hint.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn running(&self) -> u32 {
        // Relaxed: a hint.
        (self.word.load(Relaxed) & COUNT) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn stopped_means_nobody_runs() {
        let gate = Gate::default();
        let (inside, quit) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    gate.enter_running(Spin(10), || 0);
                    while !quit.load(Relaxed) {
                        inside.fetch_add(1, Relaxed);
                        inside.fetch_sub(1, Relaxed);
                        if gate.stop_requested() {
                            gate.leave_running();
                            gate.enter_running(Spin(10), || 0);
                        }
                    }
                    gate.leave_running();
                });
            }
            for _ in 0..2000 {
                gate.stop(None, || 0, Spin(10), false, None).unwrap();
                assert_eq!(inside.load(Relaxed), 0);
                assert_eq!(gate.running(), 0);
                gate.release();
            }
            quit.store(true, Relaxed);
        });
    }

    #[test]
    fn a_stop_that_nobody_answers_is_cancelled_and_blocks_nobody() {
        let gate = Gate::default();
        gate.enter_running(Spin(0), || 0);
        let t = std::sync::atomic::AtomicU64::new(0);
        // A virtual clock that advances with each look.
        let r = gate.stop(Some(5), || t.fetch_add(1, Relaxed), Spin(1_000_000), false, None);
        assert_eq!(r, Err(Cancelled { running: 1 }));
        assert!(!gate.stop_requested());
        gate.leave_running();
        assert!(!gate.enter_running(Spin(0), || 0));
    }
}
