//! Running a program: its threads, and how it ends.

use crate::oracle::{Id, Met};
use crate::program::{Op, Program, Quantum};
use crate::world::{EndAll, Local, NodeInit, Roots, Stage, Tag};
use crate::{compare, operations, references};
use metronome_gc::testing::{Fault, Phase};
use metronome_gc::{Mutator, Root};
use std::any::Any;
use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

/// Why a segment of operations under one safepoint ends.
enum Next {
    /// By an operation that needs the mutator for itself, which is still to be done.
    Exclusive(Op),
    /// The mutator has to be outside.
    Outside,
    Over,
}

/// What a mutator's thread does.
fn thread<P: Tag>(stage: &Arc<Stage<P>>, me: usize) {
    let _end_all = EndAll(&**stage);
    let mut roots: Roots<P> = vec![];
    while let Some(op) = stage.wait(me) {
        if !op.is_outside() {
            stage.heap.enter(|m| inside(m, stage, &mut roots, me));
            continue;
        }
        match op {
            Op::Leave(q) => drop(stage.quantum(q)(&stage.heap)),
            Op::Finalize => stage.finalize(),
            _ => stage.heap.reap(),
        }
        stage.advance();
    }
    stage.world().model.roots[me].clear();
}

fn inside<P: Tag>(m: &mut Mutator<'_>, stage: &Stage<P>, roots: &mut Roots<P>, me: usize) {
    loop {
        let next = segment(m, stage, roots, me);
        stage.world().model.locals[me].clear();
        match next {
            Next::Exclusive(Op::Native) => {
                m.blocking(|| {
                    stage.advance();
                    stage.wait(me)
                });
                continue;
            }
            Next::Exclusive(Op::Reserve { n, quantum }) => reserve(m, stage, roots, n, quantum),
            Next::Exclusive(Op::Safepoint(q)) => drop(stage.heap.at_safepoint(m, stage.quantum(q))),
            Next::Exclusive(op) => unreachable!("{op:?}"),
            Next::Outside | Next::Over => return,
        }
        stage.world().model.roots[me] = roots.iter().map(|r| r.1).collect();
        if stage.goes_on() {
            stage.advance();
        } else {
            stage.heap.wait_paused(m, || {
                stage.advance();
                stage.wait(me)
            });
        }
    }
}

/// Operations between two safepoints of a thread.
fn segment<'m, P: Tag>(m: &'m Mutator<'_>, stage: &Stage<P>, roots: &mut Roots<P>, me: usize) -> Next {
    let mut locals: Vec<Local<'m, P>> = vec![];
    let mut now = stage.wait(me);
    loop {
        let Some(op) = now else { return Next::Over };
        match op {
            _ if op.is_outside() => return Next::Outside,
            Op::Native | Op::Reserve { .. } | Op::Safepoint(_) => return Next::Exclusive(op),
            Op::Pause(q) => drop(stage.heap.at_pause(m, stage.quantum(q))),
            _ => operations::operation(m, stage, op, roots, &mut locals),
        }
        {
            let mut w = stage.world();
            w.model.locals[me] = locals.iter().map(|l| l.1).collect();
            w.model.roots[me] = roots.iter().map(|r| r.1).collect();
            // Before some locals are forgotten: what was yielded has been shaded.
            w.model.touched();
            while locals.len() > 8 {
                locals.swap_remove(0);
            }
            w.model.locals[me] = locals.iter().map(|l| l.1).collect();
        }
        now = if stage.goes_on() {
            stage.advance();
            stage.wait(me)
        } else {
            stage.heap.wait_paused(m, || {
                stage.advance();
                stage.wait(me)
            })
        };
    }
}

