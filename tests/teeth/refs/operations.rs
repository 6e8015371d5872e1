//! What a mutator and a finalizer of a random program do.

use super::model::{CLEARED, EPHEMERAL, Id, Known, REVIVED, UPGRADED_DEAD};
use super::{Local, Next, Node, NodeInit, Roots, Stage, World};
use crate::random::Tag;
use metronome_gc::{Ephemeron, Gc, Global, Mutator, Root, Soft, Weak, WeakLong};
use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

fn check<P: Tag>(got: Option<Gc<'_, Node<P>>>, want: Option<Id>) {
    assert_eq!(got.map(|n| n.tag.id()), want);
}

pub(super) fn operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    stage: &Stage<P>,
    roots: &mut Roots<P>,
    locals: &mut Vec<Local<'m, P>>,
) -> Option<Next> {
    let mut guard = stage.world();
    let w = &mut *guard;
    let kind = w.random.below(64);
    match kind {
        0..20 => slot_operation(m, w, kind, locals),
        20..34 => handle_operation(m, w, kind, roots, locals),
        34..56 => reference_operation(m, stage, w, kind, locals),
        56..61 => {
            drop(guard);
            // With all other threads waiting at pause points.
            let steps = stage.heap.at_pause(m, stage.steps(12));
            stage.stepped(&steps);
        }
        61 => {
            if w.model.cycles.is_multiple_of(2) && stage.heap.phase() == metronome_gc::testing::Phase::Idle {
                w.model.soft_age = [0, 1, 2, u64::MAX][w.random.below(4)];
                stage.heap.soft_age(w.model.soft_age);
            }
            compare(m, w, roots);
        }
        62 => return Some(Next::Safepoint),
        _ => return Some(if w.random.one_in(2) { Next::Leave } else { Next::Safepoint }),
    }
    None
}

fn pick<'m, P: Tag>(w: &mut World<P>, locals: &[Local<'m, P>]) -> Option<Local<'m, P>> {
    match locals.len() {
        0 => None,
        n => Some(locals[w.random.below(n)]),
    }
}

/// Allocation, loads and stores.
fn slot_operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &mut World<P>,
    kind: usize,
    locals: &mut Vec<Local<'m, P>>,
) {
    let (x, y) = (pick(w, locals), pick(w, locals));
    let slot = w.random.below(2);
    let value = if w.random.one_in(4) { None } else { y };
    let (new, new_id) = (value.map(|v| v.0), value.map(|v| v.1));
    match (kind, x) {
        (0..8, _) => {
            let tag = P::of(w.model.next_id);
            if let Ok(node) = m.alloc(NodeInit { tag, slots: [x.map(|x| x.0), new] }) {
                let id = w.model.object([x.map(|x| x.1), new_id]);
                locals.push((node, id));
            }
        }
        (8..12, Some((x, id))) => {
            let (got, want) = (x.slots[slot].load(m), w.model.slots[&id][slot]);
            check(got, want);
            locals.extend(got.zip(want));
        }
        (12..18, Some((x, id))) => {
            let got = x.slots[slot].swap(m, new);
            let slots = w.model.slots.get_mut(&id).expect("every object is known");
            let want = std::mem::replace(&mut slots[slot], new_id);
            check(got, want);
            if kind < 15 {
                locals.extend(got.zip(want));
            }
        }
        _ if !locals.is_empty() => drop(locals.swap_remove(w.random.below(locals.len()))),
        _ => {}
    }
}

