//! Random programs with every kind of reference, finalizers and notices of death, as `random.rs` does it for slots: one to
//! three mutators in lock-step, collector steps at random pause points and safepoints, an oracle that knows only ids
//! (`refs/model.rs`), the verifier on.
//!
//! `METRONOME_SEED` sets the first seed, `METRONOME_PROGRAMS` the number of programs.

#[path = "refs/model.rs"]
mod model;
#[path = "refs/operations.rs"]
mod operations;

use crate::random::{Random, STEPS_SCALE, Tag, first_seed, variable};
use metronome_gc::config::Config;
use metronome_gc::testing::{Fault, Phase, Steps, TestHeap};
use metronome_gc::{
    DeathNotice, Ephemeron, Finalize, Gc, Global, Mutator, Root, Slot, Soft, Trace, Weak, WeakLong,
};
use model::{Id, Model};
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Trace)]
struct Node<P: Tag> {
    tag: P,
    slots: [Slot<Node<P>>; 2],
}

/// What the threads of a program share; the one whose turn it is acts.
struct World<P: Tag> {
    random: Random,
    turn: usize,
    threads: usize,
    left: usize,
    /// Everything is being dropped: finalizers bring nothing back any more.
    ending: bool,
    /// Set while a finalizer runs; stays set when an assertion in it has failed, which is caught as every panic there.
    in_finalizer: bool,
    model: Model,
    // As long as the model's lists of these, in the same order.
    globals: Vec<Global<Node<P>>>,
    shorts: Vec<Weak<Node<P>>>,
    longs: Vec<WeakLong<Node<P>>>,
    softs: Vec<Soft<Node<P>>>,
    ephemerons: Vec<Ephemeron<Node<P>, Node<P>>>,
    deaths: Vec<Option<DeathNotice>>,
}

struct Stage<P: Tag> {
    heap: TestHeap,
    world: Mutex<World<P>>,
    changed: Condvar,
    /// Notices that callbacks have given.
    noted: Arc<Mutex<Vec<usize>>>,
}

thread_local! {
    /// The stage of the thread that runs finalizers.
    static STAGE: RefCell<Option<Arc<dyn Any + Send + Sync>>> = const { RefCell::new(None) };
}

impl<P: Tag> Stage<P> {
    fn world(&self) -> MutexGuard<'_, World<P>> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the turn to a random thread and waits for the next one; false when the program is over.
    fn pass(&self, me: usize) -> bool {
        let mut w = self.world();
        w.turn = match w.threads {
            1 => me,
            n => w.random.below(n),
        };
        w.left = w.left.saturating_sub(1);
        self.changed.notify_all();
        self.wait(w, me)
    }

    fn wait(&self, mut w: MutexGuard<'_, World<P>>, me: usize) -> bool {
        while w.turn != me && w.left > 0 {
            w = self.changed.wait(w).unwrap_or_else(PoisonError::into_inner);
        }
        w.left > 0
    }

    /// Tells the model what steps did.
    fn stepped(&self, steps: &Steps) {
        self.world().model.stepped(&steps.names);
        assert_eq!(self.heap.violations(), []);
    }

    /// Random steps: a few, or to some phase.
    fn steps(&self, most: usize) -> impl FnOnce(&TestHeap) -> Steps {
        let most = most * STEPS_SCALE;
        let mut w = self.world();
        let (n, phase) = (1 + w.random.below(most), w.random.below(Phase::ALL.len()));
        let to_a_phase = w.random.one_in(3);
        // Some more, so that the phase is seen half-done.
        let more = w.random.below(3);
        move |heap| {
            if !to_a_phase {
                return heap.steps(n);
            }
            let mut steps = heap.run_until(Phase::ALL[phase]);
            if more > 0 && !steps.blocked && !steps.done {
                let last = heap.steps(more);
                steps.names.extend(last.names);
            }
            steps
        }
    }

