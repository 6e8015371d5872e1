//! What a finalizer may do, one thing at a time.

use crate::common::{check_list, eventually, list, panic_of};
use crate::{Job, Log, collect, common, drain, job, when_dead};
use metronome_gc::{
    Collect, CollectError, DrainStop, EnterError, Global, Heap, Notification, ReferenceQueue, Root, WeakLong,
};
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Thrown; its own destructor panics too.
struct Vicious;

impl Drop for Vicious {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("thrown values are not dropped");
        }
    }
}

#[test]
fn it_panics() {
    let heap = common::heap(8);
    let log = Log::default();
    let queue = ReferenceQueue::new();
    for i in 0..30 {
        heap.enter(|m| {
            let log = log.clone();
            let dead = job(m, move |_, m| {
                log.push(format!("{i}"));
                if i % 3 == 0 {
                    let _held = list(m, 10);
                    panic_any(Vicious);
                }
            });
            drop(queue.register(m, dead, i));
            drop(m.on_death(dead, move || assert!(i % 10 != 0, "a callback panics")));
        });
    }
    collect(&heap);
    drain(&heap);
    // In the order of their registration, if they died in one cycle.
    let mut ran = log.take();
    if crate::stressed::begins_cycles("the order of finalizers") {
        ran.sort_by_key(|id| id.parse::<u32>().unwrap());
    }
    assert_eq!(ran, (0..30).map(|i| i.to_string()).collect::<Vec<_>>());
    collect(&heap);
    let mut dead: Vec<i32> = (0..30).filter_map(|_| queue.wait_outside(Duration::from_secs(100))).collect();
    dead.sort_unstable();
    assert_eq!(dead, (0..30).collect::<Vec<_>>());
    eventually("the callbacks have run", || heap.stats().finalizers.panicked == 13);
    assert_eq!(heap.stats().finalizers.run, 30);
    eventually("the heap is empty", || {
        collect(&heap);
        heap.glance().used_bytes == 0
    });
}

#[test]
fn it_allocates_more_than_the_heap_holds() {
    let heap = common::heap(4);
    let log = Log::default();
    let told = log.clone();
    when_dead(&heap, move |this, m| {
        for _ in 0..40 {
            // A quarter of the heap each time, garbage at once.
            let kept = common::node(m, 7);
            for i in 0..20_000 {
                drop(common::node(m, i));
                m.safepoint();
            }
            assert_eq!(kept.get(m).id, 7);
        }
        assert!(this.get(m).next.load(m).is_none());
        told.push("done");
    });
    collect(&heap);
    drain(&heap);
    assert_eq!(log.take(), ["done"]);
}

#[test]
fn it_blocks_and_enters_other_heaps() {
    let (heap, other) = (common::heap(8), common::heap(8));
    let log = Log::default();
    let (told, both) = (log.clone(), (heap.clone(), other.clone()));
    when_dead(&heap, move |this, m| {
        let (own, other) = both;
        assert_eq!(own.try_enter(|_| ()), Err(EnterError::Nested));
        assert_eq!(other.try_enter(|_| ()), Err(EnterError::Nested));
        m.blocking(|| {
            assert_eq!(own.try_enter(|_| ()), Err(EnterError::SameHeap));
            other.enter(|m| {
                let root = Root::new(m, list(m, 100));
                common::collect(m);
                check_list(m, root.get(m), 100);
                let message = panic_of(|| this.get(m).next.is_null());
                assert!(message.contains("belongs to one heap"), "{message}");
            });
        });
        assert!(this.get(m).next.load(m).is_none());
        told.push("done");
    });
    // While it waits, cycles go on.
    let go = Arc::new(AtomicBool::new(false));
    let waits = Arc::clone(&go);
    when_dead(&heap, move |_, m| {
        m.blocking(|| eventually("the test goes on", || waits.load(Relaxed)));
    });
    collect(&heap);
    collect(&heap);
    collect(&heap);
    go.store(true, Relaxed);
    drain(&heap);
    assert_eq!(log.take(), ["done"]);
}

#[test]
fn it_collects() {
    let heap = common::heap(8);
    let log = Log::default();
    let (told, own) = (log.clone(), heap.clone());
    let inner = log.clone();
    when_dead(&heap, move |_, m| {
        assert_eq!(own.collect(Collect::Full), Err(CollectError::Inside));
        common::discard(job(m, move |_, _| inner.push("inner")));
        for mode in [Collect::Full, Collect::Cycle, Collect::Finish, Collect::Trim, Collect::Hint] {
            let mut tries = 0..100;
            assert!(tries.any(|_| m.collect(mode).is_ok()), "{mode:?}");
        }
        told.push("outer");
    });
    collect(&heap);
    drain(&heap);
    // One finalizer at a time.
    assert_eq!(log.take(), ["outer", "inner"]);
}

