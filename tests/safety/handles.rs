//! Handles that outlive threads and heaps, that are forgotten, that are many.

use crate::common::*;
use metronome_gc::{EnterError, Global, Heap, Root, Weak};
use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

thread_local! {
    static KEPT: RefCell<Vec<Root<Node>>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn a_thread_ends_with_handles() {
    let heap = heap(8);
    let (global, weak) = std::thread::scope(|s| {
        let thread = s.spawn(|| {
            // In one order of thread-local destructors and in the other.
            KEPT.with_borrow_mut(|_| ());
            let out = heap.enter(|m| {
                let lone = list(m, 10);
                KEPT.with_borrow_mut(|k| k.push(Root::new(m, lone)));
                (Global::new(m, list(m, 100)), Weak::new(m, lone))
            });
            heap.enter(collect);
            out
        });
        thread.join().unwrap()
    });
    // The thread's destructors may still run for a while.
    eventually("the thread's root dies", || {
        heap.enter(|m| {
            collect(m);
            weak.upgrade(m).is_none()
        })
    });
    heap.enter(|m| check_list(m, global.get(m), 100));
}

#[test]
fn a_thread_local_destructor_enters() {
    struct Enters(Heap);
    static OUTCOMES: Mutex<Vec<Result<u64, EnterError>>> = Mutex::new(Vec::new());
    impl Drop for Enters {
        fn drop(&mut self) {
            let outcome = self.0.try_enter(|m| {
                let n = list(m, 5);
                let root = Root::new(m, n);
                m.safepoint();
                root.get(m).id
            });
            OUTCOMES.lock().unwrap().push(outcome);
        }
    }
    thread_local! {
        static ENTERS: RefCell<Option<Enters>> = const { RefCell::new(None) };
    }
    let heap = heap(8);
    for first in [true, false] {
        let heap = heap.clone();
        let thread = std::thread::spawn(move || {
            if first {
                ENTERS.set(Some(Enters(heap.clone())));
            }
            heap.enter(|m| discard(list(m, 1)));
            if !first {
                ENTERS.set(Some(Enters(heap)));
            }
        });
        thread.join().unwrap();
    }
    let outcomes = OUTCOMES.lock().unwrap();
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(|o| matches!(o, Ok(4) | Err(EnterError::ThreadEnding))), "{outcomes:?}");
    heap.enter(collect);
}

#[test]
fn handles_outlive_their_heap() {
    let heap = heap(8);
    let (root, global, weak) = heap.enter(|m| {
        let n = list(m, 100);
        (Root::new(m, n), Global::new(m, n), Weak::new(m, n))
    });
    let more = (global.clone(), weak.clone());
    drop(heap);
    std::thread::spawn(move || drop(more)).join().unwrap();
    let text = format!("{root:?} {global:?} {weak:?}");
    assert!(text.contains("Node"), "{text}");
    drop((root, global.clone(), weak));
    drop(global);
}

#[test]
fn handles_outlive_their_heap_in_a_thread_local() {
    let heap = heap(8);
    std::thread::spawn(move || {
        KEPT.with_borrow_mut(|k| k.push(heap.enter(|m| Root::new(m, list(m, 3)))));
        drop(heap);
    })
    .join()
    .unwrap();
}

#[test]
fn forgotten_handles_keep_their_objects() {
    let heap = heap(8);
    let weaks: Vec<Weak<Node>> = std::thread::scope(|s| {
        s.spawn(|| {
            heap.enter(|m| {
                let (a, b, c) = (list(m, 10), list(m, 20), list(m, 30));
                let weaks = vec![Weak::new(m, a), Weak::new(m, b), Weak::new(m, c)];
                std::mem::forget(Root::new(m, a));
                std::mem::forget(Global::new(m, b));
                std::mem::forget(weaks[0].clone());
                weaks
            })
        })
        .join()
        .unwrap()
    });
    collect_twice(&heap);
    heap.enter(|m| {
        check_list(m, weaks[0].upgrade(m).unwrap(), 10);
        check_list(m, weaks[1].upgrade(m).unwrap(), 20);
        assert!(weaks[2].upgrade(m).is_none());
    });
    // A record whose root was forgotten is not given to another thread.
    for _ in 0..20 {
        std::thread::scope(|s| {
            s.spawn(|| heap.enter(|m| drop(Root::new(m, list(m, 1))))).join().unwrap();
        });
    }
    heap.enter(|m| check_list(m, weaks[0].upgrade(m).unwrap(), 10));
}

#[test]
fn a_million_handles() {
    let heap = heap(128);
    let n = 1_000_000_u64;
    let mut roots: Vec<Root<Node>> = heap.enter(|m| {
        let shared = Root::new(m, list(m, 1000));
        let mut roots = Vec::with_capacity(n as usize / 2);
        for i in 0..n / 2 {
            // Every second handle has an object of its own.
            roots.push(if i % 2 == 0 { node(m, i) } else { shared.duplicate(m) });
            m.safepoint();
        }
        roots
    });
    let globals: Vec<Global<Node>> = heap.enter(|m| {
        let globals = roots.iter().map(|r| Global::new(m, r.get(m))).collect();
        collect(m);
        globals
    });
    let live = heap.glance().used_bytes;
    // Half of the roots go; the globals hold the objects.
    let mut i = 0;
    roots.retain(|_| {
        i += 1;
        i % 2 == 0
    });
    heap.enter(|m| {
        collect(m);
        for (i, g) in globals.iter().enumerate() {
            assert_eq!(g.get(m).id, if i % 2 == 0 { i as u64 } else { 999 });
        }
    });
    assert_eq!(heap.glance().used_bytes, live);
    drop(globals);
    collect_twice(&heap);
    heap.enter(|m| assert!(roots.iter().all(|r| r.get(m).id == 999)));
    assert!(heap.glance().used_bytes < 1 << 20);
    // Dropping needs no mutator, nor a living heap.
    drop(heap);
    drop(roots);
}

#[test]
fn weak_references_while_cycles_run() {
    let heap = heap(16);
    let done = AtomicBool::new(false);
    let yielded = AtomicUsize::new(0);
    let (kept, weaks) = heap.enter(|m| {
        let kept = Global::new(m, list(m, 100));
        let weaks: Vec<_> = (0..1000).map(|i| (i, Weak::new(m, list(m, i + 1)))).collect();
        (kept.clone(), weaks.into_iter().chain([(99, Weak::new(m, kept.get(m)))]).collect::<Vec<_>>())
    });
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                heap.enter(|m| {
                    while !done.load(Relaxed) {
                        for (id, weak) in &weaks {
                            if let Some(n) = weak.upgrade(m) {
                                check_list(m, n, id + 1);
                                // Upgraded, it may be kept, whatever the phase.
                                let root = Root::new(m, n);
                                m.safepoint();
                                check_list(m, root.get(m), id + 1);
                                yielded.fetch_add(1, Relaxed);
                            }
                        }
                        m.safepoint();
                    }
                });
            });
        }
        heap.enter(|m| {
            for _ in 0..30 {
                collect(m);
            }
        });
        eventually("an upgrade", || yielded.load(Relaxed) > 0);
        done.store(true, Relaxed);
    });
    collect_twice(&heap);
    heap.enter(|m| {
        for (id, weak) in &weaks[..1000] {
            assert!(weak.upgrade(m).is_none(), "{id}");
        }
        check_list(m, weaks[1000].1.upgrade(m).unwrap(), 100);
    });
    drop(kept);
}
