//! Loom model of the alarm's command word: pausing, resuming, stopping and surviving, against the tick thread.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_alarm`
//!
//! The loop's own source is compiled here with loom's atomics and a timer that sleeps not at all and parks by loom. A
//! resumption or stop that the parked thread misses is a deadlock, which loom reports (and the process aborts). What a
//! controller wrote before it resumed is a loom cell that the ticks after read.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "the models use a part of the alarm's own files")]

#[path = "loom/explore.rs"]
mod explore;

#[path = "../alarm/src/grid.rs"]
mod grid;
#[path = "../alarm/src/lateness.rs"]
mod lateness;
#[path = "loom/sync.rs"]
mod sync;
#[path = "../alarm/src/tick_loop.rs"]
mod tick_loop;

use explore::explore;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use tick_loop::{Command, Shared, Timer, run};

/// A clock that is always due, for a number of beats; then a beat lasts until somebody changes the command.
struct Beats {
    now: u64,
    left: u32,
    shared: Arc<World>,
}

struct World {
    shared: Shared,
    /// Written by the controller while the alarm is paused, read by ticks.
    told: UnsafeCell<u32>,
}

// SAFETY: loom checks every access to the cell; that is what these tests are for.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl Timer for Beats {
    fn now(&mut self) -> u64 {
        self.now
    }

    fn sleep_until(&mut self, deadline_ns: u64) {
        self.now = deadline_ns;
        if self.left == 0 {
            // Nothing comes of more beats, but for whoever is to stop them.
            thread::yield_now();
        }
        self.left = self.left.saturating_sub(1);
    }

    fn park(&mut self) {
        thread::park();
    }
}

fn world(command: Command) -> Arc<World> {
    Arc::new(World { shared: Shared::new(command), told: UnsafeCell::new(0) })
}

/// The tick thread; each tick reads what was told, and returns the last.
fn start(world: &Arc<World>) -> thread::JoinHandle<u32> {
    let w = Arc::clone(world);
    thread::spawn(move || {
        let mut timer = Beats { now: 0, left: 1, shared: Arc::clone(&w) };
        let mut last = 0;
        run(&mut timer, &w.shared, 100, |_| {
            // SAFETY: checked by loom.
            last = w.told.with(|p| unsafe { *p });
        });
        last
    })
}

/// A paused alarm that is resumed ticks on, sees what was written before, and ends when it is stopped.
#[test]
fn resuming_publishes_and_is_not_missed() {
    explore(3, || {
        let world = world(Command::Pause);
        let alarm = start(&world);
        // SAFETY: checked by loom: no tick reads it before it is resumed.
        world.told.with_mut(|p| unsafe { *p = 7 });
        assert!(world.shared.transition(Command::Pause, Command::Run));
        alarm.thread().unpark();
        world.shared.transition_to_stop();
        alarm.thread().unpark();
        let last = alarm.join().unwrap();
        assert!(last == 7 || world.shared.ticks() == 0);
    });
}

/// A stop ends a paused alarm, whether it sleeps already or is about to.
#[test]
fn stopping_wakes_a_paused_alarm() {
    explore(3, || {
        let world = world(Command::Run);
        let alarm = start(&world);
        let paused = world.shared.transition(Command::Run, Command::Pause);
        assert!(paused);
        world.shared.transition_to_stop();
        alarm.thread().unpark();
        alarm.join().unwrap();
        assert!(world.shared.command() == Command::Stop);
    });
}

/// The same properties of protocols that break them: the model must notice.
mod broken {
    use super::*;
    use loom::sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    };

    /// A resumption that does not release: a tick does not see what was written before.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn resuming_without_release() {
        loom::model(|| {
            let world = world(Command::Run);
            let command = Arc::new(AtomicU32::new(1));
            let (w, c) = (Arc::clone(&world), Arc::clone(&command));
            let alarm = thread::spawn(move || {
                if c.load(Acquire) == 0 {
                    // SAFETY: checked by loom.
                    w.told.with(|p| unsafe { *p });
                }
            });
            // SAFETY: checked by loom.
            world.told.with_mut(|p| unsafe { *p = 7 });
            command.store(0, Relaxed);
            alarm.join().unwrap();
        });
    }

    /// Resuming by a store, not an exchange, can undo a stop.
    #[test]
    #[should_panic(expected = "a stop was undone")]
    fn resuming_by_a_store() {
        loom::model(|| {
            let command = Arc::new(AtomicU32::new(1));
            let c = Arc::clone(&command);
            let other = thread::spawn(move || {
                if c.load(Acquire) == 1 {
                    c.store(0, Release);
                }
            });
            command.store(2, Release);
            other.join().unwrap();
            assert_eq!(command.load(Acquire), 2, "a stop was undone");
        });
    }
}
