//! The oracle: what a program knows of its objects by their ids alone. It computes reachability itself and is told the
//! collector's turning points (arming, the end of marking, the end of finalization's marking), between which a mutator
//! cannot run; so it knows which references may have been cleared at each of them and which must have been.

use std::collections::{BTreeMap, HashMap, HashSet};

pub(crate) type Id = u64;

/// What the oracle knows of an object.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Node {
        slots: [Option<Id>; 2],
        array: Option<Id>,
        values: Option<Id>,
    },
    /// An array of slots: those that are not null.
    Slots {
        len: usize,
        entries: BTreeMap<usize, Id>,
    },
    /// An array of values, counting up from the first.
    Values {
        len: usize,
        first: u64,
    },
}

impl Object {
    fn children(&self, into: &mut Vec<Id>) {
        match self {
            Object::Node { slots, array, values } => {
                into.extend(slots.iter().flatten());
                into.extend(array.iter().chain(values));
            }
            Object::Slots { entries, .. } => into.extend(entries.values()),
            Object::Values { .. } => {}
        }
    }
}

/// What the oracle knows of a reference or notice: its object, and whether that may, and whether it must have been found
/// gone at a turning point since the reference was made.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) id: Id,
    /// Turning points of its kind before it was made: those of one object and age are cleared together.
    pub(crate) born: usize,
    pub(crate) may: bool,
    pub(crate) must: bool,
    pub(crate) gone: bool,
}

impl Known {
    pub(crate) fn new(id: Id, born: usize) -> Known {
        Known { id, born, may: false, must: false, gone: false }
    }

    fn turn(&mut self, kept: &HashSet<Id>, doomed: &HashSet<Id>) {
        self.may |= !kept.contains(&self.id);
        self.must |= doomed.contains(&self.id);
    }

    /// Whether it has surely, or else perhaps, not been cleared.
    fn stands(&self, surely: bool) -> bool {
        if surely { !self.may } else { !self.gone }
    }

    /// The reference was asked.
    pub(crate) fn answered(&mut self, yielded: bool) {
        if yielded {
            assert!(!self.gone, "a reference came back: {self:?}");
            assert!(!self.must, "a reference to a dead object yields it: {self:?}");
        } else {
            assert!(self.may, "a reference to a reachable object is gone: {self:?}");
            self.gone = true;
        }
    }
}

/// What is known of a registered finalizer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registration {
    may_be_due: bool,
    is_due: bool,
}

