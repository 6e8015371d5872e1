//! The tick path allocates nothing: counted by a global allocator, per thread, over ticks, pauses and snapshots.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metronome_alarm::{Alarm, AlarmConfig, LatenessHistogram};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on unchanged to `System`; the counter is a `const`-initialised thread-local without
// destructor, so that touching it never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Freeing counts too: it takes the same locks.
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise about `block` and `layout` is passed on; `alloc` got the block from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn ticks_and_pauses_allocate_nothing() {
    let first = Arc::new(AtomicU64::new(u64::MAX));
    let last = Arc::new(AtomicU64::new(u64::MAX));
    let (their_first, their_last) = (Arc::clone(&first), Arc::clone(&last));
    let alarm = Alarm::spawn(AlarmConfig::with_period(100_000), move |tick| {
        let count = ALLOCATIONS.get();
        // The setup of the thread allocates; the first tick sees the count after it.
        if tick.sequence == 0 {
            their_first.store(count, Ordering::SeqCst);
        }
        their_last.store(count, Ordering::SeqCst);
    })
    .unwrap();
    let control = alarm.control();
    for _ in 0..20 {
        let before = control.ticks();
        while control.ticks() < before + 5 {
            std::thread::yield_now();
        }
        control.pause();
        std::thread::sleep(std::time::Duration::from_micros(500));
        control.resume();
    }
    assert!(alarm.stop().ticks >= 100);
    let first = first.load(Ordering::SeqCst);
    assert!(first > 0 && first < u64::MAX, "the counter counts: starting a thread allocates");
    assert_eq!(last.load(Ordering::SeqCst), first);
}

#[test]
fn recording_and_reading_a_histogram_allocates_nothing() {
    let histogram = LatenessHistogram::new();
    let before = ALLOCATIONS.get();
    (0..1_000).for_each(|i| histogram.record(i * i, i));
    let shot = histogram.snapshot();
    assert_eq!(ALLOCATIONS.get(), before);
    assert_eq!(shot.count, 1_000);
    assert!(!histogram.buckets().is_empty());
    assert!(ALLOCATIONS.get() > before, "the counter counts");
}
