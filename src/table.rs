//! Handle tables: growable arrays of references that never move, read by the collector in bounded chunks.
//!
//! # State
//! Entries live in segments of doubling size (64, 128, …). `len` entries have ever been used; the unused ones
//! among them are in the `free` stack. An entry with a null reference is empty (INV-TABLE-EMPTY).
//!
//! # Who may touch what
//! *Insert*: running mutators. *Remove*: any thread at any time, also one that is no mutator: it nulls the
//! reference, then gives the entry back. *Read*: the collector while stopped. So while the collector reads, entries
//! may become empty but none can be filled. What an entry holds besides its reference (`X`) is described by its type.
//!
//! # Ordering
//! References are Release/Acquire so that an object's content is seen by the thread that gets it from a handle.

use metronome_arraylet::IndexStack;
use std::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Entries of the first segment.
const FIRST: u32 = if cfg!(metronome_tiny) { 2 } else { 64 };
const SEGMENTS: usize = 26;

#[derive(Debug, Default)]
struct Entry<X> {
    reference: AtomicPtr<u8>,
    owners: AtomicU32,
    link: AtomicU32,
    extra: X,
}

/// A table of references to heap objects, each with an `X`.
#[derive(Debug)]
pub(crate) struct Table<X = ()> {
    segments: [AtomicPtr<Entry<X>>; SEGMENTS],
    len: AtomicU32,
    live: AtomicU32,
    free: IndexStack,
}

// SAFETY: the raw segment pointers are owned by the table and freed only on drop; entries are atomics.
unsafe impl<X: Send + Sync> Send for Table<X> {}
// SAFETY: as above; every method takes `&self` and touches entries through atomics only.
unsafe impl<X: Send + Sync> Sync for Table<X> {}

fn place(index: u32) -> (usize, usize, usize) {
    let n = index as usize + FIRST as usize;
    let segment = (usize::BITS - 1 - n.leading_zeros() - FIRST.trailing_zeros()) as usize;
    let size = (FIRST as usize) << segment;
    (segment, n - size, size)
}

impl<X: Default> Table<X> {
    pub(crate) const fn new() -> Table<X> {
        Table {
            segments: [const { AtomicPtr::new(std::ptr::null_mut()) }; SEGMENTS],
            len: AtomicU32::new(0),
            live: AtomicU32::new(0),
            free: IndexStack::new(),
        }
    }

    fn entry(&self, index: u32) -> &Entry<X> {
        let (segment, offset, _) = place(index);
        // Acquire: pairs with the AcqRel exchange in `grow`.
        let p = self.segments[segment].load(Acquire);
        debug_assert!(!p.is_null());
        // SAFETY: an index is below `len` (it was handed out by `insert`), so its segment exists, has more than
        // `offset` entries, and is freed only when the table is dropped.
        unsafe { &*p.add(offset) }
    }

