//! The inverted index in the heap: a hash table of terms in an array of slots, postings in lists of chunks.
//!
//! One thread builds a segment and publishes it when it is complete; from then on it does not change. Everything is
//! allocated before it is linked, so that a failed allocation leaves the segment as it was.

use super::oracle::term_digest;
use super::text::{Next, Token, Tokens};
use crate::run::env::{Env, Failure};
use metronome_gc::{AllocError, Gc, GcArray, Mutator, Root, Slot, Trace};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Where the segments of all shards are published.
pub(super) type Board = GcArray<Slot<Segment>>;

const FIRST_BUCKETS: usize = 256;
const FIRST_CHUNK: usize = 2;
/// Postings of the largest chunk: four leaves.
const CHUNK_MAX: usize = 2048;
/// Tokens between safepoints.
const BATCH: usize = 64;
/// Bytes looked at between polls where there are no tokens.
const STRETCH: usize = 4096;
/// Buckets visited between safepoints.
const BUCKETS_BATCH: usize = 32;

/// The index of one shard. Its counters are written by its builder alone.
#[derive(Trace)]
pub(super) struct Segment {
    table: Slot<GcArray<Slot<Term>>>,
    terms: AtomicU64,
}

/// A term and its postings.
#[derive(Trace)]
pub(super) struct Term {
    hash: u64,
    next: Slot<Term>,
    text: Slot<GcArray<u8>>,
    newest: Slot<Chunk>,
    documents: AtomicU32,
}

/// Some postings; the lists of chunks go from the newest to the oldest.
#[derive(Trace)]
pub(super) struct Chunk {
    older: Slot<Chunk>,
    /// Document in the upper half, occurrences in the lower.
    entries: Slot<GcArray<AtomicU64>>,
    used: AtomicU32,
}

fn posting(document: u32, count: u32) -> u64 {
    u64::from(document) << 32 | u64::from(count)
}

fn parts(posting: u64) -> (u32, u32) {
    ((posting >> 32) as u32, posting as u32)
}

/// FNV-1a, 64 bits.
fn hash(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// The bytes of a token, which is shorter than a leaf, so that its array is one slice.
fn slice<'m>(word: Gc<'m, GcArray<u8>>) -> &'m [u8] {
    word.leaves().next().unwrap_or(&[])
}

fn bucket(hash: u64, buckets: usize) -> usize {
    // FNV's upper bits are the better mixed ones; the table's size is a power of two.
    (hash ^ (hash >> 32)) as usize & (buckets - 1)
}

impl Segment {
    /// An empty segment.
    pub(super) fn alloc<'m>(m: &'m Mutator<'_>) -> Result<Gc<'m, Segment>, AllocError> {
        let table = m.alloc_slots(FIRST_BUCKETS)?;
        m.alloc(SegmentInit { table: Some(table), terms: AtomicU64::new(0) })
    }
}

impl Term {
    /// Number of its postings.
    pub(super) fn documents(&self) -> u32 {
        // Relaxed, here and below: a segment that others see was published by a slot's store after all of this.
        self.documents.load(Relaxed)
    }

    fn is(&self, m: &Mutator<'_>, hash: u64, text: &[u8]) -> bool {
        self.hash == hash && self.text.load(m).is_some_and(|t| slice(t) == text)
    }
}

/// The term of this text in a segment.
pub(super) fn find<'m>(m: &'m Mutator<'_>, segment: Gc<'m, Segment>, text: &[u8]) -> Option<Gc<'m, Term>> {
    let hash = hash(text);
    let table = segment.table.load(m)?;
    let mut at = table.load(m, bucket(hash, table.len()));
    while let Some(term) = at {
        if term.is(m, hash, text) {
            return Some(term);
        }
        at = term.next.load(m);
    }
    None
}

