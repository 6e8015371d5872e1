//! References, notices and finalizers that outlive threads and heaps, go astray between heaps, are forgotten, are many.

use crate::common::*;
use metronome_gc::{
    Collect, CollectError, Ephemeron, Finalize, Gc, Global, Heap, Mutator, Payload, Pinned, ReferenceQueue,
    Root, Soft, Weak, WeakLong, WeakMap,
};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let id = this.get(m).id;
        check_list(m, this.get(m), id + 1);
    }
}

fn collect_full(heap: &Heap) {
    assert!((0..100).any(|_| heap.collect(Collect::Full).is_ok()), "the collection does not end");
}

#[test]
fn they_are_refused_by_another_heap() {
    let (a, b) = (heap(4), heap(4));
    let map = WeakMap::new();
    let (long, soft, ephemeron, pinned) = a.enter(|m| {
        let n = list(m, 1);
        map.insert(m, n, n);
        (WeakLong::new(m, n), Soft::new(m, n), Ephemeron::new(m, n, n), Pinned::new(m, n))
    });
    b.enter(|m| {
        let mut messages = vec![
            ("WeakLong", panic_of(|| long.upgrade(m).is_some())),
            ("Soft", panic_of(|| soft.get(m).is_some())),
            ("Ephemeron", panic_of(|| ephemeron.key(m).is_some())),
            ("Ephemeron", panic_of(|| ephemeron.value(m).is_some())),
            ("Global", panic_of(|| pinned.get(m).id)),
        ];
        // A map finds the other heap's objects out when it comes to them.
        messages.push(("Ephemeron", panic_of(|| map.for_each(m, |_, _| ()))));
        for (what, message) in messages {
            assert!(message.contains(what) && message.contains("belongs to one heap"), "{message}");
        }
        collect(m);
    });
    a.enter(|m| {
        // The map's lock was not left behind.
        let n = pinned.get(m);
        assert!(map.get(m, n).is_some_and(|v| Gc::ptr_eq(v, n)));
        assert_eq!(pinned.as_ptr(), std::ptr::from_ref(&*n));
    });
}

#[test]
fn they_outlive_their_heap() {
    let heap = heap(8);
    let ran = Arc::new(AtomicUsize::new(0));
    let (map, queue) = (WeakMap::new(), ReferenceQueue::new());
    let counted = Arc::clone(&ran);
    let all = heap.enter(|m| {
        let n = list(m, 100);
        m.register_finalizer(n);
        map.insert(m, n, n);
        let notices = (
            m.on_death(n, move || {
                counted.fetch_add(1, Relaxed);
            }),
            queue.register(m, n, 1),
        );
        (WeakLong::new(m, n), Soft::new(m, n), Ephemeron::new(m, n, n), Pinned::new(m, n), notices)
    });
    let more = (all.0.clone(), all.1.clone(), all.2.clone(), all.3.clone());
    drop(heap);
    let there = std::thread::spawn(move || {
        let text = format!("{:?} {:?} {:?} {:?}", more.0, more.1, more.2, more.3);
        (more.0.is_cleared(), more.1.is_cleared(), more.2.is_cleared(), text)
    });
    let (long, soft, ephemeron, text) = there.join().unwrap();
    assert!(!long && !soft && !ephemeron);
    assert!(["WeakLong<", "Soft<", "Ephemeron<", "Pinned<"].iter().all(|t| text.contains(t)), "{text}");
    let (notice, queued) = all.4;
    // The callbacks went with the heap.
    assert!(!notice.cancel() && !queued.cancel());
    assert_eq!((ran.load(Relaxed), queue.poll()), (0, None));
    assert_eq!(queue.wait_outside(Duration::from_millis(1)), None);
    map.prune();
    assert_eq!(map.len(), 1);
    drop(map);
}

#[test]
fn forgotten_ones_keep_nothing_alive_but_what_they_promise() {
    let heap = Heap::builder().heap_bytes(8 << 20).build().unwrap();
    let (weak, pinned, value) = heap.enter(|m| {
        let (dead, alive, value) = (list(m, 10), list(m, 20), list(m, 30));
        std::mem::forget((WeakLong::new(m, dead), Ephemeron::new(m, dead, dead), m.on_death(dead, || ())));
        std::mem::forget(Pinned::new(m, alive));
        // Its key is kept for ever, so its value is.
        std::mem::forget(Ephemeron::new(m, alive, value));
        (Weak::new(m, dead), Weak::new(m, alive), Weak::new(m, value))
    });
    collect_twice(&heap);
    heap.enter(|m| {
        assert!(weak.upgrade(m).is_none());
        check_list(m, pinned.upgrade(m).unwrap(), 20);
        check_list(m, value.upgrade(m).unwrap(), 30);
    });
}

thread_local! {
    static KEPT: RefCell<Vec<Box<dyn std::any::Any>>> = const { RefCell::new(Vec::new()) };
}

