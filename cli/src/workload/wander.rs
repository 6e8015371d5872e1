//! Wanderers: objects that are referenced from exactly one place each and move from place to place, as references only.
//!
//! Replacing whole objects hides a barrier that does not work: nobody looks for what was replaced. A wanderer that is
//! moved while the collector marks is kept by a barrier alone: by the deletion barrier if it goes from a slot that has
//! yet to be scanned into one that has been; by the insertion or initialiser barrier if a cycle began while it was only
//! in a local variable and it goes into a fresh object; by the handle barrier if it leaves a handle whose table has yet
//! to be taken; by the barrier of new globals if the globals have been taken. So places are slots, roots and globals,
//! and every pair of them occurs. Where each wanderer should be is kept in a plain vector.

use super::Tally;
use super::random::{Random, mix};
use crate::run::env::{Env, Failure};
use metronome_gc::{AllocError, Gc, GcArray, Global, Mutator, Root, Slot, Trace};
use std::time::{Duration, Instant};

/// Time for which wanderers are at times kept in local variables: long enough for quanta to run meanwhile.
const HOLD: Duration = Duration::from_millis(2);
/// Time between two of these.
const HOLD_EVERY: Duration = Duration::from_millis(15);
/// Wanderers kept so at once.
const HELD: usize = 8;
/// Places looked at between safepoints.
const BATCH: usize = 32;

/// An object with an identity, of the size of [`Holder`], so that the cell of a lost one is soon something else.
#[derive(Trace)]
struct Wanderer {
    id: u64,
    seal: u64,
}

/// What has a slot for a wanderer.
#[derive(Trace)]
struct Holder {
    serial: u64,
    wanderer: Slot<Wanderer>,
}

type Table = GcArray<Slot<Holder>>;

/// How a wanderer gets into a slot.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// Stored into the holder that is there.
    Stored,
    /// Stored into a fresh holder.
    Fresh,
    /// By the initialiser of a fresh holder.
    Initialiser,
}

/// One move, chosen beforehand so that it can be tried again.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: usize,
    to: usize,
    entry: Entry,
}

/// The wanderers of one thread and where they should be.
pub(crate) struct Wanderers {
    table: Root<Table>,
    /// Places after those of the table.
    roots: Vec<Option<Root<Wanderer>>>,
    /// Places after those of the roots.
    globals: Vec<Option<Global<Wanderer>>>,
    slots: usize,
    /// The model: the identity at each place, 0 where there is none.
    ids: Vec<u64>,
    full: Vec<usize>,
    empty: Vec<usize>,
    random: Random,
    held: Instant,
    moves: u64,
    /// Serial of the next holder.
    serial: u64,
    /// The place of the next look.
    look: usize,
}

fn seal(id: u64) -> u64 {
    mix(id ^ 0x3a11)
}

/// The identity of a wanderer; `None` if there is none, or it is not what was put there.
fn identity(wanderer: Option<Gc<'_, Wanderer>>) -> Option<u64> {
    wanderer.filter(|w| w.seal == seal(w.id)).map(|w| w.id)
}

impl Wanderers {
    /// Bytes of `n` wanderers with their places.
    pub(crate) const fn bytes(n: u64) -> u64 {
        n * (24 + 2 * (24 + 8))
    }

    /// `n` wanderers (at least 8), their identities made from `seed`, among twice as many places. With `hold`, some are
    /// kept in local variables for milliseconds at a time.
    ///
    /// # Errors
    /// [`Failure::NoMemory`].
    pub(crate) fn new(
        env: &Env,
        m: &mut Mutator<'_>,
        n: usize,
        seed: u64,
        hold: bool,
    ) -> Result<Wanderers, Failure> {
        let n = n.max(8);
        let (slots, roots, globals) = (n, n / 2, n / 2);
        let table = env.insist(m, |m| Ok(Root::new(m, m.alloc_slots::<Holder>(slots)?)))?;
        let now = Instant::now();
        let mut w = Wanderers {
            table,
            roots: (0..roots).map(|_| None).collect(),
            globals: (0..globals).map(|_| None).collect(),
            slots,
            ids: vec![0; slots + roots + globals],
            full: Vec::new(),
            empty: (0..slots + roots + globals).rev().collect(),
            random: Random::new(seed),
            // Far in the future: never.
            held: if hold { now } else { now + Duration::from_secs(1 << 32) },
            moves: 0,
            serial: 0,
            look: 0,
        };
        for place in 0..slots {
            env.insist(m, |m| {
                w.table.get(m).store(m, place, m.alloc(HolderInit { serial: place as u64, wanderer: None })?);
                Ok(())
            })?;
        }
        w.serial = slots as u64;
        for i in 0..n as u64 {
            // Never 0: the lowest bit is set.
            let id = (seed << 32 | i << 1 | 1).max(1);
            let place = w.empty.pop().unwrap_or(0);
            env.insist(m, |m| {
                let wanderer = m.alloc(Wanderer { id, seal: seal(id) })?;
                w.put_back(m, place, wanderer);
                Ok(())
            })?;
            w.ids[place] = id;
            w.full.push(place);
        }
        Ok(w)
    }

