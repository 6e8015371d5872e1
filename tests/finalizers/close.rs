//! The end of a heap: the backlog, finalizers that do not end, the last clone in a finalizer.

use crate::common::{eventually, list};
use crate::{Log, collect, common, drain, when_dead};
use metronome_gc::{Collect, DrainStop, Global, Heap, Payload};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

/// A heap whose closing waits this long for finalizers that are due.
fn heap(drain: &str) -> Heap {
    Heap::builder().heap_bytes(8 << 20).set("finalizer-drain", drain).build().unwrap()
}

#[test]
fn closing_drains_the_backlog() {
    let heap = heap("100s");
    let (log, ran) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..1000 {
        let ran = Arc::clone(&ran);
        when_dead(&heap, move |_, m| {
            m.safepoint();
            ran.fetch_add(1, Relaxed);
        });
    }
    collect(&heap);
    // Not found yet, this one is left; its object is dropped with the heap.
    let left = log.clone();
    let owned = Arc::new(());
    let also = Arc::clone(&owned);
    when_dead(&heap, move |_, _| {
        drop(also);
        left.push("left");
    });
    drop(heap);
    assert_eq!(ran.load(Relaxed), 1000);
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn a_drain_has_a_limit() {
    let heap = common::heap(8);
    let go = Arc::new(AtomicBool::new(false));
    for _ in 0..2 {
        let go = Arc::clone(&go);
        when_dead(&heap, move |_, m| {
            m.blocking(|| eventually("the test goes on", || go.load(Relaxed)));
        });
    }
    collect(&heap);
    eventually("the first one runs", || {
        heap.drain_finalizers(Duration::ZERO).is_err_and(|e| e.running.is_some())
    });
    let e = heap.drain_finalizers(Duration::from_millis(20)).unwrap_err();
    assert_eq!((e.waiting, e.reason), (2, DrainStop::Limit));
    assert!(e.to_string().contains("2 objects still wait") && e.to_string().contains("Job"), "{e}");
    // From the inside too; the heap goes on meanwhile.
    heap.enter(|m| {
        assert_eq!(m.drain_finalizers(Duration::from_millis(20)).unwrap_err().reason, DrainStop::Limit);
    });
    collect(&heap);
    assert_eq!(heap.stats().finalizers.backlog, 2);
    go.store(true, Relaxed);
    drain(&heap);
    assert_eq!(heap.drain_finalizers(Duration::ZERO), Ok(()));
}

/// A finalizer that is running for ever, native or inside the heap and deaf to stops: closing ends all the same, and leaves
/// alone what that finalizer may still use.
#[test]
fn closing_leaves_a_finalizer_that_does_not_end() {
    for native in [true, false] {
        let heap = heap("10ms");
        let (running, go, ended) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let flags = (Arc::clone(&running), Arc::clone(&go), Arc::clone(&ended));
        let owned = Arc::new(());
        let kept = Arc::clone(&owned);
        when_dead(&heap, move |this, m| {
            let (running, go, ended) = flags;
            let wait = || {
                running.store(true, Relaxed);
                eventually("the test goes on", || go.load(Relaxed));
            };
            if native {
                m.blocking(wait)
            } else {
                wait()
            }
            // The heap is closed, and its objects are there.
            assert!(this.get(m).next.load(m).is_none());
            assert_eq!(Arc::strong_count(&kept), 2);
            ended.store(true, Relaxed);
        });
        collect(&heap);
        eventually("the finalizer runs", || running.load(Relaxed));
        let handle = heap.enter_or_none();
        drop(heap);
        // Closed, and not waited for.
        assert!(!ended.load(Relaxed));
        go.store(true, Relaxed);
        eventually("the finalizer ends", || ended.load(Relaxed));
        drop(handle);
    }
}

/// A handle that outlives the heap, if a thread can enter it now.
trait EnterOrNone {
    fn enter_or_none(&self) -> Option<Global<Payload<u64>>>;
}

impl EnterOrNone for Heap {
    fn enter_or_none(&self) -> Option<Global<Payload<u64>>> {
        self.enter(|m| m.alloc(Payload(1)).ok().map(|p| Global::new(m, p)))
    }
}

#[test]
fn it_drops_the_last_clone() {
    let log = Log::default();
    let owned = Arc::new(());
    let go = Arc::new(AtomicBool::new(false));
    {
        let heap = common::heap(8);
        let (told, own, waits) = (log.clone(), heap.clone(), Arc::clone(&go));
        when_dead(&heap, move |this, m| {
            m.blocking(|| eventually("the owner is gone", || waits.load(Relaxed)));
            drop(own);
            // The heap is closed by the thread that runs inside it: what it holds is there until it leaves.
            common::check_list(m, list(m, 10), 10);
            assert!(this.get(m).next.load(m).is_none());
            told.push("done");
        });
        let kept = Arc::clone(&owned);
        // Kept until the end, which drops it.
        heap.enter(|m| std::mem::forget(Global::new(m, m.alloc(Payload(kept)).unwrap())));
        collect(&heap);
    }
    go.store(true, Relaxed);
    eventually("the heap ends", || Arc::strong_count(&owned) == 1);
    assert_eq!(log.take(), ["done"]);
}

#[test]
fn a_callback_drops_the_last_clone() {
    let owned = Arc::new(());
    let go = Arc::new(AtomicBool::new(false));
    {
        let heap = common::heap(8);
        let (own, waits, kept) = (heap.clone(), Arc::clone(&go), Arc::clone(&owned));
        heap.enter(|m| {
            drop(m.on_death(list(m, 1), move || {
                eventually("the owner is gone", || waits.load(Relaxed));
                drop(own);
            }));
            std::mem::forget(Global::new(m, m.alloc(Payload(kept)).unwrap()));
        });
        collect(&heap);
    }
    go.store(true, Relaxed);
    eventually("the heap ends", || Arc::strong_count(&owned) == 1);
}

#[test]
fn callbacks_that_never_ran_are_dropped_with_the_heap() {
    let heap = common::heap(8);
    let owned = Arc::new(());
    let (global, notice) = heap.enter(|m| {
        let alive = list(m, 10);
        // It owns a handle of its own heap, and so the heap's memory.
        let (global, owned) = (Global::new(m, alive), Arc::clone(&owned));
        let own = global.clone();
        (global, m.on_death(alive, move || drop((own, owned))))
    });
    assert_eq!(Arc::strong_count(&owned), 2);
    drop(heap);
    assert_eq!(Arc::strong_count(&owned), 1);
    assert!(!notice.cancel());
    drop(global);
}

/// Many short callbacks are due: those that the closing does not wait for are dropped, and the heap is closed in order.
#[test]
fn callbacks_that_are_still_due_do_not_keep_a_heap_from_closing() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let heap = Heap::builder().heap_bytes(4 << 20).set("finalizer-drain", "none").build().unwrap();
    let (ran, gone, dropped) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let kept = heap.enter(|m| {
        for _ in 0..1000 {
            let (ran, mine) = (Arc::clone(&ran), Dropped(Arc::clone(&gone)));
            drop(m.on_death(m.alloc(Payload(0u8)).unwrap(), move || {
                std::thread::sleep(Duration::from_millis(5));
                ran.fetch_add(1, SeqCst);
                drop(mine);
            }));
        }
        Global::new(m, m.alloc(Payload(Dropped(Arc::clone(&dropped)))).unwrap())
    });
    heap.collect(Collect::Full).unwrap();
    drop(heap);
    let at_close = ran.load(SeqCst);
    assert!(at_close < 1000, "all have run: nothing was tested");
    assert_eq!((gone.load(SeqCst), dropped.load(SeqCst)), (1000, 1));
    assert_eq!(ran.load(SeqCst), at_close, "a callback ran after the heap was closed");
    drop(kept);
}