/// Strong handles.
fn handle_operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &mut World<P>,
    kind: usize,
    roots: &mut Roots<P>,
    locals: &mut Vec<Local<'m, P>>,
) {
    let x = pick(w, locals);
    match (kind, x) {
        (20 | 21, Some((x, id))) => roots.push((Root::new(m, x), id)),
        (22 | 23, _) if !roots.is_empty() => {
            let (root, id) = &roots[w.random.below(roots.len())];
            let got = root.get(m);
            check(Some(got), Some(*id));
            locals.push((got, *id));
        }
        (24..27, _) if !roots.is_empty() => drop(roots.swap_remove(w.random.below(roots.len()))),
        (27 | 28, Some((x, id))) => {
            w.globals.push(Global::new(m, x));
            w.model.globals.push(id);
        }
        (29 | 30, _) if !w.globals.is_empty() => {
            let i = w.random.below(w.globals.len());
            let (got, id) = (w.globals[i].get(m), w.model.globals[i]);
            check(Some(got), Some(id));
            locals.push((got, id));
        }
        (31.., _) if !w.globals.is_empty() => {
            let i = w.random.below(w.globals.len());
            w.globals.swap_remove(i);
            w.model.globals.swap_remove(i);
        }
        _ => {}
    }
}

/// Weak, soft and ephemeral references, finalizers, deaths.
fn reference_operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    stage: &Stage<P>,
    w: &mut World<P>,
    kind: usize,
    locals: &mut Vec<Local<'m, P>>,
) {
    let (x, y) = (pick(w, locals), pick(w, locals));
    let (markings, burials) = (w.model.markings, w.model.burials);
    match (kind, x) {
        (34, Some((x, id))) => {
            w.shorts.push(Weak::new(m, x));
            w.model.shorts.push(Known::new(id, markings));
        }
        (35, Some((x, id))) => {
            w.longs.push(WeakLong::new(m, x));
            w.model.longs.push(Known::new(id, burials));
        }
        (36, Some((x, id))) => {
            w.softs.push(Soft::new(m, x));
            let cycles = w.model.cycles;
            w.model.softs.push((Known::new(id, markings), cycles));
        }
        (37..40, Some((x, id))) => {
            let Some((y, value)) = y else { return };
            w.ephemerons.push(Ephemeron::new(m, x, y));
            w.model.ephemerons.push((Known::new(id, burials), value));
        }
        (40 | 41, _) => ask_shorts(m, w, locals),
        (42..45, _) => ask_longs(m, w, locals),
        (45, _) if !w.ephemerons.is_empty() => {
            let i = w.random.below(w.ephemerons.len());
            w.ephemerons.swap_remove(i);
            w.model.ephemerons.swap_remove(i);
        }
        (46, _) if !w.softs.is_empty() => {
            let i = w.random.below(w.softs.len());
            w.softs.swap_remove(i);
            w.model.softs.swap_remove(i);
        }
        (47, _) if !w.longs.is_empty() => {
            let i = w.random.below(w.longs.len());
            w.longs.swap_remove(i);
            w.model.longs.swap_remove(i);
        }
        (48..51, Some((x, id))) => assert_eq!(m.register_finalizer(x), w.model.register(id)),
        (51 | 52, Some((x, id))) => assert_eq!(m.suppress_finalizer(x), w.model.suppress(id)),
        (53 | 54, Some((x, id))) => {
            let (n, noted) = (w.deaths.len(), Arc::clone(&stage.noted));
            let notice = m.on_death(x, move || noted.lock().unwrap_or_else(PoisonError::into_inner).push(n));
            w.model.deaths.push(Known::new(id, burials));
            w.deaths.push((!w.random.one_in(3)).then_some(notice));
        }
        (55, _) if !w.deaths.is_empty() => {
            let n = w.random.below(w.deaths.len());
            let Some(notice) = w.deaths[n].take() else { return };
            stage.take_notices(w);
            let told = w.model.noted.contains(&n);
            assert_eq!(notice.cancel(), !told);
            if !told {
                w.model.cancelled.insert(n);
            }
        }
        _ => {}
    }
}

