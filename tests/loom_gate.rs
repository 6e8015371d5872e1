//! Loom model of the gate between running and stopped: every interleaving of some small programs.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_gate`
//!
//! The gate's own source is compiled here with loom's atomics and with futexes made of loom's lock. What a running
//! mutator may touch, and a collector that has stopped it, are loom cells without any ordering of their own: an
//! access that the gate does not order is reported, in both directions (INV-STOP-EXCLUSIVE). A lost wake-up is a
//! deadlock, which loom reports too (and the process aborts).
//!
//! Loom takes `SeqCst` for `AcqRel`. The futex's look at its word, which in the kernel follows a full barrier, is a
//! read-modify-write here and stands for the order that is missing; so this model does not tell `SeqCst` in
//! `wait_open` and `release` from something weaker.
#![cfg(loom)]

#[path = "loom/explore.rs"]
mod explore;

#[path = "../src/gate.rs"]
mod gate;

#[path = "loom/sync.rs"]
mod sync;

use explore::explore;
use gate::{Cancelled, Gate, Spin};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

/// What the gate protects.
struct World {
    gate: Gate,
    /// One per mutator: written by it while running, by the collector while stopped.
    locals: Vec<UnsafeCell<u32>>,
    /// Written by the collector while stopped, read by running mutators.
    phase: UnsafeCell<u32>,
}

// SAFETY: loom checks every access to the cells; that is what these tests are for.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new(mutators: usize) -> Arc<World> {
        Arc::new(World {
            gate: Gate::default(),
            locals: (0..mutators).map(|_| UnsafeCell::new(0)).collect(),
            phase: UnsafeCell::new(0),
        })
    }

    /// What a mutator does while it runs. Returns the phase it saw.
    fn run(&self, i: usize) -> u32 {
        // SAFETY: checked by loom.
        self.locals[i].with_mut(|p| unsafe { *p += 1 });
        // SAFETY: checked by loom.
        self.phase.with(|p| unsafe { *p })
    }

    /// What the collector does while all are stopped. Returns how often mutators have run.
    fn collect(&self) -> u32 {
        // SAFETY: checked by loom.
        self.phase.with_mut(|p| unsafe { *p += 1 });
        // SAFETY: checked by loom. The write back is for loom to see.
        self.locals.iter().map(|l| l.with_mut(|p| unsafe { std::mem::replace(&mut *p, 0) })).sum()
    }

    fn stop(&self) {
        assert_eq!(self.gate.stop(None, || 0, Spin(0), false, None), Ok(()));
        assert_eq!(self.gate.running(), 0);
    }
}

/// A mutator that runs twice.
fn runs_twice(world: &Arc<World>) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || {
        for _ in 0..2 {
            world.gate.enter_running(Spin(0), || 0);
            world.run(0);
            world.gate.leave_running();
        }
    })
}

/// Two mutators, one of which comes by a pause point, and a stop: nobody runs meanwhile, both sides see what the
/// other wrote, all finish.
#[test]
fn a_stop_excludes_and_orders() {
    explore(2, || {
        let world = World::new(2);
        let mutators: Vec<_> = (0..2)
            .map(|i| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let gate = &world.gate;
                    gate.enter_running(Spin(0), || 0);
                    let before = world.run(i);
                    if i == 0 && gate.stop_requested() {
                        gate.leave_running();
                        gate.enter_running(Spin(0), || 0);
                        // The phase never goes back.
                        assert!(world.run(i) >= before);
                    }
                    gate.leave_running();
                })
            })
            .collect();
        world.stop();
        world.collect();
        world.gate.release();
        mutators.into_iter().for_each(|m| m.join().unwrap());
        assert!(!world.gate.stop_requested());
    });
}

