//! What mutators do with weak, soft and ephemeral references, registrations and notices of death.

use crate::operations::{local, map, nth};
use crate::oracle::{Id, Known};
use crate::program::{Kind, Op};
use crate::world::{Local, Stage, Tag, World, check};
use metronome_gc::{Ephemeron, Mutator, Soft, Weak, WeakLong};
use std::sync::{Arc, PoisonError};

pub(crate) fn operation<'m, P: Tag>(
    m: &'m Mutator<'_>,
    stage: &Stage<P>,
    w: &mut World<P>,
    op: Op,
    locals: &mut Vec<Local<'m, P>>,
) {
    let burials = w.model.burials;
    match op {
        Op::Weak { kind, x } => {
            if let Some(x) = local(locals, x) {
                new_weak(m, w, kind, x);
            }
        }
        Op::WeakAsk { kind: Kind::Long, w: n } => ask_longs(m, w, n, false, locals),
        Op::WeakAsk { w: n, kind } => ask_shorts(m, w, n, kind, locals),
        Op::WeakDrop { kind, w: n } => drop_weak(w, kind, n),
        Op::Ephemeron { key, value } => {
            let (Some((x, id)), Some((y, value))) = (local(locals, key), local(locals, value)) else {
                return;
            };
            w.ephemerons.push(Ephemeron::new(m, x, y));
            w.model.ephemerons.push((Known::new(id, burials), value));
        }
        Op::EphemeronAsk { e, value_first } => {
            if let Some(i) = nth(e, w.ephemerons.len()) {
                let n = w.longs.len() + i;
                ask_longs_at(m, w, n, value_first, locals);
            }
        }
        Op::EphemeronDrop { e } => {
            if let Some(i) = nth(e, w.ephemerons.len()) {
                w.ephemerons.swap_remove(i);
                w.model.ephemerons.swap_remove(i);
            }
        }
        Op::MapInsert { .. } | Op::MapGet { .. } | Op::MapRemove { .. } | Op::MapEach => {
            weak_map(m, w, op, locals);
        }
        Op::Register { x } => {
            let Some((x, id)) = local(locals, x) else { return };
            assert_eq!(m.register_finalizer(x), w.model.register(id), "registering {id}");
        }
        Op::Suppress { x } => {
            let Some((x, id)) = local(locals, x) else { return };
            assert_eq!(m.suppress_finalizer(x), w.model.suppress(id), "suppressing {id}");
        }
        Op::OnDeath { x, queue, handle } => {
            let Some((x, id)) = local(locals, x) else { return };
            let n = w.deaths.len();
            let notice = if queue {
                stage.queue.register(m, x, n)
            } else {
                let noted = Arc::clone(&stage.noted);
                m.on_death(x, move || noted.lock().unwrap_or_else(PoisonError::into_inner).push(n))
            };
            w.model.deaths.push(Known::new(id, burials));
            w.deaths.push(handle.then_some(notice));
        }
        Op::CancelDeath { n } => {
            let Some(n) = nth(n, w.deaths.len()) else { return };
            let Some(notice) = w.deaths[n].take() else { return };
            stage.take_notices(w);
            let told = w.model.noted.contains(&n);
            assert_eq!(notice.cancel(), !told, "cancelling {n}");
            if !told {
                w.model.cancelled.insert(n);
            }
        }
        _ => unreachable!("{op:?}"),
    }
}

fn new_weak<P: Tag>(m: &Mutator<'_>, w: &mut World<P>, kind: Kind, (x, id): Local<'_, P>) {
    let (markings, burials, cycles) = (w.model.markings, w.model.burials, w.model.cycles);
    match kind {
        Kind::Short => {
            w.shorts.push(Weak::new(m, x));
            w.model.shorts.push(Known::new(id, markings));
        }
        Kind::Long => {
            w.longs.push(WeakLong::new(m, x));
            w.model.longs.push(Known::new(id, burials));
        }
        Kind::Soft => {
            w.softs.push(Soft::new(m, x));
            w.model.softs.push((Known::new(id, markings), cycles));
        }
    }
}

fn drop_weak<P: Tag>(w: &mut World<P>, kind: Kind, n: u8) {
    match kind {
        Kind::Short => {
            if let Some(i) = nth(n, w.shorts.len()) {
                w.shorts.swap_remove(i);
                w.model.shorts.swap_remove(i);
            }
        }
        Kind::Long => {
            if let Some(i) = nth(n, w.longs.len()) {
                w.longs.swap_remove(i);
                w.model.longs.swap_remove(i);
            }
        }
        Kind::Soft => {
            if let Some(i) = nth(n, w.softs.len()) {
                w.softs.swap_remove(i);
                w.model.softs.swap_remove(i);
            }
        }
    }
}

