//! Loom model of the ring that events go through: every interleaving of some small programs.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_events`
//!
//! The ring's own source is compiled here with loom's atomics and cells. A place is a loom cell without any ordering of its
//! own, so that an access which the counts do not order is reported (INV-EVENT-OWNER). Nobody sleeps on this ring: the
//! writer comes by the clock, and whoever asks for statistics comes beside it, under the writer's lock.
#![cfg(loom)]
#![allow(dead_code, reason = "the models use a part of the library's own files")]

#[path = "loom/explore.rs"]
mod explore;
#[path = "../src/events/ring.rs"]
mod ring;
#[path = "loom/sync.rs"]
mod sync;

use explore::explore;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;
use ring::{Consumer, Producer, ring};

/// Takes what is there now.
fn take<T>(consumer: &mut Consumer<T>) -> Vec<T> {
    std::iter::from_fn(|| consumer.pop()).collect()
}

/// The collector records more than there is room for, while the writer comes twice: what arrives is in order, the rest is
/// counted, and a number of the lost that was read is never more than were lost in the end.
#[test]
fn what_is_recorded_arrives_in_order_or_is_counted() {
    for capacity in [1, 2] {
        explore(4, move || {
            let (mut recorder, mut drain) = ring(capacity);
            let writer = thread::spawn(move || {
                let mut read = take(&mut drain);
                read.extend(take(&mut drain));
                let lost = drain.lost();
                (drain, read, lost)
            });
            for event in 1..=4u32 {
                recorder.offer(event);
            }
            let (mut drain, mut read, told) = writer.join().unwrap();
            read.extend(take(&mut drain));
            assert!(read.is_sorted() && read[0] == 1, "{read:?}");
            assert!(told <= drain.lost());
            assert_eq!(read.len() as u64 + drain.lost(), 4, "{read:?}");
        });
    }
}

/// Nothing is lost as long as there is room, and a place is used again as soon as it was emptied.
#[test]
fn places_are_used_again() {
    explore(4, || {
        let (mut recorder, mut drain) = ring(1);
        let writer = thread::spawn(move || {
            let read = [drain.pop(), drain.pop()];
            (drain, read)
        });
        let kept: Vec<u32> = (1..=3).filter(|&e| recorder.push(e).is_ok()).collect();
        let (mut drain, read) = writer.join().unwrap();
        let read: Vec<u32> = read.into_iter().flatten().chain(drain.pop()).collect();
        assert_eq!(read, kept);
        assert_eq!(drain.lost(), 0, "what is given back is not lost");
    });
}

/// Two threads read by turns, under a lock: the writer, and one that asks for statistics. Each event is read once, and what
/// either reads is in order.
#[test]
fn two_readers_take_turns() {
    explore(2, || {
        let (mut recorder, drain) = ring(2);
        let drain = Arc::new(Mutex::new(drain));
        let asking = Arc::clone(&drain);
        let reader = thread::spawn(move || take(&mut asking.lock().unwrap()));
        let collector = thread::spawn(move || {
            for event in 1..=3u32 {
                recorder.offer(event);
            }
        });
        let mut read = take(&mut drain.lock().unwrap());
        assert!(read.is_sorted());
        collector.join().unwrap();
        let theirs = reader.join().unwrap();
        assert!(theirs.is_sorted());
        read.extend(theirs);
        let mut drain = drain.lock().unwrap();
        read.extend(take(&mut drain));
        read.sort_unstable();
        read.dedup();
        assert_eq!(read.len() as u64 + drain.lost(), 3, "{read:?}");
    });
}

/// A heap is closed while it is watched: what was put in before the end is read before the end is told.
#[test]
fn the_end_comes_after_all_events() {
    explore(4, || {
        let (mut feed, mut watch) = ring(2);
        let heap = thread::spawn(move || {
            feed.offer(1u32);
            feed.offer(2);
        });
        let mut read = take(&mut watch);
        let ended = watch.has_ended();
        if ended {
            assert_eq!(read, [1, 2]);
        }
        heap.join().unwrap();
        read.extend(take(&mut watch));
        assert!(watch.has_ended());
        assert_eq!(read, [1, 2]);
    });
}

/// A value that counts itself, so that none is lost or dropped twice.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: read after the threads were joined.
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A watcher goes while events come: each is dropped once, by whoever is the last to know of it.
#[test]
fn a_watcher_that_goes_leaves_nothing() {
    explore(4, || {
        let count = Arc::new(AtomicUsize::new(3));
        let (mut feed, mut watch): (Producer<Counted>, Consumer<Counted>) = ring(2);
        let events: Vec<Counted> = (0..3).map(|_| Counted(Arc::clone(&count))).collect();
        let watcher = thread::spawn(move || drop(watch.pop()));
        for event in events {
            if !feed.is_abandoned() {
                feed.offer(event);
            }
        }
        watcher.join().unwrap();
        assert!(feed.is_abandoned());
        drop(feed);
        // Relaxed: as in `drop`.
        assert_eq!(count.load(Relaxed), 0);
    });
}

/// The same properties of protocols that break them: the model must notice.
mod broken {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::sync::atomic::AtomicU64;
    use loom::sync::atomic::Ordering::{Acquire, Release};

    /// One place and its two counts, with the orderings of its ends.
    fn one_place(push: loom::sync::atomic::Ordering, pop: loom::sync::atomic::Ordering) {
        struct Shared {
            place: UnsafeCell<u32>,
            written: AtomicU64,
            read: AtomicU64,
        }
        // SAFETY: loom checks every access to the cell; that is what this test is for.
        unsafe impl Sync for Shared {}
        // SAFETY: as above.
        unsafe impl Send for Shared {}
        let shared = Arc::new(Shared {
            place: UnsafeCell::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
        });
        let s = Arc::clone(&shared);
        let consumer = thread::spawn(move || {
            if s.written.load(Acquire) == 1 {
                // SAFETY: checked by loom.
                s.place.with_mut(|p| unsafe { *p = 0 });
                s.read.store(1, pop);
            }
        });
        for n in 0..2 {
            if shared.read.load(Acquire) == n {
                // SAFETY: checked by loom.
                shared.place.with_mut(|p| unsafe { *p = 1 });
                shared.written.store(n + 1, push);
            }
        }
        consumer.join().unwrap();
    }

    #[test]
    fn with_its_orderings_one_place_is_owned() {
        loom::model(|| one_place(Release, Release));
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn putting_in_without_release() {
        loom::model(|| one_place(Relaxed, Release));
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn taking_out_without_release() {
        loom::model(|| one_place(Release, Relaxed));
    }
}
