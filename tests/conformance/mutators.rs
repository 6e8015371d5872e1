//! The mutators of the model as threads of a real heap: each does one step when it is told to, and waits in between, at a
//! pause point, outside by `Mutator::blocking`, or ended. So whoever tells them may take steps of the collector.

use crate::real::{Locals, Real, Roots};
use crate::state::OBJECTS;
use crate::steps::Step;
use metronome_gc::Mutator;
use metronome_gc::testing::TestHeap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

/// The heap, and what its mutators share.
pub(crate) struct Stage {
    pub(crate) heap: TestHeap,
    real: Mutex<Real>,
}

impl Stage {
    pub(crate) fn new(heap: TestHeap) -> Stage {
        Stage { heap, real: Mutex::default() }
    }

    pub(crate) fn real(&self) -> MutexGuard<'_, Real> {
        self.real.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's end of the line to it.
struct Line {
    steps: Mutex<Receiver<Step>>,
    answers: Sender<bool>,
}

impl Line {
    /// Tells what came of the last step, and waits for the next; `None`: there is none.
    fn next(&self, answer: bool) -> Option<Step> {
        self.answers.send(answer).ok()?;
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

/// Why locals are forgotten.
enum Next {
    Safepoint,
    Native,
    Exit,
    Over,
}

/// What a mutator's thread does.
fn thread(stage: &Stage, line: &Line) {
    let mut roots = Roots::default();
    let ended = stage.heap.enter(|m| {
        loop {
            match segment(stage, m, line, &mut roots) {
                Next::Safepoint => m.safepoint(),
                Next::Native if m.blocking(|| native(line, &mut roots)) => {}
                Next::Native | Next::Over => return false,
                Next::Exit => return true,
            }
        }
    });
    if ended {
        // For the last step. The end of this thread is waited for.
        let _ = line.answers.send(true);
    }
}

/// Steps up to one that forgets all locals.
fn segment(stage: &Stage, m: &Mutator<'_>, line: &Line, roots: &mut Roots) -> Next {
    let mut locals: Locals<'_> = [None; OBJECTS];
    let mut answer = true;
    loop {
        match stage.heap.wait_paused(m, || line.next(answer)) {
            Some(Step::Safepoint { .. }) => return Next::Safepoint,
            Some(Step::GoNative { .. }) => return Next::Native,
            Some(Step::Exit { .. }) => return Next::Exit,
            Some(step) => answer = stage.real().act(m, &mut locals, roots, step),
            None => return Next::Over,
        }
    }
}

/// Outside the heap, until it comes back (or all is over: false).
fn native(line: &Line, roots: &mut Roots) -> bool {
    loop {
        match line.next(true) {
            Some(Step::RootDrop { e, .. }) => roots[e] = None,
            Some(Step::ComeBack { .. }) => return true,
            Some(step) => unreachable!("{step} of a native mutator"),
            None => return false,
        }
    }
}

/// A thread, and the other end of the line.
struct Told<'scope> {
    steps: Sender<Step>,
    answers: Receiver<bool>,
    thread: ScopedJoinHandle<'scope, ()>,
}

/// The mutators, to be told what to do. Dropping it ends them.
pub(crate) struct Mutators<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    stage: &'env Stage,
    told: Vec<Option<Told<'scope>>>,
}

impl<'scope, 'env> Mutators<'scope, 'env> {
    /// So many mutators, which run and hold nothing.
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>, stage: &'env Stage, n: usize) -> Self {
        let mut mutators = Mutators { scope, stage, told: vec![] };
        for m in 0..n {
            mutators.told.push(None);
            mutators.birth(m);
        }
        mutators
    }

    fn birth(&mut self, m: usize) {
        let ((steps, to), (from, answers)) = (channel(), channel());
        let (line, stage) = (Line { steps: Mutex::new(to), answers: from }, self.stage);
        let thread = self.scope.spawn(move || thread(stage, &line));
        self.told[m] = Some(Told { steps, answers, thread });
        assert!(self.answer(m), "a mutator waits when it has entered");
    }

    fn answer(&self, m: usize) -> bool {
        let told = self.told[m].as_ref().expect("a mutator that is there");
        told.answers.recv().expect("a mutator's thread that did not panic")
    }

    /// Has a step done that is none of the collector's. For the upgrade of a weak reference whether it yielded; else true.
    pub(crate) fn act(&mut self, step: Step) -> bool {
        let Some(m) = mutator(step) else {
            self.stage.real().drop_handle(step);
            return true;
        };
        if let Step::Birth { m } = step {
            self.birth(m);
            return true;
        }
        self.told[m]
            .as_ref()
            .expect("the model tells who is there")
            .steps
            .send(step)
            .expect("a thread that waits");
        let answer = self.answer(m);
        if let Step::Exit { m } = step
            && let Some(told) = self.told[m].take()
        {
            told.thread.join().expect("a mutator's thread that did not panic");
        }
        answer
    }
}

/// The mutator that takes a step; `None`: the collector, or some thread.
pub(crate) fn mutator(step: Step) -> Option<usize> {
    use Step::*;
    match step {
        Load { m, .. }
        | Store { m, .. }
        | TakeRun { m, .. }
        | Alloc { m, .. }
        | RootNew { m, .. }
        | RootGet { m, .. }
        | RootDuplicate { m, .. }
        | RootDrop { m, .. }
        | GlobalNew { m, .. }
        | GlobalGet { m, .. }
        | WeakNew { m, .. }
        | Upgrade { m, .. }
        | UpgradeRefused { m, .. }
        | LongNew { m, .. }
        | LongUpgrade { m }
        | Register { m, .. }
        | Suppress { m, .. }
        | TakeFinalizer { m, .. }
        | EphemeronNew { m, .. }
        | EphemeronGet { m, .. }
        | Safepoint { m }
        | PassAtPausePoint { m }
        | GoNative { m }
        | ComeBack { m }
        | Exit { m }
        | Birth { m } => Some(m),
        _ => None,
    }
}
