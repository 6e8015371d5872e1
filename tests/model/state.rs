//! States of the model.

use metronome_barrier::Phase;

pub(crate) const OBJECTS: usize = 4;
pub(crate) const SLOTS: usize = 2;
pub(crate) const MUTATORS: usize = 3;
pub(crate) const ENTRIES: usize = 2;

/// A reference: 0 is null, else one more than the object's number.
pub(crate) type Ref = u8;
/// A set of objects, one bit each.
pub(crate) type Set = u8;

pub(crate) const fn bit(object: usize) -> Set {
    1 << object
}

/// The set that holds the object of `r`, empty for null.
pub(crate) const fn set_of(r: Ref) -> Set {
    if r == 0 { 0 } else { 1 << (r - 1) }
}

/// The objects in a set.
pub(crate) fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..OBJECTS).filter(move |&o| set & bit(o) != 0)
}

/// State of a cell. Marked are `Grey`, `Half` and `Black`.
///
/// A deferred one has its grey bit only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Colour {
    #[default]
    Free,
    White,
    /// Unmarked, to be marked and scanned as soon as marks may change.
    Deferred,
    /// Marked, to be scanned: in the queue, in a log, or with a grey bit.
    Grey,
    /// The first of two slots was scanned.
    Half,
    Black,
}

impl Colour {
    pub(crate) fn is_marked(self) -> bool {
        self >= Colour::Grey
    }

    /// Whether the collector has yet to scan it.
    pub(crate) fn is_pending(self) -> bool {
        matches!(self, Colour::Deferred | Colour::Grey | Colour::Half)
    }

    pub(crate) fn from_u8(v: u8) -> Colour {
        use Colour::*;
        [Free, White, Deferred, Grey, Half, Black][usize::from(v)]
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) colour: Colour,
    pub(crate) slots: [Ref; SLOTS],
}

/// Where a mutator is. A paused one is `Running` here: it may do anything as soon as the collector lets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Place {
    #[default]
    Running,
    /// Outside the heap, with its handles.
    Native,
    /// Not born, or ended.
    Absent,
}

/// An entry of a handle table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) reference: Ref,
    /// Handles that share the entry.
    pub(crate) owners: u8,
    /// The collector has looked at it in this cycle.
    pub(crate) taken: bool,
}

/// A weak reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Weak {
    pub(crate) reference: Ref,
    /// It was made after marking ended in this cycle.
    pub(crate) new: bool,
    /// Ghost, in Weak: the object was within reach when marking ended, or the reference was made, and ever since. Not
    /// kept of what was marked when marking ended.
    pub(crate) held: bool,
}

/// A value that is kept for as long as its key is reached. It is found by who holds the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ephemeron {
    pub(crate) key: Ref,
    pub(crate) value: Ref,
}

/// How far a registration for finalization is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Life {
    /// None, or its object may be alive.
    #[default]
    Live,
    /// Its object was found unmarked.
    Dead,
    /// A finalizer's thread may take it.
    Queued,
}

/// A registration for finalization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Registration {
    pub(crate) reference: Ref,
    pub(crate) life: Life,
    /// As in [`Weak`].
    pub(crate) new: bool,
    pub(crate) held: bool,
    /// Ghost: its finalizer has begun.
    pub(crate) run: bool,
    /// For liveness: to be queued in this cycle.
    pub(crate) due: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mutator {
    pub(crate) place: Place,
    /// Has been at a safepoint since arming.
    pub(crate) passed: bool,
    /// The objects it holds `Gc`s of.
    pub(crate) locals: Set,
    pub(crate) roots: [Entry; ENTRIES],
    /// The cell reserved for its next object.
    pub(crate) run: Ref,
    /// Whether that cell was marked when it was reserved.
    pub(crate) run_black: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) objects: [Object; OBJECTS],
    pub(crate) mutators: [Mutator; MUTATORS],
    pub(crate) globals: [Entry; ENTRIES],
    pub(crate) weaks: [Weak; ENTRIES],
    /// Not stamped with its cycle: see the section on that in `steps`.
    pub(crate) long: Ref,
    /// Nor are these.
    pub(crate) ephemerons: [Ephemeron; ENTRIES],
    pub(crate) registrations: [Registration; ENTRIES],
    /// Ghost: objects that a weak reference was found not to lead to any more, until weak references to them are gone.
    pub(crate) refused: Set,
    /// Cells that were swept in this cycle.
    pub(crate) swept: Set,
    /// For liveness: objects that were beyond reach when this cycle was armed.
    pub(crate) doomed: Set,
}

impl State {
    /// An empty heap, idle.
    pub(crate) const fn initial() -> State {
        const OBJECT: Object = Object { colour: Colour::Free, slots: [0; SLOTS] };
        const ENTRY: Entry = Entry { reference: 0, owners: 0, taken: false };
        const WEAK: Weak = Weak { reference: 0, new: false, held: false };
        const REGISTRATION: Registration =
            Registration { reference: 0, life: Life::Live, new: false, held: false, run: false, due: false };
        const MUTATOR: Mutator = Mutator {
            place: Place::Running,
            passed: false,
            locals: 0,
            roots: [ENTRY; ENTRIES],
            run: 0,
            run_black: false,
        };
        State {
            phase: Phase::Idle,
            objects: [OBJECT; OBJECTS],
            mutators: [MUTATOR; MUTATORS],
            globals: [ENTRY; ENTRIES],
            weaks: [WEAK; ENTRIES],
            long: 0,
            ephemerons: [Ephemeron { key: 0, value: 0 }; ENTRIES],
            registrations: [REGISTRATION; ENTRIES],
            refused: 0,
            swept: 0,
            doomed: 0,
        }
    }

    pub(crate) fn colour(&self, r: Ref) -> Colour {
        self.objects[usize::from(r) - 1].colour
    }

    /// What is reached from a set of objects.
    pub(crate) fn closure(&self, mut set: Set) -> Set {
        loop {
            let before = set;
            for o in members(before) {
                for r in self.objects[o].slots {
                    set |= set_of(r);
                }
            }
            for x in self.ephemerons.iter().filter(|x| before & set_of(x.key) != 0) {
                set |= set_of(x.value);
            }
            if set == before {
                return set;
            }
        }
    }

    /// What locals, roots, globals and objects that wait for their finalizers reach.
    pub(crate) fn reachable(&self) -> Set {
        let mut set = 0;
        for m in &self.mutators {
            set |= m.locals;
            for e in m.roots {
                set |= set_of(e.reference);
            }
        }
        for e in self.globals {
            set |= set_of(e.reference);
        }
        for x in self.registrations.iter().filter(|x| x.life == Life::Queued) {
            set |= set_of(x.reference);
        }
        self.closure(set)
    }

    /// What weak references could bring back.
    pub(crate) fn weakly_reached(&self) -> Set {
        let set = self.weaks.iter().fold(set_of(self.long), |set, w| set | set_of(w.reference));
        self.closure(set)
    }

    /// What registrations reach.
    pub(crate) fn registered(&self) -> Set {
        self.closure(self.registrations.iter().fold(0, |set, x| set | set_of(x.reference)))
    }
}
