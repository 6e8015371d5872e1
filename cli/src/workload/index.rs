//! The index workload: an inverted index of real files, built again and again in the heap while queries run.
//!
//! The files are read once, into plain memory, up to a budget that follows from the heap's size; so every round and
//! the independent index see the same bytes even if files change meanwhile. With N workload threads, one answers
//! queries and the others each index the documents whose number is theirs modulo N - 1; with one thread, queries are
//! asked between documents.

mod build;
mod corpus;
mod oracle;
mod query;
mod text;
mod walk;

use super::random::Random;
use super::{Tally, Workload};
use crate::quantity::{bytes, grouped};
use crate::run::env::{Env, Failure};
use build::{Board, Segment};
use corpus::Corpus;
pub(crate) use corpus::Note;
use metronome_gc::{Global, Mutator, Root};
use oracle::Oracle;
use query::Query;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Pause of the query thread after each query.
const QUERY_PAUSE: Duration = Duration::from_micros(500);

/// What the files may cost in a heap of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Bytes of text kept in plain memory.
    pub(crate) text_bytes: u64,
    /// Bytes read of a single file.
    pub(crate) file_bytes: u64,
    /// Bytes of the index in the heap, as estimated while reading.
    pub(crate) index_bytes: u64,
}

impl Budget {
    /// Two generations of the index are alive while one is being built; so it may take a sixth of the heap.
    pub(crate) fn for_heap(heap_bytes: u64) -> Budget {
        let text_bytes = (heap_bytes / 4).clamp(256 << 10, 32 << 20);
        Budget { text_bytes, file_bytes: text_bytes / 4, index_bytes: heap_bytes / 6 }
    }
}

/// The workload: what was read, and the independent index of it.
#[derive(Debug)]
pub(crate) struct Index {
    input: PathBuf,
    corpus: Corpus,
    oracle: Oracle,
    budget: Budget,
    shards: usize,
    mutators: usize,
    board: OnceLock<Global<Board>>,
}

impl Index {
    /// Reads the files below `dir` and indexes them with the standard library's collections.
    ///
    /// # Errors
    /// What to do, if `dir` cannot be read or the user ended the run meanwhile.
    pub(crate) fn new(
        dir: &Path,
        heap_bytes: u64,
        mutators: u32,
        stop: &dyn Fn() -> bool,
        noted: &mut dyn FnMut(&Path, Note),
    ) -> Result<Index, String> {
        let mutators = mutators as usize;
        let shards = (mutators - 1).max(1);
        let budget = Budget::for_heap(heap_bytes);
        let mut oracle = Oracle::new(shards);
        let corpus = corpus::read(dir, budget, &mut oracle, stop, noted)?;
        oracle.finish();
        let input = dir.to_owned();
        Ok(Index { input, corpus, oracle, budget, shards, mutators, board: OnceLock::new() })
    }

    /// The board that segments are published on: made by whichever thread comes first.
    fn board(&self, env: &Env, m: &mut Mutator<'_>) -> Result<&Global<Board>, Failure> {
        if let Some(board) = self.board.get() {
            return Ok(board);
        }
        let made = env.insist(m, |m| Ok(Global::new(m, m.alloc_slots(self.shards)?)))?;
        // If another thread was faster, this one's board is garbage.
        Ok(self.board.get_or_init(|| made))
    }

    /// Builds one segment; `None` if the run stops before it is complete.
    fn round(
        &self,
        env: &Env,
        shard: usize,
        m: &mut Mutator<'_>,
        first: bool,
        queries: &mut Option<Queries<'_>>,
        tally: &mut Tally,
    ) -> Result<Option<Root<Segment>>, Failure> {
        let segment = env.insist(m, |m| Ok(Root::new(m, Segment::alloc(m)?)))?;
        for (number, document) in self.corpus.documents.iter().enumerate().skip(shard).step_by(self.shards) {
            let stop = || env.interrupted() || (!first && env.stopping());
            if !build::document(env, m, &segment, number as u32, &document.bytes, &stop)? {
                return Ok(None);
            }
            if let Some(queries) = queries {
                queries.ask(env, m, tally)?;
            }
        }
        Ok(Some(segment))
    }

    fn indexer(&self, env: &Env, shard: usize, m: &mut Mutator<'_>) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        let board = self.board(env, m)?;
        let mut queries = (self.mutators == 1).then(|| Queries::new(self, board));
        let mut rounds = 0_u64;
        let mut last_found = None;
        let last = loop {
            let segment = self.round(env, shard, m, rounds == 0, &mut queries, &mut tally)?;
            let Some(segment) = segment else {
                tally.count("rounds abandoned at the end", 1);
                if rounds == 0 {
                    return Err(Failure::Interrupted);
                }
                let last = board.get(m).load(m, shard).map(|s| Root::new(m, s));
                break last;
            };
            let found = build::checksum(m, &segment);
            last_found = Some(found);
            if found != self.oracle.checksum(shard) {
                tally.differs(|| format!("index-{shard}: round {rounds} differs from the independent index"));
            }
            board.get(m).store(m, shard, segment.get(m));
            rounds += 1;
            // Relaxed: a counter for reports.
            env.counters.rounds.fetch_add(1, Relaxed);
            if self.corpus.documents.is_empty() {
                env.stop();
            }
            if env.stopping() {
                break Some(segment);
            }
            m.safepoint();
        };
        tally.count("rounds", rounds);
        // Of one round, so that it is the same in every run over the same files; each round was compared above.
        tally.add(last_found.unwrap_or(0), self.oracle.checksum(shard));
        match last {
            Some(segment) => self.compare(m, shard, &segment, &mut tally),
            None => tally.differs(|| format!("index-{shard}: the published segment is gone")),
        }
        Ok(tally)
    }

