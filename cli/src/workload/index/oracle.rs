//! The independent index: the standard library's collections and a tokenizer of its own.

use super::super::random::mix;
use super::query::{Answer, Query};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Bytes in the heap of a term besides its text: the term, its text's spine, its first chunk of postings, its share
/// of the table of buckets.
const TERM_BYTES: u64 = 48 + 24 + 80 + 16;
/// Bytes in the heap of a posting, with what chunks leave free.
const POSTING_BYTES: u64 = 16;
/// Differences kept.
const DIFFERENCES_MAX: usize = 5;

/// Document numbers, ascending, and how often the term occurs in each.
type Postings = Vec<(u32, u32)>;

/// An inverted index in plain memory.
#[derive(Debug)]
pub(super) struct Oracle {
    shards: usize,
    index: HashMap<Box<[u8]>, Postings>,
    vocabulary: Vec<Box<[u8]>>,
    postings: u64,
    index_bytes: u64,
    checksums: Vec<u64>,
}

/// What a term's postings add to a checksum. The sum does not depend on any order.
pub(super) fn term_digest(term: &[u8], postings: impl Iterator<Item = (u32, u32)>) -> u64 {
    let text = term.iter().fold(0x811c_9dc5_u64, |h, b| mix(h ^ u64::from(*b)));
    postings.fold(0, |sum, (document, count)| {
        sum.wrapping_add(mix(text ^ (u64::from(document) << 32 | u64::from(count))))
    })
}

/// Splits at everything that is no word character: the definition of a token, said the simple way.
fn tokens(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| !(b.is_ascii_alphanumeric() || *b == b'_' || !b.is_ascii())).filter(|run| !run.is_empty())
}

impl Oracle {
    pub(super) fn new(shards: usize) -> Oracle {
        Oracle {
            shards,
            index: HashMap::new(),
            vocabulary: Vec::new(),
            postings: 0,
            index_bytes: 0,
            checksums: vec![0; shards],
        }
    }

    /// Adds a document, as far as the index in the heap stays within `budget` bytes. The bytes of the text that were
    /// taken: all of it, or up to the first token that would be too much.
    pub(super) fn add(&mut self, document: u32, text: &[u8], budget: u64) -> usize {
        for run in tokens(text) {
            let token = run[..run.len().min(64)].to_ascii_lowercase();
            let cost = match self.index.get(token.as_slice()).map(|p| p.last()) {
                Some(Some(&(last, _))) if last == document => 0,
                Some(_) => POSTING_BYTES,
                None => TERM_BYTES + POSTING_BYTES + token.len() as u64,
            };
            if self.index_bytes + cost > budget {
                // The run is a part of the text.
                return run.as_ptr().addr() - text.as_ptr().addr();
            }
            self.index_bytes += cost;
            let postings = self.index.entry(token.into_boxed_slice()).or_default();
            match postings.last_mut() {
                Some((last, count)) if *last == document => *count += 1,
                _ => {
                    postings.push((document, 1));
                    self.postings += 1;
                }
            }
        }
        text.len()
    }

    /// All documents are in: sorts the vocabulary and sums up.
    pub(super) fn finish(&mut self) {
        self.vocabulary = self.index.keys().cloned().collect();
        self.vocabulary.sort_unstable();
        for (term, postings) in &self.index {
            for (shard, sum) in self.checksums.iter_mut().enumerate() {
                let own = postings.iter().copied().filter(|(d, _)| *d as usize % self.shards == shard);
                *sum = sum.wrapping_add(term_digest(term, own));
            }
        }
    }

    pub(super) fn vocabulary(&self) -> &[Box<[u8]>] {
        &self.vocabulary
    }

    pub(super) fn terms(&self) -> u64 {
        self.index.len() as u64
    }

    pub(super) fn postings(&self) -> u64 {
        self.postings
    }

    /// Bytes that the index takes in the heap, estimated.
    pub(super) fn index_bytes(&self) -> u64 {
        self.index_bytes
    }

    /// The sum over the postings of one shard.
    pub(super) fn checksum(&self, shard: usize) -> u64 {
        self.checksums[shard]
    }

    /// The right answer to a query.
    pub(super) fn answer(&self, query: &Query) -> Answer {
        let of = |term: &[u8]| self.index.get(term).map_or(&[][..], Vec::as_slice);
        let mut answer = Answer::default();
        match query {
            Query::Term(term) => {
                for &(document, count) in of(term) {
                    answer.hit(document, u64::from(count));
                }
            }
            Query::Both(a, b) => {
                let second: BTreeMap<u32, u32> = of(b).iter().copied().collect();
                for &(document, count) in of(a) {
                    if let Some(&other) = second.get(&document) {
                        answer.hit(document, u64::from(count) << 32 | u64::from(other));
                    }
                }
            }
            Query::Best(term) => {
                let best =
                    of(term).iter().max_by_key(|(document, count)| (*count, std::cmp::Reverse(*document)));
                if let Some(&(document, count)) = best {
                    answer.hit(document, u64::from(count));
                }
            }
        }
        answer
    }

    /// Starts the comparison of one shard.
    pub(super) fn check(&self, shard: usize) -> Check<'_> {
        Check { oracle: self, shard, seen: HashSet::new(), postings: 0, differences: Vec::new() }
    }
}

