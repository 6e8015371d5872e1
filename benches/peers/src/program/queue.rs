//! The lock-free queue of Michael and Scott (PODC 1996), a producer and a consumer for each pair of threads.

use super::{Outcome, join, start};
use crate::child::params::Params;
use crate::family::Family;

/// A queue that several threads use.
pub(crate) trait Queue: Family {
    /// The queue, for all threads.
    type Queue: Sync;

    /// An empty one.
    fn queue(memory: &mut Self::Memory<'_>) -> Self::Queue;
    /// Adds a value at the end.
    fn push(memory: &mut Self::Memory<'_>, queue: &Self::Queue, value: u64);
    /// Takes the first value, if there is one.
    fn pop(memory: &mut Self::Memory<'_>, queue: &Self::Queue) -> Option<u64>;
}

/// Elements that may be waiting, so that memory is bounded: a producer that is so far ahead yields.
const AHEAD: u64 = 1 << 16;

/// The program: `pairs` of threads, `count` of elements for each.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run<F: Queue>(shared: &F::Shared, params: &Params) -> Result<Outcome, String> {
    use crate::family::Idle;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    let (pairs, count) = (params.get("pairs")?, params.get("count")?);
    let queue = F::enter(shared, F::queue);
    // Relaxed, all: counters that bound the queue; the threads' results come by joining them.
    let (pushed, popped) = (AtomicU64::new(0), AtomicU64::new(0));
    let produce = |p: u64| {
        F::enter(shared, |memory| {
            for i in 0..count {
                if i % 64 == 0 {
                    // Relaxed: counters, see above.
                    while pushed.load(Relaxed).saturating_sub(popped.load(Relaxed)) > AHEAD {
                        memory.idle(std::thread::yield_now);
                    }
                    pushed.fetch_add(64, Relaxed);
                }
                F::push(memory, &queue, p * count + i);
            }
        });
    };
    let consume = || {
        F::enter(shared, |memory| {
            let (mut sum, mut taken) = (0_u64, 0);
            while taken < count {
                match F::pop(memory, &queue) {
                    Some(value) => {
                        sum = sum.wrapping_add(value.wrapping_mul(value | 1));
                        taken += 1;
                        if taken % 64 == 0 {
                            // Relaxed: a counter, see above.
                            popped.fetch_add(64, Relaxed);
                        }
                    }
                    None => memory.idle(std::thread::yield_now),
                }
            }
            sum
        })
    };
    std::thread::scope(|scope| {
        let mut consumers = Vec::new();
        for p in 0..pairs {
            start(scope, "producer", move || produce(p))?;
            consumers.push(start(scope, "consumer", consume)?);
        }
        Ok(Outcome::of(consumers.into_iter().map(join).fold(0, u64::wrapping_add)))
    })
}