    /// Compares every term and posting of a segment with the independent index, in both directions.
    fn compare(&self, m: &mut Mutator<'_>, shard: usize, segment: &Root<Segment>, tally: &mut Tally) {
        let mut check = self.oracle.check(shard);
        build::each_term(m, segment, &mut |term, postings| check.term(term, postings));
        let (terms, postings, differences) = check.end();
        tally.count("terms compared", terms);
        tally.count("postings compared", postings);
        for difference in differences {
            tally.differs(|| format!("index-{shard}: {difference}"));
        }
    }

    fn querier(&self, env: &Env, m: &mut Mutator<'_>) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        let board = self.board(env, m)?;
        let mut queries = Queries::new(self, board);
        while !env.stopping() {
            queries.ask(env, m, &mut tally)?;
            m.blocking(|| std::thread::sleep(QUERY_PAUSE));
        }
        Ok(tally)
    }
}

/// The stream of queries of one thread.
struct Queries<'a> {
    index: &'a Index,
    board: &'a Global<Board>,
    random: Random,
}

impl<'a> Queries<'a> {
    fn new(index: &'a Index, board: &'a Global<Board>) -> Queries<'a> {
        Queries { index, board, random: Random::new(0x9ea7) }
    }

    /// Asks one query of the heap's index and of the independent one. Nothing while a segment has yet to be built.
    fn ask(&mut self, env: &Env, m: &mut Mutator<'_>, tally: &mut Tally) -> Result<(), Failure> {
        let board = self.board.get(m);
        if (0..board.len()).any(|i| board.at(i).is_null()) {
            m.safepoint();
            return Ok(());
        }
        let query = Query::choose(&mut self.random, self.index.oracle.vocabulary());
        let found = env.insist(m, |m| query::answer(m, self.board.get(m), &query))?;
        let expected = self.index.oracle.answer(&query);
        if found != expected {
            tally.differs(|| format!("{query}: {found:?} instead of {expected:?}"));
        }
        tally.count("queries", 1);
        // Relaxed: a counter for reports.
        env.counters.queries.fetch_add(1, Relaxed);
        Ok(())
    }
}

impl Workload for Index {
    fn name(&self) -> &'static str {
        "index"
    }

    fn thread_name(&self, i: usize) -> String {
        if i < self.shards { format!("index-{i}") } else { format!("query-{}", i - self.shards) }
    }

    fn size_classes(&self) -> u64 {
        // Words of all lengths, chunks of all sizes, the other objects.
        32
    }

    fn nothing(&self) -> Option<String> {
        let dir = self.input.display();
        (self.corpus.counts.indexed == 0).then(|| format!("nothing to index: no text files below {dir}"))
    }

    fn live_estimate(&self) -> u64 {
        2 * self.oracle.index_bytes()
    }

    fn plan(&self) -> Vec<String> {
        let c = &self.corpus.counts;
        let mut lines = vec![format!(
            "{} files indexed ({}), {} terms, {} postings",
            grouped(c.indexed),
            bytes(c.indexed_bytes),
            grouped(self.oracle.terms()),
            grouped(self.oracle.postings())
        )];
        lines.extend(self.nothing());
        let skipped: Vec<String> =
            c.skipped.iter().map(|(why, n)| format!("{} {why}", grouped(*n))).collect();
        if !skipped.is_empty() {
            lines.push(format!("skipped: {} (-v names each)", skipped.join(", ")));
        }
        if c.invalid_utf8 > 0 {
            lines.push(format!(
                "{} files are not valid UTF-8 and were indexed as bytes",
                grouped(c.invalid_utf8)
            ));
        }
        if c.cut > 0 || c.skipped.contains_key(walk::OVER_BUDGET) {
            lines.push(format!(
                "capped for this heap: {} files cut; at most {} of text, {} per file, {} of index (a larger --heap \
                 raises this)",
                grouped(c.cut),
                bytes(self.budget.text_bytes),
                bytes(self.budget.file_bytes),
                bytes(self.budget.index_bytes)
            ));
        }
        lines
    }

    fn facts(&self) -> serde_json::Value {
        let c = &self.corpus.counts;
        json!({
            "files_indexed": c.indexed,
            "bytes_indexed": c.indexed_bytes,
            "files_cut": c.cut,
            "files_invalid_utf8": c.invalid_utf8,
            "files_skipped": c.skipped,
            "terms": self.oracle.terms(),
            "postings": self.oracle.postings(),
            "budget": {
                "text_bytes": self.budget.text_bytes,
                "file_bytes": self.budget.file_bytes,
                "index_bytes": self.budget.index_bytes,
            },
        })
    }

    fn run(&self, env: &Env, i: usize, m: &mut Mutator<'_>) -> Result<Tally, Failure> {
        if i < self.shards { self.indexer(env, i, m) } else { self.querier(env, m) }
    }
}