/// A comparison of the heap's index with this one, term by term.
#[derive(Debug)]
pub(super) struct Check<'a> {
    oracle: &'a Oracle,
    shard: usize,
    seen: HashSet<&'a [u8]>,
    postings: u64,
    differences: Vec<String>,
}

impl Check<'_> {
    /// A term of the heap's index, with its postings in ascending order.
    pub(super) fn term(&mut self, term: &[u8], postings: &[(u32, u32)]) {
        let name = || String::from_utf8_lossy(term).into_owned();
        let Some((key, expected)) = self.oracle.index.get_key_value(term) else {
            return self.differs(format!("the term {:?} occurs in no document", name()));
        };
        if !self.seen.insert(key) {
            self.differs(format!("the term {:?} is there twice", name()));
        }
        let (shard, shards) = (self.shard, self.oracle.shards);
        let expected = expected.iter().filter(|(document, _)| *document as usize % shards == shard);
        if !expected.eq(postings.iter()) {
            self.differs(format!("the postings of the term {:?} are wrong", name()));
        }
        self.postings += postings.len() as u64;
    }

    fn differs(&mut self, what: String) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what);
        }
    }

    /// Terms and postings compared, and what differed; terms that were missing among it.
    pub(super) fn end(mut self) -> (u64, u64, Vec<String>) {
        let (shard, shards) = (self.shard, self.oracle.shards);
        let in_shard = |p: &Postings| p.iter().any(|(document, _)| *document as usize % shards == shard);
        let missing: Vec<String> = self
            .oracle
            .index
            .iter()
            .filter(|(term, postings)| in_shard(postings) && !self.seen.contains(term.as_ref()))
            .take(DIFFERENCES_MAX)
            .map(|(term, _)| format!("the term {:?} is missing", String::from_utf8_lossy(term)))
            .collect();
        missing.into_iter().for_each(|what| self.differs(what));
        (self.seen.len() as u64, self.postings, self.differences)
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use crate::workload::random::Random;

    #[test]
    fn both_tokenizers_agree_on_random_bytes() {
        let mut random = Random::new(7);
        for round in 0..2_000 {
            let len = random.below(300) as usize;
            // Few different bytes, so that runs are long now and then.
            let letters = b"aZ_9 .\n\xc3\xa9\xff-";
            let text: Vec<u8> = (0..len)
                .map(
                    |_| if round % 3 == 0 { random.next() as u8 } else { letters[random.below(11) as usize] },
                )
                .collect();
            let simple: Vec<Vec<u8>> =
                tokens(&text).map(|run| run[..run.len().min(64)].to_ascii_lowercase()).collect();
            assert_eq!(text::all(&text), simple, "{text:?}");
        }
    }

    #[test]
    fn postings_count_documents_and_occurrences() {
        let mut oracle = Oracle::new(2);
        assert_eq!(oracle.add(0, b"to be or not to be", u64::MAX), 18);
        assert_eq!(oracle.add(1, b"To do", u64::MAX), 5);
        oracle.finish();
        assert_eq!((oracle.terms(), oracle.postings()), (5, 6));
        assert_eq!(oracle.index[&b"to"[..]], [(0, 2), (1, 1)]);
        assert_eq!(oracle.answer(&Query::Term(b"to".to_vec())).documents, 2);
        assert_eq!(oracle.answer(&Query::Both(b"to".to_vec(), b"be".to_vec())).documents, 1);
        assert_eq!(oracle.answer(&Query::Best(b"to".to_vec())), {
            let mut a = Answer::default();
            a.hit(0, 2);
            a
        });
        assert_eq!(oracle.answer(&Query::Term(b"absent".to_vec())), Answer::default());
    }

    #[test]
    fn the_budget_cuts_before_the_token_that_is_too_much() {
        let mut oracle = Oracle::new(1);
        let one = TERM_BYTES + POSTING_BYTES + 3;
        let text = b"aaa aaa bbb ccc";
        assert_eq!(oracle.add(0, text, 2 * one), 12);
        assert_eq!((oracle.terms(), oracle.index_bytes()), (2, 2 * one));
        let mut whole = Oracle::new(1);
        whole.add(0, &text[..12], u64::MAX);
        assert_eq!(whole.index, oracle.index, "the cut text gives the same index");
    }

    #[test]
    fn a_wrong_index_is_noticed_whatever_is_wrong() {
        let mut oracle = Oracle::new(1);
        oracle.add(0, b"a b b", u64::MAX);
        oracle.finish();
        type Terms<'a> = [(&'a [u8], &'a [(u32, u32)])];
        let right: &Terms<'_> = &[(b"a", &[(0, 1)]), (b"b", &[(0, 2)])];
        let differences = |terms: &Terms<'_>| {
            let mut check = oracle.check(0);
            terms.iter().for_each(|(t, p)| check.term(t, p));
            check.end().2.join("; ")
        };
        assert_eq!(differences(right), "");
        assert!(differences(&right[..1]).contains("missing"));
        assert!(differences(&[right[0], right[1], right[1]]).contains("twice"));
        assert!(differences(&[right[0], (b"b", &[(0, 1)])]).contains("wrong"));
        assert!(differences(&[right[0], right[1], (b"c", &[(0, 1)])]).contains("no document"));
    }
}