/// Declares what is counted.
macro_rules! met {
    ($($name:ident,)+) => {
        /// How often each kind of event was met, to see that the programs reach them.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Met {
            $(pub(crate) $name: usize,)+
        }

        impl Met {
            pub(crate) fn add(&mut self, other: &Met) {
                $(self.$name += other.$name;)+
            }

            pub(crate) fn counts(&self) -> Vec<(&'static str, usize)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

met! {
    cycles,
    refused,
    upgraded_unreachable,
    finalized,
    revived,
    deaths,
    ephemeral,
    exchanged,
    bulk,
    index_leaves,
    failed_allocations,
    reserved,
}

/// The whole program.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) next_id: Id,
    /// Objects that are not surely dead, and their addresses.
    pub(crate) objects: HashMap<Id, Object>,
    pub(crate) addresses: HashMap<Id, usize>,
    /// Ids that each thread's roots and locals hold, that globals hold, and those whose finalizer is running.
    pub(crate) roots: Vec<Vec<Id>>,
    pub(crate) locals: Vec<Vec<Id>>,
    pub(crate) globals: Vec<Id>,
    pub(crate) finalizing: Vec<Id>,
    pub(crate) shorts: Vec<Known>,
    pub(crate) longs: Vec<Known>,
    /// With the cycles completed at the last use.
    pub(crate) softs: Vec<(Known, u64)>,
    /// Known by the key; and the value.
    pub(crate) ephemerons: Vec<(Known, Id)>,
    /// Entries of the weak map by their keys.
    pub(crate) map: HashMap<Id, (Known, Id)>,
    pub(crate) deaths: Vec<Known>,
    /// Deaths that were cancelled, and that have been noted.
    pub(crate) cancelled: HashSet<usize>,
    pub(crate) noted: HashSet<usize>,
    pub(crate) registered: HashMap<Id, Registration>,
    /// Suppressed ones, and whether their objects may wait in the queue all the same.
    suppressed: HashMap<Id, bool>,
    /// Unreachable when the cycle was armed, and not touched since.
    doomed: HashSet<Id>,
    /// Found dead in this cycle, until its sweep begins.
    pub(crate) dying: HashSet<Id>,
    pub(crate) soft_age: u64,
    pub(crate) cycles: u64,
    pub(crate) markings: usize,
    pub(crate) burials: usize,
    pub(crate) met: Met,
}

impl Model {
    pub(crate) fn new(threads: usize) -> Model {
        Model {
            next_id: 1,
            soft_age: u64::MAX,
            roots: vec![vec![]; threads],
            locals: vec![vec![]; threads],
            ..Model::default()
        }
    }

    /// A new object at this address.
    pub(crate) fn object(&mut self, object: Object, address: usize) -> Id {
        let id = self.next_id;
        self.next_id += 1;
        self.objects.insert(id, object);
        self.addresses.insert(id, address);
        id
    }

    /// The slots of a node.
    pub(crate) fn slots(&mut self, id: Id) -> &mut [Option<Id>; 2] {
        match self.objects.get_mut(&id) {
            Some(Object::Node { slots, .. }) => slots,
            other => panic!("{id} is no node: {other:?}"),
        }
    }

    /// The arrays of a node: of slots, of values.
    pub(crate) fn arrays(&mut self, id: Id) -> (&mut Option<Id>, &mut Option<Id>) {
        match self.objects.get_mut(&id) {
            Some(Object::Node { array, values, .. }) => (array, values),
            other => panic!("{id} is no node: {other:?}"),
        }
    }

    /// Everything that these reach, the values of reached keys included: what `surely` is, or what may be (by ephemerons of
    /// which it is not known whether they have been cleared).
    fn closure(&self, from: impl IntoIterator<Item = Id>, surely: bool) -> HashSet<Id> {
        let mut values: HashMap<Id, Vec<Id>> = HashMap::new();
        for (key, value) in self.ephemerons.iter().chain(self.map.values()) {
            if key.stands(surely) {
                values.entry(key.id).or_default().push(*value);
            }
        }
        let mut seen = HashSet::new();
        let mut stack: Vec<Id> = from.into_iter().collect();
        while let Some(id) = stack.pop() {
            // What a reference that has not been asked since still names may be dead for good.
            if let Some(object) = self.objects.get(&id)
                && seen.insert(id)
            {
                object.children(&mut stack);
                stack.extend(values.get(&id).into_iter().flatten());
            }
        }
        seen
    }

    fn held(&self) -> Vec<Id> {
        let lists = self.roots.iter().chain(&self.locals).chain([&self.globals, &self.finalizing]);
        lists.flatten().copied().collect()
    }

    /// What the program can get at by strong handles and locals.
    pub(crate) fn reachable(&self) -> HashSet<Id> {
        self.closure(self.held(), false)
    }

    /// What the program can surely get at.
    pub(crate) fn surely_reachable(&self) -> HashSet<Id> {
        self.closure(self.held(), true)
    }

    /// The same, and what soft references keep by their age.
    fn kept(&self, surely: bool) -> HashSet<Id> {
        let young = |s: &&(Known, u64)| s.0.stands(surely) && self.cycles.saturating_sub(s.1) < self.soft_age;
        let soft = self.softs.iter().filter(young).map(|s| s.0.id);
        self.closure(self.held().into_iter().chain(soft), surely)
    }

    fn perhaps_queued(&self) -> Vec<Id> {
        let registered = self.registered.iter().filter(|r| r.1.may_be_due).map(|r| *r.0);
        registered.chain(self.suppressed.iter().filter(|s| *s.1).map(|s| *s.0)).collect()
    }

    /// A mutator has run: what it can get at now, or could keep by what it did, may stay for this cycle.
    pub(crate) fn touched(&mut self) {
        if !self.doomed.is_empty() {
            let mut live = self.kept(false);
            live.extend(self.closure(self.perhaps_queued(), false));
            self.doomed.retain(|id| !live.contains(id));
        }
    }

    /// The collector took these steps, with no mutator running.
    pub(crate) fn stepped(&mut self, names: &[&'static str]) {
        for &name in names {
            match name {
                "arm" => {
                    self.doomed = self.objects.keys().copied().collect();
                    self.touched();
                }
                "terminate" => self.marking_ended(),
                "terminate-finalize" => self.reviving_ended(),
                "end" => {
                    self.cycles += 1;
                    self.met.cycles += 1;
                }
                _ => {}
            }
        }
    }

    fn marking_ended(&mut self) {
        let (kept, doomed) = (self.kept(true), &self.doomed);
        self.shorts.iter_mut().for_each(|s| s.turn(&kept, doomed));
        self.softs.iter_mut().for_each(|s| s.0.turn(&kept, doomed));
        for (id, r) in &mut self.registered {
            r.may_be_due |= !kept.contains(id);
            r.is_due |= doomed.contains(id);
        }
        self.markings += 1;
        self.touched();
    }

    fn reviving_ended(&mut self) {
        let due = self.registered.iter().filter(|r| r.1.is_due).map(|r| *r.0);
        let mut kept = self.closure(due, true);
        kept.extend(self.kept(true));
        self.touched();
        let doomed = std::mem::take(&mut self.doomed);
        self.longs.iter_mut().for_each(|l| l.turn(&kept, &doomed));
        self.ephemerons.iter_mut().for_each(|e| e.0.turn(&kept, &doomed));
        self.map.values_mut().for_each(|e| e.0.turn(&kept, &doomed));
        self.deaths.iter_mut().for_each(|d| d.turn(&kept, &doomed));
        self.dying = doomed;
        self.burials += 1;
    }

    /// A finalizer was asked for; what the answer must be.
    pub(crate) fn register(&mut self, id: Id) -> bool {
        if self.registered.contains_key(&id) {
            return false;
        }
        let may_be_due = self.suppressed.remove(&id).unwrap_or(false);
        self.registered.insert(id, Registration { may_be_due, is_due: false });
        true
    }

    /// A registration was taken back; what the answer must be.
    pub(crate) fn suppress(&mut self, id: Id) -> bool {
        let Some(r) = self.registered.remove(&id) else { return false };
        self.suppressed.insert(id, r.may_be_due);
        true
    }

    /// The finalizer of an object runs.
    pub(crate) fn finalizes(&mut self, id: Id) {
        let r = self.registered.remove(&id).unwrap_or_else(|| panic!("finalizer of {id} runs unasked"));
        assert!(r.may_be_due, "the finalizer of {id} runs, which has been reachable since it was registered");
        self.met.finalized += 1;
    }

    /// Death notice `n` was given.
    pub(crate) fn dies(&mut self, n: usize) {
        let d = &self.deaths[n];
        assert!(d.may, "a death is noted of an object that is alive: {d:?}");
        assert!(!self.cancelled.contains(&n), "a cancelled notice: {d:?}");
        assert!(!self.registered.contains_key(&d.id), "death before finalization: {d:?}");
        assert!(self.noted.insert(n), "noted twice: {d:?}");
        self.met.deaths += 1;
    }

    /// All that was queued has run; nothing is on its way if `between` cycles, or in the sweep.
    pub(crate) fn queue_is_empty(&mut self, between: bool) {
        if !between {
            return;
        }
        for (id, r) in &mut self.registered {
            assert!(!r.is_due, "the finalizer of {id} has not run");
            r.may_be_due = false;
        }
        self.suppressed.values_mut().for_each(|may_be_queued| *may_be_queued = false);
        for (n, d) in self.deaths.iter().enumerate() {
            let told = self.noted.contains(&n) || self.cancelled.contains(&n);
            assert!(told || !d.must, "a death has not been noted: {d:?}");
        }
    }
}
