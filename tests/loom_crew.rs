//! Loom model of the helpers that mark beside the collector: seats, packets, the end of marking.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_crew`
//!
//! The crew's own source is compiled here with loom's atomics and with futexes made of loom's lock, over a queue of numbers
//! instead of objects: to work on `n` is to touch a loom cell of its own and to queue what hangs on `n`. So work done twice, by
//! two threads at once, or not seen by the collector when it has found that all helpers are out, is reported, and so
//! are a packet with two owners and a queue that two threads use. A helper that nobody wakes is a deadlock.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "the models use a part of the library's own files")]

#[path = "../src/crew/mod.rs"]
mod crew;
#[path = "loom/sync.rs"]
mod plain;
#[path = "../arraylet/src/stack.rs"]
mod stack;
mod sync {
    pub(crate) use crate::plain::*;
    pub(crate) use crate::stack::IndexStack;
}

use crew::{Crew, Foreman, Recall, Work, helper};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// What is worked on: entry `n` leads to those in `next[n]`.
struct Heap {
    next: &'static [&'static [u32]],
    done: Vec<UnsafeCell<u32>>,
}

// SAFETY: loom checks every access to the cells; that is what these tests are for.
unsafe impl Sync for Heap {}
// SAFETY: as above.
unsafe impl Send for Heap {}

struct Queue(Vec<u32>);

impl Work for Queue {
    type Entry = u32;
    type Heap = Heap;
    const NONE: u32 = u32::MAX;

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn surplus(&self) -> usize {
        self.0.len() / 2
    }

    fn give(&mut self, to: &mut [u32]) -> usize {
        let n = self.surplus().min(to.len());
        self.0.drain(..n).zip(to).for_each(|(e, to)| *to = e);
        n
    }

    fn take(&mut self, _: &Heap, from: &[u32]) {
        self.0.extend_from_slice(from);
    }

    fn take_over(&mut self, _: &Heap, other: &mut Queue, limit: usize) -> bool {
        let n = other.0.len().min(limit);
        self.0.extend(other.0.drain(..n));
        n > 0
    }

    fn work(&mut self, heap: &Heap) -> u64 {
        let Some(n) = self.0.pop() else { return 0 };
        // SAFETY: checked by loom.
        heap.done[n as usize].with_mut(|p| unsafe { *p += 1 });
        self.0.extend_from_slice(heap.next[n as usize]);
        1
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

struct World {
    heap: Heap,
    crew: Crew<Queue>,
}

impl World {
    fn new(next: &'static [&'static [u32]], helpers: u32) -> Arc<World> {
        let done = next.iter().map(|_| UnsafeCell::new(0)).collect();
        let crew = Crew::new(helpers + 1, || Queue(Vec::new()));
        Arc::new(World { heap: Heap { next, done }, crew })
    }

    /// Starts the helpers' threads.
    fn start(this: &Arc<World>) -> Vec<thread::JoinHandle<()>> {
        let start = |i: usize| {
            this.crew.seats[i].come();
            let world = Arc::clone(this);
            thread::spawn(move || helper::run(&world.crew, i, &world.heap))
        };
        (0..this.crew.seats.len()).map(start).collect()
    }

    /// The collector's steps from `queue` until everybody is out, with the end of a quantum after each `quantum` of them.
    /// So many helpers stay then.
    fn collect(&self, queue: &mut Queue, quantum: usize, staying: usize) {
        let mut foreman = Foreman::default();
        let mut steps = 0;
        loop {
            foreman.resume(&self.crew);
            if !queue.is_empty() || foreman.take_back(&self.crew, &self.heap, queue) {
                queue.work(&self.heap);
                foreman.share(&self.crew, queue);
            } else {
                match foreman.recall(&self.crew, &self.heap, queue) {
                    Recall::Out => break,
                    Recall::Work | Recall::Late => thread::yield_now(),
                }
            }
            steps += 1;
            if steps % quantum == 0 {
                foreman.leave(&self.crew, queue, staying);
            }
        }
        assert!(foreman.is_alone());
        // Everything was done once, and the collector sees it.
        for (n, done) in self.heap.done.iter().enumerate() {
            // SAFETY: checked by loom.
            assert_eq!(done.with(|p| unsafe { *p }), 1, "{n}");
        }
    }
}

/// Explores all interleavings with at most `preemptions` switches of thread that nobody waits for.
fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.check(f);
}

/// 0 and 1 to begin with; each leads to one more.
const TWO_CHAINS: &[&[u32]] = &[&[2], &[3], &[], &[]];

/// All that 0 and 1 lead to is done once, and the helpers end: quanta of `quantum` steps, after which so many helpers stay.
fn all_is_done(
    preemptions: usize,
    next: &'static [&'static [u32]],
    helpers: u32,
    quantum: usize,
    staying: usize,
) {
    explore(preemptions, move || {
        let world = World::new(next, helpers);
        let helpers = World::start(&world);
        world.collect(&mut Queue(vec![0, 1]), quantum, staying);
        world.crew.end();
        helpers.into_iter().for_each(|h| h.join().unwrap());
    });
}

/// One helper: all work is done once, whoever does it, and seen when all are out; then the helper ends.
#[test]
fn work_is_done_once_and_seen_at_the_end() {
    all_is_done(2, TWO_CHAINS, 1, usize::MAX, 0);
}

/// A quantum ends after each step: a helper is asked out and in again at any time, in the middle of its steps too, and what it
/// leaves behind is taken up.
#[test]
fn quanta_end_at_any_time() {
    all_is_done(2, TWO_CHAINS, 1, 1, 0);
}

/// A quantum ends after each step, and the helper goes on beside it: all work is done once all the same.
#[test]
fn a_helper_stays_when_quanta_end() {
    all_is_done(2, TWO_CHAINS, 1, 1, 1);
}

/// Two helpers, which pass work on to each other.
#[test]
fn two_helpers() {
    all_is_done(1, &[&[2, 3], &[], &[], &[]], 2, usize::MAX, 0);
}

/// The crew is ended while a helper works: it ends after its step, and whoever ends the crew waits for that.
#[test]
fn ending_waits_for_a_helper_at_work() {
    explore(3, || {
        let world = World::new(TWO_CHAINS, 1);
        let helpers = World::start(&world);
        let mut queue = Queue(vec![0, 1]);
        let mut foreman = Foreman::default();
        foreman.share(&world.crew, &mut queue);
        world.crew.end();
        // Nobody is at work any more: all of it may be touched.
        for done in &world.heap.done {
            // SAFETY: checked by loom.
            done.with_mut(|p| unsafe { *p = 0 });
        }
        foreman.clear(&world.crew);
        helpers.into_iter().for_each(|h| h.join().unwrap());
    });
}
