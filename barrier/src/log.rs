//! Logs of shaded references: a chunk per mutator, handed to the collector when full.
//!
//! # State
//! A chunk is in exactly one place (INV-LOG-PLACE): free in the pool, held by one [`Log`], in the full list, or
//! taken by the collector.
//!
//! # Who may touch what
//! A `Log` belongs to one mutator while that runs, and to the collector while it is stopped. The pool's lists may
//! be used by all at any time; they are lock-free.
//!
//! # Ordering
//! Entries are Relaxed: they pass to the collector with the chunk (release/acquire on the full list) or by the
//! stop, whose handshake orders everything.

use crate::sync::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// References in a chunk: 256; 4 in a tiny build, where most shades find their chunk full.
pub const CHUNK_ENTRIES: usize = if cfg!(loom) {
    2
} else if cfg!(metronome_tiny) {
    4
} else {
    256
};

/// Index of a chunk that the collector has taken from the full list; give it back with [`LogPool::recycle`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Chunk(u32);

#[derive(Debug)]
struct ChunkData {
    link: AtomicU32,
    len: AtomicU32,
    entries: [AtomicPtr<u8>; CHUNK_ENTRIES],
}

/// A fixed number of chunks, preallocated, and the lists that hand them round.
#[derive(Debug)]
pub struct LogPool {
    chunks: Box<[ChunkData]>,
    free: Stack,
    full: Stack,
}

/// Treiber stack of chunk indices with a tag against ABA.
#[derive(Debug)]
struct Stack(AtomicU64);

impl Stack {
    fn push(&self, chunks: &[ChunkData], index: u32) {
        // Relaxed: validated by the exchange.
        let mut head = self.0.load(Relaxed);
        loop {
            // Relaxed: published by the exchange.
            chunks[index as usize].link.store(head as u32, Relaxed);
            // Release: pairs with the Acquire in `pop`.
            match self.0.compare_exchange_weak(head, tagged(head, index + 1), Release, Relaxed) {
                Ok(_) => return,
                Err(h) => head = h,
            }
        }
    }

    fn pop(&self, chunks: &[ChunkData]) -> Option<u32> {
        // Acquire: pairs with the Release in `push`.
        let mut head = self.0.load(Acquire);
        loop {
            let index = (head as u32).checked_sub(1)?;
            // Relaxed: a stale link fails the exchange by its tag.
            let next = chunks[index as usize].link.load(Relaxed);
            // Acquire: pairs with the Release in `push`.
            match self.0.compare_exchange_weak(head, tagged(head, next), Acquire, Acquire) {
                Ok(_) => return Some(index),
                Err(h) => head = h,
            }
        }
    }
}

fn tagged(head: u64, index_plus_one: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(index_plus_one)
}

impl LogPool {
    /// A pool of `chunks` chunks of [`CHUNK_ENTRIES`] references each. Allocates all of it now.
    #[must_use]
    pub fn new(chunks: u32) -> LogPool {
        let data = (0..chunks)
            .map(|_| ChunkData {
                link: AtomicU32::new(0),
                len: AtomicU32::new(0),
                entries: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            })
            .collect();
        let pool = LogPool { chunks: data, free: Stack(AtomicU64::new(0)), full: Stack(AtomicU64::new(0)) };
        for i in (0..chunks).rev() {
            pool.free.push(&pool.chunks, i);
        }
        pool
    }

    /// Takes a full (or flushed) chunk, if there is one. O(1), lock-free.
    pub fn take_full(&self) -> Option<Chunk> {
        self.full.pop(&self.chunks).map(Chunk)
    }

    /// Whether the full list looks empty; exact while no mutator runs.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        // Acquire: pairs with the Release in `push`.
        self.full.0.load(Acquire) as u32 == 0
    }

    /// The references of a chunk, at most [`CHUNK_ENTRIES`].
    pub fn entries(&self, chunk: &Chunk) -> impl Iterator<Item = *mut u8> + '_ {
        let c = &self.chunks[chunk.0 as usize];
        // Relaxed: the chunk was acquired from the full list.
        let len = c.len.load(Relaxed) as usize;
        c.entries[..len].iter().map(|e| e.load(Relaxed))
    }

    /// Calls `f` with each reference in the full list, without taking it: for verifiers, while no mutator runs.
    pub fn for_each_full(&self, mut f: impl FnMut(*mut u8)) {
        // Acquire: pairs with the Release in `push`.
        let mut at = self.full.0.load(Acquire) as u32;
        while let Some(i) = at.checked_sub(1) {
            let chunk = Chunk(i);
            self.entries(&chunk).for_each(&mut f);
            // Relaxed: nobody pushes or pops while no mutator runs.
            at = self.chunks[i as usize].link.load(Relaxed);
        }
    }

    /// Gives an emptied chunk back. O(1), lock-free.
    pub fn recycle(&self, chunk: Chunk) {
        self.free.push(&self.chunks, chunk.0);
    }

    /// Chunks in all.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }
}

