//! Payload whose `Drop` does what it should not: enters heaps, drops handles, ends heaps.

use crate::common::*;
use crate::heaps::Counted;
use metronome_gc::{EnterError, Global, Heap, Payload, Slot, Trace, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// Runs a closure when dropped.
struct OnDrop(Mutex<Option<Box<dyn FnOnce() + Send>>>);

fn on_drop(f: impl FnOnce() + Send + 'static) -> Payload<OnDrop> {
    Payload(OnDrop(Mutex::new(Some(Box::new(f)))))
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(f) = self.0.get_mut().unwrap().take() {
            f();
        }
    }
}

/// Counts what was done, and waits for it.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn wait_for(&self, n: usize) {
        eventually("drop glue has run", || self.0.load(Relaxed) >= n);
        assert_eq!(self.0.load(Relaxed), n);
    }
}

#[test]
fn is_refused_by_its_heap_and_let_in_by_others() {
    let (heap, other) = (heap(8), crate::common::heap(8));
    let count = Count::default();
    heap.enter(|m| {
        for _ in 0..20 {
            let (h, o, count) = (heap.clone(), other.clone(), count.clone());
            m.alloc(on_drop(move || {
                assert_eq!(h.try_enter(|_| ()), Err(EnterError::DropGlue));
                o.enter(|m| {
                    check_list(m, list(m, 100), 100);
                    m.safepoint();
                    // Dead objects with drop glue from drop glue.
                    let (inner, h) = (count.clone(), h.clone());
                    m.alloc(on_drop(move || {
                        // Of another heap, it may.
                        h.enter(|m| check_list(m, list(m, 10), 10));
                        inner.one();
                    }))
                    .unwrap();
                });
                // From a thread of its own as well.
                let h = h.clone();
                std::thread::spawn(move || h.enter(|m| check_list(m, list(m, 10), 10))).join().unwrap();
                count.one();
            }))
            .unwrap();
        }
    });
    collect_twice(&heap);
    eventually("the first round", || count.0.load(Relaxed) >= 20);
    eventually("the second round", || {
        collect_twice(&other);
        count.0.load(Relaxed) >= 40
    });
    count.wait_for(40);
    assert_eq!((heap.stats().reaper_panics, other.stats().reaper_panics), (0, 0));
    collect_twice(&heap);
    // `reaped` and the cells come after the drop glue.
    eventually("the heap is empty", || heap.glance().used_bytes == 0);
}

#[test]
fn collects_its_heap() {
    let heap = heap(8);
    let count = Count::default();
    heap.enter(|m| {
        let (h, count) = (heap.clone(), count.clone());
        m.alloc(on_drop(move || {
            h.collect(metronome_gc::Collect::Cycle).unwrap();
            h.request_cycle();
            count.one();
        }))
        .unwrap();
    });
    collect_twice(&heap);
    count.wait_for(1);
}

#[test]
fn finds_itself_gone() {
    let heap = heap(8);
    let count = Count::default();
    let me: Arc<OnceLock<Weak<Payload<OnDrop>>>> = Arc::default();
    heap.enter(|m| {
        let (count, mine) = (count.clone(), Arc::clone(&me));
        let object = m
            .alloc(on_drop(move || {
                assert!(mine.get().unwrap().is_cleared());
                count.one();
            }))
            .unwrap();
        me.set(Weak::new(m, object)).unwrap();
    });
    collect_twice(&heap);
    count.wait_for(1);
    assert_eq!(heap.stats().reaper_panics, 0);
}

#[test]
fn drops_handles_of_its_and_of_another_heap() {
    let (heap, other) = (heap(8), crate::common::heap(8));
    let count = Count::default();
    let elsewhere = other.enter(|m| {
        let n = list(m, 100);
        (Global::new(m, n), Weak::new(m, n))
    });
    let seen = elsewhere.1.clone();
    heap.enter(|m| {
        let here = (Global::new(m, list(m, 100)), Weak::new(m, list(m, 1)));
        let count = count.clone();
        m.alloc(on_drop(move || {
            drop(elsewhere);
            drop(here);
            count.one();
        }))
        .unwrap();
    });
    collect_twice(&heap);
    count.wait_for(1);
    collect_twice(&heap);
    collect_twice(&other);
    other.enter(|m| assert!(seen.upgrade(m).is_none()));
    eventually("the heap is empty", || heap.glance().used_bytes == 0);
}

