//! The cache: a table of chains, its entries in a list in the order of their use.

use super::insist;
use crate::program::churn::{digest, length, word};
use crate::program::lru::{self, bucket};
use metronome_gc::{Gc, GcArray, Mutator, Root, Slot, Trace};

/// An entry; `older` and `newer` are its neighbours in the order of use.
#[derive(Trace)]
pub(crate) struct Entry {
    key: u64,
    words: Slot<GcArray<u64>>,
    chain: Slot<Entry>,
    older: Slot<Entry>,
    newer: Slot<Entry>,
}

/// The ends of the list, and the table.
#[derive(Trace)]
pub(crate) struct Lru {
    table: Slot<GcArray<Slot<Entry>>>,
    oldest: Slot<Entry>,
    newest: Slot<Entry>,
}

/// A cache of so many entries, and how many there are.
pub(crate) struct Cache {
    lru: Root<Lru>,
    capacity: usize,
    len: usize,
}

/// Makes an entry that is not in the list the newest.
fn append(m: &Mutator<'_>, lru: Gc<'_, Lru>, entry: Gc<'_, Entry>) {
    let newest = lru.newest.load(m);
    entry.older.store(m, newest);
    entry.newer.store(m, None);
    match newest {
        Some(newest) => newest.newer.store(m, entry),
        None => lru.oldest.store(m, entry),
    }
    lru.newest.store(m, entry);
}

/// Takes an entry out of the list.
fn unlink(m: &Mutator<'_>, lru: Gc<'_, Lru>, entry: Gc<'_, Entry>) {
    let (older, newer) = (entry.older.load(m), entry.newer.load(m));
    match older {
        Some(older) => older.newer.store(m, newer),
        None => lru.oldest.store(m, newer),
    }
    match newer {
        Some(newer) => newer.older.store(m, older),
        None => lru.newest.store(m, older),
    }
}

/// Takes the oldest entry out of the list and its chain.
fn evict(m: &Mutator<'_>, lru: Gc<'_, Lru>, table: Gc<'_, GcArray<Slot<Entry>>>) {
    let Some(victim) = lru.oldest.load(m) else { return };
    unlink(m, lru, victim);
    let place = bucket(victim.key, table.len());
    let mut at = table.load(m, place);
    if at.is_some_and(|first| Gc::ptr_eq(first, victim)) {
        return table.store(m, place, victim.chain.load(m));
    }
    while let Some(entry) = at {
        let next = entry.chain.load(m);
        if next.is_some_and(|n| Gc::ptr_eq(n, victim)) {
            return entry.chain.store(m, victim.chain.load(m));
        }
        at = next;
    }
}

impl lru::Cache for Mutator<'_> {
    type Cache = Cache;

    fn cache(&mut self, capacity: usize) -> Cache {
        let lru = insist(self, |m| {
            let table = m.alloc_slots::<Entry>(capacity.next_power_of_two())?;
            Ok(Root::new(m, m.alloc(LruInit { table: Some(table), oldest: None, newest: None })?))
        });
        Cache { lru, capacity, len: 0 }
    }

    fn look(&mut self, cache: &mut Cache, key: u64) -> Option<u64> {
        self.safepoint();
        let m = &*self;
        let lru = cache.lru.get(m);
        let table = lru.table.load(m)?;
        let mut at = table.load(m, bucket(key, table.len()));
        while let Some(entry) = at {
            if entry.key == key {
                unlink(m, lru, entry);
                append(m, lru, entry);
                return Some(digest(key, entry.words.load(m)?.leaves().flatten()));
            }
            at = entry.chain.load(m);
        }
        None
    }

    fn insert(&mut self, cache: &mut Cache, key: u64) {
        let full = cache.len == cache.capacity;
        insist(self, |m| {
            let words = m.alloc_array(length(key), |i| word(key, i))?;
            let lru = cache.lru.get(m);
            let Some(table) = lru.table.load(m) else { return Ok(()) };
            let place = bucket(key, table.len());
            let new = EntryInit { key, words: Some(words), chain: None, older: None, newer: None };
            let new = m.alloc(new)?;
            // Nothing fails from here on.
            if full {
                evict(m, lru, table);
            }
            new.chain.store(m, table.load(m, place));
            table.store(m, place, new);
            append(m, lru, new);
            Ok(())
        });
        cache.len += usize::from(!full);
    }
}
