//! What the threads of a program share, how they take turns, and quanta with their checks.

use crate::oracle::{Id, Model};
use crate::program::{Op, Program, Quantum};
use metronome_gc::config::{Config, Verify};
use metronome_gc::testing::{Fault, Phase, Steps, TestHeap};
use metronome_gc::{
    DeathNotice, Ephemeron, Finalize, Gc, GcArray, Global, Mutator, ReferenceQueue, Root, Slot, Soft, Trace,
    Weak, WeakLong, WeakMap,
};
use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An object's id, as plain payload or as payload with drop glue.
pub(crate) trait Tag: Send + Sync + 'static {
    fn of(id: Id) -> Self;
    fn id(&self) -> Id;
}

impl Tag for Id {
    fn of(id: Id) -> Id {
        id
    }
    fn id(&self) -> Id {
        *self
    }
}

impl Tag for Box<Id> {
    fn of(id: Id) -> Box<Id> {
        Box::new(id)
    }
    fn id(&self) -> Id {
        **self
    }
}

#[derive(Trace)]
pub(crate) struct Node<P: Tag> {
    pub(crate) tag: P,
    pub(crate) slots: [Slot<Node<P>>; 2],
    pub(crate) array: Slot<GcArray<Slot<Node<P>>>>,
    pub(crate) values: Slot<GcArray<u64>>,
}

impl<P: Tag> Finalize for Node<P> {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let stage = STAGE.with_borrow(Clone::clone).expect("finalizers run in `Stage::finalize`");
        let stage = stage.downcast::<Stage<P>>().expect("the stage of this type");
        crate::finalizer::finalizer(&stage, &this, m);
    }
}

pub(crate) type Local<'m, P> = (Gc<'m, Node<P>>, Id);
pub(crate) type Roots<P> = Vec<(Root<Node<P>>, Id)>;

/// What the threads share; the one whose turn it is acts.
pub(crate) struct World<P: Tag> {
    /// The step that is being taken.
    pub(crate) at: usize,
    pub(crate) over: bool,
    /// Everything is being dropped: finalizers bring nothing back any more.
    pub(crate) ending: bool,
    /// Set while a finalizer runs; stays set when an assertion in it has failed, which is caught as every panic there.
    pub(crate) in_finalizer: Option<String>,
    /// Finalizers that have run.
    pub(crate) finalizers: usize,
    pub(crate) model: Model,
    pub(crate) map: Arc<WeakMap<Node<P>, Node<P>>>,
    // As long as the model's lists of these, in the same order.
    pub(crate) globals: Vec<Global<Node<P>>>,
    pub(crate) shorts: Vec<Weak<Node<P>>>,
    pub(crate) longs: Vec<WeakLong<Node<P>>>,
    pub(crate) softs: Vec<Soft<Node<P>>>,
    pub(crate) ephemerons: Vec<Ephemeron<Node<P>, Node<P>>>,
    pub(crate) deaths: Vec<Option<DeathNotice>>,
}

pub(crate) struct Stage<P: Tag> {
    pub(crate) program: Program,
    pub(crate) heap: TestHeap,
    world: Mutex<World<P>>,
    turns: [Condvar; 4],
    /// Notices that callbacks have given, and that the queue has.
    pub(crate) noted: Arc<Mutex<Vec<usize>>>,
    pub(crate) queue: ReferenceQueue<usize>,
}

thread_local! {
    /// The stage of the thread that runs finalizers.
    static STAGE: RefCell<Option<Arc<dyn Any + Send + Sync>>> = const { RefCell::new(None) };
}