    /// Runs what is queued for the finalizer thread, on this thread, which is outside the heap.
    fn finalize(self: &Arc<Self>) {
        let stage: Arc<dyn Any + Send + Sync> = Arc::<Self>::clone(self);
        STAGE.set(Some(stage));
        self.heap.finalize();
        STAGE.set(None);
        let between = matches!(self.heap.phase(), Phase::Idle | Phase::Sweep);
        let mut w = self.world();
        assert!(!w.in_finalizer, "a finalizer failed, see above");
        self.take_notices(&mut w);
        w.model.queue_is_empty(between);
    }

    fn take_notices(&self, w: &mut World<P>) {
        let noted = std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        noted.into_iter().for_each(|n| w.model.dies(n));
    }
}

impl<P: Tag> Finalize for Node<P> {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let stage = STAGE.with_borrow(Clone::clone).expect("finalizers run in `Stage::finalize`");
        let stage = stage.downcast::<Stage<P>>().expect("the stage of this type");
        operations::finalizer(&stage, this, m);
    }
}

/// Ends the program for all if one thread fails.
struct EndAll<'a, P: Tag>(&'a Stage<P>);

impl<P: Tag> Drop for EndAll<'_, P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.world().left = 0;
            self.0.changed.notify_all();
        }
    }
}

#[derive(PartialEq)]
enum Next {
    Safepoint,
    Leave,
    End,
}

type Roots<P> = Vec<(Root<Node<P>>, Id)>;
type Local<'m, P> = (Gc<'m, Node<P>>, Id);

fn thread<P: Tag>(stage: &Arc<Stage<P>>, me: usize) {
    let _end_all = EndAll(stage);
    let mut roots: Roots<P> = vec![];
    let mut go_on = stage.wait(stage.world(), me);
    while go_on {
        go_on = stage.heap.enter(|m| {
            loop {
                let next = segment(m, stage, &mut roots, me);
                stage.world().model.locals[me].clear();
                match next {
                    Next::End => return false,
                    Next::Leave => return true,
                    Next::Safepoint => {
                        let steps = stage.heap.at_safepoint(m, stage.steps(40));
                        stage.stepped(&steps);
                    }
                }
            }
        });
        if go_on {
            // Outside: only here may finalizers, callbacks and drop glue run on this thread.
            let kind = stage.world().random.below(4);
            if kind > 0 {
                stage.finalize();
            }
            if kind != 1 {
                stage.heap.reap();
            }
            go_on = stage.pass(me);
        }
    }
}

/// Operations between two safepoints of a thread.
fn segment<'m, P: Tag>(m: &'m Mutator<'_>, stage: &Stage<P>, roots: &mut Roots<P>, me: usize) -> Next {
    let mut locals: Vec<Local<'m, P>> = vec![];
    loop {
        let next = operations::operation(m, stage, roots, &mut locals);
        {
            let mut w = stage.world();
            w.model.locals[me] = locals.iter().map(|l| l.1).collect();
            w.model.roots[me] = roots.iter().map(|r| r.1).collect();
            // Before some locals are forgotten: what was yielded has been shaded.
            w.model.touched();
            while locals.len() > 6 {
                locals.swap_remove(0);
            }
            w.model.locals[me] = locals.iter().map(|l| l.1).collect();
        }
        if let Some(next) = next {
            return next;
        }
        if !stage.heap.wait_paused(m, || stage.pass(me)) {
            return Next::End;
        }
    }
}

/// One program; how often it met what.
fn program<P: Tag>(seed: u64, fault: Option<Fault>) -> [usize; 6] {
    let mut random = Random(seed);
    let threads = 1 + random.below(3);
    let config = Config { heap: 4 << 20, max_mutators: 8, log_buffers: 4, ..Config::DEFAULT };
    let stage = Arc::new(Stage::<P> {
        heap: TestHeap::new(config).unwrap(),
        world: Mutex::new(World {
            turn: random.below(threads),
            left: 400,
            random,
            threads,
            ending: false,
            in_finalizer: false,
            model: Model::new(threads),
            globals: vec![],
            shorts: vec![],
            longs: vec![],
            softs: vec![],
            ephemerons: vec![],
            deaths: vec![],
        }),
        changed: Condvar::new(),
        noted: Arc::default(),
    });
    if let Some(fault) = fault {
        stage.heap.fault(fault, true);
    }
    std::thread::scope(|s| {
        for me in 0..threads {
            let stage = &stage;
            s.spawn(move || thread(stage, me));
        }
    });
    end(&stage);
    stage.world().model.met
}