/// The log of one mutator.
#[derive(Debug, Default)]
pub struct Log {
    /// Chunk index + 1; 0: none held.
    held: u32,
    len: u32,
}

impl Log {
    /// An empty log. It takes its first chunk when first used.
    #[must_use]
    pub const fn new() -> Log {
        Log { held: 0, len: 0 }
    }

    /// Appends a reference; false if the pool has no chunk left (the caller then remembers the reference
    /// elsewhere). Never blocks, never allocates. O(1).
    #[inline]
    #[must_use]
    pub fn push(&mut self, pool: &LogPool, reference: *mut u8) -> bool {
        if (self.held == 0 || self.len as usize == CHUNK_ENTRIES) && !self.renew(pool) {
            return false;
        }
        // Relaxed: see the module's documentation.
        pool.chunks[self.held as usize - 1].entries[self.len as usize].store(reference, Relaxed);
        self.len += 1;
        true
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self, pool: &LogPool) -> bool {
        self.flush(pool);
        match pool.free.pop(&pool.chunks) {
            Some(i) => {
                self.held = i + 1;
                true
            }
            None => false,
        }
    }

    /// Hands what is logged to the collector and keeps no chunk. True if there was anything. O(1).
    pub fn flush(&mut self, pool: &LogPool) -> bool {
        let Some(i) = self.held.checked_sub(1) else { return false };
        let any = self.len > 0;
        // Relaxed: published by the push.
        pool.chunks[i as usize].len.store(self.len, Relaxed);
        if any {
            pool.full.push(&pool.chunks, i);
        } else {
            pool.free.push(&pool.chunks, i);
        }
        *self = Log::new();
        any
    }

    /// Calls `f` with each reference that the collector has not been handed: for verifiers, while the owner is stopped.
    pub fn for_each(&self, pool: &LogPool, mut f: impl FnMut(*mut u8)) {
        let Some(i) = self.held.checked_sub(1) else { return };
        // Relaxed: see the module's documentation.
        pool.chunks[i as usize].entries[..self.len as usize].iter().for_each(|e| f(e.load(Relaxed)));
    }

