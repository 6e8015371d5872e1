//! `poll`: every poll and safepoint asks for one collector step and waits until the collector has answered.
//!
//! # State
//! Two counters: steps asked for, and askings answered. The gate's poll word stays set, so each poll takes its slow path.
//!
//! # Nobody waits for ever
//! The collector answers one asking in each of its rounds, whether or not a step was possible: not if the cycle waits for a
//! safepoint, if a stop failed, or while it leaves those alone that made one fail. Who asks counts as stopped meanwhile. It
//! waits no more once the heap is being closed.

use crate::shared::Shared;
use crate::sync::{futex_wait, futex_wake};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Steps that mutators have asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    asked: AtomicU32,
    answered: AtomicU32,
    /// Mutators that wait for an answer.
    waiting: AtomicU32,
}

impl Asked {
    /// Whether an asking has yet to be answered.
    pub(crate) fn is_open(&self) -> bool {
        // Acquire: pairs with the Release in `ask`. Relaxed: the collector's own.
        self.asked.load(Acquire) != self.answered.load(Relaxed)
    }

    /// Answers one asking. The collector, when `is_open`.
    pub(crate) fn answer(&self) {
        // Release: pairs with the Acquire in `wait_for_step`.
        self.answered.fetch_add(1, Release);
        // Relaxed: who is missed looks again at the limit of its wait.
        if self.waiting.load(Relaxed) > 0 {
            futex_wake(&self.answered, u32::MAX);
        }
    }

    /// Askings so far, and answers.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (u32, u32) {
        // Relaxed, both: reports.
        (self.asked.load(Relaxed), self.answered.load(Relaxed))
    }
}

impl Shared {
    /// Asks for a step and waits for the answer. A mutator that has left running.
    pub(crate) fn wait_for_step(&self) {
        let a = &self.stress.asked;
        // Relaxed: a hint for `answer`.
        a.waiting.fetch_add(1, Relaxed);
        // Release: pairs with the Acquire in `is_open`.
        let mine = a.asked.fetch_add(1, Release).wrapping_add(1);
        self.wake_collector();
        loop {
            // Acquire: pairs with the Release in `answer`.
            let answered = a.answered.load(Acquire);
            // Both wrap around; their difference is small.
            let done = answered.wrapping_sub(mine) as i32 >= 0;
            // Relaxed, both: a late look costs one limit of the wait.
            if done || self.shutdown.load(Relaxed) || self.collector_done.load(Relaxed) != 0 || self.forked()
            {
                break;
            }
            futex_wait(&a.answered, answered, Some(self.clock.now().saturating_add(10_000_000)));
        }
        // Relaxed: as its increment.
        a.waiting.fetch_sub(1, Relaxed);
    }
}