/// Asks all short and soft references to one object that are of one age: they answer the same.
fn ask_shorts<'m, P: Tag>(m: &'m Mutator<'_>, w: &mut World<P>, locals: &mut Vec<Local<'m, P>>) {
    let n = w.shorts.len() + w.softs.len();
    if n == 0 {
        return;
    }
    let i = w.random.below(n);
    let one = w.model.shorts.get(i).unwrap_or_else(|| &w.model.softs[i - w.shorts.len()].0);
    let (id, born) = (one.id, one.born);
    let unreachable = !w.model.reachable().contains(&id);
    let (mut answers, mut all) = (vec![], vec![]);
    for (weak, known) in w.shorts.iter().zip(&mut w.model.shorts) {
        if (known.id, known.born) == (id, born) {
            let got = weak.upgrade(m);
            known.answered(got.is_some());
            answers.push(got.is_some());
            all.push(got);
        }
    }
    let cycles = w.model.cycles;
    for (soft, (known, used)) in w.softs.iter().zip(&mut w.model.softs) {
        if (known.id, known.born) == (id, born) {
            let got = soft.get(m);
            known.answered(got.is_some());
            answers.push(got.is_some());
            all.push(got);
            if got.is_some() {
                *used = cycles;
            }
        }
    }
    assert!(answers.iter().all(|a| *a == answers[0]), "{id} of {born}: {answers:?}");
    let got = all.swap_remove(0);
    check(got, got.map(|_| id));
    w.model.met[CLEARED] += usize::from(got.is_none());
    w.model.met[UPGRADED_DEAD] += usize::from(got.is_some() && unreachable);
    locals.extend(got.map(|g| (g, id)));
}

/// The same for long references and ephemerons.
fn ask_longs<'m, P: Tag>(m: &'m Mutator<'_>, w: &mut World<P>, locals: &mut Vec<Local<'m, P>>) {
    let n = w.longs.len() + w.ephemerons.len();
    if n == 0 {
        return;
    }
    let i = w.random.below(n);
    let one = w.model.longs.get(i).unwrap_or_else(|| &w.model.ephemerons[i - w.longs.len()].0);
    let (id, born) = (one.id, one.born);
    let reachable = w.model.reachable();
    let (mut answers, mut got) = (vec![], None);
    for (weak, known) in w.longs.iter().zip(&mut w.model.longs) {
        if (known.id, known.born) == (id, born) {
            got = weak.upgrade(m);
            known.answered(got.is_some());
            answers.push(got.is_some());
        }
    }
    for (e, (known, value)) in w.ephemerons.iter().zip(&mut w.model.ephemerons) {
        if (known.id, known.born) == (id, born) {
            // In either order: each by itself sees to what it yields.
            let (k, v) = if i.is_multiple_of(2) {
                let v = e.value(m);
                (e.key(m), v)
            } else {
                (e.key(m), e.value(m))
            };
            assert_eq!(k.is_some(), v.is_some(), "key and value of an ephemeron go together");
            known.answered(k.is_some());
            answers.push(k.is_some());
            check(v, v.map(|_| *value));
            w.model.met[EPHEMERAL] += usize::from(v.is_some());
            locals.extend(v.map(|v| (v, *value)));
            got = k;
        }
    }
    assert!(answers.iter().all(|a| *a == answers[0]), "{id} of {born}: {answers:?}");
    check(got, got.map(|_| id));
    w.model.met[CLEARED] += usize::from(got.is_none());
    w.model.met[UPGRADED_DEAD] += usize::from(got.is_some() && !reachable.contains(&id));
    locals.extend(got.map(|g| (g, id)));
}

/// Asks every reference once.
pub(super) fn ask_all<P: Tag>(m: &Mutator<'_>, w: &mut World<P>) {
    let model = &mut w.model;
    for (weak, known) in w.shorts.iter().zip(&mut model.shorts) {
        let got = weak.upgrade(m);
        known.answered(got.is_some());
        check(got, got.map(|_| known.id));
    }
    for (weak, known) in w.longs.iter().zip(&mut model.longs) {
        let got = weak.upgrade(m);
        known.answered(got.is_some());
        check(got, got.map(|_| known.id));
    }
    for (soft, (known, _)) in w.softs.iter().zip(&mut model.softs) {
        // Not by `get`, which is a use.
        known.answered(!soft.is_cleared());
    }
    for (e, (known, value)) in w.ephemerons.iter().zip(&mut model.ephemerons) {
        let (k, v) = (e.key(m), e.value(m));
        known.answered(k.is_some());
        check(k, k.map(|_| known.id));
        check(v, k.map(|_| *value));
    }
}