impl<P: Tag> Stage<P> {
    pub(crate) fn new(program: &Program, fault: Option<Fault>) -> Stage<P> {
        let heap = if program.large { 16 << 20 } else { 4 << 20 };
        let verify = Some(Verify::ALL);
        let config = Config { heap, max_mutators: 8, log_buffers: 4, verify, ..Config::DEFAULT };
        let heap = TestHeap::new(config).expect("a small heap");
        if let Some(fault) = fault {
            heap.fault(fault, true);
        }
        Stage {
            heap,
            world: Mutex::new(World {
                at: 0,
                over: program.steps.is_empty(),
                ending: false,
                in_finalizer: None,
                finalizers: 0,
                model: Model::new(usize::from(program.mutators)),
                map: Arc::default(),
                globals: vec![],
                shorts: vec![],
                longs: vec![],
                softs: vec![],
                ephemerons: vec![],
                deaths: vec![],
            }),
            program: program.clone(),
            turns: Default::default(),
            noted: Arc::default(),
            queue: ReferenceQueue::new(),
        }
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World<P>> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose step this is.
    fn owner(&self, at: usize) -> usize {
        usize::from(self.program.steps[at].0 % self.program.mutators)
    }

    /// Waits for a step of this mutator; `None` when the program is over.
    pub(crate) fn wait(&self, me: usize) -> Option<Op> {
        let mut w = self.world();
        while !w.over && self.owner(w.at) != me {
            w = self.turns[me].wait(w).unwrap_or_else(PoisonError::into_inner);
        }
        (!w.over).then(|| self.program.steps[w.at].1)
    }

    /// Goes on to the next step. The mutator of this one is stopped if the next is another's.
    pub(crate) fn advance(&self) {
        let mut w = self.world();
        w.at += 1;
        if w.at == self.program.steps.len() {
            // Before the lock is given up: who comes to wait now must not look for the step after the last.
            w.over = true;
            drop(w);
            self.end();
        } else {
            self.turns[self.owner(w.at)].notify_one();
        }
    }

    /// Whether the step after this one is of the same mutator.
    pub(crate) fn goes_on(&self) -> bool {
        let at = self.world().at;
        at + 1 < self.program.steps.len() && self.owner(at) == self.owner(at + 1)
    }

    /// The program is over for all.
    pub(crate) fn end(&self) {
        self.world().over = true;
        self.turns.iter().for_each(Condvar::notify_one);
    }

    /// What the collector does in one stop, step by step, each checked.
    pub(crate) fn quantum(&self, q: Quantum) -> impl FnOnce(&TestHeap) -> Steps {
        let (phase, mut left) = match q {
            Quantum::Steps(n) => (None, n),
            Quantum::To(phase, more) => (Some(Phase::ALL[usize::from(phase) % Phase::ALL.len()]), more),
        };
        move |heap| {
            let mut all = Steps::default();
            let mut there = false;
            loop {
                there |= phase.is_none_or(|p| heap.phase() == p);
                if there && left == 0 {
                    return all;
                }
                left -= u8::from(there);
                let step = heap.steps(1);
                all.names.extend(&step.names);
                (all.blocked, all.done) = (step.blocked, step.done);
                self.stepped(&step);
                if step.blocked || step.done {
                    return all;
                }
            }
        }
    }

    /// A whole cycle, or the rest of one.
    pub(crate) fn rest_of_cycle(&self) {
        loop {
            let step = self.heap.steps(1);
            assert!(!step.blocked, "a cycle waits for a mutator, of which there is none");
            self.stepped(&step);
            if step.done {
                return;
            }
        }
    }

    /// Tells the oracle of a step, and checks what can be seen after it.
    fn stepped(&self, step: &Steps) {
        let mut w = self.world();
        let last = step.names.last().copied().unwrap_or_default();
        w.model.stepped(&step.names);
        if last == "begin-sweep" {
            self.unmarked_die(&mut w.model);
        }
        let edge = matches!(last, "terminate" | "terminate-finalize" | "end");
        if !edge {
            return;
        }
        assert_eq!(self.heap.violations(), [], "after the step {last}");
        // The verifier does not see locals; the oracle does.
        for id in w.model.surely_reachable() {
            let look = self.heap.look(w.model.addresses[&id]);
            assert!(look.allocated && !look.condemned, "{id} is reachable and was freed: {look:?}");
            assert!(last == "end" || look.marked, "{id} is reachable and not marked at the step {last}");
        }
    }

    /// Marks are what the sweep leaves. What the oracle found dead has none; what has none is gone.
    fn unmarked_die(&self, model: &mut Model) {
        let unmarked = |id: &Id| !self.heap.look(model.addresses[id]).marked;
        let marked = model.dying.iter().find(|id| !unmarked(id));
        assert_eq!(marked, None, "found dead, and marked");
        let dead: Vec<Id> = model.objects.keys().copied().filter(unmarked).collect();
        for id in dead {
            model.objects.remove(&id);
            model.addresses.remove(&id);
        }
        model.dying.clear();
    }

    /// Runs what is queued for the finalizer thread, on this thread, which is outside the heap.
    pub(crate) fn finalize(self: &Arc<Self>) {
        let stage: Arc<dyn Any + Send + Sync> = Arc::<Self>::clone(self);
        STAGE.set(Some(stage));
        self.heap.finalize();
        STAGE.set(None);
        let between = matches!(self.heap.phase(), Phase::Idle | Phase::Sweep);
        let mut w = self.world();
        if let Some(failed) = &w.in_finalizer {
            panic!("a finalizer failed: {failed}");
        }
        self.take_notices(&mut w);
        w.model.queue_is_empty(between);
    }

    pub(crate) fn take_notices(&self, w: &mut World<P>) {
        let noted = std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        noted.into_iter().for_each(|n| w.model.dies(n));
        std::iter::from_fn(|| self.queue.poll()).for_each(|n| w.model.dies(n));
    }
}

/// Ends the program for all if one thread fails.
pub(crate) struct EndAll<'a, P: Tag>(pub(crate) &'a Stage<P>);

impl<P: Tag> Drop for EndAll<'_, P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

pub(crate) fn check<P: Tag>(w: &World<P>, got: Option<Gc<'_, Node<P>>>, want: Option<Id>) {
    assert_eq!(got.map(|n| n.tag.id()), want);
    assert_eq!(got.map(Gc::address), want.map(|id| w.model.addresses[&id]), "{want:?} is another object");
}
