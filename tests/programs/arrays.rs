//! What mutators do with arrays.

use crate::operations::{local, value};
use crate::oracle::{Id, Object};
use crate::program::{Length, Op, Quantum};
use crate::world::{Local, Node, Stage, Tag, World, check};
use metronome_gc::{Gc, GcArray, Mutator, Slot};
use std::collections::BTreeMap;

type Slots<'m, P> = Gc<'m, GcArray<Slot<Node<P>>>>;

/// The array of slots of a local, its id and its length.
fn array<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &mut World<P>,
    locals: &[Local<'m, P>],
    pick: u8,
) -> Option<(Slots<'m, P>, Id, usize)> {
    let (x, id) = local(locals, pick)?;
    let (got, want) = (x.array.load(m), *w.model.arrays(id).0);
    assert_eq!(got.map(Gc::address), want.map(|a| w.model.addresses[&a]), "the array of {id}");
    let (array, id) = got.zip(want)?;
    let (len, _) = entries(w, id);
    assert_eq!(array.len(), len);
    (len > 0).then_some((array, id, len))
}

fn entries<P: Tag>(w: &mut World<P>, id: Id) -> (usize, &mut BTreeMap<usize, Id>) {
    match w.model.objects.get_mut(&id) {
        Some(Object::Slots { len, entries }) => (*len, entries),
        other => panic!("{id} is no array of slots: {other:?}"),
    }
}

fn set(entries: &mut BTreeMap<usize, Id>, i: usize, value: Option<Id>) {
    match value {
        Some(id) => entries.insert(i, id),
        None => entries.remove(&i),
    };
}

/// An index that spreads over long arrays too.
fn index(pick: u16, len: usize) -> usize {
    if len > 100_000 { usize::from(pick) * 263 % len } else { usize::from(pick) % len }
}

pub(crate) fn operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &mut World<P>,
    op: Op,
    locals: &mut Vec<Local<'m, P>>,
) {
    match op {
        Op::Array { x, length } => {
            let Some((x, id)) = local(locals, x) else { return };
            let len = length.get();
            let Ok(array) = m.alloc_slots::<Node<P>>(len) else {
                w.model.met.failed_allocations += 1;
                return;
            };
            x.array.store(m, array);
            let new = w.model.object(Object::Slots { len, entries: BTreeMap::new() }, Gc::address(array));
            *w.model.arrays(id).0 = Some(new);
            w.model.met.index_leaves += usize::from(length == Length::Index);
        }
        Op::ArrayLoad { x, i } => {
            let Some((array, id, len)) = array(m, w, locals, x) else { return };
            let i = index(i, len);
            let (got, want) = (array.load(m, i), entries(w, id).1.get(&i).copied());
            check(w, got, want);
            locals.extend(got.zip(want));
        }
        Op::ArrayStore { x, i, y } => {
            let Some((array, id, len)) = array(m, w, locals, x) else { return };
            let ((new, new_id), i) = (value(locals, y), index(i, len));
            array.store(m, i, new);
            set(entries(w, id).1, i, new_id);
        }
        Op::ArrayFill { x, from, n, y } => {
            let Some((array, id, len)) = array(m, w, locals, x) else { return };
            let ((new, new_id), from) = (value(locals, y), index(from, len));
            let to = len.min(from + usize::from(n));
            array.fill(m, from..to, new);
            (from..to).for_each(|i| set(entries(w, id).1, i, new_id));
            w.model.met.bulk += 1;
        }
        Op::ArrayCopy { x, to, source, from, n } => {
            let Some((array_to, id, len)) = array(m, w, locals, x) else { return };
            let Some((array_from, from_id, from_len)) = array(m, w, locals, source) else { return };
            let (to, from) = (index(to, len), index(from, from_len));
            let n = usize::from(n).min(len - to).min(from_len - from);
            array_to.copy_from(m, to, array_from, from, n);
            // Slots are copied one by one, in an order that copies a range over itself right.
            let copied: Vec<_> = (0..n).map(|i| entries(w, from_id).1.get(&(from + i)).copied()).collect();
            copied.into_iter().enumerate().for_each(|(i, new)| set(entries(w, id).1, to + i, new));
            w.model.met.bulk += 1;
        }
        Op::ArrayShare { x, y } => {
            let (Some((x, id)), Some((y, y_id))) = (local(locals, x), local(locals, y)) else { return };
            let shared = *w.model.arrays(id).0;
            y.array.store(m, x.array.load(m));
            *w.model.arrays(y_id).0 = shared;
        }
        Op::ValuesCheck { x } => {
            let Some((x, id)) = local(locals, x) else { return };
            let want = *w.model.arrays(id).1;
            check_values(w, x.values.load(m), want);
        }
        _ => unreachable!("{op:?}"),
    }
}

/// All values of an array, those of a very long one here and there.
pub(crate) fn check_values<P: Tag>(w: &World<P>, got: Option<Gc<'_, GcArray<u64>>>, want: Option<Id>) {
    assert_eq!(got.map(Gc::address), want.map(|a| w.model.addresses[&a]), "an array of values");
    let Some((array, id)) = got.zip(want) else { return };
    let Object::Values { len, first } = w.model.objects[&id] else { panic!("{id} is no array of values") };
    assert_eq!(array.len(), len);
    let step = if len > 100_000 { 499 } else { 1 };
    let wrong = (0..len).step_by(step).find(|&i| *array.at(i) != first + i as u64);
    assert_eq!(wrong, None, "a value of array {id}");
}

/// All slots of an array, those of a very long one that should not be null and some others.
pub(crate) fn check_slots<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &World<P>,
    (array, id): (Slots<'m, P>, Id),
    found: &mut Vec<Local<'m, P>>,
) {
    let Object::Slots { len, entries } = &w.model.objects[&id] else { panic!("{id} is no array of slots") };
    assert_eq!((array.len(), Gc::address(array)), (*len, w.model.addresses[&id]));
    for (&i, &want) in entries {
        let got = array.load(m, i);
        check(w, got, Some(want));
        found.extend(got.map(|g| (g, want)));
    }
    let step = if *len > 100_000 { 499 } else { 1 };
    let wrong = (0..*len).step_by(step).find(|i| array.at(*i).is_null() == entries.contains_key(i));
    assert_eq!(wrong, None, "a slot of array {id}");
}

/// An array of values with a quantum half-way: the references of its builder stay good.
pub(crate) fn new_values<'m, P: Tag>(
    m: &'m Mutator<'_>,
    stage: &Stage<P>,
    locals: &[Local<'m, P>],
    x: u8,
    length: Length,
    quantum: Quantum,
) {
    let Some((x, id)) = local(locals, x) else { return };
    let (len, first) = (length.get(), id << 32);
    let mut quantum = Some(stage.quantum(quantum));
    let built = m.alloc_array(len, |i| {
        if i == len / 2
            && let Some(quantum) = quantum.take()
        {
            stage.heap.at_pause(m, quantum);
        }
        first + i as u64
    });
    let mut w = stage.world();
    let Ok(array) = built else {
        w.model.met.failed_allocations += 1;
        return;
    };
    x.values.store(m, array);
    let new = w.model.object(Object::Values { len, first }, Gc::address(array));
    *w.model.arrays(id).1 = Some(new);
    w.model.met.index_leaves += usize::from(length == Length::Index);
}
