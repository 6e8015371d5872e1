//! A map whose keys are objects and which keeps neither keys nor, beyond their keys' lives, values.

use crate::ephemeron::Ephemeron;
use crate::gc::Gc;
use crate::mutator::Mutator;
use crate::trace::Trace;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries below which dead ones are not looked for.
const PRUNE_MIN: usize = 64;

/// A map from objects, by identity, to objects. An entry lives as long as its key does; the value may refer to the key.
/// (.NET: `ConditionalWeakTable`; JavaScript: `WeakMap`.)
///
/// Lives outside the heap, is `Send + Sync`, and is shared by reference or `Arc`. A map that is itself the payload of a
/// heap object keeps its values alive through their keys even when that object is only reachable from its values: its
/// entries are handles of the program, as in .NET.
///
/// Cost: a hash map behind a lock (never held at a pause point), and an [`Ephemeron`] for each entry. Dead entries are
/// removed by insertions, some for each one inserted, so that the map stays within about twice its living entries.
pub struct WeakMap<K, V> {
    inner: Mutex<Inner<K, V>>,
}

struct Inner<K, V> {
    entries: HashMap<usize, Ephemeron<K, V>>,
    /// Entries at which dead ones are looked for.
    prune_at: usize,
}

impl<K: Trace, V: Trace> WeakMap<K, V> {
    /// An empty map.
    #[must_use]
    pub fn new() -> WeakMap<K, V> {
        WeakMap { inner: Mutex::new(Inner { entries: HashMap::new(), prune_at: PRUNE_MIN }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        // Nothing in here panics half-way but the allocator.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the value of `key`; the one that it had, if any.
    ///
    /// # Panics
    /// If the map has an entry of another heap for the same address: use a map for one heap.
    #[track_caller]
    pub fn insert<'m>(&self, m: &'m Mutator<'_>, key: Gc<'_, K>, value: Gc<'_, V>) -> Option<Gc<'m, V>> {
        let new = Ephemeron::new(m, key, value);
        let (old, dead) = {
            let mut inner = self.lock();
            let dead = inner.prune();
            (inner.entries.insert(Gc::address(key), new), dead)
        };
        // Handles are dropped with nothing locked.
        drop(dead);
        // The key is alive, so an entry that was not cleared is this key's.
        old.and_then(|e| e.value(m))
    }

    /// The value of `key`.
    #[must_use]
    #[track_caller]
    pub fn get<'m>(&self, m: &'m Mutator<'_>, key: Gc<'_, K>) -> Option<Gc<'m, V>> {
        self.lock().entries.get(&Gc::address(key)).and_then(|e| e.value(m))
    }

    /// Removes the entry of `key`; the value that it had, if any.
    #[track_caller]
    pub fn remove<'m>(&self, m: &'m Mutator<'_>, key: Gc<'_, K>) -> Option<Gc<'m, V>> {
        let old = self.lock().entries.remove(&Gc::address(key));
        old.and_then(|e| e.value(m))
    }

    /// Calls `f` with each living entry, of those that were there when the call began. `f` may use the map and may pause.
    ///
    /// Cost: a copy of the entries' handles.
    ///
    /// # Panics
    /// If the map has an entry of another heap.
    #[track_caller]
    pub fn for_each<'m>(&self, m: &'m Mutator<'_>, mut f: impl FnMut(Gc<'m, K>, Gc<'m, V>)) {
        let all: Vec<_> = self.lock().entries.values().cloned().collect();
        for e in all {
            if let (Some(k), Some(v)) = (e.key(m), e.value(m)) {
                f(k, v);
            }
        }
    }

    /// Entries, dead ones that have not been removed yet included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes dead entries now. Cost: O(entries).
    pub fn prune(&self) {
        let dead = {
            let mut inner = self.lock();
            inner.prune_at = 0;
            inner.prune()
        };
        drop(dead);
    }
}

impl<K: Trace, V: Trace> Inner<K, V> {
    /// Takes out dead entries when the map has doubled since the last time: amortized O(1) for each insertion.
    fn prune(&mut self) -> Vec<Ephemeron<K, V>> {
        if self.entries.len() < self.prune_at {
            return Vec::new();
        }
        let dead = self.entries.extract_if(|_, e| e.is_cleared()).map(|(_, e)| e).collect();
        self.prune_at = (self.entries.len() * 2).max(PRUNE_MIN);
        dead
    }
}

impl<K: Trace, V: Trace> Default for WeakMap<K, V> {
    fn default() -> Self {
        WeakMap::new()
    }
}

impl<K, V> fmt::Debug for WeakMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeakMap<{}, {}>", std::any::type_name::<K>(), std::any::type_name::<V>())
    }
}
