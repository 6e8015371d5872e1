//! Several heaps, nested entering, the end of a heap.

use crate::common::*;
use metronome_gc::{EnterError, Global, Heap, Payload, Root};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn nested_enter_is_refused() {
    let (a, b) = (heap(4), heap(4));
    a.enter(|m| {
        assert_eq!(a.try_enter(|_| ()), Err(EnterError::Nested));
        assert_eq!(b.try_enter(|_| ()), Err(EnterError::Nested));
        let message = panic_of(|| b.enter(|_| ()));
        assert!(message.contains("blocking"), "{message}");
        // Nothing was harmed.
        check_list(m, list(m, 10), 10);
        m.blocking(|| {
            assert_eq!(a.try_enter(|_| ()), Err(EnterError::SameHeap));
            let message = panic_of(|| a.enter(|_| ()));
            assert!(message.contains("outer mutator"), "{message}");
            b.enter(|m| {
                assert_eq!(a.try_enter(|_| ()), Err(EnterError::Nested));
                check_list(m, list(m, 10), 10);
                m.blocking(|| assert_eq!(a.try_enter(|_| ()), Err(EnterError::SameHeap)));
            });
        });
        collect(m);
    });
}

#[test]
fn two_heaps_on_one_thread() {
    let (a, b) = (heap(8), heap(8));
    let mut in_b = vec![];
    a.enter(|m| {
        for i in 1..50 {
            let root = Root::new(m, list(m, i));
            in_b.push(m.blocking(|| {
                b.enter(|m| {
                    let root = Root::new(m, list(m, 2 * i));
                    collect(m);
                    root
                })
            }));
            collect(m);
            check_list(m, root.get(m), i);
        }
    });
    b.enter(|m| (1..50).zip(&in_b).for_each(|(i, r)| check_list(m, r.get(m), 2 * i)));
}

#[test]
fn several_heaps_at_once() {
    let heaps: Vec<Heap> = (0..4).map(|_| heap(4)).collect();
    std::thread::scope(|s| {
        for t in 0..4 {
            let heaps = &heaps;
            s.spawn(move || {
                for round in 0..40 {
                    let (h, next) = (&heaps[(t + round) % 4], &heaps[(t + round + 1) % 4]);
                    h.enter(|m| {
                        let root = Root::new(m, list(m, 100));
                        m.blocking(|| next.enter(|m| discard(list(m, 100))));
                        m.safepoint();
                        check_list(m, root.get(m), 100);
                    });
                    h.request_cycle();
                }
            });
        }
    });
    for h in &heaps {
        collect_twice(h);
        assert_eq!(h.glance().used_bytes, 0);
    }
}

/// Counts its drops.
pub(crate) struct Counted(pub(crate) Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_heap_ends_in_the_middle_of_a_cycle() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut seen_in_cycle = 0;
    for round in 0..40 {
        let heap = heap(16);
        let global = heap.enter(|m| {
            for _ in 0..10 {
                m.alloc(Payload(Counted(Arc::clone(&dropped)))).unwrap();
            }
            Global::new(m, list(m, 30_000))
        });
        heap.request_cycle();
        for _ in 0..round {
            std::thread::yield_now();
        }
        seen_in_cycle += usize::from(heap.glance().phase != "idle");
        drop(heap);
        assert_eq!(dropped.load(Relaxed), 10 * (round + 1));
        drop(global);
    }
    // How often it was caught in the middle depends on the machine.
    println!("{seen_in_cycle} of 40 heaps ended in a cycle");
}

#[test]
fn a_heap_ends_while_the_thread_is_inside_another() {
    let (a, b) = (heap(4), heap(4));
    let dropped = Arc::new(AtomicUsize::new(0));
    b.enter(|m| discard(m.alloc(Payload(Counted(Arc::clone(&dropped)))).unwrap()));
    a.enter(|m| {
        let root = Root::new(m, list(m, 10));
        drop(b);
        assert_eq!(dropped.load(Relaxed), 1);
        collect(m);
        check_list(m, root.get(m), 10);
    });
}

#[test]
fn many_heaps_one_after_the_other() {
    for i in 0..100 {
        let heap = heap(1);
        heap.enter(|m| check_list(m, list(m, i + 1), i + 1));
    }
}

#[test]
fn a_heap_needs_sensible_settings() {
    let e = Heap::builder().heap_bytes(1 << 10).build().unwrap_err().to_string();
    assert!(e.contains("heap"), "{e}");
    let e = Heap::builder().set("utilisation", "70").build().unwrap_err().to_string();
    assert!(e.contains("utilisation"), "{e}");
}

/// What a callback holds is dropped with its heap, and not where it could get in the way: neither while another heap is
/// entered, nor by whoever lets go of the last handle.
#[test]
fn what_a_callback_holds_goes_with_its_heap() {
    struct EntersWhenDropped(Heap, Arc<AtomicUsize>);
    impl Drop for EntersWhenDropped {
        fn drop(&mut self) {
            self.0.enter(|m| m.safepoint());
            self.1.fetch_add(1, Relaxed);
        }
    }
    let (other, dropped) = (heap(4), Arc::new(AtomicUsize::new(0)));
    let held = EntersWhenDropped(other, Arc::clone(&dropped));
    let closed = Heap::builder()
        .heap_bytes(4 << 20)
        .before_failure(move |_| {
            let _ = &held;
            metronome_gc::Remedy::Fail
        })
        .build()
        .unwrap();
    let handle = closed.enter(|m| Global::new(m, list(m, 1)));
    drop(closed);
    assert_eq!(dropped.load(Relaxed), 1);
    // The attachment to the closed heap goes now.
    heap(4).enter(|m| check_list(m, list(m, 10), 10));
    drop(handle);
}
