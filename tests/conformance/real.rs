//! Steps of the model as operations on a real heap.

use crate::checker::Trace;
use crate::mutators::{Mutators, Stage};
use crate::state::{OBJECTS, Ref, State, members};
use crate::steps::Step;
use metronome_gc::config::Config;
use metronome_gc::testing::{Fault, Phase, Steps, TestHeap};
use metronome_gc::{Gc, Global, Mutator, Root, Slot, Trace as Traced, Weak, WeakLong};

/// So large that scanning one is a step of marking.
#[derive(Traced)]
pub(crate) struct Node {
    pad: [Slot<Node>; 70],
    slot: Slot<Node>,
}

/// The handles and addresses that go with a state of the model.
#[derive(Default)]
pub(crate) struct Real {
    pub(crate) addresses: [usize; OBJECTS],
    globals: [Option<Vec<Global<Node>>>; 2],
    weaks: [Option<Weak<Node>>; 2],
    long: Option<WeakLong<Node>>,
}

/// A mutator's own handles.
pub(crate) type Roots = [Option<Root<Node>>; 2];
pub(crate) type Locals<'m> = [Option<Gc<'m, Node>>; OBJECTS];

pub(crate) fn heap(fault: Option<Fault>) -> TestHeap {
    let config = Config { heap: 4 << 20, max_mutators: 8, ..Config::DEFAULT };
    let heap = TestHeap::new(config).expect("a small heap");
    if let Some(fault) = fault {
        heap.fault(fault, true);
    }
    heap
}

fn held<'m>(locals: &Locals<'m>, r: Ref) -> Option<Gc<'m, Node>> {
    r.checked_sub(1).map(|o| locals[usize::from(o)].expect("the model holds what it uses"))
}

impl Real {
    /// Notes a reference that was yielded, by its address; whether it is that of some object of the model.
    fn yielded<'m>(&self, locals: &mut Locals<'m>, got: Option<Gc<'m, Node>>) {
        if let Some(got) = got {
            let o = self.addresses.iter().position(|&a| a == Gc::address(got));
            locals[o.expect("an object that the model knows")] = Some(got);
        }
    }

    /// A step of the mutator that is no safepoint. For the upgrade of a weak reference whether it yielded; else true.
    pub(crate) fn act<'m>(
        &mut self,
        m: &'m Mutator<'_>,
        locals: &mut Locals<'m>,
        roots: &mut Roots,
        step: Step,
    ) -> bool {
        let local = |locals: &Locals<'m>, o: usize| locals[o].expect("the model holds what it uses");
        match step {
            Step::Load { o, .. } => {
                let got = local(locals, o).slot.load(m);
                self.yielded(locals, got);
            }
            Step::Store { o, value, .. } => local(locals, o).slot.store(m, held(locals, value)),
            Step::Alloc { o, value, .. } => {
                let init = NodeInit { pad: [None; 70], slot: held(locals, value) };
                let node = m.alloc(init).expect("an almost empty heap");
                let address = Gc::address(node);
                // What had the cell before is known by it no more.
                self.addresses.iter_mut().filter(|a| **a == address).for_each(|a| *a = 0);
                self.addresses[o] = address;
                locals[o] = Some(node);
            }
            Step::RootNew { o, e, .. } => roots[e] = Some(Root::new(m, local(locals, o))),
            Step::RootGet { e, .. } => {
                let got = roots[e].as_ref().map(|r| r.get(m));
                self.yielded(locals, got);
            }
            Step::RootDuplicate { e, to, .. } => {
                roots[to] = roots[e].as_ref().map(|r| r.duplicate(m));
            }
            Step::RootDrop { e, .. } => roots[e] = None,
            Step::GlobalNew { o, e, .. } => self.globals[e] = Some(vec![Global::new(m, local(locals, o))]),
            Step::GlobalGet { e, .. } => {
                let got = self.globals[e].as_ref().map(|g| g[0].get(m));
                self.yielded(locals, got);
            }
            Step::WeakNew { o, e, .. } => self.weaks[e] = Some(Weak::new(m, local(locals, o))),
            Step::Upgrade { e, .. } | Step::UpgradeRefused { e, .. } => {
                let got = self.weaks[e].as_ref().and_then(|w| w.upgrade(m));
                self.yielded(locals, got);
                return got.is_some();
            }
            Step::LongNew { o, .. } => self.long = Some(WeakLong::new(m, local(locals, o))),
            Step::LongUpgrade { .. } => {
                let got = self.long.as_ref().and_then(|w| w.upgrade(m));
                self.yielded(locals, got);
                return got.is_some();
            }
            _ => unreachable!("not in the scopes of these tests: {step}"),
        }
        true
    }

    /// A step of some thread, which need be no mutator.
    pub(crate) fn drop_handle(&mut self, step: Step) {
        match step {
            Step::GlobalClone { e } => {
                let owners = self.globals[e].as_mut().expect("a global");
                owners.push(owners[0].clone());
            }
            Step::GlobalDrop { e } => {
                let owners = self.globals[e].as_mut().expect("a global");
                owners.pop();
                if owners.is_empty() {
                    self.globals[e] = None;
                }
            }
            Step::WeakDrop { e } => self.weaks[e] = None,
            Step::LongDrop => self.long = None,
            _ => unreachable!("not in the scopes of these tests: {step}"),
        }
    }
}