/// The postings of a term, the newest document first.
pub(super) fn postings<'m>(m: &'m Mutator<'_>, term: Gc<'m, Term>) -> impl Iterator<Item = (u32, u32)> + 'm {
    let mut chunk = term.newest.load(m);
    // Relaxed, here and below: who looks up has the segment by way of a slot that was stored when it was complete.
    let mut left = chunk.map_or(0, |c| c.used.load(Relaxed));
    std::iter::from_fn(move || {
        while left == 0 {
            chunk = chunk?.older.load(m);
            left = chunk?.used.load(Relaxed);
        }
        left -= 1;
        m.poll();
        chunk?.entries.load(m)?.get(left as usize).map(|e| parts(e.load(Relaxed)))
    })
}

/// Indexes a document. False if `stop` said so before it was complete.
pub(super) fn document(
    env: &Env,
    m: &mut Mutator<'_>,
    segment: &Root<Segment>,
    number: u32,
    text: &[u8],
    stop: &dyn Fn() -> bool,
) -> Result<bool, Failure> {
    let mut tokens = Tokens::new(text);
    // A token whose memory could not be had at once.
    let mut pending: Option<Token> = None;
    loop {
        if stop() {
            return Ok(false);
        }
        let more = env.insist(m, |m| {
            let segment = segment.get(m);
            for _ in 0..BATCH {
                if pending.is_none() {
                    match tokens.next(STRETCH) {
                        Next::Token(token) => pending = Some(token),
                        Next::Pause => {}
                        Next::End => return Ok(false),
                    }
                }
                if let Some(token) = &pending {
                    // A word is an object of its own, as programs do it; garbage if the term is known already.
                    let bytes = token.as_bytes();
                    let word = m.alloc_array(bytes.len(), |i| bytes[i])?;
                    add(m, segment, number, word)?;
                    pending = None;
                }
                m.poll();
            }
            Ok(true)
        })?;
        if !more {
            return Ok(true);
        }
    }
}

/// Counts one occurrence of a term in a document.
fn add(
    m: &Mutator<'_>,
    segment: Gc<'_, Segment>,
    number: u32,
    word: Gc<'_, GcArray<u8>>,
) -> Result<(), AllocError> {
    let Some(term) = find(m, segment, slice(word)) else {
        return insert(m, segment, number, word);
    };
    if let Some(chunk) = term.newest.load(m)
        && let Some(entries) = chunk.entries.load(m)
    {
        // Relaxed, here and below: the builder alone sees the segment; the slot that publishes it orders all of this.
        let used = chunk.used.load(Relaxed) as usize;
        if let Some(last) = used.checked_sub(1).and_then(|i| entries.get(i))
            && parts(last.load(Relaxed)).0 == number
        {
            last.fetch_add(1, Relaxed);
            return Ok(());
        }
        match entries.get(used) {
            Some(free) => {
                free.store(posting(number, 1), Relaxed);
                chunk.used.fetch_add(1, Relaxed);
            }
            None => {
                let larger = new_chunk(m, (2 * used).min(CHUNK_MAX), number, Some(chunk))?;
                term.newest.store(m, larger);
            }
        }
        // Relaxed: as above.
        term.documents.fetch_add(1, Relaxed);
    }
    Ok(())
}

fn new_chunk<'m>(
    m: &'m Mutator<'_>,
    capacity: usize,
    number: u32,
    older: Option<Gc<'m, Chunk>>,
) -> Result<Gc<'m, Chunk>, AllocError> {
    let first = |i| AtomicU64::new(if i == 0 { posting(number, 1) } else { 0 });
    let entries = m.alloc_array(capacity, first)?;
    m.alloc(ChunkInit { older, entries: Some(entries), used: AtomicU32::new(1) })
}

fn insert(
    m: &Mutator<'_>,
    segment: Gc<'_, Segment>,
    number: u32,
    word: Gc<'_, GcArray<u8>>,
) -> Result<(), AllocError> {
    let Some(mut table) = segment.table.load(m) else { return Ok(()) };
    // Relaxed: the builder alone sees the segment.
    if segment.terms.load(Relaxed) >= table.len() as u64 {
        table = grow(m, table)?;
        segment.table.store(m, table);
    }
    let hash = hash(slice(word));
    let place = bucket(hash, table.len());
    let chunk = new_chunk(m, FIRST_CHUNK, number, None)?;
    let term = m.alloc(TermInit {
        hash,
        next: table.load(m, place),
        text: Some(word),
        newest: Some(chunk),
        documents: AtomicU32::new(1),
    })?;
    table.store(m, place, term);
    // Relaxed: as above.
    segment.terms.fetch_add(1, Relaxed);
    Ok(())
}

