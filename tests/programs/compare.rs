//! Walks of what is reached, against the oracle.

use crate::arrays::{check_slots, check_values};
use crate::oracle::Object;
use crate::world::{Local, Roots, Tag, World, check};
use metronome_gc::Mutator;
use std::collections::HashSet;

/// Walks everything that globals and this thread's roots reach.
pub(crate) fn compare<P: Tag>(m: &Mutator<'_>, w: &World<P>, roots: &Roots<P>) {
    let roots = roots.iter().map(|(r, id)| (r.get(m), *id));
    let globals = w.globals.iter().zip(&w.model.globals).map(|(g, id)| (g.get(m), *id));
    walk(m, w, roots.chain(globals).collect());
}

pub(crate) fn walk<'m, P: Tag>(m: &'m Mutator<'_>, w: &World<P>, mut stack: Vec<Local<'m, P>>) {
    let (mut seen, mut arrays) = (HashSet::new(), HashSet::new());
    while let Some((node, id)) = stack.pop() {
        check(w, Some(node), Some(id));
        if !seen.insert(id) {
            continue;
        }
        let Object::Node { slots, array, values } = &w.model.objects[&id] else { panic!("{id} is no node") };
        for (slot, want) in node.slots.iter().zip(*slots) {
            let got = slot.load(m);
            check(w, got, want);
            stack.extend(got.zip(want));
        }
        check_values(w, node.values.load(m), *values);
        let got = node.array.load(m);
        assert_eq!(got.is_some(), array.is_some(), "the array of {id}");
        if let Some((got, array)) = got.zip(*array)
            && arrays.insert(array)
        {
            check_slots(m, w, (got, array), &mut stack);
        }
    }
}
