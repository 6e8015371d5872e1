//! Listeners that panic, end themselves, use the heap, or do not come back for long.

use crate::common::{BLOCK, Block, Log, builder, check, eventually, full, list};
use crate::variants::Heard;
use metronome_gc::{Collect, Heap, Notification, Root, Subscription, Weak};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

fn is_end(n: &Notification) -> bool {
    matches!(n, Notification::CycleEnd { .. })
}

/// Waits until this listener has heard of all cycles' ends.
fn caught_up(heap: &Heap, heard: &Heard) {
    let cycles = || heap.stats().cycles as usize;
    eventually("all is told", || heard.all().iter().filter(|n| is_end(n)).count() == cycles());
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn panics_are_caught_and_counted_and_others_hear_on() {
    let heap = builder(16, &[]).build().unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let _panics = heap.subscribe(move |_| {
        counted.fetch_add(1, Relaxed);
        // What is thrown may panic in turn.
        std::panic::panic_any(Bomb);
    });
    let (heard, _listener) = Heard::at(&heap);
    (0..3).for_each(|_| full(&heap));
    caught_up(&heap, &heard);
    let told = heard.all().len() as u64;
    eventually("all panics are counted", || heap.stats().listener_panics == told);
    assert_eq!(calls.load(Relaxed), told);
}

#[test]
fn a_listener_may_end_itself_and_is_not_called_again() {
    let heap = builder(16, &[]).build().unwrap();
    let (own, calls) = (Arc::new(Mutex::new(None::<Subscription>)), Arc::new(AtomicU64::new(0)));
    let (this, counted) = (Arc::clone(&own), Arc::clone(&calls));
    // What the closure holds is dropped on the writer thread then, and may panic there.
    let bomb = Bomb;
    let mut listening = own.lock().unwrap();
    *listening = Some(heap.subscribe(move |_| {
        let _held = &bomb;
        counted.fetch_add(1, Relaxed);
        drop(this.lock().unwrap().take());
    }));
    // The listener waits for the lock: so a batch of several notifications is under way.
    (0..3).for_each(|_| full(&heap));
    drop(listening);
    let (heard, _listener) = Heard::at(&heap);
    full(&heap);
    eventually("a later listener hears", || !heard.all().is_empty());
    full(&heap);
    assert_eq!(calls.load(Relaxed), 1);
    eventually("the drop's panic is counted", || heap.stats().listener_panics == 1);
    assert!(own.lock().unwrap().is_none());
}

#[test]
fn a_listener_may_use_the_heap() {
    let heap = builder(16, &[]).build().unwrap();
    let (own, done) = (heap.clone(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&done);
    let more = Arc::new(Mutex::new(Vec::new()));
    let added = Arc::clone(&more);
    let listener = heap.subscribe(move |n| {
        let Notification::CycleEnd { .. } = n else { return };
        if counted.load(Relaxed) >= 3 {
            return;
        }
        let dead = own.enter(|m| {
            let l: Root<Block> = list(m, 100);
            check(m, &l, 100);
            Weak::new(m, l.get(m))
        });
        own.collect(Collect::Full).unwrap();
        assert!(dead.is_cleared());
        assert!(own.stats().cycles > 0);
        // New listeners may come from a listener.
        added.lock().unwrap().push(own.subscribe(|_| {}));
        counted.fetch_add(1, Relaxed);
    });
    full(&heap);
    eventually("three cycles, each asked for by the one before", || done.load(Relaxed) == 3);
    assert_eq!(heap.stats().listener_panics, 0);
    assert_eq!(more.lock().unwrap().len(), 3);
    // The closure holds the heap: first it has to go.
    drop(listener);
}

#[test]
fn a_listener_that_holds_the_last_heap_may_drop_it() {
    let heap = builder(4, &[]).build().unwrap();
    let (own, gone) = (Arc::new(Mutex::new(None::<Heap>)), Arc::new(AtomicBool::new(false)));
    let (last, told) = (Arc::clone(&own), Arc::clone(&gone));
    let listener = heap.subscribe(move |n| {
        if is_end(n) {
            drop(last.lock().unwrap().take());
            told.store(true, Relaxed);
        }
    });
    full(&heap);
    *own.lock().unwrap() = Some(heap);
    eventually("the heap is dropped by its own writer", || gone.load(Relaxed));
    drop(listener);
}

#[test]
fn while_a_listener_blocks_the_collector_goes_on_and_losses_are_counted() {
    let log = Log::new();
    let heap = log.builder(16, &[("event-ring", "64")]).build().unwrap();
    let (go, inside) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (goes, told) = (Arc::clone(&go), Arc::clone(&inside));
    let listener = heap.subscribe(move |_| {
        told.store(true, Relaxed);
        while !goes.load(Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    let (heard, _other) = Heard::at(&heap);
    full(&heap);
    eventually("the listener is called", || inside.load(Relaxed));
    let begun = heap.glance().cycles;
    // More than the ring holds, since each is a handful of events.
    (0..100).for_each(|_| full(&heap));
    assert!(heap.glance().cycles >= begun + 100, "the collector goes on");
    heap.enter(|m| {
        let l = list(m, (1 << 20) / BLOCK);
        check(m, &l, (1 << 20) / BLOCK);
    });
    let lost = heap.stats().lost_events;
    assert!(lost > 0, "64 records do not hold the events of 100 cycles");
    // Whoever asks for statistics empties the ring; what is more than listeners may be told later is counted, too.
    for _ in 0..600 {
        full(&heap);
        let _ = heap.stats();
    }
    let stats = heap.stats();
    assert!(stats.notifications_lost > 0);
    assert!(stats.cycles >= begun + 700, "counts are exact whatever was lost");
    go.store(true, Relaxed);
    let before = heard.all().len();
    full(&heap);
    eventually("others hear again", || heard.all().len() > before + 1000);
    drop(listener);
    let log = log.read_torn(heap).0;
    assert!(log.text.contains("metronome-lost-records"));
}