    /// Makes sure that the segment of `index` exists.
    fn grow(&self, index: u32) {
        let (segment, _, size) = place(index);
        // Acquire: pairs with the exchange below by another thread.
        if !self.segments[segment].load(Acquire).is_null() {
            return;
        }
        let new: Box<[Entry<X>]> = (0..size).map(|_| Entry::default()).collect();
        let new: *mut Entry<X> = Box::into_raw(new).cast();
        // AcqRel: publishes the zeroed entries; pairs with the Acquire loads.
        if self.segments[segment].compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire).is_err() {
            // SAFETY: made above from a box of `size` entries and published to nobody.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(new, size)) });
        }
    }

    /// Fills an entry with one owner. A running mutator. Amortized O(1); may allocate a segment.
    pub(crate) fn insert(&self, reference: *mut u8) -> u32 {
        self.insert_with(reference, |_| {})
    }

    /// The same; `fill` sets what goes with the reference, before the entry can be found.
    pub(crate) fn insert_with(&self, reference: *mut u8, fill: impl FnOnce(&X)) -> u32 {
        debug_assert!(!reference.is_null());
        let index = self.free.pop(|i| &self.entry(i).link).unwrap_or_else(|| {
            // Relaxed: the index is handed out once; `len` is read by the collector after a stop.
            let i = self.len.load(Relaxed);
            assert!(i < (FIRST << (SEGMENTS - 1)), "more than 2^31 handles");
            // The segment is there before the index is visible to readers of `len`.
            self.grow(i);
            // AcqRel: publishes the segment with the index; the next one to grow sees both. Relaxed on failure: tried again.
            match self.len.compare_exchange(i, i + 1, AcqRel, Relaxed) {
                Ok(_) => i,
                Err(_) => self.take_new(),
            }
        });
        let e = self.entry(index);
        // Relaxed: the entry is ours; published by the reference.
        e.owners.store(1, Relaxed);
        fill(&e.extra);
        // Release: pairs with the Acquire in `get`.
        e.reference.store(reference, Release);
        // Relaxed: a counter.
        self.live.fetch_add(1, Relaxed);
        index
    }

    #[cold]
    fn take_new(&self) -> u32 {
        loop {
            // Relaxed: validated by the exchange.
            let i = self.len.load(Relaxed);
            assert!(i < (FIRST << (SEGMENTS - 1)), "more than 2^31 handles");
            self.grow(i);
            // AcqRel: as in `insert`.
            if self.len.compare_exchange(i, i + 1, AcqRel, Relaxed).is_ok() {
                return i;
            }
        }
    }

    /// The reference of an entry; null when it is empty (a cleared weak).
    #[inline]
    pub(crate) fn get(&self, index: u32) -> *mut u8 {
        // Acquire: pairs with the Release in `insert`.
        self.entry(index).reference.load(Acquire)
    }

    /// What goes with the reference of an entry.
    #[inline]
    pub(crate) fn extra(&self, index: u32) -> &X {
        &self.entry(index).extra
    }

    /// Empties a weak entry, which keeps its owners. The collector, stopped.
    pub(crate) fn clear(&self, index: u32) {
        // Relaxed: mutators see it after the stop.
        self.entry(index).reference.store(std::ptr::null_mut(), Relaxed);
    }

    /// One owner more. Any thread that owns the entry. Aborts the process at 2^31 owners, as `Arc` does: a count that
    /// wrapped would free an entry in use, and a panic could be caught and the clone tried again.
    pub(crate) fn retain(&self, index: u32) {
        // Relaxed: the caller owns the entry already.
        let before = self.entry(index).owners.fetch_add(1, Relaxed);
        if before >= 1 << 31 {
            eprintln!("metronome: more than 2^31 clones of one handle");
            std::process::abort();
        }
    }

    /// One owner less; the last one empties the entry. Any thread. Returns whether the entry was given back.
    pub(crate) fn release(&self, index: u32) -> bool {
        let e = self.entry(index);
        // AcqRel: the last owner's emptying comes after everything other owners did with the entry.
        if e.owners.fetch_sub(1, AcqRel) != 1 {
            return false;
        }
        // Relaxed: the collector may still read the old reference in this stop: that only keeps the object.
        e.reference.store(std::ptr::null_mut(), Relaxed);
        // Relaxed: a counter.
        self.live.fetch_sub(1, Relaxed);
        self.free.push(index, |i| &self.entry(i).link);
        true
    }

    /// Entries ever used: the collector reads `0..len`.
    pub(crate) fn len(&self) -> u32 {
        // Acquire: pairs with the exchange that handed out the index.
        self.len.load(Acquire)
    }

    /// Checks the table itself (INV-TABLE-EMPTY): each entry in the free list is there once, is empty, and is not counted.
    /// While no mutator runs; other threads may empty entries meanwhile, which only ever shortens what is in use and
    /// lengthens the list. O(entries).
    ///
    /// # Errors
    /// What is wrong.
    #[cfg(feature = "verify")]
    pub(crate) fn verify(&self) -> Result<(), String> {
        let (len, live) = (self.len(), self.live());
        let free = walk(&self.free, len, |i| &self.entry(i).link)?;
        if let Some(i) = free.iter().find(|&&i| !self.get(i).is_null()) {
            return Err(format!("entry {i} is in the free list and holds a reference"));
        }
        let used = (0..len).filter(|&i| !self.get(i).is_null()).count() as u64;
        if used > u64::from(live) || free.len() as u64 + u64::from(self.live()) > u64::from(len) {
            let free = free.len();
            return Err(format!(
                "of {len} entries {used} hold references and {free} are free; {live} are live"
            ));
        }
        Ok(())
    }

    /// Lets a free entry follow itself. There must be one.
    #[cfg(feature = "hooks")]
    pub(crate) fn corrupt_free_list(&self) {
        let first = self.free.peek().expect("an entry is free");
        // Relaxed: a test's own fault.
        self.entry(first).link.store(first + 1, Relaxed);
    }

    /// Counts one entry less than are in use.
    #[cfg(feature = "hooks")]
    pub(crate) fn corrupt_live(&self) {
        // Relaxed: a test's own fault.
        self.live.fetch_sub(1, Relaxed);
    }

    /// Entries in use.
    pub(crate) fn live(&self) -> u32 {
        // Relaxed: a counter.
        self.live.load(Relaxed)
    }
}

