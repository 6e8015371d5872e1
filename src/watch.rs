//! Watching a heap: every event of its collector, as it happens, for live views, recordings and other tools.
//!
//! # Who may touch what
//! The writer puts events into the ring of each [`Watch`], under the lock of its state; the watcher takes them out. Neither
//! waits for the other: what does not fit is dropped and counted. The collector knows nothing of it.

mod event;
mod feed;

pub(crate) use event::word;
pub use event::{HeapEvent, QuantumEvent, Seen};
pub(crate) use feed::Feeds;

use crate::config::Config;
use crate::events::ring::Consumer;
use std::sync::Arc;

/// What is watched, and since when.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Watched {
    /// The heap's configuration.
    pub config: Config,
    /// Version of this crate.
    pub version: &'static str,
    /// When the heap was built, on the clock of the events (monotonic, nanoseconds).
    pub start_ns: u64,
    /// The same in nanoseconds since 1970.
    pub start_unix_ns: i128,
}

/// The watcher's end of a bounded stream of events; see [`Heap::watch`](crate::Heap::watch).
///
/// It does not keep the heap open. Dropping it ends the stream.
#[derive(Debug)]
pub struct Watch {
    ring: Consumer<Seen>,
    watched: Arc<Watched>,
}

impl Watch {
    /// What is watched.
    #[must_use]
    pub fn watched(&self) -> &Arc<Watched> {
        &self.watched
    }

    /// The next event, if there is one. Wait-free, O(1).
    pub fn try_next(&mut self) -> Option<Seen> {
        self.ring.pop()
    }

    /// Events that found the ring full so far. (What the collector's own ring lost is an event,
    /// [`HeapEvent::Lost`].)
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring.lost()
    }

    /// Whether the heap is closed and everything has been taken.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ring.has_ended()
    }
}

/// A text of the program, cut to what is kept of it.
pub(crate) fn cut(text: &str) -> String {
    let mut end = text.len().min(BOOKMARK_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Bytes of a bookmark's text that are kept.
const BOOKMARK_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn feeds() -> Feeds {
        Feeds::new(Watched { config: Config::default(), version: "0", start_ns: 5, start_unix_ns: 7 })
    }

    fn bookmark(i: u64) -> Seen {
        Seen { ns: i, event: HeapEvent::Bookmark { text: i.to_string() } }
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted_for_each_watcher_alone() {
        let mut feeds = feeds();
        let (mut small, mut large) = (feeds.add(4), feeds.add(100));
        assert_eq!((small.watched().start_ns, large.watched().start_unix_ns), (5, 7));
        for i in 0..10 {
            feeds.offer(bookmark(i));
        }
        let all = |w: &mut Watch| std::iter::from_fn(|| w.try_next()).map(|s| s.ns).collect::<Vec<_>>();
        // The oldest stay: what was seen has no hole in it.
        assert_eq!((all(&mut small), small.lost()), ((0..4).collect(), 6));
        assert_eq!((all(&mut large), large.lost()), ((0..10).collect(), 0));
        feeds.offer(bookmark(10));
        assert_eq!((all(&mut small), small.lost(), small.ended()), (vec![10], 6, false));
        feeds.offer(bookmark(11));
        feeds.close();
        assert!(!small.ended(), "one is left");
        assert_eq!(all(&mut small), [11]);
        assert!(small.ended());
    }

    #[test]
    fn a_watcher_that_goes_away_is_forgotten() {
        let mut feeds = feeds();
        assert!(!feeds.watched());
        let watch = feeds.add(4);
        assert!(feeds.watched());
        drop(watch);
        feeds.offer(bookmark(1));
        assert!(!feeds.watched());
        feeds.close();
        assert!(feeds.add(4).ended(), "of a closed heap");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = cut(&"ä€".repeat(1000));
        assert!(long.len() <= BOOKMARK_MAX && long.len() > BOOKMARK_MAX - 4, "{}", long.len());
    }
}
