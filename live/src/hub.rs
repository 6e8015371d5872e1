//! Where clients of a live view meet what happens: recent history, and a channel that never waits for them.

use crate::model::{Event, Record};
use crate::sink::Sink;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::broadcast;

/// Batches that a client may be behind before it loses the oldest.
const BEHIND_MAX: usize = 256;
/// Records of a batch at most.
const BATCH_MAX: usize = 1024;

/// Records that are sent together.
#[derive(Debug)]
pub struct Batch {
    /// Number of the first one, from 0.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// When the last one was.
    pub ns: u64,
    /// They as a JSON list.
    pub json: String,
}

#[derive(Debug, Default)]
struct History {
    next: u64,
    /// The run's first record is kept for ever.
    begin: Option<Arc<Batch>>,
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    waiting: Vec<Record>,
}

/// Passes records on to any number of clients. Publishing takes a lock that is held for copies of pointers only, and never
/// waits for a client: one that does not keep up loses the oldest batches and learns how many records that was.
#[derive(Debug)]
pub struct Hub {
    history: Mutex<History>,
    history_bytes: usize,
    channel: broadcast::Sender<Arc<Batch>>,
}

impl Hub {
    /// A hub that keeps up to `history_bytes` of the past for clients that come later.
    #[must_use]
    pub fn new(history_bytes: usize) -> Arc<Hub> {
        let (channel, _) = broadcast::channel(BEHIND_MAX);
        Arc::new(Hub { history: Mutex::default(), history_bytes, channel })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes records as one batch.
    pub fn publish(&self, records: &[Record]) {
        let Some(last) = records.last() else { return };
        // Outside the lock: this is what takes time.
        let json = records.iter().map(Record::json).collect::<Vec<_>>().join(",");
        let begins = matches!(records[0].event, Event::Begin(_));
        let mut h = self.lock();
        let batch = Arc::new(Batch {
            first: h.next,
            count: records.len() as u64,
            ns: last.ns,
            json: format!("[{json}]"),
        });
        h.next += batch.count;
        if begins && h.begin.is_none() {
            h.begin = Some(Arc::clone(&batch));
        } else {
            h.bytes += batch.json.len();
            h.batches.push_back(Arc::clone(&batch));
            while h.bytes > self.history_bytes && h.batches.len() > 1 {
                h.bytes -= h.batches.pop_front().map_or(0, |b| b.json.len());
            }
        }
        // Under the lock, so that a client that comes now sees each batch once (INV-LIVE-LOSS). It overwrites the oldest where
        // a client is behind (INV-LIVE-NO-WAIT); nobody listening is no error.
        let _ = self.channel.send(batch);
    }

    /// Records published so far.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.lock().next
    }

    /// What is kept of the past, from record `from` on, and all that follows.
    pub(crate) fn join(&self, from: u64) -> (Vec<Arc<Batch>>, broadcast::Receiver<Arc<Batch>>) {
        let h = self.lock();
        let past = h.begin.iter().chain(&h.batches).filter(|b| b.first + b.count > from);
        (past.cloned().collect(), self.channel.subscribe())
    }
}

/// The hub as a sink: records wait until a flush, and then go out together.
impl Sink for Arc<Hub> {
    fn take(&mut self, record: &Record) -> io::Result<()> {
        let mut h = self.lock();
        h.waiting.push(record.clone());
        let alone = matches!(record.event, Event::Begin(_));
        if !alone && h.waiting.len() < BATCH_MAX {
            return Ok(());
        }
        drop(h);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.lock().waiting);
        self.publish(&waiting);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush()
    }
}
