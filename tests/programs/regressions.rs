//! Programs that failed once, as small as they could be made.

use crate::program::{Kind, Length, Op, Program, Quantum};
use crate::run::run;
use metronome_gc::testing::Fault;

/// What is brought back by a long reference while marks stand still, and registered then: the shortest way to the faults
/// of stamps, of renewal and of deferred shading.
fn late(again: Op) -> Program {
    Program {
        mutators: 1,
        glue: false,
        large: false,
        acts: vec![],
        steps: vec![
            (0, Op::Alloc { a: 0, b: 0 }),
            (0, Op::Weak { kind: Kind::Long, x: 0 }),
            (0, Op::Safepoint(Quantum::To(3, 0))),
            (0, Op::WeakAsk { kind: Kind::Long, w: 0 }),
            (0, again),
            (0, Op::Global { x: 0 }),
            (0, Op::WeakAsk { kind: Kind::Short, w: 0 }),
        ],
    }
}

#[test]
fn new_references_to_what_was_brought_back() {
    let program = late(Op::Weak { kind: Kind::Short, x: 0 });
    assert_eq!(run(&program, None).err(), None);
    assert!(run(&program, Some(Fault::NoStamps)).is_err());
    assert!(run(&program, Some(Fault::NoDeferredShading)).is_err());
}

/// A leaf of an array in the cell of an object that had been freed without the oracle's knowing when.
#[test]
fn a_cell_is_used_again_by_a_leaf() {
    let program = Program {
        mutators: 2,
        glue: false,
        large: false,
        acts: vec![],
        steps: vec![
            (1, Op::Alloc { a: 0, b: 0 }),
            (1, Op::Finalize),
            (0, Op::Alloc { a: 0, b: 0 }),
            (1, Op::Safepoint(Quantum::Steps(2))),
            (1, Op::Alloc { a: 0, b: 0 }),
            (0, Op::Finalize),
            (1, Op::Pause(Quantum::Steps(7))),
            (1, Op::Array { x: 8, length: Length::Leaves(1) }),
            (1, Op::Register { x: 0 }),
        ],
    };
    assert_eq!(run(&program, None).err(), None);
}

/// What was noted of a mutator that has the object in its hands in one cycle said so in the next one, too: the finalizer
/// ran a cycle too late.
#[test]
fn a_renewal_counts_for_one_cycle() {
    let renew = |register: Op| [(0, register), (0, Op::Suppress { x: 0 }), (0, Op::Register { x: 0 })];
    // Of an entry that was made in the same phase.
    let mut program = late(Op::Register { x: 0 });
    program.steps.truncate(4);
    program.steps.extend(renew(Op::Register { x: 0 }));
    assert_eq!(run(&program, None).err(), None);
    // Of one that is held already, before it is marked.
    let mut program = late(Op::Register { x: 0 });
    program.steps.truncate(4);
    program.steps.splice(2..2, [(0, Op::Register { x: 0 }), (0, Op::Suppress { x: 0 })]);
    program.steps.push((0, Op::Register { x: 0 }));
    program.steps.extend(renew(Op::Pause(Quantum::To(4, 0))));
    assert_eq!(run(&program, None).err(), None);
}

#[test]
fn a_registration_renewed_after_marking() {
    let mut program = late(Op::Register { x: 0 });
    program.steps.splice(2..2, [(0, Op::Register { x: 0 }), (0, Op::Suppress { x: 0 })]);
    program.steps.extend([(0, Op::Safepoint(Quantum::To(0, 0))), (0, Op::Finalize)]);
    assert_eq!(run(&program, None).err(), None);
    assert!(run(&program, Some(Fault::NoRenewal)).is_err());
}