#[test]
fn drops_the_last_clone_of_another_heap() {
    let heap = heap(8);
    let count = Count::default();
    let other = crate::common::heap(8);
    let inner = count.clone();
    other.enter(|m| discard(m.alloc(on_drop(move || inner.one())).unwrap()));
    let outer = count.clone();
    heap.enter(|m| {
        m.alloc(on_drop(move || {
            drop(other);
            outer.one();
        }))
        .unwrap();
    });
    collect_twice(&heap);
    count.wait_for(2);
}

#[test]
fn drops_the_last_clone_of_its_own_heap() {
    let count = Count::default();
    let dropped = Arc::new(AtomicUsize::new(0));
    let handle = {
        let heap = heap(8);
        let (outer, own) = (count.clone(), heap.clone());
        // Dead at once, and left for the end.
        let handle = heap.enter(|m| {
            m.alloc(on_drop(move || {
                eventually("the owner is gone", || outer.0.load(Relaxed) == 1);
                assert!(own.try_enter(|_| ()).is_err());
                drop(own);
                outer.one();
            }))
            .unwrap();
            Global::new(m, m.alloc(Payload(Counted(Arc::clone(&dropped)))).unwrap())
        });
        collect_twice(&heap);
        drop(heap);
        count.one();
        handle
    };
    count.wait_for(2);
    eventually("the reaper ends the heap", || dropped.load(Relaxed) == 1);
    drop(handle);
}

#[derive(Trace)]
struct Mixed {
    _tag: Counted,
    next: Slot<Mixed>,
}

/// Objects with slots and drop glue, dead in chains and rings across regions, over many cycles.
#[test]
fn of_objects_with_slots() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let heap = heap(8);
    let mut made = 0;
    for round in 0..30 {
        let keep = heap.enter(|m| {
            let first = m.alloc(MixedInit { _tag: Counted(Arc::clone(&dropped)), next: None }).unwrap();
            let mut last = first;
            for _ in 1..2000 {
                last = m.alloc(MixedInit { _tag: Counted(Arc::clone(&dropped)), next: Some(last) }).unwrap();
            }
            first.next.store(m, last);
            made += 2000;
            Global::new(m, last)
        });
        heap.request_cycle();
        heap.enter(|m| {
            let (mut at, mut n) = (keep.get(m).next.load(m), 0);
            while let Some(x) = at.filter(|&x| !metronome_gc::Gc::ptr_eq(x, keep.get(m))) {
                n += 1;
                at = x.next.load(m);
            }
            assert_eq!(n, 1999, "round {round}");
        });
        drop(keep);
    }
    eventually("all are dropped", || {
        collect_twice(&heap);
        dropped.load(Relaxed) == made
    });
    eventually("the heap is empty", || heap.glance().used_bytes == 0);
    drop(heap);
    assert_eq!(dropped.load(Relaxed), made, "dropped twice");
}

#[test]
fn runs_once_at_the_end_of_the_heap() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let heap: Heap = heap(8);
    let handles = heap.enter(|m| {
        let handles: Vec<_> = (0..5000)
            .map(|_| Global::new(m, m.alloc(Payload(Counted(Arc::clone(&dropped)))).unwrap()))
            .collect();
        for _ in 0..5000 {
            m.alloc(Payload(Counted(Arc::clone(&dropped)))).unwrap();
        }
        handles
    });
    heap.enter(collect);
    drop(heap);
    assert_eq!(dropped.load(Relaxed), 10_000);
    drop(handles);
    assert_eq!(dropped.load(Relaxed), 10_000);
}
