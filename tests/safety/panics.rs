//! Panics inside `enter`, `blocking`, an array's initialiser, a payload's `Drop`.

use crate::common::*;
use metronome_gc::{EnterError, Global, Payload, Root, Weak};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn inside_enter() {
    let heap = heap(8);
    let mut kept = None;
    let message = panic_of(|| {
        heap.enter(|m| {
            kept = Some(Global::new(m, list(m, 1000)));
            let _root = Root::new(m, list(m, 10));
            panic!("on purpose");
        })
    });
    assert_eq!(message, "on purpose");
    collect_twice(&heap);
    heap.enter(|m| check_list(m, kept.as_ref().unwrap().get(m), 1000));
    drop(kept);
    collect_twice(&heap);
    assert_eq!(heap.glance().used_bytes, 0);
}

#[test]
fn inside_blocking_and_caught_inside() {
    let heap = heap(8);
    heap.enter(|m| {
        let root = Root::new(m, list(m, 100));
        for _ in 0..10 {
            let r = catch_unwind(AssertUnwindSafe(|| m.blocking(|| panic!("away"))));
            assert!(r.is_err());
            // The thread is back inside: it allocates, and may not enter again.
            assert_eq!(heap.try_enter(|_| ()), Err(EnterError::Nested));
            check_list(m, list(m, 100), 100);
            collect(m);
        }
        check_list(m, root.get(m), 100);
    });
}

#[test]
fn inside_blocking_and_caught_outside() {
    let (heap, other) = (heap(8), crate::common::heap(8));
    for _ in 0..10 {
        let message = panic_of(|| heap.enter(|m| m.blocking(|| other.enter(|_| panic!("deep inside")))));
        assert_eq!(message, "deep inside");
        // Both heaps were left.
        heap.enter(collect);
        other.enter(collect);
    }
}

#[test]
fn inside_an_array_initialiser() {
    let heap = heap(8);
    let root = heap.enter(|m| {
        let kept = Root::new(m, m.alloc_array(5000, |i| i).unwrap());
        for at in [0, 1, 511, 512, 4000] {
            let r = catch_unwind(AssertUnwindSafe(|| {
                let _ = m.alloc_array(5000, |i| {
                    assert_ne!(i, at, "on purpose");
                    i
                });
            }));
            assert!(r.is_err());
            collect(m);
        }
        kept
    });
    heap.enter(|m| assert!(root.get(m).iter().enumerate().all(|(i, &x)| i == x)));
    drop(root);
    collect_twice(&heap);
    assert_eq!(heap.glance().used_bytes, 0);
}

/// Panics when dropped, with a value that panics when dropped as well.
struct Vicious(Arc<AtomicUsize>);

impl Drop for Vicious {
    fn drop(&mut self) {
        struct Again;
        impl Drop for Again {
            fn drop(&mut self) {
                if !std::thread::panicking() {
                    panic!("again");
                }
            }
        }
        self.0.fetch_add(1, Relaxed);
        panic_any(Again);
    }
}

#[test]
fn inside_a_payload_drop() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let heap = heap(8);
    heap.enter(|m| {
        for _ in 0..10 {
            m.alloc(Payload(Vicious(Arc::clone(&dropped)))).unwrap();
        }
    });
    collect_twice(&heap);
    eventually("all payload is dropped", || heap.stats().reaped == 10);
    assert_eq!((dropped.load(Relaxed), heap.stats().reaper_panics), (10, 10));
    // The reaper goes on, also at the heap's end.
    heap.enter(|m| discard(m.alloc(Payload(Vicious(Arc::clone(&dropped)))).unwrap()));
    drop(heap);
    assert_eq!(dropped.load(Relaxed), 11);
}

#[test]
fn while_a_handle_is_refused() {
    let (a, b) = (heap(4), heap(4));
    let (root, global, weak) = a.enter(|m| {
        let n = list(m, 1);
        (Root::new(m, n), Global::new(m, n), Weak::new(m, n))
    });
    b.enter(|m| {
        for (what, message) in [
            ("Root", panic_of(|| root.get(m).id)),
            ("Root", panic_of(|| root.duplicate(m))),
            ("Global", panic_of(|| global.get(m).id)),
            ("Weak", panic_of(|| weak.upgrade(m).is_some())),
        ] {
            assert!(message.contains(what) && message.contains("belongs to one heap"), "{message}");
        }
        collect(m);
    });
    a.enter(|m| assert_eq!(root.get(m).id + global.get(m).id + weak.upgrade(m).unwrap().id, 0));
}