/// Dropped by the thread's destructors, after the thread has left every heap, or after the heap's end.
#[test]
fn in_thread_locals() {
    let heap = heap(8);
    for last in [false, true] {
        let heap = heap.clone();
        let thread = std::thread::spawn(move || {
            KEPT.with_borrow_mut(|_| ());
            heap.enter(|m| {
                let n = list(m, 10);
                let notice = m.on_death(n, || ());
                let all = (WeakLong::new(m, n), Soft::new(m, n), Ephemeron::new(m, n, n), Pinned::new(m, n));
                KEPT.with_borrow_mut(|k| k.push(Box::new((all, notice))));
            });
            if last {
                collect_full(&heap);
            }
        });
        thread.join().unwrap();
    }
    drop(heap);
}

/// A payload's drop glue uses every kind of reference to its own object, and to others that died with it.
#[test]
fn drop_glue_asks_for_the_dead() {
    struct Asks(Heap, Arc<Mutex<Option<Refs>>>, Arc<AtomicUsize>);
    type Refs =
        (Weak<Payload<Asks>>, WeakLong<Payload<Asks>>, Ephemeron<Payload<Asks>, Node>, WeakLong<Node>);
    impl Drop for Asks {
        fn drop(&mut self) {
            let refs = self.1.lock().unwrap().take().unwrap();
            let heap = self.0.clone();
            // Its own thread may not enter the heap; another one may.
            let ask = move || {
                heap.enter(|m| {
                    assert!(refs.0.upgrade(m).is_none() && refs.1.upgrade(m).is_none());
                    assert!(
                        refs.2.key(m).is_none() && refs.2.value(m).is_none() && refs.3.upgrade(m).is_none()
                    );
                    // What it makes here is an object like any other.
                    m.register_finalizer(list(m, 5));
                });
                refs
            };
            let refs = std::thread::spawn(ask).join().unwrap();
            assert!(refs.0.is_cleared() && refs.1.is_cleared() && refs.2.is_cleared());
            self.2.fetch_add(1, Relaxed);
        }
    }
    let heap = heap(8);
    let asked = Arc::new(AtomicUsize::new(0));
    heap.enter(|m| {
        for _ in 0..100 {
            let mine = Arc::default();
            let object = m.alloc(Payload(Asks(heap.clone(), Arc::clone(&mine), Arc::clone(&asked)))).unwrap();
            let node = list(m, 1);
            let refs = (
                Weak::new(m, object),
                WeakLong::new(m, object),
                Ephemeron::new(m, object, node),
                WeakLong::new(m, node),
            );
            *mine.lock().unwrap() = Some(refs);
        }
    });
    collect_full(&heap);
    eventually("all have asked", || asked.load(Relaxed) == 100);
    collect_full(&heap);
    heap.drain_finalizers(Duration::from_secs(100)).unwrap();
    let stats = heap.stats();
    assert_eq!((stats.reaper_panics, stats.finalizers.run, stats.finalizers.panicked), (0, 100, 0));
}

/// A callback about a death enters, allocates, registers, waits for collections.
#[test]
fn callbacks_use_the_heap() {
    let heap = heap(8);
    let done = Arc::new(AtomicUsize::new(0));
    let (own, d) = (heap.clone(), Arc::clone(&done));
    heap.enter(|m| {
        drop(m.on_death(list(m, 1), move || {
            let weak = own.enter(|m| {
                assert_eq!(own.collect(Collect::Full), Err(CollectError::Inside));
                let n = list(m, 10);
                m.register_finalizer(n);
                let d = Arc::clone(&d);
                drop(m.on_death(n, move || {
                    d.fetch_add(1, Relaxed);
                }));
                Weak::new(m, n)
            });
            collect_full(&own);
            assert!(weak.is_cleared());
            d.fetch_add(1, Relaxed);
        }));
    });
    collect_full(&heap);
    eventually("the outer callback has run", || done.load(Relaxed) >= 1);
    // The inner object waits for its finalizer first.
    eventually("the inner callback has run", || {
        collect_full(&heap);
        done.load(Relaxed) == 2
    });
    assert_eq!(heap.stats().finalizers.panicked, 0);
}

#[test]
fn a_million_references() {
    let n = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let heap = heap(128);
    let mut all = vec![];
    heap.enter(|m| {
        for i in 0..n {
            let node = node(m, i);
            let object = node.get(m);
            all.push((WeakLong::new(m, object), Ephemeron::new(m, object, object)));
            drop(m.on_death(object, || ()));
            m.safepoint();
        }
    });
    collect_full(&heap);
    assert!(all.iter().all(|(l, e)| l.is_cleared() && e.is_cleared()));
    assert_eq!(heap.glance().used_bytes, 0);
    // Half of the entries go, and are used again.
    all.truncate(all.len() / 2);
    let kept = heap.enter(|m| {
        let kept = Global::new(m, list(m, 10));
        all.extend(
            (0..n / 2).map(|_| (WeakLong::new(m, kept.get(m)), Ephemeron::new(m, kept.get(m), kept.get(m)))),
        );
        kept
    });
    collect_full(&heap);
    heap.enter(|m| {
        assert!(all[n as usize / 2..].iter().all(|(l, e)| l.upgrade(m).is_some() && e.value(m).is_some()));
    });
    // Dropping needs no mutator, nor a living heap.
    drop((kept, heap));
    drop(all);
}
