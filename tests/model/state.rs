//! States of the model, and their canonical encoding.

use crate::rules::Scope;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Colour {
    #[default]
    Free,
    White,
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

    fn from_u8(v: u8) -> Colour {
        [Colour::Free, Colour::White, Colour::Grey, Colour::Half, Colour::Black][usize::from(v)]
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
    pub(crate) weak: Ref,
    /// The weak reference was looked at in this cycle.
    pub(crate) weak_done: bool,
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
            weak: 0,
            weak_done: false,
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
            if set == before {
                return set;
            }
        }
    }

    /// What locals, roots and globals reach.
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
        self.closure(set)
    }

    /// Visits every field that the scope uses, with its width in bits: the one description of the encoding.
    fn fields(&mut self, scope: &Scope, f: &mut impl FnMut(u8, u32) -> u8) {
        let n = scope.objects as u32;
        let r = if n < 4 { 2 } else { 3 };
        fn flag(b: &mut bool, f: &mut impl FnMut(u8, u32) -> u8) {
            *b = f(u8::from(*b), 1) != 0;
        }
        self.phase = Phase::from_u8(f(self.phase as u8, 3)).expect("encoded from a phase");
        for o in &mut self.objects[..scope.objects] {
            o.colour = Colour::from_u8(f(o.colour as u8, 3));
            for s in &mut o.slots[..scope.slots] {
                *s = f(*s, r);
            }
        }
        self.swept = f(self.swept, n);
        for m in &mut self.mutators[..scope.mutators] {
            m.place = [Place::Running, Place::Native, Place::Absent][usize::from(f(m.place as u8, 2))];
            m.locals = f(m.locals, n);
            flag(&mut m.passed, f);
            for e in &mut m.roots[..scope.roots] {
                e.reference = f(e.reference, r);
                e.owners = u8::from(e.reference != 0);
                flag(&mut e.taken, f);
            }
            if scope.runs {
                m.run = f(m.run, r);
                flag(&mut m.run_black, f);
            }
        }
        for e in &mut self.globals[..scope.globals] {
            e.reference = f(e.reference, r);
            e.owners = f(e.owners, 2);
            flag(&mut e.taken, f);
        }
        if scope.weak {
            self.weak = f(self.weak, r);
            flag(&mut self.weak_done, f);
        }
        if scope.liveness {
            self.doomed = f(self.doomed, n);
        }
    }

    /// The state as a number.
    pub(crate) fn encode(mut self, scope: &Scope) -> u128 {
        let (mut key, mut width) = (0u128, 0);
        self.fields(scope, &mut |v, bits| {
            debug_assert!(u32::from(v) < 1 << bits);
            key |= u128::from(v) << width;
            width += bits;
            v
        });
        assert!(width <= u128::BITS, "the scope is too large for the encoding");
        key
    }

    /// The state of a number.
    pub(crate) fn decode(mut key: u128, scope: &Scope) -> State {
        let mut state = State::initial();
        state.fields(scope, &mut |_, bits| {
            let v = (key & ((1 << bits) - 1)) as u8;
            key >>= bits;
            v
        });
        state
    }

    /// The same state with object `o` called `names[o]`.
    fn renamed(&self, names: &[u8; OBJECTS]) -> State {
        let of_ref = |r: Ref| if r == 0 { 0 } else { names[usize::from(r) - 1] + 1 };
        let of_set = |set: Set| {
            let mut out = 0;
            for (o, &name) in names.iter().enumerate() {
                out |= ((set >> o) & 1) << name;
            }
            out
        };
        let mut s = *self;
        for (o, object) in self.objects.iter().enumerate() {
            let to = &mut s.objects[usize::from(names[o])];
            to.colour = object.colour;
            for (k, &r) in object.slots.iter().enumerate() {
                to.slots[k] = of_ref(r);
            }
        }
        for m in &mut s.mutators {
            m.locals = of_set(m.locals);
            for e in &mut m.roots {
                e.reference = of_ref(e.reference);
            }
            m.run = of_ref(m.run);
        }
        for e in &mut s.globals {
            e.reference = of_ref(e.reference);
        }
        s.weak = of_ref(s.weak);
        s.swept = of_set(s.swept);
        s.doomed = of_set(s.doomed);
        s
    }

    /// A number that is the same for all states that differ in names only: of objects, mutators and entries.
    ///
    /// No step depends on a name, so exploring one state of each such class is exploring all.
    pub(crate) fn canonical(&self, scope: &Scope, names: &[[u8; OBJECTS]]) -> u128 {
        let mut best = u128::MAX;
        for n in names {
            let mut s = self.renamed(n);
            for m in &mut s.mutators[..scope.mutators] {
                sort(&mut m.roots[..scope.roots]);
            }
            sort(&mut s.mutators[..scope.mutators]);
            sort(&mut s.globals[..scope.globals]);
            best = best.min(s.encode(scope));
        }
        best
    }
}

/// Sorts a handful of things (faster than the library's in an unoptimised build).
fn sort<T: Ord>(items: &mut [T]) {
    for i in 1..items.len() {
        let mut j = i;
        while j > 0 && items[j] < items[j - 1] {
            items.swap(j, j - 1);
            j -= 1;
        }
    }
}

/// All ways to name `n` objects; those beyond keep their names.
pub(crate) fn namings(n: usize) -> Vec<[u8; OBJECTS]> {
    let mut out = vec![[0, 1, 2, 3]];
    for i in 1..n {
        let shorter = out.clone();
        out.extend((0..i).flat_map(|j| {
            shorter.iter().map(move |&names| {
                let mut names = names;
                names.swap(i, j);
                names
            })
        }));
    }
    out
}
