//! A heap driven by hand: no threads, virtual time, every collector step taken by the test.
//!
//! # State
//! The collector is behind a lock and steps only when a test calls for it, with its verifier on. Mutators are the
//! test's own threads.
//!
//! # Who may touch what
//! As in a real heap: a step needs a stop, and a stop needs every mutator to wait. A thread that waits for another
//! one must do so in [`TestHeap::wait_paused`] or outside [`TestHeap::enter`], or the stop would last for ever.

mod corrupt;
mod look;
#[cfg(test)]
mod tests;
mod timed;

use crate::collector::{Collector, Progress, Stopped};
use crate::config::Verify;
use crate::config::{Config, Exhaustion};
use crate::crew::Crew;
use crate::error::{BuildError, EnterError};
use crate::gc::Gc;
use crate::mark::MarkQueue;
use crate::mutator::Mutator;
use crate::shared::{MutatorState, Shared};
use crate::verify::{Floating, Verifier, VerifyError, VerifyReport, Violation};
use metronome_alarm::{Clock, ManualClock};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use crate::hooks::Fault;
pub use corrupt::{corrupt_used, corrupt_used_while};
pub use look::Look;
pub use metronome_arraylet::os::{refuse_locking, refuse_mapping};
pub use metronome_barrier::Phase;
pub use timed::{Cost, Stop, TickFault, TimedHeap, World};

/// What some steps did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Names of the steps, in order.
    pub names: Vec<&'static str>,
    /// For each of them: references visited, objects scanned and leaves marked; entries of tables and logs that were looked
    /// at; regions swept.
    pub units: Vec<u32>,
    /// The last step found that a mutator has to come by a safepoint first.
    pub blocked: bool,
    /// The last step ended the cycle.
    pub done: bool,
}

/// Threads that mark in a heap without threads: as configured, else as the environment says, else the collector alone.
fn threads_by_hand(config: &Config) -> u32 {
    let named = || std::env::var("METRONOME_GC_THREADS").ok().and_then(|n| n.parse().ok());
    config.gc_threads.or_else(named).unwrap_or(1).clamp(1, 64)
}

/// What [`TestHeap::mark_all`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkRun {
    /// From arming to the end of marking, by the clock that was given.
    pub ns: u64,
    /// Objects scanned.
    pub scanned: u64,
    /// Steps taken meanwhile.
    pub steps: u64,
}

/// A heap whose collector steps when it is told to.
#[derive(Debug)]
pub struct TestHeap {
    shared: Arc<Shared>,
    clock: ManualClock,
    collector: Mutex<Collector>,
}

impl TestHeap {
    /// A heap with this configuration, but `exhaustion = fail`: nobody would wake one who waits for memory.
    ///
    /// # Errors
    /// As [`HeapBuilder::build`](crate::HeapBuilder::build).
    pub fn new(config: Config) -> Result<TestHeap, BuildError> {
        // A short queue, so that the spill to grey bits is part of what is tested.
        TestHeap::with_queue(config, 16)
    }

    /// The same with room for so many objects in the mark queue.
    ///
    /// # Errors
    /// As [`TestHeap::new`].
    pub fn with_queue(config: Config, entries: usize) -> Result<TestHeap, BuildError> {
        let config = Config { exhaustion: Exhaustion::Fail, ..config };
        config.validate()?;
        let clock = Clock::manual();
        let threads = threads_by_hand(&config);
        let (mut shared, _) = crate::heap::build_shared(config, clock.clock())?;
        shared.crew = Crew::new(threads, || MarkQueue::new(entries));
        shared.crew.set_by_hand(true);
        let shared = Arc::new(shared);
        let checks = shared.config.verify.unwrap_or(Verify::HEAP);
        let mut collector = Collector::new(Arc::clone(&shared), entries);
        collector.verifier = Verifier::new(checks, false);
        // What is done by hand is to be the same each time.
        collector.secret = 0;
        Ok(TestHeap { shared, clock, collector: Mutex::new(collector) })
    }

