//! A heap of a test lets go of all its memory.

use super::{TestHeap, TimedHeap};
use crate::config::Config;
use crate::shared::Shared;
use std::sync::{Arc, Weak};

/// Runs `one` many times on this thread; how many of the heaps that it made are still there.
fn left(one: impl Fn(Config) -> Weak<Shared>) -> usize {
    let heaps: Vec<_> =
        (0..50).map(|_| one(Config { heap: 1 << 20, immortal: 0, ..Config::default() })).collect();
    heaps.iter().filter(|heap| heap.strong_count() > 0).count()
}

#[test]
fn a_thread_keeps_at_most_the_last_heap_that_it_was_in() {
    let stepped = left(|config| {
        let heap = TestHeap::new(config).unwrap();
        heap.enter(|_| ());
        Arc::downgrade(&heap.shared)
    });
    assert_eq!(stepped, 1, "the attachment to the last one");
    let timed = left(|config| {
        let heap = TimedHeap::new(config, |_| super::Cost::own(1)).unwrap();
        heap.enter(|_| ());
        Arc::downgrade(&heap.shared)
    });
    assert_eq!(timed, 1, "the attachment to the last one, which replaces that to the stepped heap");
}
