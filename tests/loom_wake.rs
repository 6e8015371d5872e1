//! Loom model of the words on which the collector, the reaper and the finalizer thread sleep: who takes the number before
//! it looks for work misses none.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_wake`
//!
//! The loops are those of `driver`, `reaper` and `finalize` without what they work on, over futexes made of loom's lock. A
//! wake-up that is missed is a deadlock, which loom reports (and the process aborts).
#![cfg(loom)]

#[path = "loom/explore.rs"]
mod explore;

#[path = "loom/sync.rs"]
mod sync;

use explore::explore;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;
use sync::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    futex_wait, futex_wake,
};

/// A thread that works on request.
#[derive(Default)]
struct Worker {
    /// Counts requests; the thread sleeps on it.
    seq: AtomicU32,
    /// Pieces of work that nobody has taken. Stands for a list that has an order of its own, so nothing here relies on it.
    work: AtomicU32,
    shutdown: AtomicBool,
}

impl Worker {
    /// As the driver at the end of a cycle.
    fn give(&self) {
        self.work.fetch_add(1, Relaxed);
        self.wake();
    }

    fn wake(&self) {
        self.seq.fetch_add(1, Release);
        futex_wake(&self.seq, 1);
    }

    /// As whoever closes the heap.
    fn close(&self) {
        self.shutdown.store(true, Relaxed);
        self.wake();
    }

    /// As the loop of the thread, until it is told to end or has done `enough`. What is left then, its teardown does.
    fn run(&self, enough: u32) -> u32 {
        let mut done = 0;
        loop {
            let seen = self.seq.load(Acquire);
            done += self.work.swap(0, Relaxed);
            if done == enough || self.shutdown.load(Relaxed) {
                return done;
            }
            futex_wait(&self.seq, seen, None);
        }
    }
}

/// The thread ends when it is told to, whatever else comes.
#[test]
fn the_end_is_not_missed() {
    explore(3, || {
        let worker = Arc::new(Worker::default());
        let w = Arc::clone(&worker);
        let thread = thread::spawn(move || w.run(u32::MAX));
        worker.give();
        worker.close();
        assert!(thread.join().unwrap() <= 1);
    });
}

/// All work of two threads is done, without anybody who wakes the worker at the end.
#[test]
fn no_work_is_slept_over() {
    explore(2, || {
        let worker = Arc::new(Worker::default());
        let w = Arc::clone(&worker);
        let thread = thread::spawn(move || w.run(2));
        let w = Arc::clone(&worker);
        let giver = thread::spawn(move || w.give());
        worker.give();
        giver.join().unwrap();
        assert_eq!(thread.join().unwrap(), 2);
    });
}

/// Loops that break the protocol: the model must notice. (They do not really sleep: see `loom_gate.rs`.)
mod broken {
    use super::*;

    /// Whether the thread would sleep with work to do and nobody to wake it.
    fn sleeps_on_work(number_first: bool) -> bool {
        let worker = Arc::new(Worker::default());
        let w = Arc::clone(&worker);
        let giver = thread::spawn(move || {
            w.work.fetch_add(1, Relaxed);
            w.seq.fetch_add(1, Release);
        });
        let early = worker.seq.load(Acquire);
        let found = worker.work.swap(0, Relaxed);
        let seen = if number_first { early } else { worker.seq.load(Acquire) };
        giver.join().unwrap();
        // The giver has gone: whether the number is still the one seen decides about the sleep.
        found == 0 && worker.seq.load(Acquire) == seen
    }

    /// The number is taken after the look: what comes in between is slept over.
    #[test]
    #[should_panic(expected = "slept over")]
    fn taking_the_number_after_the_look() {
        loom::model(|| assert!(!sleeps_on_work(false), "slept over"));
    }

    /// Taken before it, nothing is.
    #[test]
    fn taking_the_number_before_the_look() {
        loom::model(|| assert!(!sleeps_on_work(true), "slept over"));
    }
}
