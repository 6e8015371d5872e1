//! The writer's side: the rings of all watchers.

use super::{Seen, Watch, Watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
struct Feed {
    ring: rtrb::Producer<Seen>,
    lost: Arc<AtomicU64>,
}

/// All watchers of one heap.
#[derive(Debug)]
pub(crate) struct Feeds {
    feeds: Vec<Feed>,
    watched: Arc<Watched>,
    closed: bool,
}

impl Feeds {
    pub(crate) fn new(watched: Watched) -> Feeds {
        Feeds { feeds: Vec::new(), watched: Arc::new(watched), closed: false }
    }

    /// One more watcher, with a ring for `records` events (at least one). Of a closed heap it has ended at once.
    pub(crate) fn add(&mut self, records: usize) -> Watch {
        let (producer, consumer) = rtrb::RingBuffer::new(records.max(1));
        let lost = Arc::new(AtomicU64::new(0));
        if !self.closed {
            self.feeds.push(Feed { ring: producer, lost: Arc::clone(&lost) });
        }
        Watch { ring: consumer, lost, watched: Arc::clone(&self.watched) }
    }

    /// Whether anybody watches: whether events need to be made.
    pub(crate) fn watched(&self) -> bool {
        !self.feeds.is_empty()
    }

    /// Tells all watchers. Never waits.
    pub(crate) fn offer(&mut self, seen: Seen) {
        self.feeds.retain_mut(|feed| {
            if feed.ring.is_abandoned() {
                return false;
            }
            if feed.ring.push(seen.clone()).is_err() {
                // Relaxed: a counter.
                feed.lost.fetch_add(1, Relaxed);
            }
            true
        });
    }

    /// The heap is closed: nothing follows.
    pub(crate) fn close(&mut self) {
        self.feeds.clear();
        self.closed = true;
    }
}