/// The indices in a stack of entries below `len`. While nothing is popped and pushed again.
///
/// # Errors
/// An index that is out of range, or comes twice.
#[cfg(feature = "verify")]
pub(crate) fn walk<'a>(
    stack: &IndexStack,
    len: u32,
    link: impl Fn(u32) -> &'a AtomicU32,
) -> Result<Vec<u32>, String> {
    let mut seen = vec![false; len as usize];
    let mut out = Vec::new();
    let mut at = stack.peek();
    while let Some(i) = at {
        match seen.get_mut(i as usize) {
            None => return Err(format!("a list names entry {i} of {len}")),
            Some(true) => return Err(format!("a list comes back to entry {i}")),
            Some(seen) => *seen = true,
        }
        out.push(i);
        // Relaxed: published by the push, or written before the stop.
        at = link(i).load(Relaxed).checked_sub(1);
    }
    Ok(out)
}

impl<X> Drop for Table<X> {
    fn drop(&mut self) {
        for (segment, p) in self.segments.iter_mut().enumerate() {
            let p = *p.get_mut();
            if !p.is_null() {
                let size = (FIRST as usize) << segment;
                // SAFETY: made in `grow` from a box of this size; nobody else has the table any more.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(p, size)) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    #[test]
    fn entries_are_found_reused_and_counted() {
        let t = <Table>::new();
        let ids: Vec<u32> = (1..=1000).map(|i| t.insert(without_provenance_mut(i * 8))).collect();
        for (i, &id) in ids.iter().enumerate() {
            assert_eq!(t.get(id).addr(), (i + 1) * 8);
        }
        t.retain(ids[5]);
        assert!(!t.release(ids[5]));
        assert!(t.release(ids[5]));
        assert!(t.get(ids[5]).is_null());
        assert_eq!((t.len(), t.live()), (1000, 999));
        assert_eq!(t.insert(without_provenance_mut(16)), ids[5]);
        assert_eq!(t.len(), 1000);
    }

    #[test]
    fn places_are_dense() {
        let mut want = (0, 0);
        for i in 0..10_000 {
            let (s, o, size) = place(i);
            assert_eq!((s, o), want);
            want = if o + 1 == size { (s + 1, 0) } else { (s, o + 1) };
        }
    }

    #[test]
    fn threads_fill_and_empty() {
        let t = <Table>::new();
        std::thread::scope(|s| {
            for k in 1..=4usize {
                let t = &t;
                s.spawn(move || {
                    for round in 0..2000 {
                        let ids: Vec<u32> = (0..5)
                            .map(|j| t.insert(without_provenance_mut(k << 32 | round << 8 | (j + 1))))
                            .collect();
                        for (j, id) in ids.into_iter().enumerate() {
                            assert_eq!(t.get(id).addr(), k << 32 | round << 8 | (j + 1));
                            t.release(id);
                        }
                    }
                });
            }
        });
        assert_eq!(t.live(), 0);
        assert!(t.len() <= 20, "{}", t.len());
    }
}