/// What the real collector has to come to for a step of the model's: a phase, or a step of this name.
enum Milestone {
    Phase(Phase),
    Step(&'static str),
}

fn milestone(step: Step) -> Milestone {
    match step {
        Step::Arm => Milestone::Step("arm"),
        Step::AllPassed => Milestone::Phase(Phase::Mark),
        Step::TakeRoot { .. } => Milestone::Step("roots"),
        Step::TakeGlobal { .. } => Milestone::Step("globals"),
        Step::Scan { .. } => Milestone::Step("mark"),
        Step::EndMarking => Milestone::Phase(Phase::Weak),
        Step::ClearWeak { .. } => Milestone::Step("weak"),
        Step::BeginFinalize => Milestone::Phase(Phase::Finalize),
        Step::EndFinalize => Milestone::Phase(Phase::Phantom),
        Step::ClearLong => Milestone::Step("bury"),
        Step::BeginSweep => Milestone::Phase(Phase::Sweep),
        Step::Sweep { .. } => Milestone::Step("sweep"),
        Step::EndCycle => Milestone::Phase(Phase::Idle),
        _ => unreachable!("not in the scopes of these tests: {step}"),
    }
}

/// Replays a counter-example with so many mutators; what was found (nothing, if all went well).
pub(crate) fn replay(trace: &Trace, mutators: usize, fault: Option<Fault>) -> Vec<String> {
    let stage = Stage::new(heap(fault));
    let mut steps = trace.steps.iter().map(|(step, after)| (*step, *after)).collect::<Vec<_>>();
    let last = steps.last().expect("some steps").1;
    steps.extend(trace.last.map(|step| (step, last)));
    std::thread::scope(|scope| {
        let mut mutators = Mutators::new(scope, &stage, mutators);
        let mut found = vec![];
        follow(&stage, &mut mutators, &steps, &mut found);
        found
    })
}

/// All steps, and the rest of the cycle; the mutators keep their locals to its end.
fn follow(stage: &Stage, mutators: &mut Mutators<'_, '_>, steps: &[(Step, State)], found: &mut Vec<String>) {
    let heap = &stage.heap;
    let mut state = State::initial();
    for &(step, after) in steps {
        if step.is_collectors() {
            // As far as need be: it may have come there already.
            let done = |names: &[&str]| match milestone(step) {
                Milestone::Phase(p) => heap.phase() == p,
                Milestone::Step(name) => names.last() == Some(&name),
            };
            // It does not leave the phase that the model is in.
            let within = || heap.phase() as u8 <= state.phase as u8 || state.phase == Phase::Sweep;
            let mut names = vec![];
            while !done(&names) && (within() || step == Step::Arm) && names.len() < 200 {
                let s = step_and_look(stage, &state, found);
                names.extend(s.names);
                if !found.is_empty() || s.blocked || s.done {
                    break;
                }
            }
            if !found.is_empty() {
                return;
            }
        } else {
            let yields = mutators.act(step);
            if let Step::Upgrade { e, .. } | Step::UpgradeRefused { e, .. } = step
                && !yields
                && state.weaks[e].held
            {
                found.push("a weak reference is refused whose object was within reach ever since".into());
            }
            // What was refused the real mutator does not hold: the rest of the trace is of no account.
            if !yields {
                break;
            }
        }
        state = after;
    }
    while heap.phase() != Phase::Idle && found.is_empty() {
        let s = step_and_look(stage, &state, found);
        if s.blocked || s.done {
            break;
        }
    }
}

/// One step; what the verifier says, and what is reachable and lost, locals included.
fn step_and_look(stage: &Stage, state: &State, found: &mut Vec<String>) -> Steps {
    let (heap, real) = (&stage.heap, stage.real());
    let steps = heap.steps(1);
    found.extend(heap.violations().iter().map(|v| v.invariant.to_owned()));
    for o in members(state.reachable()) {
        let look = heap.look(real.addresses[o]);
        if !look.allocated || (heap.phase() == Phase::Phantom && !look.marked) {
            found.push(format!("a reachable object is lost in {:?}", heap.phase()));
        }
    }
    steps
}
