//! What finalizers of a program do.

use crate::compare::walk;
use crate::oracle::Object;
use crate::program::Act;
use crate::world::{Node, NodeInit, Stage, Tag, check};
use metronome_gc::{Global, Mutator, Root};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A finalizer: its object is complete. Failed assertions are noted, since every panic is caught that leaves it.
pub(crate) fn finalizer<P: Tag>(stage: &Stage<P>, this: &Root<Node<P>>, m: &mut Mutator<'_>) {
    match catch_unwind(AssertUnwindSafe(|| act(stage, this, m))) {
        Ok(false) => {}
        // Without the hook's message.
        Ok(true) => resume_unwind(Box::new("a finalizer panics")),
        Err(value) => stage.world().in_finalizer = Some(crate::run::text(&*value)),
    }
}

/// Finalizers after so many do nothing: one that registers its object again and runs a cycle would go on for ever.
const ACT_MOST: usize = 200;

/// Whether it is to panic.
fn act<P: Tag>(stage: &Stage<P>, this: &Root<Node<P>>, m: &mut Mutator<'_>) -> bool {
    let (id, acts) = {
        let mut w = stage.world();
        let object = this.get(m);
        let id = object.tag.id();
        w.model.finalizes(id);
        w.model.finalizing.push(id);
        walk(m, &w, vec![(object, id)]);
        w.model.touched();
        let n = w.finalizers;
        w.finalizers += 1;
        let all = &stage.program.acts;
        let none = all.is_empty() || w.ending || n >= ACT_MOST;
        (id, if none { vec![] } else { all[n % all.len()].clone() })
    };
    let mut panics = false;
    for act in acts {
        if let Act::Safepoint(q) = act {
            stage.heap.at_safepoint(m, stage.quantum(q));
            check(&stage.world(), Some(this.get(m)), Some(id));
            continue;
        }
        let object = this.get(m);
        if let Act::Pause(q) = act {
            stage.heap.at_pause(m, stage.quantum(q));
            check(&stage.world(), Some(object), Some(id));
            continue;
        }
        let mut guard = stage.world();
        let w = &mut *guard;
        match act {
            Act::Revive => {
                w.globals.push(Global::new(m, object));
                w.model.globals.push(id);
                w.model.met.revived += 1;
            }
            Act::Hang { g, slot } if !w.globals.is_empty() => {
                let i = usize::from(g) % w.globals.len();
                let slot = usize::from(slot) % 2;
                w.globals[i].get(m).slots[slot].store(m, object);
                let holder = w.model.globals[i];
                w.model.slots(holder)[slot] = Some(id);
                w.model.met.revived += 1;
            }
            Act::Register => assert_eq!(m.register_finalizer(object), w.model.register(id)),
            Act::Alloc => {
                let tag = P::of(w.model.next_id);
                let init = NodeInit { tag, slots: [Some(object), None], array: None, values: None };
                if let Ok(node) = m.alloc(init) {
                    let new = crate::operations::new_node(w, node, [Some(id), None]);
                    object.slots[1].store(m, node);
                    w.model.slots(id)[1] = Some(new);
                }
            }
            Act::Panic => panics = true,
            _ => {}
        }
        w.model.touched();
    }
    let mut w = stage.world();
    w.model.finalizing.retain(|f| *f != id);
    debug_assert!(matches!(w.model.objects[&id], Object::Node { .. }));
    panics
}
