//! Ephemerons: a value that is kept exactly as long as its key is, whatever the value refers to.
//!
//! # State
//! The table's entry holds key and value. While marking, the collector adds for each entry whose key is not (yet) marked
//! a place in a hash table of keys that lies in the entries themselves: bucket heads, chains of different keys, and for
//! each key a list of its entries. An object that is scanned is looked up there, and what hangs on it becomes ready.
//! So each ephemeron is touched twice and each object once: the work is linear (Hayes, *Ephemerons: a new finalization
//! mechanism*, OOPSLA 1997, gives the semantics; the linear marking follows Barros and Ierusalimschy, *Eliminating
//! cycles in weak tables*, JUCS 2008, with chains that live in the table, so that a quantum allocates nothing).
//!
//! # Who may touch what
//! Key and value are written by the mutator that makes the ephemeron, emptied by any thread that drops it, or by the
//! collector. All other fields are the collector's, while stopped, and hold from pass to Phantom of one cycle. An entry
//! may be dropped and made anew between quanta: its place keeps the old key, by which it is told apart.

use crate::gc::Gc;
use crate::handle::{arc_of, check_heap};
use crate::mutator::Mutator;
use crate::shared::Shared;
use crate::table::Table;
use crate::trace::Trace;
use metronome_arraylet::Space;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

const NONE: u32 = 0;

/// What an ephemeron's entry holds besides its key. Links are index + 1; 0 is none.
#[derive(Debug, Default)]
pub(crate) struct Value {
    value: AtomicPtr<u8>,
    /// The key with which the entry got its place in this cycle.
    key: AtomicPtr<u8>,
    /// First key of the bucket with this entry's number.
    bucket: AtomicU32,
    /// Next key of the same bucket.
    next: AtomicU32,
    /// Next entry with the same key, and when ready the next one of those.
    same: AtomicU32,
    /// Next key that is ready.
    ready: AtomicU32,
}

/// A table of ephemerons.
pub(crate) type Ephemerons = Table<Value>;

impl Ephemerons {
    pub(crate) fn value(&self, index: u32) -> *mut u8 {
        // Relaxed: written before the key, whose load acquires.
        self.extra(index).value.load(Relaxed)
    }
}

/// The collector's view of the ephemerons of one cycle.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Secret of this cycle: a program that knows addresses must not be able to choose keys for one bucket.
    secret: u64,
    /// Entries when the pass began; also the number of buckets.
    entries: u32,
    /// Next entry of the pass: first the buckets are emptied, then the entries are placed.
    emptied: u32,
    placed: u32,
    /// Keys that wait in buckets.
    keys: u32,
    /// Keys that were found marked.
    ready: u32,
    /// The rest of the entries of the key that is being taken.
    taking: u32,
}

/// Entries looked at in a step.
const CHUNK: u32 = if cfg!(metronome_tiny) { 2 } else { 32 };

impl Pending {
    /// A new cycle: nothing has been placed.
    pub(crate) fn begin(&mut self, table: &Ephemerons, secret: u64) {
        *self = Pending { secret, entries: table.len(), ..Pending::default() };
    }

    /// Whether every entry has been looked at.
    pub(crate) fn pass_is_over(&self) -> bool {
        self.placed == self.entries
    }

    /// Whether an object that is scanned has to be looked up.
    pub(crate) fn waits(&self) -> bool {
        self.keys > 0
    }

    /// Whether values wait to be visited.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready != NONE || self.taking != NONE
    }

    /// A piece of the pass: looks at [`CHUNK`] entries; `visit` gets the values of marked keys.
    pub(crate) fn pass(&mut self, table: &Ephemerons, space: &Space, mut visit: impl FnMut(*mut u8)) {
        if self.emptied < self.entries {
            let end = self.entries.min(self.emptied + CHUNK * 4);
            for i in self.emptied..end {
                // Relaxed, here and below: the collector alone, while stopped; values as said in `value`.
                table.extra(i).bucket.store(NONE, Relaxed);
            }
            self.emptied = end;
            return;
        }
        let end = self.entries.min(self.placed + CHUNK);
        for i in self.placed..end {
            let key = table.get(i);
            if key.is_null() {
                continue;
            }
            if space.is_marked(key) {
                visit(table.value(i));
            } else {
                self.place(table, i, key);
            }
        }
        self.placed = end;
    }

    fn bucket(&self, key: *mut u8) -> u32 {
        // Multiply, fold, multiply, with a secret (as in splitmix64); the upper half, scaled to the number of buckets.
        let x = (key.addr() as u64 ^ self.secret).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let h = (x ^ (x >> 32)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 32;
        ((h * u64::from(self.entries)) >> 32) as u32
    }

    /// The entry that stands for `key` in its bucket, and the link that leads to it. Expected O(1): as many entries as
    /// buckets, and each key is in the chain once however many entries it has.
    fn find<'t>(&self, table: &'t Ephemerons, key: *mut u8) -> Result<(u32, &'t AtomicU32), &'t AtomicU32> {
        let mut link = &table.extra(self.bucket(key)).bucket;
        loop {
            // Relaxed: see `pass`.
            let at = link.load(Relaxed);
            if at == NONE {
                return Err(link);
            }
            let place = table.extra(at - 1);
            if place.key.load(Relaxed) == key {
                return Ok((at, link));
            }
            link = &place.next;
        }
    }

    fn place(&mut self, table: &Ephemerons, i: u32, key: *mut u8) {
        let e = table.extra(i);
        // Relaxed: see `pass`.
        e.key.store(key, Relaxed);
        match self.find(table, key) {
            Ok((first, _)) => {
                let first = &table.extra(first - 1).same;
                e.same.store(first.load(Relaxed), Relaxed);
                first.store(i + 1, Relaxed);
            }
            Err(end) => {
                e.same.store(NONE, Relaxed);
                e.next.store(NONE, Relaxed);
                end.store(i + 1, Relaxed);
                self.keys += 1;
            }
        }
    }

    /// An object was scanned: if it is a key that waits, its values become ready.
    #[inline]
    pub(crate) fn scanned(&mut self, table: &Ephemerons, cell: *mut u8) {
        if self.keys == 0 {
            return;
        }
        if let Ok((at, link)) = self.find(table, cell) {
            let place = table.extra(at - 1);
            // Relaxed: see `pass`.
            link.store(place.next.load(Relaxed), Relaxed);
            place.ready.store(self.ready, Relaxed);
            self.ready = at;
            self.keys -= 1;
        }
    }

    /// Takes [`CHUNK`] entries of keys that are ready; `visit` gets their values.
    pub(crate) fn take_ready(&mut self, table: &Ephemerons, mut visit: impl FnMut(*mut u8)) {
        for _ in 0..CHUNK {
            if self.taking == NONE {
                if self.ready == NONE {
                    return;
                }
                self.taking = self.ready;
                // Relaxed, here and below: see `pass`.
                self.ready = table.extra(self.ready - 1).ready.load(Relaxed);
            }
            let i = self.taking - 1;
            let e = table.extra(i);
            self.taking = e.same.load(Relaxed);
            // Dropped, or dropped and made anew for another key: that one's maker has seen to its value.
            if table.get(i) == e.key.load(Relaxed) {
                visit(table.value(i));
            }
        }
    }
}

