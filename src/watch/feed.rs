//! The writer's side: the rings of all watchers.

use super::{Seen, Watch, Watched};
use crate::events::ring::{Producer, ring};
use std::sync::Arc;

/// All watchers of one heap.
#[derive(Debug)]
pub(crate) struct Feeds {
    feeds: Vec<Producer<Seen>>,
    watched: Arc<Watched>,
    closed: bool,
}

impl Feeds {
    pub(crate) fn new(watched: Watched) -> Feeds {
        Feeds { feeds: Vec::new(), watched: Arc::new(watched), closed: false }
    }

    /// One more watcher, with a ring for `records` events (at least one). Of a closed heap it has ended at once.
    pub(crate) fn add(&mut self, records: usize) -> Watch {
        let (producer, consumer) = ring(records);
        if !self.closed {
            self.feeds.push(producer);
        }
        Watch { ring: consumer, watched: Arc::clone(&self.watched) }
    }

    /// Whether anybody watches: whether events need to be made.
    pub(crate) fn watched(&self) -> bool {
        !self.feeds.is_empty()
    }

    /// Tells all watchers. Never waits.
    pub(crate) fn offer(&mut self, seen: Seen) {
        self.feeds.retain_mut(|feed| {
            if feed.is_abandoned() {
                return false;
            }
            feed.offer(seen.clone());
            true
        });
    }

    /// The heap is closed: nothing follows.
    pub(crate) fn close(&mut self) {
        self.feeds.clear();
        self.closed = true;
    }
}