/// Asks all short and soft references to one object that are of one age: they answer the same.
fn ask_shorts<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &mut World<P>,
    pick: u8,
    kind: Kind,
    locals: &mut Vec<Local<'m, P>>,
) {
    let one = match kind {
        Kind::Soft => nth(pick, w.softs.len()).map(|i| &w.model.softs[i].0),
        _ => nth(pick, w.shorts.len()).map(|i| &w.model.shorts[i]),
    };
    let Some((id, born)) = one.map(|k| (k.id, k.born)) else { return };
    let unreachable = !w.model.reachable().contains(&id);
    let (mut answers, mut all) = (vec![], vec![]);
    for (weak, known) in w.shorts.iter().zip(&mut w.model.shorts) {
        if (known.id, known.born) == (id, born) {
            // A clone shares its entry.
            let got = weak.clone().upgrade(m);
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
    check(w, got, got.map(|_| id));
    w.model.met.refused += usize::from(got.is_none());
    w.model.met.upgraded_unreachable += usize::from(got.is_some() && unreachable);
    locals.extend(got.map(|g| (g, id)));
}

fn ask_longs<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &mut World<P>,
    pick: u8,
    value_first: bool,
    locals: &mut Vec<Local<'m, P>>,
) {
    if let Some(i) = nth(pick, w.longs.len()) {
        ask_longs_at(m, w, i, value_first, locals);
    }
}

/// The same for long references and ephemerons, of which `n` is one.
fn ask_longs_at<'m, P: Tag>(
    m: &'m Mutator<'_>,
    w: &mut World<P>,
    n: usize,
    value_first: bool,
    locals: &mut Vec<Local<'m, P>>,
) {
    let one = w.model.longs.get(n).unwrap_or_else(|| &w.model.ephemerons[n - w.longs.len()].0);
    let (id, born) = (one.id, one.born);
    let reachable = w.model.reachable();
    let (mut answers, mut got, mut values) = (vec![], None, vec![]);
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
            let (k, v) = if value_first {
                let v = e.value(m);
                (e.key(m), v)
            } else {
                (e.key(m), e.value(m))
            };
            assert_eq!(k.is_some(), v.is_some(), "key and value of an ephemeron go together");
            known.answered(k.is_some());
            answers.push(k.is_some());
            values.extend(v.map(|v| (v, *value)));
            got = k;
        }
    }
    for &(v, value) in &values {
        check(w, Some(v), Some(value));
    }
    w.model.met.ephemeral += values.len();
    locals.extend(values);
    assert!(answers.iter().all(|a| *a == answers[0]), "{id} of {born}: {answers:?}");
    check(w, got, got.map(|_| id));
    w.model.met.refused += usize::from(got.is_none());
    w.model.met.upgraded_unreachable += usize::from(got.is_some() && !reachable.contains(&id));
    locals.extend(got.map(|g| (g, id)));
}

/// The map from objects by identity. A key in the hand is alive, so its entry must be there.
fn weak_map<'m, P: Tag>(m: &'m Mutator<'_>, w: &mut World<P>, op: Op, locals: &mut Vec<Local<'m, P>>) {
    let (real, burials) = (map(w), w.model.burials);
    match op {
        Op::MapInsert { key, value } => {
            let (Some((x, id)), Some((y, value))) = (local(locals, key), local(locals, value)) else {
                return;
            };
            let old = w.model.map.insert(id, (Known::new(id, burials), value)).map(|e| e.1);
            check(w, real.insert(m, x, y), old);
        }
        Op::MapGet { key } => {
            let Some((x, id)) = local(locals, key) else { return };
            let (got, want) = (real.get(m, x), w.model.map.get(&id).map(|e| e.1));
            check(w, got, want);
            locals.extend(got.zip(want));
        }
        Op::MapRemove { key } => {
            let Some((x, id)) = local(locals, key) else { return };
            let (got, want) = (real.remove(m, x), w.model.map.remove(&id).map(|e| e.1));
            check(w, got, want);
            locals.extend(got.zip(want));
        }
        _ => {
            let mut found: Vec<(Local<'m, P>, Local<'m, P>)> = vec![];
            real.for_each(m, |k, v| found.push(((k, k.tag.id()), (v, v.tag.id()))));
            // The map's own order is random; a program is to do the same each time.
            found.sort_unstable_by_key(|f| f.0.1);
            for ((k, id), (v, value)) in &found {
                let (known, want) = &w.model.map[id];
                assert!(!known.must, "the map gives a dead key: {known:?}");
                assert_eq!(value, want, "the value of {id}");
                check(w, Some(*k), Some(*id));
                check(w, Some(*v), Some(*value));
            }
            let ids: Vec<Id> = found.iter().map(|f| f.0.1).collect();
            for (known, _) in w.model.map.values_mut() {
                known.answered(ids.contains(&known.id));
            }
            locals.extend(found.into_iter().flat_map(|(k, v)| [k, v]));
        }
    }
}

/// Asks every reference once.
pub(crate) fn ask_all<P: Tag>(m: &Mutator<'_>, w: &mut World<P>) {
    let mut got = vec![];
    let model = &mut w.model;
    for (weak, known) in w.shorts.iter().zip(&mut model.shorts) {
        let g = weak.upgrade(m);
        known.answered(g.is_some());
        got.extend(g.map(|g| (g, known.id)));
    }
    for (weak, known) in w.longs.iter().zip(&mut model.longs) {
        let g = weak.upgrade(m);
        known.answered(g.is_some());
        got.extend(g.map(|g| (g, known.id)));
    }
    for (soft, (known, _)) in w.softs.iter().zip(&mut model.softs) {
        // Not by `get`, which is a use.
        known.answered(!soft.is_cleared());
    }
    for (e, (known, value)) in w.ephemerons.iter().zip(&mut model.ephemerons) {
        let (k, v) = (e.key(m), e.value(m));
        known.answered(k.is_some());
        assert_eq!(k.is_some(), v.is_some(), "key and value of an ephemeron go together");
        got.extend(k.map(|k| (k, known.id)));
        got.extend(v.map(|v| (v, *value)));
    }
    got.into_iter().for_each(|(g, id)| check(w, Some(g), Some(id)));
}