/// A pair of a key and a value: the value is kept alive by the key, and the key by neither.
///
/// The value may refer to the key. After the key's death both are gone. A handle: `Send + Sync`, clones share one
/// entry, dropping it ends the value's being kept. Like [`WeakLong`](crate::WeakLong), it is cleared after
/// finalization: as long as a finalizer may bring the key back, the value stays. (.NET: `DependentHandle`.)
///
/// Cost: making one is a table entry; each cycle touches it twice.
pub struct Ephemeron<K, V> {
    shared: Arc<Shared>,
    index: u32,
    _type: PhantomData<fn() -> (*const K, *const V)>,
}

impl<K: Trace, V: Trace> Ephemeron<K, V> {
    /// Ties `value` to `key`.
    #[must_use]
    pub fn new(m: &Mutator<'_>, key: Gc<'_, K>, value: Gc<'_, V>) -> Ephemeron<K, V> {
        // SAFETY: a mutator's heap is alive and in an `Arc`.
        let shared = unsafe { arc_of(m.shared) };
        // No barrier (rule 8): the table is looked at in Mark at the earliest, when what a mutator holds is black, in the
        // snapshot, or was shaded; an entry that was made in Snapshot, perhaps of a white value, is seen by that pass.
        let index = shared.ephemerons.insert_with(key.cell_ptr(), |e| {
            // Relaxed: published with the key.
            e.value.store(value.cell_ptr(), Relaxed);
        });
        Ephemeron { shared, index, _type: PhantomData }
    }

    /// The key, if it has not been found dead.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn key<'m>(&self, m: &'m Mutator<'_>) -> Option<Gc<'m, K>> {
        let cell = self.living_key(m)?;
        m.shade_yielded(cell.as_ptr());
        // SAFETY: the entry is cleared before its key is swept; before that the key is complete, and from here on held
        // by a local that was shaded.
        Some(unsafe { Gc::from_cell(cell) })
    }

    /// The value, if the key has not been found dead.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn value<'m>(&self, m: &'m Mutator<'_>) -> Option<Gc<'m, V>> {
        self.living_key(m)?;
        // Never null: it is set with the key, and this handle owns the entry.
        let cell = NonNull::new(self.shared.ephemerons.value(self.index))?;
        m.shade_yielded(cell.as_ptr());
        // SAFETY: while the key is not dead, its value is kept (INV-EPHEMERON); otherwise as for the key.
        Some(unsafe { Gc::from_cell(cell) })
    }

    #[track_caller]
    fn living_key(&self, m: &Mutator<'_>) -> Option<NonNull<u8>> {
        check_heap(&self.shared, m, "Ephemeron");
        let s = m.shared();
        let key = NonNull::new(s.ephemerons.get(self.index))?;
        let dead = s.phase.get().unmarked_is_dead() && !s.space.is_marked(key.as_ptr());
        (!dead).then_some(key)
    }

    /// Whether the key has been found dead, as far as this is known without a mutator.
    #[must_use]
    pub fn is_cleared(&self) -> bool {
        self.shared.ephemerons.get(self.index).is_null()
    }
}

impl<K, V> Clone for Ephemeron<K, V> {
    fn clone(&self) -> Self {
        self.shared.ephemerons.retain(self.index);
        Ephemeron { shared: Arc::clone(&self.shared), index: self.index, _type: PhantomData }
    }
}

impl<K, V> Drop for Ephemeron<K, V> {
    fn drop(&mut self) {
        self.shared.ephemerons.release(self.index);
    }
}

impl<K, V> fmt::Debug for Ephemeron<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ephemeron<{}, {}>", std::any::type_name::<K>(), std::any::type_name::<V>())
    }
}