/// Walks everything that globals and this thread's roots reach, and compares it with the model.
pub(super) fn compare<P: Tag>(m: &Mutator<'_>, w: &World<P>, roots: &Roots<P>) {
    let roots = roots.iter().map(|(r, id)| (r.get(m), *id));
    let globals = w.globals.iter().zip(&w.model.globals).map(|(g, id)| (g.get(m), *id));
    walk(m, w, roots.chain(globals).collect());
}

fn walk<'m, P: Tag>(m: &'m Mutator<'_>, w: &World<P>, mut stack: Vec<Local<'m, P>>) {
    let mut seen = HashSet::new();
    while let Some((node, id)) = stack.pop() {
        assert_eq!(node.tag.id(), id);
        if seen.insert(id) {
            for (slot, want) in node.slots.iter().zip(w.model.slots[&id]) {
                let got = slot.load(m);
                check(got, want);
                stack.extend(got.zip(want));
            }
        }
    }
}

/// A finalizer: its object is complete. It brings the object back, registers it again, allocates, lets cycles run, panics.
pub(super) fn finalizer<P: Tag>(stage: &Arc<Stage<P>>, this: Root<Node<P>>, m: &mut Mutator<'_>) {
    let mut panics = false;
    let id = {
        let mut w = stage.world();
        w.in_finalizer = true;
        let object = this.get(m);
        let id = object.tag.id();
        w.model.finalizes(id);
        w.model.finalizing.push(id);
        walk(m, &w, vec![(object, id)]);
        w.model.touched();
        id
    };
    for _ in 0..3 {
        let mut guard = stage.world();
        let w = &mut *guard;
        if w.ending {
            break;
        }
        let object = this.get(m);
        match w.random.below(10) {
            0 => {
                w.globals.push(Global::new(m, object));
                w.model.globals.push(id);
                w.model.met[REVIVED] += 1;
            }
            1 if !w.globals.is_empty() => {
                let (i, slot) = (w.random.below(w.globals.len()), w.random.below(2));
                w.globals[i].get(m).slots[slot].store(m, object);
                let holder = w.model.globals[i];
                w.model.slots.get_mut(&holder).expect("every object is known")[slot] = Some(id);
                w.model.met[REVIVED] += 1;
            }
            2 => assert_eq!(m.register_finalizer(object), w.model.register(id)),
            3 => {
                let tag = P::of(w.model.next_id);
                if let Ok(node) = m.alloc(NodeInit { tag, slots: [Some(object), None] }) {
                    let new = w.model.object([Some(id), None]);
                    object.slots[1].store(m, node);
                    w.model.slots.get_mut(&id).expect("every object is known")[1] = Some(new);
                }
            }
            4 => panics = true,
            5 | 6 => {
                drop(guard);
                let steps = stage.heap.at_pause(m, stage.steps(12));
                stage.stepped(&steps);
                check(Some(object), Some(id));
                continue;
            }
            7 | 8 => {
                drop(guard);
                let steps = stage.heap.at_safepoint(m, stage.steps(40));
                stage.stepped(&steps);
                check(Some(this.get(m)), Some(id));
                continue;
            }
            _ => walk(m, w, vec![(object, id)]),
        }
        w.model.touched();
    }
    let mut w = stage.world();
    w.model.finalizing.retain(|f| *f != id);
    w.in_finalizer = false;
    if panics && w.random.one_in(2) {
        drop(w);
        // Without the hook's message.
        std::panic::resume_unwind(Box::new("a finalizer panics"));
    }
}
