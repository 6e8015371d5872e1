//! Queries, and their answers from the index in the heap.

use super::super::random::{Random, mix};
use super::build::{self, Board};
use metronome_gc::{AllocError, Gc, GcArray, Mutator};
use std::fmt;

/// A question to an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Query {
    /// The documents that hold the term.
    Term(Vec<u8>),
    /// The documents that hold both.
    Both(Vec<u8>, Vec<u8>),
    /// The document that holds the term most often, the first of several.
    Best(Vec<u8>),
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |t: &[u8]| String::from_utf8_lossy(t).into_owned();
        match self {
            Query::Term(t) => write!(f, "query {:?}", text(t)),
            Query::Both(a, b) => write!(f, "query {:?} and {:?}", text(a), text(b)),
            Query::Best(t) => write!(f, "query for most of {:?}", text(t)),
        }
    }
}

impl Query {
    /// A query about terms of the vocabulary; now and then about one that is in no document.
    pub(super) fn choose(random: &mut Random, vocabulary: &[Box<[u8]>]) -> Query {
        let mut term = || {
            if vocabulary.is_empty() || random.below(16) == 0 {
                // A blank is in no token.
                return format!("no such term {}", random.below(1000)).into_bytes();
            }
            vocabulary[random.below(vocabulary.len() as u64) as usize].to_vec()
        };
        let (a, b) = (term(), term());
        match random.below(3) {
            0 => Query::Term(a),
            1 => Query::Both(a, b),
            _ => Query::Best(a),
        }
    }
}

/// An answer: how many documents, and a digest of which and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) documents: u64,
    sum: u64,
}

impl Answer {
    /// Adds a document, in any order.
    pub(super) fn hit(&mut self, document: u32, weight: u64) {
        self.documents += 1;
        self.sum = self.sum.wrapping_add(mix(mix(u64::from(document)) ^ weight));
    }
}

/// Answers a query from all segments. Builds its lists of hits in the heap.
pub(super) fn answer(m: &Mutator<'_>, board: Gc<'_, Board>, query: &Query) -> Result<Answer, AllocError> {
    let mut answer = Answer::default();
    let mut best: Option<(u32, u32)> = None;
    for i in 0..board.len() {
        let Some(segment) = board.load(m, i) else { continue };
        match query {
            Query::Term(term) => {
                for &(document, count) in list(m, segment, term)?.iter() {
                    answer.hit(document, u64::from(count));
                    m.poll();
                }
            }
            Query::Both(a, b) => both(m, list(m, segment, a)?, list(m, segment, b)?, &mut answer),
            Query::Best(term) => {
                for &(document, count) in list(m, segment, term)?.iter() {
                    if best.is_none_or(|(d, c)| count > c || (count == c && document < d)) {
                        best = Some((document, count));
                    }
                    m.poll();
                }
            }
        }
    }
    if let Some((document, count)) = best {
        answer.hit(document, u64::from(count));
    }
    Ok(answer)
}

/// A copy of a term's postings, the newest document first.
fn list<'m>(
    m: &'m Mutator<'_>,
    segment: Gc<'m, build::Segment>,
    term: &[u8],
) -> Result<Gc<'m, GcArray<(u32, u32)>>, AllocError> {
    let Some(term) = build::find(m, segment, term) else { return m.alloc_array(0, |_| (0, 0)) };
    let mut postings = build::postings(m, term);
    m.alloc_array(term.documents() as usize, |_| postings.next().unwrap_or((u32::MAX, 0)))
}

/// Merges two lists in descending order of documents.
fn both(
    m: &Mutator<'_>,
    a: Gc<'_, GcArray<(u32, u32)>>,
    b: Gc<'_, GcArray<(u32, u32)>>,
    answer: &mut Answer,
) {
    let (mut i, mut j) = (0, 0);
    while let (Some(&(da, ca)), Some(&(db, cb))) = (a.get(i), b.get(j)) {
        if da == db {
            answer.hit(da, u64::from(ca) << 32 | u64::from(cb));
        }
        i += usize::from(da >= db);
        j += usize::from(db >= da);
        m.poll();
    }
}