    /// Runs `f` as a mutator.
    ///
    /// # Errors
    /// As [`Heap::try_enter`](crate::Heap::try_enter).
    pub fn try_enter<R>(&self, f: impl FnOnce(&mut Mutator<'_>) -> R) -> Result<R, EnterError> {
        crate::heap::enter_shared(&self.shared, f)
    }

    /// Runs `f` as a mutator.
    ///
    /// # Panics
    /// If the thread cannot enter.
    #[track_caller]
    pub fn enter<R>(&self, f: impl FnOnce(&mut Mutator<'_>) -> R) -> R {
        self.try_enter(f).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The heap's time.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Removes a protection, or puts it back.
    pub fn fault(&self, fault: Fault, on: bool) {
        self.shared.hooks.set(fault, on);
    }

    /// Makes the `n`-th refill from now fail (0: none).
    pub fn fail_refill(&self, n: u32) {
        self.shared.hooks.fail_refill(n);
    }

    /// Makes the `n`-th call from now of any allocating entry fail (0: none): each cell, attachment and log chunk counts.
    pub fn fail_call(&self, n: u32) {
        self.shared.hooks.fail_call(n);
    }

    /// Calls until the one that is to fail; 0 if it has failed.
    #[must_use]
    pub fn calls_left(&self) -> u32 {
        self.shared.hooks.calls_left()
    }

    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.shared.phase.get()
    }

    /// Bytes in allocated cells.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.shared.space.used_bytes()
    }

    /// What the verifier has found since this was last called, at most 8 violations at each edge.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        let mut collector = self.collector();
        collector.verifier.as_mut().map(|v| v.take().violations).unwrap_or_default()
    }

    /// Verifies the heap now. No mutator may be running.
    ///
    /// # Errors
    /// As [`Heap::verify`](crate::Heap::verify).
    pub fn verify(&self) -> Result<VerifyReport, VerifyError> {
        let collector = self.collector();
        let stopped =
            Stopped::try_new(&self.shared, None, self.shared.spin, None).expect("a stop without a deadline");
        match collector.verify_now(&stopped) {
            None => Err(VerifyError::Absent),
            Some((report, found)) if found.violations.is_empty() => Ok(report),
            Some((_, found)) => Err(VerifyError::Broken { violations: found.violations, more: found.more }),
        }
    }

    /// Floating garbage of the current or last cycle, where the option `verify` has it measured.
    #[must_use]
    pub fn floating(&self) -> Option<Floating> {
        self.collector().counts.floating
    }

    /// Takes `n` steps (an arming is the first of a cycle), fewer if one is blocked or ends the cycle. No mutator
    /// may be running.
    pub fn steps(&self, n: usize) -> Steps {
        let mut left = n;
        self.step_while(|_| {
            left = left.wrapping_sub(1);
            left != usize::MAX
        })
    }

    /// Takes steps until the phase is `phase`, or one is blocked. No mutator may be running.
    pub fn run_until(&self, phase: Phase) -> Steps {
        self.step_while(|_| self.phase() != phase)
    }

    /// Takes steps until one of this name has been taken, or one is blocked or ends the cycle. No mutator may be
    /// running.
    pub fn run_through(&self, name: &str) -> Steps {
        self.step_while(|steps| steps.names.last() != Some(&name))
    }

    /// A whole cycle. No mutator may be running.
    ///
    /// # Panics
    /// If a cycle is active or the new one cannot end.
    pub fn cycle(&self) {
        assert_eq!(self.phase(), Phase::Idle, "a cycle is active");
        let steps = self.steps(usize::MAX - 1);
        assert!(steps.done, "{steps:?}");
    }

    /// Runs `f` while the world is stopped. Every mutator must come by a poll, or the stop would last
    /// for ever.
    pub fn while_stopped<R>(&self, f: impl FnOnce() -> R) -> R {
        let _collector = self.collector();
        let _stopped =
            Stopped::try_new(&self.shared, None, self.shared.spin, None).expect("a stop without a deadline");
        f()
    }