/// A whole cycle, or the rest of one, and what it leads to.
fn cycle<P: Tag>(stage: &Arc<Stage<P>>) {
    let steps = stage.heap.steps(usize::MAX - 1);
    assert!(steps.done, "{steps:?}");
    stage.stepped(&steps);
    stage.finalize();
    stage.heap.reap();
}

/// The threads have ended: what is left must be right; after all has been dropped nothing may be left.
fn end<P: Tag>(stage: &Arc<Stage<P>>) {
    let heap = &stage.heap;
    {
        // The threads' roots were dropped with the threads.
        let mut w = stage.world();
        w.model.roots.iter_mut().for_each(Vec::clear);
        w.model.locals.iter_mut().for_each(Vec::clear);
        w.ending = true;
    }
    if heap.phase() != Phase::Idle {
        cycle(stage);
    }
    cycle(stage);
    cycle(stage);
    heap.enter(|m| {
        let mut w = stage.world();
        operations::compare(m, &w, &vec![]);
        operations::ask_all(m, &mut w);
    });
    {
        let mut w = stage.world();
        let w = &mut *w;
        w.globals.clear();
        w.softs.clear();
        w.ephemerons.clear();
        w.model.globals.clear();
        w.model.softs.clear();
        w.model.ephemerons.clear();
    }
    // One cycle finds what was dropped, a second what finalizers held.
    (0..3).for_each(|_| cycle(stage));
    heap.enter(|m| operations::ask_all(m, &mut stage.world()));
    let w = stage.world();
    assert!(w.model.registered.is_empty(), "finalizers that never ran: {:?}", w.model.registered);
    let told: HashSet<_> = w.model.noted.union(&w.model.cancelled).copied().collect();
    assert_eq!(told.len(), w.model.deaths.len(), "deaths that were never noted");
    let mut weak = w.model.shorts.iter().chain(&w.model.longs);
    assert!(weak.all(|k| k.gone), "a weak reference outlives everything");
    assert_eq!(heap.violations(), []);
    assert_eq!(heap.used_bytes(), 0);
}

#[test]
fn random_programs_with_references() {
    let first = first_seed();
    let programs = variable("METRONOME_PROGRAMS").unwrap_or(300);
    println!("METRONOME_SEED={first} METRONOME_PROGRAMS={programs}");
    let mut sums = [0; 6];
    for seed in first..first.saturating_add(programs) {
        let run = || if seed % 2 == 0 { program::<Id>(seed, None) } else { program::<Box<Id>>(seed, None) };
        match std::panic::catch_unwind(run) {
            Ok(met) => sums.iter_mut().zip(met).for_each(|(sum, n)| *sum += n),
            Err(e) => {
                println!("failed: run it alone with METRONOME_SEED={seed} METRONOME_PROGRAMS=1");
                std::panic::resume_unwind(e);
            }
        }
    }
    println!(
        "{sums:?} cleared, finalized, brought back, deaths, upgrades of unreachable objects, ephemeral values"
    );
    if programs >= 100 {
        // The programs reach what they are meant to reach.
        assert!(sums.iter().all(|&n| n as u64 >= programs / 20), "{sums:?}");
    }
}

/// Faults that harm no memory, so that the verifier has nothing to say: the oracle does. (Their panics are meant.)
#[test]
fn the_oracle_has_teeth() {
    // In a tiny build programs of so few operations see too few ends of marking to meet what the first one breaks;
    // there `what_is_made_after_marking_is_passed_over` alone has to.
    let faults = [Fault::NoStamps, Fault::NoSoftBarrier];
    for &fault in &faults[usize::from(cfg!(metronome_tiny))..] {
        let noticed = |seed| std::panic::catch_unwind(|| program::<Id>(seed, Some(fault))).is_err();
        let first = (1..1000).find(|&seed| noticed(seed));
        println!("{fault:?} is noticed by program {first:?}");
        assert!(first.is_some(), "{fault:?}");
    }
}