    /// One move, or several at once. False if what was moved is not what should have been there: something was lost,
    /// and the run should end.
    ///
    /// # Errors
    /// [`Failure::NoMemory`].
    pub(crate) fn step(
        &mut self,
        env: &Env,
        m: &mut Mutator<'_>,
        tally: &mut Tally,
    ) -> Result<bool, Failure> {
        let hold = self.held.checked_add(HOLD_EVERY).is_some_and(|due| Instant::now() >= due);
        let count = if hold { HELD.min(self.full.len()).min(self.empty.len()) } else { 1 };
        let f = self.random.below(self.full.len() as u64) as usize;
        let e = self.random.below(self.empty.len() as u64) as usize;
        let mut plan = [Move { from: 0, to: 0, entry: Entry::Stored }; HELD];
        for (i, one) in plan[..count].iter_mut().enumerate() {
            one.from = self.full[(f + i) % self.full.len()];
            one.to = self.empty[(e + i) % self.empty.len()];
            // What was held goes into fresh objects: others may have yet to be scanned, and would keep it.
            one.entry = match self.random.below(if hold { 2 } else { 3 }) {
                0 => Entry::Fresh,
                1 => Entry::Initialiser,
                _ => Entry::Stored,
            };
        }
        let plan = &plan[..count];
        let found = env.insist(m, |m| self.make(m, plan, hold))?;
        if hold {
            self.held = Instant::now();
        }
        let mut right = true;
        for (i, one) in plan.iter().enumerate() {
            let (full, empty) = (self.full.len(), self.empty.len());
            let expected = self.ids[one.from];
            self.ids.swap(one.from, one.to);
            self.full[(f + i) % full] = one.to;
            self.empty[(e + i) % empty] = one.from;
            self.moves += 1;
            if found[i] != Some(expected) {
                right = false;
                let found = found[i];
                tally.differs(|| {
                    let place = self.name(one.from);
                    format!("move {} from {place}: found {found:?} instead of {expected}", self.moves)
                });
            }
        }
        Ok(right)
    }

    /// The moves themselves, on references; leaves all as it was if an allocation fails. The identities moved.
    fn make(
        &mut self,
        m: &Mutator<'_>,
        plan: &[Move],
        hold: bool,
    ) -> Result<[Option<u64>; HELD], AllocError> {
        let mut moved = [None; HELD];
        for (wanderer, one) in moved.iter_mut().zip(plan) {
            *wanderer = self.take(m, one.from);
        }
        // From here on the wanderers are in locals only.
        m.poll();
        let until = Instant::now() + HOLD;
        while hold && Instant::now() < until {
            m.poll();
        }
        for (i, (one, wanderer)) in plan.iter().zip(moved).enumerate() {
            if let Some(wanderer) = wanderer
                && let Err(e) = self.put(m, *one, wanderer)
            {
                for done in &plan[..i] {
                    // Taken from its new place, for the old one to be the only one again.
                    self.take(m, done.to);
                }
                for (one, wanderer) in plan.iter().zip(moved) {
                    wanderer.into_iter().for_each(|w| self.put_back(m, one.from, w));
                }
                return Err(e);
            }
        }
        Ok(moved.map(identity))
    }

    /// Takes a wanderer from its place, which is empty then.
    fn take<'m>(&mut self, m: &'m Mutator<'_>, place: usize) -> Option<Gc<'m, Wanderer>> {
        if place < self.slots {
            let slot = &Gc::object(self.table.get(m).load(m, place)?).wanderer;
            let wanderer = slot.load(m);
            slot.store(m, None);
            wanderer
        } else if let Some(root) = self.roots.get_mut(place - self.slots) {
            // Dropping the root needs no barrier: getting at its object had one.
            root.take().map(|root| root.get(m))
        } else {
            self.globals[place - self.slots - self.roots.len()].take().map(|global| global.get(m))
        }
    }

    fn put(&mut self, m: &Mutator<'_>, plan: Move, wanderer: Gc<'_, Wanderer>) -> Result<(), AllocError> {
        if plan.to >= self.slots || matches!(plan.entry, Entry::Stored) {
            self.put_back(m, plan.to, wanderer);
            return Ok(());
        }
        let serial = self.serial;
        let holder = match plan.entry {
            Entry::Initialiser => m.alloc(HolderInit { serial, wanderer: Some(wanderer) })?,
            Entry::Fresh | Entry::Stored => {
                let holder = m.alloc(HolderInit { serial, wanderer: None })?;
                m.poll();
                holder.wanderer.store(m, wanderer);
                holder
            }
        };
        self.serial += 1;
        self.table.get(m).store(m, plan.to, holder);
        Ok(())
    }