/// A mutator that runs on until it has seen the collector's write, which it can only by coming to a stop: the stop
/// always comes about, and the write is seen after it.
#[test]
fn a_polling_mutator_is_stopped_and_sees_the_new_phase() {
    explore(3, || {
        let world = World::new(1);
        let other = Arc::clone(&world);
        // The mutator runs before the stop is asked for.
        world.gate.enter_running(Spin(0), || 0);
        let collector = thread::spawn(move || {
            other.stop();
            let runs = other.collect();
            other.gate.release();
            runs
        });
        let mut runs = 1;
        while world.run(0) == 0 {
            if world.gate.stop_requested() {
                world.gate.leave_running();
                world.gate.enter_running(Spin(0), || 0);
            }
            thread::yield_now();
            runs += 1;
        }
        world.gate.leave_running();
        // The last run came after the stop, all others before it.
        assert_eq!(collector.join().unwrap(), runs - 1);
    });
}

/// A stop with a deadline either excludes or is cancelled; cancelled, it blocks nobody, and the next stop works.
#[test]
fn a_stop_cancelled_at_its_deadline_blocks_nobody() {
    // Not loom's: they count over all interleavings.
    use std::sync::atomic::AtomicU32 as Counter;
    static STOPS: Counter = Counter::new(0);
    static CANCELS: Counter = Counter::new(0);
    explore(2, || {
        let world = World::new(1);
        let mutator = runs_twice(&world);
        for _ in 0..2 {
            // The deadline is over at the first look at the clock.
            match world.gate.stop(Some(0), || 0, Spin(0), false, None) {
                Ok(()) => {
                    world.collect();
                    world.gate.release();
                    STOPS.fetch_add(1, Relaxed);
                }
                Err(Cancelled { running }) => {
                    assert_eq!(running, 1);
                    CANCELS.fetch_add(1, Relaxed);
                }
            }
            assert!(!world.gate.stop_requested());
        }
        // Nothing but those two stops may be what lets it go on.
        mutator.join().unwrap();
        world.stop();
        world.collect();
        world.gate.release();
    });
    // Both ways were explored.
    assert!(STOPS.load(Relaxed) > 0 && CANCELS.load(Relaxed) > 0);
}

/// A mutator goes to native code and comes back, while the collector stops, releases and stops again: a sleeper that
/// the first release woke may come late, into the second stop, and must wait for its end.
#[test]
fn native_transitions_and_late_waking() {
    explore(3, || {
        let world = World::new(1);
        let mutator = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.gate.enter_running(Spin(0), || 0);
                let first = world.run(0);
                world.gate.leave_running();
                // Native.
                world.gate.enter_running(Spin(1), || 0);
                let second = world.run(0);
                world.gate.leave_running();
                assert!(first <= second && second <= 2);
            })
        };
        let mut runs = 0;
        for _ in 0..2 {
            world.stop();
            runs += world.collect();
            world.gate.release();
        }
        mutator.join().unwrap();
        world.stop();
        assert_eq!(runs + world.collect(), 2);
        world.gate.release();
    });
}

/// A stop whose end is announced: a sleeper is woken by the announcement and spins, or by the release, whether the
/// announcement finds it before, at, or after going to sleep, and whether the spinning is in vain or not. Then a second stop
/// whose end is not announced.
#[test]
fn an_announced_end_loses_nobody() {
    explore(3, || {
        let world = World::new(1);
        let mutator = runs_twice(&world);
        let mut runs = 0;
        for announced in [true, false] {
            world.stop();
            runs += world.collect();
            if announced {
                world.gate.announce_end();
            }
            world.gate.release();
        }
        mutator.join().unwrap();
        world.stop();
        assert_eq!(runs + world.collect(), 2);
        world.gate.release();
    });
}

/// A collector that relies on a mutator that spins, instead of setting a timer: it is woken when that one stops spinning, or
/// the alarm looks, and cancels the stop of another mutator that does not arrive. (A wake-up that is lost is a deadlock.)
#[test]
fn a_collector_without_a_timer_is_woken_by_a_watcher() {
    explore(2, || {
        let world = World::new(2);
        world.gate.let_spin(Spin(1));
        // One that does not arrive.
        world.gate.enter_running(Spin(0), || 0);
        world.gate.enter_running(Spin(0), || 0);
        let watcher = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.run(0);
                world.gate.leave_running();
                world.gate.enter_running(Spin(0), || 0);
                world.run(0);
                world.gate.leave_running();
            })
        };
        let clock = AtomicU32::new(0);
        let now = || u64::from(clock.fetch_add(1, Relaxed));
        // A tick of the alarm, before its time.
        world.gate.look(0);
        assert!(world.gate.stop(Some(2), now, Spin(0), true, None).is_err());
        watcher.join().unwrap();
        world.gate.leave_running();
        world.stop();
        world.gate.release();
    });
}

