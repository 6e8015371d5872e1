//! Breadth-first search: every state of a model once, nearest first, so that a counter-example is a shortest one.

use crate::encoding::namings;
use crate::state::{Colour, OBJECTS, Set, State, members};
use crate::steps::{Model, Step, Violation};
use crate::text::name;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

/// What a search found.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// States seen, up to names.
    pub(crate) states: usize,
    /// Steps taken.
    pub(crate) steps: usize,
    /// Distance of the farthest state.
    pub(crate) depth: usize,
    pub(crate) counter_example: Option<Trace>,
}

/// A shortest way to a broken property: each step with the state after it.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) steps: Vec<(Step, State)>,
    pub(crate) violation: Violation,
    /// The step that breaks the property, if it is one.
    pub(crate) last: Option<Step>,
}

impl Trace {
    /// Number of steps, the breaking one included.
    pub(crate) fn len(&self) -> usize {
        self.steps.len() + usize::from(self.last.is_some())
    }
}

/// Hashes the encoded states: two multiplications.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u128(u128::from(b));
        }
    }

    fn write_u128(&mut self, key: u128) {
        let (low, high) = (key as u64 ^ self.0, (key >> 64) as u64);
        let x = low.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ high.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        self.0 = x ^ (x >> 32);
    }
}

/// Searches the states of a model until a property breaks.
///
/// # Panics
/// If there are more than `limit` states: a test whose search is cut short would show nothing.
pub(crate) fn search(model: &Model, limit: usize) -> Outcome {
    let scope = &model.scope;
    let names = namings(scope.objects);
    let first = State::initial().canonical(scope, &names);
    let mut seen: HashMap<u128, (), BuildHasherDefault<KeyHasher>> = HashMap::default();
    let mut queue: Vec<(u128, u32)> = vec![(first, 0)];
    seen.insert(first, ());
    let (mut next, mut level_end, mut depth, mut taken) = (0, 1, 0, 0);
    let mut steps = Vec::new();
    let mut found = None;
    'search: while next < queue.len() {
        if next == level_end {
            (depth, level_end) = (depth + 1, queue.len());
        }
        let s = State::decode(queue[next].0, scope);
        steps.clear();
        model.steps(&s, &mut steps);
        if model.is_stuck(&s, &steps) {
            found = Some((next, Violation::Stuck));
            break;
        }
        for &step in &steps {
            taken += 1;
            match model.apply(&s, step) {
                Ok(after) => {
                    let key = after.canonical(scope, &names);
                    if let Entry::Vacant(v) = seen.entry(key) {
                        v.insert(());
                        queue.push((key, next as u32));
                    }
                }
                Err(violation) => {
                    found = Some((next, violation));
                    break 'search;
                }
            }
        }
        assert!(queue.len() <= limit, "more than {limit} states: {scope}");
        next += 1;
    }
    let counter_example = found.map(|(at, violation)| retrace(model, &names, &queue, at, violation));
    Outcome { states: queue.len(), steps: taken, depth, counter_example }
}

/// The way to the state at `at`, with names that stay the same from step to step.
fn retrace(
    model: &Model,
    names: &[[u8; OBJECTS]],
    queue: &[(u128, u32)],
    mut at: usize,
    violation: Violation,
) -> Trace {
    let mut keys = Vec::new();
    while at != 0 {
        keys.push(queue[at].0);
        at = queue[at].1 as usize;
    }
    let (mut s, mut way, mut steps) = (State::initial(), Vec::new(), Vec::new());
    for &key in keys.iter().rev() {
        steps.clear();
        model.steps(&s, &mut steps);
        let (step, after) = steps
            .iter()
            .filter_map(|&step| Some((step, model.apply(&s, step).ok()?)))
            .find(|(_, after)| after.canonical(&model.scope, names) == key)
            .expect("the search took this step from a state with other names");
        way.push((step, after));
        s = after;
    }
    steps.clear();
    model.steps(&s, &mut steps);
    let breaking = steps.iter().find_map(|&step| Some((step, model.apply(&s, step).err()?)));
    let (last, violation) = breaking.map_or((None, violation), |(step, v)| (Some(step), v));
    Trace { steps: way, violation, last }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = State::initial();
        for (i, (step, after)) in self.steps.iter().enumerate() {
            let text = step.to_string();
            writeln!(f, "    {:>2}. {text:<44}{}", i + 1, Changes(&before, after))?;
            before = *after;
        }
        let last = self.last.map_or_else(String::new, |s| s.to_string());
        writeln!(f, "    {:>2}. {last:<44}! {}", self.len(), self.violation)
    }
}

/// Which objects a step shaded or blackened, and what mutators hold after it.
struct Changes<'a>(&'a State, &'a State);

impl fmt::Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (self.0, self.1);
        for o in 0..OBJECTS {
            let (was, is) = (before.objects[o].colour, after.objects[o].colour);
            if was != is {
                let to = match is {
                    Colour::Free => "freed",
                    Colour::White => "white",
                    Colour::Deferred => "grey without a mark",
                    Colour::Grey => "grey",
                    Colour::Half => "half scanned",
                    Colour::Black => "black",
                };
                write!(f, "{} {to}; ", name(o))?;
            }
        }
        let show = |set: Set| members(set).map(name).collect::<String>();
        for (m, (was, is)) in before.mutators.iter().zip(&after.mutators).enumerate() {
            if was.locals != is.locals {
                write!(f, "M{m} holds {{{}}}; ", show(is.locals))?;
            }
        }
        Ok(())
    }
}