    /// Starts a no-heap thread.
    ///
    /// # Errors
    /// As [`Heap::spawn_no_heap`](crate::Heap::spawn_no_heap).
    pub fn spawn_no_heap<R: Send + 'static>(
        &self,
        options: crate::NoHeapOptions,
        f: impl FnOnce(&crate::NoHeap) -> R + Send + 'static,
    ) -> Result<crate::NoHeapThread<R>, crate::SpawnError> {
        crate::no_heap::spawn(&self.shared, options, f)
    }

    /// Takes one step without the verifier; returns its name, by how much `count` went up meanwhile, and whether more
    /// steps are to come. For counting what a step does, such as allocating. No mutator may be running.
    pub fn counted_step(&self, count: impl Fn() -> u64) -> (&'static str, u64, bool) {
        let mut collector = self.collector();
        let stopped =
            Stopped::try_new(&self.shared, None, self.shared.spin, None).expect("a stop without a deadline");
        let verifier = collector.verifier.take();
        let before = count();
        let (name, progress) = collector.step(&stopped);
        let after = count();
        collector.verifier = verifier;
        (name.text(), after - before, progress == Progress::More)
    }

    /// Marks as fast as steps go: a whole cycle without the verifier, in which `clock` is read after each step as a quantum
    /// reads it, by the calling thread and so many helpers less one, on threads of their own (at most as many as the heap
    /// was made with). No mutator may be running.
    ///
    /// # Panics
    /// If a cycle is active.
    pub fn mark_all(&self, threads: u32, clock: impl Fn() -> u64) -> MarkRun {
        /// Ends the helpers, also on the way out of a panic: the scope waits for them.
        struct End<'a>(&'a Crew<MarkQueue>);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        self.shared.crew.set_by_hand(false);
        let run = std::thread::scope(|scope| {
            let s = &*self.shared;
            let _end = End(&s.crew);
            for index in 0..s.crew.seats.len().min(threads.saturating_sub(1) as usize) {
                s.crew.seats[index].come();
                scope.spawn(move || crate::crew::helper::run(&s.crew, index, &s.space));
            }
            self.mark_once(clock)
        });
        self.shared.crew.set_by_hand(true);
        run
    }

    fn mark_once(&self, clock: impl Fn() -> u64) -> MarkRun {
        assert_eq!(self.phase(), Phase::Idle, "a cycle is active");
        let mut collector = self.collector();
        let stopped =
            Stopped::try_new(&self.shared, None, self.shared.spin, None).expect("a stop without a deadline");
        let verifier = collector.verifier.take();
        let mut run = MarkRun::default();
        let begin = clock();
        loop {
            let (_, progress) = collector.step(&stopped);
            let now = clock();
            if matches!(self.phase(), Phase::Snapshot | Phase::Mark) {
                (run.ns, run.steps) = (now - begin, run.steps + 1);
            }
            if progress == Progress::Done {
                break;
            }
        }
        collector.dismiss_helpers();
        run.scanned = collector.counts.scanned;
        collector.verifier = verifier;
        run
    }

    fn collector(&self) -> MutexGuard<'_, Collector> {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step_while(&self, mut more: impl FnMut(&Steps) -> bool) -> Steps {
        let mut collector = self.collector();
        let stopped =
            Stopped::try_new(&self.shared, None, self.shared.spin, None).expect("a stop without a deadline");
        let mut steps = Steps::default();
        while more(&steps) {
            let (name, progress) = collector.step(&stopped);
            steps.names.push(name.text());
            steps.units.push(collector.step_units());
            steps.blocked = matches!(progress, Progress::Blocked { .. });
            steps.done = progress == Progress::Done;
            if steps.blocked || steps.done {
                break;
            }
        }
        steps
    }

    /// Runs `f` while the mutator waits at a pause point: its references stay valid. `f` must not use them; being
    /// `Send` keeps it from most.
    pub fn wait_paused<R>(&self, m: &Mutator<'_>, f: impl FnOnce() -> R + Send) -> R {
        self.wait(m, MutatorState::Paused, f)
    }

    /// Takes steps by `steps` while the mutator waits at a pause point, as a poll would let a quantum run.
    pub fn at_pause(&self, m: &Mutator<'_>, steps: impl FnOnce(&TestHeap) -> Steps) -> Steps {
        self.wait(m, MutatorState::Paused, || steps(self))
    }

    /// Takes steps by `steps` while the mutator waits at a safepoint.
    pub fn at_safepoint(&self, m: &mut Mutator<'_>, steps: impl FnOnce(&TestHeap) -> Steps) -> Steps {
        m.safepoint();
        let out = self.wait(m, MutatorState::AtSafepoint, || steps(self));
        m.safepoint();
        out
    }

    fn wait<R>(&self, m: &Mutator<'_>, state: MutatorState, f: impl FnOnce() -> R) -> R {
        /// Lets the mutator run again, also when `f` panics.
        struct Back<'a, 'h>(&'a Mutator<'h>);
        impl Drop for Back<'_, '_> {
            fn drop(&mut self) {
                let (s, r) = (self.0.shared(), self.0.record());
                s.gate.enter_running(s.spin, || s.clock.now());
                r.set_state(MutatorState::Running);
                self.0.after_stop(true);
            }
        }
        assert!(std::ptr::eq(m.shared(), &*self.shared), "the mutator belongs to another heap");
        m.record().set_state(state);
        m.shared().gate.leave_running();
        let _back = Back(m);
        f()
    }

    /// Whether the object is marked.
    #[must_use]
    pub fn is_marked<T>(&self, object: Gc<'_, T>) -> bool {
        self.shared.space.is_marked(object.cell_ptr())
    }

    /// Takes the mark off an object, as if the collector had never come to it.
    pub fn unmark<T>(&self, object: Gc<'_, T>) {
        self.shared.space.corrupt_unmark(object.cell_ptr());
    }

    /// Takes the mark off the cell that holds this payload: a leaf, for an element of a long array.
    pub fn unmark_payload<T: Sync>(&self, payload: &T) {
        let p: *const T = payload;
        assert!(self.shared.space.contains(p.cast()), "not in this heap");
        self.shared.space.corrupt_unmark(p.cast());
    }

    /// Puts the counter of used bytes wrong.
    pub fn corrupt_used(&self) {
        self.shared.space.corrupt_counters(8, 0);
    }

    /// Runs the finalizers and callbacks that are queued, on this thread, which must not be inside the heap.
    pub fn finalize(&self) {
        crate::finalize::work(&self.shared, &mut Vec::new());
    }

    /// Cycles that an unused soft reference is kept in the cycles to come.
    pub fn soft_age(&self, cycles: u64) {
        self.collector().soft_age = cycles;
    }

    /// Runs the drop glue of all condemned objects, on this thread, which must not be inside the heap.
    pub fn reap(&self) {
        crate::reaper::reap_all(&self.shared);
    }
}

