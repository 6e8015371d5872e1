//! Growing and shrinking: the limit follows the need, the account follows the system's.

use super::common::{BLOCK, Ends, Log, check, eventually, full, list};
use metronome_gc::config::ConfigError;
use metronome_gc::testing::system_resident_bytes;
use metronome_gc::verbosegc::model::ResizeDirection;
use metronome_gc::{BuildError, Collect, Heap, Stats};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const MIB: u64 = 1 << 20;

/// Waits until the heap is as `right` says by its own account, and until the system's agrees: it has no more, and what is
/// backed in advance, or in use to the last page.
fn accounts(heap: &Heap, what: &str, at_least: impl Fn(&Stats) -> u64, right: impl Fn(&Stats) -> bool) {
    eventually(what, || {
        let before = heap.stats();
        let system = system_resident_bytes(heap);
        let after = heap.stats();
        let same =
            |a: &Stats, b: &Stats| (a.heap_bytes, a.resident_bytes) == (b.heap_bytes, b.resident_bytes);
        match system {
            // The heap may be growing or shrinking meanwhile.
            Ok(bytes) => {
                same(&before, &after)
                    && right(&after)
                    && (at_least(&after)..=after.resident_bytes).contains(&bytes)
            }
            Err(e) => {
                println!("skipped: mincore says {e}");
                right(&after)
            }
        }
    });
}

/// Builds 24 MiB of data in a heap of 4 that may have 64, lets go of it, and waits until the heap is small again.
fn grow_and_shrink(settings: &[(&str, &str)]) {
    let prefault = settings.contains(&("prefault", "true"));
    let log = Log::new();
    let heap = log.builder(64, &[("initial-heap", "4M"), ("idle-trim", "50ms")]);
    let heap = settings.iter().fold(heap, |h, (name, value)| h.set(name, value)).build().unwrap();
    let start = heap.stats();
    assert_eq!((start.heap_bytes, start.max_heap_bytes), (4 * MIB, 64 * MIB));
    let n = 24 * MIB / BLOCK;
    let ended = AtomicBool::new(false);
    let kept = std::thread::scope(|s| {
        s.spawn(|| {
            // All the while: no larger than allowed, and what is backed in advance is backed.
            while !ended.load(Relaxed) {
                let now = heap.stats();
                assert!((4 * MIB..=64 * MIB).contains(&now.heap_bytes), "{}", now.heap_bytes);
                // The size is read first, and the heap does not shrink meanwhile.
                assert!(!prefault || now.resident_bytes >= now.heap_bytes, "{now:?}");
                assert!(now.resident_bytes <= 64 * MIB);
                std::thread::yield_now();
            }
        });
        // Also when this thread panics.
        let _end = Ends(&ended);
        heap.enter(|m| {
            let kept = list(m, n);
            check(m, &kept, n);
            kept
        })
    });
    let grown = heap.stats();
    assert!(grown.heap_bytes >= 24 * MIB, "{}", grown.heap_bytes);
    assert_eq!((grown.failed_allocations, grown.out_of_memory), (0, 0));
    assert_eq!((grown.departures, grown.synchronous_collections), (0, 0), "it could still grow");
    assert_eq!(grown.lost_events, 0);
    let backed = |s: &Stats| if prefault { s.heap_bytes } else { 0 };
    let at_least = |s: &Stats| backed(s).max(24 * MIB);
    accounts(&heap, "all is backed", at_least, |s| !prefault || s.resident_bytes == s.heap_bytes);

    drop(kept);
    // What the pacer remembers of the data fades with each cycle.
    for _ in 0..20 {
        full(&heap);
    }
    eventually("the heap is small again", || heap.stats().heap_bytes == 4 * MIB);
    accounts(&heap, "the memory is back", backed, |s| s.resident_bytes <= 4 * MIB);
    if prefault {
        assert_eq!(heap.stats().resident_bytes, 4 * MIB);
        // What is backed in advance is not trimmed.
        assert_eq!(heap.collect(Collect::Trim).unwrap().returned_bytes, 0);
        assert_eq!(heap.stats().resident_bytes, 4 * MIB);
    } else {
        heap.collect(Collect::Trim).unwrap();
        accounts(&heap, "all is given back", backed, |s| s.resident_bytes == 0);
    }
    // And grows again.
    heap.enter(|m| {
        let l = list(m, n / 2);
        check(m, &l, n / 2);
    });
    assert_eq!(heap.stats().failed_allocations, 0);

    let log = log.read(heap);
    let resizes = log.resizes();
    let of = |d| resizes.iter().filter(move |r| r.direction == d);
    let (mut size, mut returned) = (4 * MIB, 0);
    for grow in of(ResizeDirection::Grow) {
        assert_eq!(grow.reason, "headroom");
        assert!(grow.to_bytes > grow.from_bytes);
        assert_eq!(grow.limit_bytes, Some(64 * MIB));
        size = size.max(grow.to_bytes);
    }
    assert!(size >= grown.heap_bytes.min(24 * MIB), "growth is in the log: {resizes:?}");
    let shrinks: Vec<_> = of(ResizeDirection::Shrink).collect();
    assert!(!shrinks.is_empty());
    for shrink in &shrinks {
        assert_eq!(shrink.reason, "idle");
        returned += shrink.returned_bytes;
    }
    assert!(shrinks.iter().any(|s| s.to_bytes == 4 * MIB));
    assert!(returned >= 16 * MIB, "{shrinks:?}");
}

#[test]
fn a_heap_grows_before_anything_fails_and_shrinks_when_idle() {
    for mode in ["degrade", "synchronous", "fail"] {
        grow_and_shrink(&[("exhaustion", mode)]);
    }
}

#[test]
fn a_heap_backed_in_advance_is_so_at_any_size() {
    for mode in ["degrade", "synchronous"] {
        grow_and_shrink(&[("prefault", "true"), ("exhaustion", mode)]);
    }
}

#[test]
fn threads_that_need_room_at_once_all_get_it() {
    let log = Log::new();
    let heap = log.builder(64, &[("initial-heap", "1M")]).build().unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                heap.enter(|m| {
                    let l = list(m, 6 * MIB / BLOCK);
                    check(m, &l, 6 * MIB / BLOCK);
                });
            });
        }
    });
    let stats = heap.stats();
    assert_eq!((stats.failed_allocations, stats.departures), (0, 0));
    log.read(heap);
}

#[test]
fn an_array_may_need_more_than_the_initial_heap() {
    let heap = Log::new().builder(64, &[("initial-heap", "1M")]).build().unwrap();
    heap.enter(|m| {
        // In a tiny build three levels of leaves hold little more than 16 MiB.
        let len = if cfg!(metronome_tiny) { 16 << 20 } else { 32 << 20 };
        let a = m.alloc_array(len, |i| i as u8).unwrap();
        assert_eq!(a.len(), len);
    });
    assert_eq!(heap.stats().failed_allocations, 0);
}

#[test]
fn an_initial_heap_above_the_largest_is_an_error() {
    let error = Heap::builder().heap_bytes(4 * MIB).set("initial-heap", "8M").build().unwrap_err();
    let BuildError::Config(ConfigError::Infeasible { options, .. }) = &error else { panic!("{error}") };
    assert_eq!(*options, ["initial-heap", "heap"]);
    assert!(error.to_string().contains("at most 4M"), "{error}");
}
