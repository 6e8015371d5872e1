//! Programs as data. Every operation means something in every state (one that does not apply does nothing), so that any
//! part of a program is a program.
//!
//! Operands are *picks*: numbers that are reduced to what there is when the operation comes. A value that may be null is
//! null for 0, else the local of the pick before.

use std::fmt;

/// What a collector does in one stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantum {
    /// So many steps.
    Steps(u8),
    /// Steps to this phase (in the order of the cycle), and so many more.
    To(u8, u8),
}

/// Length of an array: the elements of one cell, or of leaves, or of leaves behind index leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Short(u8),
    Leaves(u8),
    Index,
}

impl Length {
    pub(crate) fn get(self) -> usize {
        match self {
            Length::Short(n) => usize::from(n),
            Length::Leaves(n) => 500 + 40 * usize::from(n),
            // A spine has room for some thousand pointers; each is a leaf of 512 slots.
            Length::Index => 540_000,
        }
    }
}

/// Which kind of weak reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Short,
    Long,
    Soft,
}

/// What a mutator does when it is its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A node whose slots are `a` and `b`.
    Alloc {
        a: u8,
        b: u8,
    },
    Load {
        x: u8,
        slot: u8,
    },
    Store {
        x: u8,
        slot: u8,
        y: u8,
    },
    Swap {
        x: u8,
        slot: u8,
        y: u8,
        keep: bool,
    },
    /// `hit`: expects what is there.
    Exchange {
        x: u8,
        slot: u8,
        hit: bool,
        y: u8,
    },
    Forget {
        x: u8,
    },
    Root {
        x: u8,
    },
    RootGet {
        r: u8,
    },
    RootDuplicate {
        r: u8,
    },
    RootDrop {
        r: u8,
    },
    Global {
        x: u8,
    },
    GlobalGet {
        g: u8,
    },
    GlobalClone {
        g: u8,
    },
    GlobalDrop {
        g: u8,
    },
    Weak {
        kind: Kind,
        x: u8,
    },
    WeakAsk {
        kind: Kind,
        w: u8,
    },
    WeakDrop {
        kind: Kind,
        w: u8,
    },
    Ephemeron {
        key: u8,
        value: u8,
    },
    EphemeronAsk {
        e: u8,
        value_first: bool,
    },
    EphemeronDrop {
        e: u8,
    },
    MapInsert {
        key: u8,
        value: u8,
    },
    MapGet {
        key: u8,
    },
    MapRemove {
        key: u8,
    },
    MapEach,
    /// By callback, or by a message to a queue; with a handle that may cancel it, or without.
    OnDeath {
        x: u8,
        queue: bool,
        handle: bool,
    },
    CancelDeath {
        n: u8,
    },
    Register {
        x: u8,
    },
    Suppress {
        x: u8,
    },
    Array {
        x: u8,
        length: Length,
    },
    ArrayLoad {
        x: u8,
        i: u16,
    },
    ArrayStore {
        x: u8,
        i: u16,
        y: u8,
    },
    ArrayFill {
        x: u8,
        from: u16,
        n: u16,
        y: u8,
    },
    /// From the array of `source` to that of `x`.
    ArrayCopy {
        x: u8,
        to: u16,
        source: u8,
        from: u16,
        n: u16,
    },
    /// The array of `x` becomes that of `y` too.
    ArrayShare {
        x: u8,
        y: u8,
    },
    /// An array of values, with a quantum while it is being built.
    Values {
        x: u8,
        length: Length,
        quantum: Quantum,
    },
    ValuesCheck {
        x: u8,
    },
    /// The next-but-so-many refill fails.
    FailRefill {
        n: u8,
    },
    /// Cycles that an unused soft reference is kept.
    SoftAge {
        n: u8,
    },
    /// Walks everything that this mutator can reach by handles.
    Compare,
    /// A quantum at a pause point of this mutator; all others are at pause points, native or outside.
    Pause(Quantum),
    /// The same at a safepoint.
    Safepoint(Quantum),
    /// Is native until its next turn.
    Native,
    /// Reserves room for objects and makes them, with a quantum in between.
    Reserve {
        n: u8,
        quantum: Quantum,
    },
    /// Leaves the heap until its next operation in it; a quantum meanwhile.
    Leave(Quantum),
    /// Outside the heap: runs finalizers and callbacks.
    Finalize,
    /// Outside the heap: runs drop glue.
    Reap,
}

impl Op {
    /// Whether the mutator has to be outside the heap.
    pub(crate) fn is_outside(self) -> bool {
        matches!(self, Op::Leave(_) | Op::Finalize | Op::Reap)
    }
}

/// What a finalizer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Makes a global of its object.
    Revive,
    /// Stores its object in that of a global.
    Hang {
        g: u8,
        slot: u8,
    },
    Register,
    /// Allocates an object that refers to its own, and the other way round.
    Alloc,
    Pause(Quantum),
    Safepoint(Quantum),
    Panic,
}

/// One to four mutators in lock-step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) mutators: u8,
    /// Objects have drop glue.
    pub(crate) glue: bool,
    /// Room for arrays behind index leaves.
    pub(crate) large: bool,
    /// What one finalizer after the other does, again from the beginning after the last.
    pub(crate) acts: Vec<Vec<Act>>,
    /// Which mutator does what.
    pub(crate) steps: Vec<(u8, Op)>,
}

/// A literal of the program, to be pasted into `regressions.rs`.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { mutators, glue, large, acts, steps } = self;
        writeln!(f, "Program {{\n    mutators: {mutators},\n    glue: {glue},\n    large: {large},")?;
        let acts: Vec<String> = acts.iter().map(|a| format!("vec!{a:?}")).collect();
        writeln!(f, "    acts: vec![{}],\n    steps: vec![", acts.join(", "))?;
        steps.iter().try_for_each(|(by, op)| writeln!(f, "        ({by}, {op:?}),"))?;
        write!(f, "    ],\n}}")
    }
}