/// Nothing fails of what was reserved, with a quantum half-way.
fn reserve<P: Tag>(m: &mut Mutator<'_>, stage: &Stage<P>, roots: &mut Roots<P>, n: u8, quantum: Quantum) {
    stage.heap.fail_refill(0);
    let n = 1 + u64::from(n);
    let Ok(reserved) = m.reserve_objects::<crate::world::Node<P>>(n) else {
        stage.world().model.met.failed_allocations += 1;
        return;
    };
    for i in 0..n {
        let mut w = stage.world();
        let tag = P::of(w.model.next_id);
        let node = reserved.alloc(NodeInit { tag, slots: [None, None], array: None, values: None });
        let id = operations::new_node(&mut w, node, [None, None]);
        roots.push((Root::new(reserved.mutator(), node), id));
        let me = usize::from(stage.program.steps[w.at].0 % stage.program.mutators);
        w.model.roots[me].push(id);
        w.model.met.reserved += 1;
        w.model.touched();
        drop(w);
        if i == n / 2 {
            stage.heap.at_pause(reserved.mutator(), stage.quantum(quantum));
        }
    }
}

/// A whole cycle, or the rest of one, and what it leads to.
fn cycle<P: Tag>(stage: &Arc<Stage<P>>) {
    stage.rest_of_cycle();
    stage.finalize();
    stage.heap.reap();
}

/// The threads have ended: what is left must be right; after all has been dropped nothing may be left.
fn end<P: Tag>(stage: &Arc<Stage<P>>) {
    let heap = &stage.heap;
    heap.fail_refill(0);
    stage.world().ending = true;
    if heap.phase() != Phase::Idle {
        cycle(stage);
    }
    cycle(stage);
    cycle(stage);
    heap.enter(|m| {
        let mut w = stage.world();
        compare::compare(m, &w, &vec![]);
        references::ask_all(m, &mut w);
    });
    {
        let mut w = stage.world();
        let w = &mut *w;
        w.globals.clear();
        w.softs.clear();
        w.ephemerons.clear();
        w.map = Arc::default();
        w.model.globals.clear();
        w.model.softs.clear();
        w.model.ephemerons.clear();
        w.model.map.clear();
    }
    // One cycle finds what was dropped, a second what finalizers held.
    (0..3).for_each(|_| cycle(stage));
    heap.enter(|m| references::ask_all(m, &mut stage.world()));
    let w = stage.world();
    assert!(w.model.registered.is_empty(), "finalizers that never ran: {:?}", w.model.registered);
    let told: HashSet<_> = w.model.noted.union(&w.model.cancelled).copied().collect();
    assert_eq!(told.len(), w.model.deaths.len(), "deaths that were never noted");
    let mut weak = w.model.shorts.iter().chain(&w.model.longs);
    assert!(weak.all(|k| k.gone), "a weak reference outlives everything");
    assert_eq!(heap.violations(), []);
    assert_eq!(heap.used_bytes(), 0);
}

fn run_tagged<P: Tag>(program: &Program, fault: Option<Fault>) -> Met {
    let stage = Arc::new(Stage::<P>::new(program, fault));
    std::thread::scope(|s| {
        // The first mutator is this thread: a program of one needs no other.
        let others = (1..usize::from(program.mutators)).map(|me| {
            let stage = &stage;
            s.spawn(move || quietly(|| thread(stage, me)))
        });
        let others: Vec<_> = others.collect();
        let mut failed = quietly(|| thread(&stage, 0)).err();
        for other in others {
            failed = other.join().expect("panics are caught").err().or(failed);
        }
        if let Some(text) = failed {
            panic!("{text}");
        }
    });
    end(&stage);
    stage.world().model.met
}

thread_local! {
    /// Whether panics of this thread are to be told to who started it, and not to be printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What a panic says.
pub(crate) fn text(value: &(dyn Any + Send)) -> String {
    let text = value.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| value.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text").to_owned()
}

/// Runs `f`; the text of its panic, which is not printed.
fn quietly<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    let was = QUIET.replace(true);
    let out = catch_unwind(AssertUnwindSafe(f)).map_err(|value| text(&*value));
    QUIET.set(was);
    out
}

/// Runs a program, with a fault if one is given: how often it met what, or what was found.
pub(crate) fn run(program: &Program, fault: Option<Fault>) -> Result<Met, String> {
    quietly(|| match program.glue {
        false => run_tagged::<Id>(program, fault),
        true => run_tagged::<Box<Id>>(program, fault),
    })
}