    /// Puts a wanderer into an empty place without allocating in the heap.
    fn put_back(&mut self, m: &Mutator<'_>, place: usize, wanderer: Gc<'_, Wanderer>) {
        if place < self.slots {
            if let Some(holder) = self.table.get(m).load(m, place) {
                holder.wanderer.store(m, wanderer);
            }
        } else if let Some(root) = self.roots.get_mut(place - self.slots) {
            *root = Some(Root::new(m, wanderer));
        } else {
            self.globals[place - self.slots - self.roots.len()] = Some(Global::new(m, wanderer));
        }
    }

    /// Compares some of the slots with the model, others each time. Handles are left to moves and to the end: a look
    /// at a handle's object keeps it, and would hide that nothing else does.
    pub(crate) fn look(&mut self, m: &mut Mutator<'_>, tally: &mut Tally) -> bool {
        let start = self.look;
        let end = self.slots.min(start + BATCH);
        self.look = if end == self.slots { 0 } else { end };
        let right = (start..end).fold(true, |right, place| self.compare(m, place, tally) & right);
        m.safepoint();
        right
    }

    /// Compares all places with the model.
    pub(crate) fn compare_all(&self, m: &mut Mutator<'_>, tally: &mut Tally) {
        for place in 0..self.ids.len() {
            self.compare(m, place, tally);
            m.safepoint();
        }
        tally.count("references moved", self.moves);
        tally.count("wanderers", self.full.len() as u64);
    }

    fn compare(&self, m: &Mutator<'_>, place: usize, tally: &mut Tally) -> bool {
        let found = if place < self.slots {
            self.table.get(m).load(m, place).and_then(|holder| Gc::object(holder).wanderer.load(m))
        } else if let Some(root) = self.roots.get(place - self.slots) {
            root.as_ref().map(|root| root.get(m))
        } else {
            self.globals[place - self.slots - self.roots.len()].as_ref().map(|global| global.get(m))
        };
        let expected = self.ids[place];
        // A wanderer that is not intact is worse than none.
        let right = found.is_none() == (expected == 0) && identity(found).unwrap_or(0) == expected;
        if !right {
            tally.differs(|| {
                let found = found.map(|w| w.id);
                format!("{} holds the wanderer {found:?} instead of {expected}", self.name(place))
            });
        }
        right
    }

    fn name(&self, place: usize) -> String {
        let handle = place.checked_sub(self.slots);
        match handle {
            None => format!("slot {place}"),
            Some(i) if i < self.roots.len() => format!("root {i}"),
            Some(i) => format!("global {}", i - self.roots.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metronome_gc::Heap;
    use std::sync::Arc;

    fn with_wanderers(test: impl FnOnce(&Env, &mut Mutator<'_>, &mut Wanderers, &mut Tally)) {
        let env = Env::new(Heap::builder().heap_bytes(8 << 20).build().unwrap(), Arc::default());
        env.heap.enter(|m| {
            let mut w = Wanderers::new(&env, m, 64, 3, false).unwrap();
            test(&env, m, &mut w, &mut Tally::default());
        });
    }

    /// Every pair of kinds of places occurs, over several cycles; the identities stay the ones of the beginning.
    #[test]
    fn every_wanderer_is_where_the_model_says_after_many_moves() {
        with_wanderers(|env, m, w, tally| {
            let sorted = |ids: &[u64]| {
                let mut ids: Vec<u64> = ids.iter().copied().filter(|id| *id != 0).collect();
                ids.sort_unstable();
                ids
            };
            let at_first = sorted(&w.ids);
            assert_eq!(at_first.len(), 64);
            for i in 0..5_000 {
                assert!(w.step(env, m, tally).unwrap());
                if i % 500 == 0 {
                    assert!(m.collect(metronome_gc::Collect::Cycle).is_ok() && w.look(m, tally));
                }
            }
            w.compare_all(m, tally);
            assert_eq!((sorted(&w.ids), tally.differences()), (at_first, Vec::new()));
            assert_eq!(tally.counts["references moved"], 5_000);
        });
    }

    #[test]
    fn a_missing_a_strange_and_a_surplus_wanderer_are_noticed() {
        with_wanderers(|env, m, w, tally| {
            w.compare_all(m, tally);
            assert!(tally.differences().is_empty());
            let full = w.full[0];
            let _ = w.take(m, full);
            assert!(!w.compare(m, full, tally));
            let strange = m.alloc(Wanderer { id: w.ids[full], seal: 1 }).unwrap();
            w.put_back(m, full, strange);
            assert!(!w.compare(m, full, tally), "its seal is wrong");
            let surplus = w.empty[0];
            w.put_back(m, surplus, strange);
            assert!(!w.compare(m, surplus, tally));
            let noticed = (0..1_000).any(|_| !w.step(env, m, tally).unwrap());
            assert!(noticed && !tally.differences().is_empty());
        });
    }
}
