//! Finalizers, notices of death and references on a real heap: its own finalizer thread, cycles meanwhile, and finalizers
//! that do what they should not.
#![forbid(unsafe_code)]

#[path = "finalizers/close.rs"]
mod close;
#[path = "safety/common.rs"]
#[allow(dead_code)]
mod common;
#[path = "finalizers/load.rs"]
mod load;
#[path = "finalizers/run.rs"]
mod run;
#[path = "memory/stressed.rs"]
mod stressed;

use metronome_gc::{Collect, Finalize, Gc, Heap, Mutator, Root, Slot, Trace};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a finalizer does.
type Act = Box<dyn FnOnce(Root<Job>, &mut Mutator<'_>) + Send>;

/// An object that does something when it has become unreachable.
#[derive(Trace)]
struct Job {
    act: Mutex<Option<Act>>,
    next: Slot<Job>,
}

impl Finalize for Job {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let act = this.get(m).act.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(act) = act {
            act(this, m);
        }
    }
}

/// A registered job.
fn job<'m>(
    m: &'m Mutator<'_>,
    act: impl FnOnce(Root<Job>, &mut Mutator<'_>) + Send + 'static,
) -> Gc<'m, Job> {
    let act: Act = Box::new(act);
    let job = m.alloc(JobInit { act: Mutex::new(Some(act)), next: None }).unwrap();
    assert!(m.register_finalizer(job));
    job
}

/// A job without any holder.
fn when_dead(heap: &Heap, act: impl FnOnce(Root<Job>, &mut Mutator<'_>) + Send + 'static) {
    heap.enter(|m| common::discard(job(m, act)));
}

/// Finds all that is unreachable now. One call waits at most `memory-wait`, which a slow machine may need several times.
fn collect(heap: &Heap) {
    assert!((0..100).any(|_| heap.collect(Collect::Full).is_ok()), "the collection does not end");
}

/// Waits for finalizers, with a bound far beyond what any machine needs.
fn drain(heap: &Heap) {
    heap.drain_finalizers(Duration::from_secs(100)).unwrap();
}

/// Things that happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, what: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
