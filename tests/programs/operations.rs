//! What mutators do: objects, slots, arrays, strong handles.

use crate::compare::compare;
use crate::oracle::{Id, Object};
use crate::program::Op;
use crate::world::{Local, Node, NodeInit, Roots, Stage, Tag, World, check};
use crate::{arrays, references};
use metronome_gc::testing::Phase;
use metronome_gc::{Gc, Global, Mutator, Root};
use std::sync::Arc;

/// Which of `n` a pick means.
pub(crate) fn nth(pick: u8, n: usize) -> Option<usize> {
    (n > 0).then(|| usize::from(pick) % n)
}

pub(crate) fn local<'m, P: Tag>(locals: &[Local<'m, P>], pick: u8) -> Option<Local<'m, P>> {
    nth(pick, locals.len()).map(|i| locals[i])
}

/// The same with null.
pub(crate) fn value<'m, P: Tag>(locals: &[Local<'m, P>], pick: u8) -> (Option<Gc<'m, Node<P>>>, Option<Id>) {
    let local = pick.checked_sub(1).and_then(|p| local(locals, p));
    (local.map(|l| l.0), local.map(|l| l.1))
}

pub(crate) fn new_node<P: Tag>(w: &mut World<P>, node: Gc<'_, Node<P>>, slots: [Option<Id>; 2]) -> Id {
    w.model.object(Object::Node { slots, array: None, values: None }, Gc::address(node))
}

pub(crate) fn operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    stage: &Stage<P>,
    op: Op,
    roots: &mut Roots<P>,
    locals: &mut Vec<Local<'m, P>>,
) {
    let mut guard = stage.world();
    let w = &mut *guard;
    match op {
        Op::Values { x, length, quantum } => {
            drop(guard);
            arrays::new_values(m, stage, locals, x, length, quantum);
        }
        Op::FailRefill { n } => stage.heap.fail_refill(u32::from(n)),
        Op::SoftAge { n } => {
            // Between cycles, as the driver sets it.
            if stage.heap.phase() == Phase::Idle {
                w.model.soft_age = [0, 1, 2, u64::MAX][usize::from(n) % 4];
                stage.heap.soft_age(w.model.soft_age);
            }
        }
        Op::Compare => compare(m, w, roots),
        Op::Alloc { .. }
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::Swap { .. }
        | Op::Exchange { .. }
        | Op::Forget { .. } => slots(m, w, op, locals),
        Op::Root { .. } | Op::RootGet { .. } | Op::RootDuplicate { .. } | Op::RootDrop { .. } => {
            own_handles(m, w, op, roots, locals);
        }
        Op::Global { .. } | Op::GlobalGet { .. } | Op::GlobalClone { .. } | Op::GlobalDrop { .. } => {
            globals(m, w, op, locals);
        }
        Op::Array { .. }
        | Op::ArrayLoad { .. }
        | Op::ArrayStore { .. }
        | Op::ArrayFill { .. }
        | Op::ArrayCopy { .. }
        | Op::ArrayShare { .. }
        | Op::ValuesCheck { .. } => arrays::operation(m, w, op, locals),
        _ => references::operation(m, stage, w, op, locals),
    }
}