/// The nudge of a slow stop is called at most once, and the stop goes on as before.
#[test]
fn a_nudge_changes_nothing() {
    explore(2, || {
        let world = World::new(1);
        let mutator = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.gate.enter_running(Spin(0), || 0);
                world.run(0);
                world.gate.leave_running();
            })
        };
        let mut nudges = 0;
        let clock = AtomicU32::new(0);
        let now = || u64::from(clock.fetch_add(1, Relaxed));
        let mut nudge = || nudges += 1;
        assert_eq!(world.gate.stop(None, now, Spin(0), false, Some((1, &mut nudge))), Ok(()));
        world.collect();
        world.gate.release();
        mutator.join().unwrap();
        assert!(nudges <= 1);
    });
}

/// The same properties of gates that break the protocol: the model must notice.
mod broken {
    use super::*;
    use loom::sync::Mutex;
    use loom::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

    /// Entering is a store followed by a load, stopping likewise: both may miss the other.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn entering_by_store_and_load() {
        loom::model(|| {
            let running = Arc::new(AtomicU32::new(0));
            let stop = Arc::new(AtomicU32::new(0));
            let world = World::new(1);
            let (r, s, w) = (Arc::clone(&running), Arc::clone(&stop), Arc::clone(&world));
            let mutator = thread::spawn(move || {
                r.store(1, Release);
                if s.load(Acquire) == 0 {
                    w.run(0);
                }
                r.store(0, Release);
            });
            stop.store(1, Release);
            if running.load(Acquire) == 0 {
                world.collect();
            }
            mutator.join().unwrap();
        });
    }

    /// Leaving does not release: the collector does not see what the mutator wrote.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn leaving_without_release() {
        loom::model(|| {
            let word = Arc::new(AtomicU32::new(1));
            let world = World::new(1);
            let (w, n) = (Arc::clone(&world), Arc::clone(&word));
            let mutator = thread::spawn(move || {
                w.run(0);
                n.fetch_sub(1, Relaxed);
            });
            if word.fetch_or(1 << 16, AcqRel) == 0 {
                world.collect();
            }
            mutator.join().unwrap();
        });
    }

    /// A sleeper and a release; returns whether the sleeper was left asleep. (Here it does not really sleep: a deadlock
    /// aborts the test's process, which would do for the tests above but cannot be expected by one.)
    fn left_asleep(look_early: bool) -> bool {
        let poll = Arc::new(AtomicU32::new(1));
        let sleepers = Arc::new(AtomicU32::new(0));
        let asleep = Arc::new(Mutex::new(false));
        let (p, n, a) = (Arc::clone(&poll), Arc::clone(&sleepers), Arc::clone(&asleep));
        let mutator = thread::spawn(move || {
            n.fetch_add(1, SeqCst);
            let mut asleep = a.lock().unwrap();
            // AcqRel: the futex's look at its word, as in `sync`.
            *asleep = p.fetch_add(0, AcqRel) == 1;
        });
        let early = sleepers.load(SeqCst) > 0;
        poll.fetch_add(1, SeqCst);
        if if look_early { early } else { sleepers.load(SeqCst) > 0 } {
            *asleep.lock().unwrap() = false;
        }
        mutator.join().unwrap();
        *asleep.lock().unwrap()
    }

    /// The release looks for sleepers before it changes the word that they sleep on: one that comes in between
    /// sleeps for ever.
    #[test]
    #[should_panic(expected = "left asleep")]
    fn looking_for_sleepers_too_early() {
        loom::model(|| assert!(!left_asleep(true), "left asleep"));
    }

    /// In the right order none is left.
    #[test]
    fn looking_for_sleepers_in_time() {
        loom::model(|| assert!(!left_asleep(false), "left asleep"));
    }
}