#[test]
fn it_waits_for_finalizers() {
    let heap = common::heap(8);
    let log = Log::default();
    for _ in 0..2 {
        let (told, own) = (log.clone(), heap.clone());
        when_dead(&heap, move |_, m| {
            // Not even for a moment: it would wait for itself.
            let e = m.drain_finalizers(Duration::MAX).unwrap_err();
            assert!(e.waiting >= 1 && e.running.is_some_and(|name| name.contains("Job")), "{e:?}");
            assert_eq!(e.reason, DrainStop::FinalizerThread);
            assert!(e.to_string().contains("on another thread"), "{e}");
            let e = m.blocking(|| own.drain_finalizers(Duration::MAX)).unwrap_err();
            assert_eq!(e.reason, DrainStop::FinalizerThread);
            told.push("done");
        });
    }
    // A callback may not wait for what comes after it either; with nothing in the queue there is nothing to wait for.
    let (told, own) = (log.clone(), heap.clone());
    heap.enter(|m| {
        let dead = list(m, 1);
        drop(m.on_death(dead, move || match own.drain_finalizers(Duration::MAX) {
            Ok(()) => told.push("done"),
            Err(e) if e.reason == DrainStop::FinalizerThread => told.push("done"),
            Err(e) => told.push(e.to_string()),
        }));
    });
    collect(&heap);
    drain(&heap);
    let mut all = vec![];
    eventually("all have run", || {
        all.extend(log.take());
        all.len() == 3
    });
    assert_eq!(all, ["done"; 3]);
}

#[test]
fn another_heap_s_finalizers_may_be_waited_for() {
    let (heap, other) = (common::heap(8), common::heap(8));
    let log = Log::default();
    let (outer, inner, there) = (log.clone(), log.clone(), other.clone());
    when_dead(&other, move |_, _| inner.push("inner"));
    when_dead(&heap, move |_, m| {
        m.blocking(|| {
            collect(&there);
            drain(&there);
        });
        outer.push("outer");
    });
    collect(&heap);
    drain(&heap);
    assert_eq!(log.take(), ["inner", "outer"]);
}

#[test]
fn it_brings_its_object_back_and_registers_it_again() {
    fn again(this: Root<Job>, m: &mut metronome_gc::Mutator<'_>, saved: Saved, log: Log, left: u32) {
        log.push(format!("{left}"));
        let object = this.get(m);
        assert!(m.register_finalizer(object) && !m.register_finalizer(object));
        let (s, l) = (Arc::clone(&saved), log.clone());
        if left > 0 {
            let next: crate::Act = Box::new(move |this, m| again(this, m, s, l, left - 1));
            *object.act.lock().unwrap() = Some(next);
        }
        *saved.lock().unwrap() = Some(Global::new(m, object));
    }
    type Saved = Arc<Mutex<Option<Global<Job>>>>;

    let heap = common::heap(8);
    let (log, saved) = (Log::default(), Saved::default());
    let (l, s) = (log.clone(), Arc::clone(&saved));
    let long = heap.enter(|m| WeakLong::new(m, job(m, move |this, m| again(this, m, s, l, 4))));
    for left in (0..=4).rev() {
        collect(&heap);
        drain(&heap);
        assert_eq!(log.take(), [left.to_string()]);
        // Brought back, it stays until it is dropped again.
        collect(&heap);
        drain(&heap);
        assert_eq!(log.take(), [""; 0]);
        assert!(!long.is_cleared());
        drop(saved.lock().unwrap().take().expect("brought back"));
    }
    // Registered once more, with nothing left to do.
    collect(&heap);
    drain(&heap);
    collect(&heap);
    assert!(long.is_cleared());
    assert_eq!((log.take(), heap.stats().finalizers.run), (vec![], 6));
}

#[test]
fn who_waits_and_who_is_stuck_is_told() {
    let mut builder = Heap::builder().heap_bytes(8 << 20);
    for (name, value) in [("finalizer-watchdog", "10ms"), ("finalizer-backlog", "5")] {
        builder = builder.set(name, value);
    }
    let heap = builder.build().unwrap();
    let (stuck, backlog, panicked) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let told = (Arc::clone(&stuck), Arc::clone(&backlog), Arc::clone(&panicked));
    let _subscription = heap.subscribe(move |n| match n {
        Notification::FinalizerStuck { type_name, ms } => {
            assert!(type_name.contains("Job") && *ms >= 10, "{type_name} {ms}");
            told.0.store(true, Relaxed);
        }
        // The one that runs counts.
        Notification::FinalizerBacklog { waiting } => {
            assert_eq!(*waiting, 9);
            told.1.store(true, Relaxed);
        }
        Notification::FinalizerPanicked { count } => {
            assert_eq!(*count, 1);
            told.2.store(true, Relaxed);
        }
        _ => {}
    });
    let (s, b) = (Arc::clone(&stuck), Arc::clone(&backlog));
    when_dead(&heap, move |_, m| {
        m.blocking(|| eventually("both are told", || s.load(Relaxed) && b.load(Relaxed)));
        panic_any(Vicious);
    });
    for _ in 0..8 {
        when_dead(&heap, |_, _| ());
    }
    collect(&heap);
    drain(&heap);
    eventually("the panic is told", || panicked.load(Relaxed));
    assert_eq!((heap.stats().finalizers.run, heap.stats().finalizers.stuck), (9, 1));
}
