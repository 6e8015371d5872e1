//! States as numbers: a canonical one for all that differ in names only.

use crate::rules::Scope;
use crate::state::{Colour, Life, OBJECTS, Place, Ref, Set, State};
use metronome_barrier::Phase;

impl State {
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
        for w in &mut self.weaks[..scope.weaks] {
            w.reference = f(w.reference, r);
            flag(&mut w.new, f);
            flag(&mut w.held, f);
        }
        if scope.long {
            self.long = f(self.long, r);
        }
        for x in &mut self.ephemerons[..scope.ephemerons] {
            x.key = f(x.key, r);
            x.value = f(x.value, r);
        }
        for x in &mut self.registrations[..scope.finalizers] {
            x.reference = f(x.reference, r);
            x.life = [Life::Live, Life::Dead, Life::Queued][usize::from(f(x.life as u8, 2))];
            for b in [&mut x.new, &mut x.held, &mut x.run, &mut x.due] {
                flag(b, f);
            }
        }
        if scope.weaks > 0 {
            self.refused = f(self.refused, n);
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
        for w in &mut s.weaks {
            w.reference = of_ref(w.reference);
        }
        s.long = of_ref(s.long);
        for x in &mut s.ephemerons {
            (x.key, x.value) = (of_ref(x.key), of_ref(x.value));
        }
        for x in &mut s.registrations {
            x.reference = of_ref(x.reference);
        }
        s.refused = of_set(s.refused);
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
            // Where they share the work the first is not as the others.
            sort(&mut s.mutators[usize::from(scope.split)..scope.mutators]);
            sort(&mut s.globals[..scope.globals]);
            sort(&mut s.weaks[..scope.weaks]);
            sort(&mut s.ephemerons[..scope.ephemerons]);
            sort(&mut s.registrations[..scope.finalizers]);
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