/// Refuses the calling thread the `n`-th thread of a heap that it builds (0: none); returns what was left of the last such
/// wish, 0 if it was fulfilled.
pub fn refuse_thread(n: u32) -> u32 {
    crate::hooks::refuse_thread(n)
}

/// Lets the heap's memory thread believe once that the system is low on memory.
pub fn low_memory(heap: &crate::Heap) {
    heap.shared().hooks.set_low_memory();
    heap.shared().wake_memory();
}

/// What the system says the heap's regions hold of its memory, in bytes (mincore).
///
/// # Errors
/// The system's, where it does not tell.
pub fn system_resident_bytes(heap: &crate::Heap) -> std::io::Result<u64> {
    heap.shared().space.system_resident_bytes()
}

/// Free regions of a heap with threads of its own, at its present size.
#[must_use]
pub fn free_regions(heap: &crate::Heap) -> u32 {
    heap.shared().space.free_regions()
}

/// The heap is at its end: threads that have been inside let go of it when they next enter another one.
fn close(shared: &Shared) {
    // Relaxed: an attachment that is looked at before this is let go of at a later look.
    shared.shutdown.store(true, Relaxed);
}

impl Drop for TestHeap {
    fn drop(&mut self) {
        self.collector().abandon();
        self.shared.deaths.abandon();
        close(&self.shared);
        // SAFETY: `enter` borrows the heap, so nobody is inside; the collector steps by this value only.
        unsafe { crate::reaper::teardown(&self.shared) };
    }
}