fn slots<'m, P: Tag>(m: &'m Mutator<'_>, w: &mut World<P>, op: Op, locals: &mut Vec<Local<'m, P>>) {
    match op {
        Op::Alloc { a, b } => {
            let ((a, a_id), (b, b_id)) = (value(locals, a), value(locals, b));
            let tag = P::of(w.model.next_id);
            match m.alloc(NodeInit { tag, slots: [a, b], array: None, values: None }) {
                Ok(node) => locals.push((node, new_node(w, node, [a_id, b_id]))),
                Err(_) => w.model.met.failed_allocations += 1,
            }
        }
        Op::Load { x, slot } => {
            let Some((x, id)) = local(locals, x) else { return };
            let slot = usize::from(slot) % 2;
            let (got, want) = (x.slots[slot].load(m), w.model.slots(id)[slot]);
            check(w, got, want);
            locals.extend(got.zip(want));
        }
        Op::Store { x, slot, y } => {
            let Some((x, id)) = local(locals, x) else { return };
            let (new, new_id) = value(locals, y);
            let slot = usize::from(slot) % 2;
            x.slots[slot].store(m, new);
            w.model.slots(id)[slot] = new_id;
        }
        Op::Swap { x, slot, y, keep } => {
            let Some((x, id)) = local(locals, x) else { return };
            let (new, new_id) = value(locals, y);
            let slot = usize::from(slot) % 2;
            let got = x.slots[slot].swap(m, new);
            let want = std::mem::replace(&mut w.model.slots(id)[slot], new_id);
            check(w, got, want);
            if keep {
                locals.extend(got.zip(want));
            }
        }
        Op::Exchange { x, slot, hit, y } => {
            let Some((x, id)) = local(locals, x) else { return };
            let (new, new_id) = value(locals, y);
            let slot = usize::from(slot) % 2;
            let now = w.model.slots(id)[slot];
            let current = if hit { x.slots[slot].load(m) } else { new };
            let succeeds = current.map(|c| c.tag.id()) == now;
            let got = x.slots[slot].compare_exchange(m, current, new);
            assert_eq!(got.is_ok(), succeeds, "an exchange");
            let got = got.unwrap_or_else(|found| found);
            check(w, got, now);
            locals.extend(got.zip(now));
            if succeeds {
                w.model.slots(id)[slot] = new_id;
                w.model.met.exchanged += 1;
            }
        }
        Op::Forget { x } => {
            if let Some(i) = nth(x, locals.len()) {
                locals.swap_remove(i);
            }
        }
        _ => unreachable!("{op:?}"),
    }
}

fn own_handles<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &World<P>,
    op: Op,
    roots: &mut Roots<P>,
    locals: &mut Vec<Local<'m, P>>,
) {
    match op {
        Op::Root { x } => roots.extend(local(locals, x).map(|(x, id)| (Root::new(m, x), id))),
        Op::RootGet { r } => {
            let Some(i) = nth(r, roots.len()) else { return };
            let (got, id) = (roots[i].0.get(m), roots[i].1);
            check(w, Some(got), Some(id));
            locals.push((got, id));
        }
        Op::RootDuplicate { r } => {
            let Some(i) = nth(r, roots.len()) else { return };
            roots.push((roots[i].0.duplicate(m), roots[i].1));
        }
        Op::RootDrop { r } => {
            if let Some(i) = nth(r, roots.len()) {
                roots.swap_remove(i);
            }
        }
        _ => unreachable!("{op:?}"),
    }
}

fn globals<'m, P: Tag>(m: &'m Mutator<'_>, w: &mut World<P>, op: Op, locals: &mut Vec<Local<'m, P>>) {
    let n = w.globals.len();
    match op {
        Op::Global { x } => {
            let Some((x, id)) = local(locals, x) else { return };
            w.globals.push(Global::new(m, x));
            w.model.globals.push(id);
        }
        Op::GlobalGet { g } => {
            let Some(i) = nth(g, n) else { return };
            let (got, id) = (w.globals[i].get(m), w.model.globals[i]);
            check(w, Some(got), Some(id));
            locals.push((got, id));
        }
        Op::GlobalClone { g } => {
            let Some(i) = nth(g, n) else { return };
            w.globals.push(w.globals[i].clone());
            w.model.globals.push(w.model.globals[i]);
        }
        Op::GlobalDrop { g } => {
            let Some(i) = nth(g, n) else { return };
            w.globals.swap_remove(i);
            w.model.globals.swap_remove(i);
        }
        _ => unreachable!("{op:?}"),
    }
}

/// The shared map, so that it is used with the world open for changes.
pub(crate) fn map<P: Tag>(w: &World<P>) -> Arc<metronome_gc::WeakMap<Node<P>, Node<P>>> {
    Arc::clone(&w.map)
}