/// A table twice as large with all terms moved over. The builder alone sees the segment, so the chains may be relinked
/// in place; nothing can fail once that has begun.
fn grow<'m>(
    m: &'m Mutator<'_>,
    old: Gc<'m, GcArray<Slot<Term>>>,
) -> Result<Gc<'m, GcArray<Slot<Term>>>, AllocError> {
    let table = m.alloc_slots::<Term>(2 * old.len())?;
    for i in 0..old.len() {
        let mut at = old.load(m, i);
        while let Some(term) = at {
            at = term.next.load(m);
            let place = bucket(term.hash, table.len());
            term.next.store(m, table.load(m, place));
            table.store(m, place, term);
            m.poll();
        }
    }
    Ok(table)
}

/// Gets a term's text and its postings.
pub(super) type TermVisitor<'a> = dyn FnMut(&[u8], &[(u32, u32)]) + 'a;

/// Visits every term of a segment with its postings in ascending order.
pub(super) fn each_term(m: &mut Mutator<'_>, segment: &Root<Segment>, visit: &mut TermVisitor<'_>) {
    let buckets = segment.get(m).table.load(m).map_or(0, |t| t.len());
    let mut list = Vec::new();
    for start in (0..buckets).step_by(BUCKETS_BATCH) {
        if let Some(table) = segment.get(m).table.load(m) {
            for i in start..buckets.min(start + BUCKETS_BATCH) {
                let mut at = table.load(m, i);
                while let Some(term) = at {
                    list.clear();
                    list.extend(postings(m, term));
                    list.reverse();
                    let text = term.text.load(m).map_or(&[][..], slice);
                    visit(text, &list);
                    m.poll();
                    at = term.next.load(m);
                }
            }
        }
        m.safepoint();
    }
}

/// The sum over all postings of a segment, as the independent index makes it.
pub(super) fn checksum(m: &mut Mutator<'_>, segment: &Root<Segment>) -> u64 {
    let mut sum = 0_u64;
    each_term(m, segment, &mut |term, postings| {
        sum = sum.wrapping_add(term_digest(term, postings.iter().copied()));
    });
    sum
}

#[cfg(test)]
mod tests {
    use super::super::oracle::Oracle;
    use super::*;
    use metronome_gc::Heap;
    use std::sync::Arc;

    /// Many documents, so that chunks grow over several leaves, and many terms, so that the table grows.
    #[test]
    fn the_heaps_index_equals_the_independent_one() {
        let env = Env::new(Heap::builder().heap_bytes(64 << 20).build().unwrap(), Arc::default());
        let mut oracle = Oracle::new(1);
        let texts: Vec<String> =
            (0..6_000).map(|i| format!("common common {} word{} a{}", i % 7, i % 1000, i)).collect();
        for (i, text) in texts.iter().enumerate() {
            oracle.add(i as u32, text.as_bytes(), u64::MAX);
        }
        oracle.finish();
        env.heap.enter(|m| {
            let segment = Root::new(m, Segment::alloc(m).unwrap());
            for (i, text) in texts.iter().enumerate() {
                assert!(document(&env, m, &segment, i as u32, text.as_bytes(), &|| false).unwrap());
                if i % 1000 == 0 {
                    m.collect(metronome_gc::Collect::Cycle).unwrap();
                }
            }
            assert_eq!(checksum(m, &segment), oracle.checksum(0));
            let mut check = oracle.check(0);
            each_term(m, &segment, &mut |term, postings| check.term(term, postings));
            let (terms, postings, differences) = check.end();
            assert_eq!((terms, postings, differences), (oracle.terms(), oracle.postings(), Vec::new()));
            // One more occurrence, and the comparison must notice.
            assert!(document(&env, m, &segment, 6_000, b"common", &|| false).unwrap());
            assert_ne!(checksum(m, &segment), oracle.checksum(0));
        });
    }
}