    /// Whether nothing is logged that the collector has not been handed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    fn drain(pool: &LogPool) -> Vec<usize> {
        let mut out = vec![];
        while let Some(c) = pool.take_full() {
            out.extend(pool.entries(&c).map(|p| p.addr()));
            pool.recycle(c);
        }
        out.sort_unstable();
        out
    }

    #[test]
    fn nothing_is_lost_and_nothing_twice() {
        let pool = LogPool::new(8);
        let mut log = Log::new();
        let n = CHUNK_ENTRIES * 3 + 7;
        for i in 1..=n {
            assert!(log.push(&pool, without_provenance_mut(i)));
        }
        let mut seen = vec![];
        pool.for_each_full(|p| seen.push(p.addr()));
        log.for_each(&pool, |p| seen.push(p.addr()));
        seen.sort_unstable();
        assert_eq!(seen, (1..=n).collect::<Vec<_>>());
        assert!(log.flush(&pool) && !log.flush(&pool) && log.is_empty());
        assert_eq!(drain(&pool), (1..=n).collect::<Vec<_>>());
        assert!(pool.is_drained());
    }

    /// The chunks of a stack, in order, or as many as there are chunks and one more if it goes round in a circle.
    fn listed(pool: &LogPool, stack: &Stack) -> Vec<u32> {
        let mut out = Vec::new();
        let mut next = stack.0.load(Acquire) as u32;
        while next != 0 && out.len() <= pool.chunks() {
            out.push(next - 1);
            next = pool.chunks[next as usize - 1].link.load(Relaxed);
        }
        out
    }

    /// Chunks that are not in exactly one place (INV-LOG-PLACE).
    fn misplaced(pool: &LogPool, logs: &[&Log], taken: &[&Chunk]) -> Vec<u32> {
        let mut places = listed(pool, &pool.free);
        places.extend(listed(pool, &pool.full));
        places.extend(logs.iter().filter_map(|l| l.held.checked_sub(1)));
        places.extend(taken.iter().map(|c| c.0));
        let times = |i: u32| places.iter().filter(|&&p| p == i).count();
        (0..pool.chunks() as u32).filter(|&i| times(i) != 1).collect()
    }

    /// INV-LOG-PLACE, kept through a chunk's whole way round, and broken in each way there is.
    #[test]
    fn a_chunk_in_no_place_or_in_two_is_found() {
        let one = without_provenance_mut(1);
        let pool = LogPool::new(3);
        let (mut a, mut b) = (Log::new(), Log::new());
        assert!(a.push(&pool, one) && b.push(&pool, one));
        assert_eq!(misplaced(&pool, &[&a, &b], &[]), []);
        assert!(a.flush(&pool));
        assert_eq!(misplaced(&pool, &[&a, &b], &[]), []);
        let chunk = pool.take_full().unwrap();
        assert_eq!(misplaced(&pool, &[&a, &b], &[&chunk]), []);
        // The collector forgets to give it back.
        assert_eq!(misplaced(&pool, &[&a, &b], &[]), [0]);
        // It gives back one that a log holds.
        pool.recycle(Chunk(b.held - 1));
        assert_eq!(misplaced(&pool, &[&a, &b], &[&chunk]), [1]);
        // It gives one back twice.
        let pool = LogPool::new(3);
        pool.recycle(Chunk(0));
        assert!(misplaced(&pool, &[], &[]).contains(&0));
        // A log that goes without being flushed takes its chunk with it.
        let pool = LogPool::new(3);
        let mut gone = Log::new();
        assert!(gone.push(&pool, one));
        assert_eq!(misplaced(&pool, &[], &[]), [0]);
    }

    #[test]
    fn an_exhausted_pool_refuses_and_recovers() {
        let pool = LogPool::new(1);
        let (mut a, mut b) = (Log::new(), Log::new());
        assert!(a.push(&pool, without_provenance_mut(1)));
        assert!(!b.push(&pool, without_provenance_mut(2)));
        for i in 2..=CHUNK_ENTRIES {
            assert!(a.push(&pool, without_provenance_mut(i)));
        }
        assert!(!a.push(&pool, without_provenance_mut(9999)));
        assert_eq!(drain(&pool).len(), CHUNK_ENTRIES);
        assert!(b.push(&pool, without_provenance_mut(2)));
    }

    #[test]
    fn hand_off_between_threads() {
        let pool = LogPool::new(64);
        let done = std::sync::atomic::AtomicU32::new(0);
        let mut got = std::thread::scope(|s| {
            for t in 0..3usize {
                let (pool, done) = (&pool, &done);
                s.spawn(move || {
                    let mut log = Log::new();
                    for i in 0..20_000 {
                        while !log.push(pool, without_provenance_mut(t * 20_000 + i + 1)) {
                            std::thread::yield_now();
                        }
                    }
                    log.flush(pool);
                    done.fetch_add(1, Release);
                });
            }
            let mut got = vec![];
            while done.load(Acquire) < 3 || !pool.is_drained() {
                got.extend(drain(&pool));
            }
            got
        });
        got.sort_unstable();
        assert_eq!(got, (1..=60_000).collect::<Vec<_>>());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use std::ptr::without_provenance_mut;

    /// Two mutators hand over chunks while the collector takes them: each entry arrives exactly once.
    #[test]
    fn hand_off() {
        loom::model(|| {
            let pool = Arc::new(LogPool::new(3));
            let threads: Vec<_> = (0..2usize)
                .map(|t| {
                    let pool = Arc::clone(&pool);
                    loom::thread::spawn(move || {
                        let mut log = Log::new();
                        assert!(log.push(&pool, without_provenance_mut(t + 1)));
                        log.flush(&pool);
                    })
                })
                .collect();
            let mut got = vec![];
            let take = |got: &mut Vec<usize>| {
                while let Some(c) = pool.take_full() {
                    got.extend(pool.entries(&c).map(|p| p.addr()));
                    pool.recycle(c);
                }
            };
            take(&mut got);
            for t in threads {
                t.join().unwrap();
            }
            take(&mut got);
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
        });
    }
}
