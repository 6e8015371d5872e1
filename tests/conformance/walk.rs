//! Random walks of the real collector that the model has to follow.

use crate::mutators::{Mutators, Stage};
use crate::real::{Real, heap};
use crate::rules::{Rules, Scope};
use crate::scopes::{ALONE, PLAIN};
use crate::state::{Colour, OBJECTS, State};
use crate::steps::{Model, Step};
use metronome_gc::testing::{Fault, Phase, TestHeap};
use std::collections::BTreeMap;

const SCOPES: &[Scope] = &[
    Scope { globals: 1, weaks: 1, ..ALONE },
    Scope { roots: 1, globals: 1, ..ALONE },
    Scope { weaks: 2, long: true, ..ALONE },
    Scope { objects: 3, roots: 1, ..ALONE },
    Scope { roots: 2, duplicates: true, globals: 1, clones: true, ..ALONE },
    Scope { globals: 1, weaks: 1, ..PLAIN },
    Scope { roots: 1, globals: 1, native: true, births: true, ..PLAIN },
    Scope { objects: 3, globals: 1, ..PLAIN },
    Scope { weaks: 1, long: true, ..PLAIN },
    Scope { mutators: 3, roots: 1, globals: 1, native: true, births: true, ..PLAIN },
];

/// Steps of a walk.
const STEPS: usize = 120;

/// What a walk came by.
pub(crate) struct Walk {
    pub(crate) steps: usize,
    pub(crate) cycles: usize,
    /// States that the model may have been in at a time.
    pub(crate) states: usize,
}

struct Walker {
    model: Model,
    states: Vec<State>,
    random: u64,
    walk: Walk,
    failed: Option<String>,
}

impl Walker {
    fn below(&mut self, n: usize) -> usize {
        // Xorshift (Marsaglia, JSS 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % n
    }

    fn keep(&mut self, states: Vec<State>, what: impl FnOnce() -> String) {
        if states.is_empty() {
            self.failed = Some(format!("the model cannot follow: {}\nfrom {:?}", what(), self.states[0]));
        } else {
            self.walk.states = self.walk.states.max(states.len());
            self.states = states;
        }
    }

    /// The states after a step of the mutator, of those in which it may be taken.
    fn mutator_step(&mut self, step: Step) {
        let mut after: BTreeMap<u128, State> = BTreeMap::new();
        let mut enabled = vec![];
        for s in &self.states {
            enabled.clear();
            self.model.steps(s, &mut enabled);
            if enabled.contains(&step)
                && let Ok(s) = self.model.apply(s, step)
            {
                after.insert(s.encode(&self.model.scope), s);
            }
        }
        self.keep(after.into_values().collect(), || step.to_string());
    }

    /// The states that any steps of the model's collector lead to, of those that look like the real heap.
    fn collector_step(&mut self, heap: &TestHeap, real: &Real, name: &str) {
        let mut seen: BTreeMap<u128, State> =
            self.states.iter().map(|s| (s.encode(&self.model.scope), *s)).collect();
        let mut queue = self.states.clone();
        let mut enabled = vec![];
        while let Some(s) = queue.pop() {
            enabled.clear();
            self.model.collector(&s, &mut enabled);
            for &step in &enabled {
                // A whole cycle is more than a step.
                if step == Step::Arm && name != "arm" {
                    continue;
                }
                if let Ok(s) = self.model.apply(&s, step)
                    && seen.insert(s.encode(&self.model.scope), s).is_none()
                {
                    queue.push(s);
                }
            }
        }
        let looks = seen.into_values().filter(|s| looks_like(heap, real, s)).collect();
        let cells = real.addresses.iter().filter(|&&a| a != 0);
        self.keep(looks, || {
            let cells: Vec<_> = cells.map(|&a| heap.look(a)).collect();
            format!("the step {name} to {:?}, cells {cells:?}", heap.phase())
        });
    }
}

fn looks_like(heap: &TestHeap, real: &Real, s: &State) -> bool {
    let phase = heap.phase();
    let exact = matches!(phase, Phase::Idle | Phase::Weak | Phase::Phantom | Phase::Sweep);
    phase == s.phase
        && (0..OBJECTS).all(|o| {
            let colour = s.objects[o].colour;
            if real.addresses[o] == 0 {
                return colour == Colour::Free;
            }
            let look = heap.look(real.addresses[o]);
            if colour == Colour::Free {
                // Another object may have the cell by now.
                let reused = (0..OBJECTS).any(|p| {
                    p != o && real.addresses[p] == real.addresses[o] && s.objects[p].colour != Colour::Free
                });
                return !look.allocated || reused;
            }
            look.allocated
                && (!look.marked || colour.is_marked())
                && (look.marked || colour != Colour::Black)
                && (!exact || look.marked == colour.is_marked())
        })
}

/// One walk.
pub(crate) fn walk(seed: u64, fault: Option<Fault>) -> Result<Walk, String> {
    let scope = SCOPES[seed as usize % SCOPES.len()];
    let mut walker = Walker {
        model: Model { scope, rules: Rules::ALL, strict: true },
        states: vec![State::initial()],
        random: (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        walk: Walk { steps: 0, cycles: 0, states: 1 },
        failed: None,
    };
    let stage = Stage::new(heap(fault));
    std::thread::scope(|threads| {
        let mut mutators = Mutators::new(threads, &stage, scope.mutators);
        while walker.walk.steps < STEPS && walker.failed.is_none() {
            one(&stage, &mut mutators, &mut walker);
        }
    });
    walker.failed.map_or(Ok(walker.walk), Err)
}

/// One step, the collector's or a mutator's.
fn one(stage: &Stage, mutators: &mut Mutators<'_, '_>, w: &mut Walker) {
    w.walk.steps += 1;
    let heap = &stage.heap;
    if w.below(2) == 0 {
        let step = heap.steps(1);
        w.walk.cycles += usize::from(step.done);
        match heap.violations().first() {
            Some(v) => w.failed = Some(format!("the verifier: {v:?}")),
            None => w.collector_step(heap, &stage.real(), step.names.last().copied().unwrap_or_default()),
        }
        return;
    }
    let mut enabled = vec![];
    w.model.steps(&w.states[0], &mut enabled);
    enabled.retain(|s| !s.is_collectors());
    if enabled.is_empty() {
        return;
    }
    let step = enabled[w.below(enabled.len())];
    let yields = mutators.act(step);
    // Where it depends on a mark, the real outcome decides which step of the model's it was.
    let step = match step {
        Step::Upgrade { m, e } | Step::UpgradeRefused { m, e } if yields => Step::Upgrade { m, e },
        Step::Upgrade { m, e } | Step::UpgradeRefused { m, e } => Step::UpgradeRefused { m, e },
        Step::LongUpgrade { .. } if !yields => {
            w.failed = Some("a long reference is refused that the model yields".into());
            return;
        }
        _ => step,
    };
    w.mutator_step(step);
}
