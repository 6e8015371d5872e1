//! A forked child has no collector: it must be told so, and must be able to end.

use metronome_gc::{
    Collect, DrainStop, EnterError, Ephemeron, Finalize, Global, Heap, Mutator, Payload, Root, Soft, Trace,
    WeakLong,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Runs `f` in a forked child; its exit code. A child that hangs is killed by its alarm.
fn in_child(f: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `f`, which uses this library and the allocator only (glibc's is usable after a fork), and
    // ends by `_exit`; `waitpid` gets a valid pointer.
    unsafe {
        match libc::fork() {
            0 => {
                libc::alarm(60);
                let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(99);
                libc::_exit(code)
            }
            child => {
                assert!(child > 0, "{}", std::io::Error::last_os_error());
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
            }
        }
    }
}

#[test]
fn a_child_is_refused_and_can_end() {
    let heap = Heap::builder().heap_bytes(8 << 20).build().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        // Other threads of the parent are inside the heap meanwhile, and cycles run.
        for _ in 0..2 {
            s.spawn(|| {
                heap.enter(|m| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let _ = m.alloc(Payload(String::from("work")));
                        m.safepoint();
                    }
                });
            });
        }
        let (global, root) = heap.enter(|m| {
            let text = m.alloc(Payload(String::from("kept"))).unwrap();
            (Global::new(m, text), Root::new(m, text))
        });
        for round in 0..10 {
            heap.request_cycle();
            // The child is refused, also in threads of its own; it drops handles and clones; it makes a heap of its own.
            let code = in_child(|| {
                if heap.try_enter(|_| ()) != Err(EnterError::Forked) {
                    return 1;
                }
                heap.bookmark("goes nowhere");
                if !heap.watch(4).ended() {
                    return 12;
                }
                let (h, g) = (heap.clone(), global.clone());
                let there = std::thread::spawn(move || {
                    drop(g);
                    h.try_enter(|_| ()).err()
                });
                if there.join().ok() != Some(Some(EnterError::Forked)) {
                    return 2;
                }
                let own = Heap::builder().heap_bytes(4 << 20).build().unwrap();
                let collected = own.enter(|m| {
                    let root = Root::new(m, m.alloc(Payload(7)).unwrap());
                    m.collect(metronome_gc::Collect::Cycle).is_ok() && root.get(m).0 == 7
                });
                if collected { 0 } else { 3 }
            });
            assert_eq!(code, 0, "round {round}");
        }
        // The parent goes on as if nothing had happened.
        heap.enter(|m| {
            m.collect(metronome_gc::Collect::Cycle).unwrap();
            assert_eq!((global.get(m).0.as_str(), root.get(m).0.as_str()), ("kept", "kept"));
        });
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_child_drops_the_last_clone() {
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    let root = heap.enter(|m| Root::new(m, m.alloc(Payload(String::from("kept"))).unwrap()));
    let mut both = Some((heap, root));
    let code = in_child(|| {
        // No thread to wait for: closing must not hang.
        drop(both.take());
        0
    });
    assert_eq!(code, 0);
    let (heap, root) = both.take().unwrap();
    heap.enter(|m| assert_eq!(root.get(m).0, "kept"));
}

#[derive(Trace)]
struct Waits {
    go: std::sync::Arc<AtomicBool>,
}

impl Finalize for Waits {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let go = std::sync::Arc::clone(&this.get(m).go);
        m.blocking(|| {
            while !go.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// A child has no finalizer thread: it does not wait for one, and may drop all that has to do with it.
#[test]
fn a_child_does_not_wait_for_finalizers() {
    let heap = Heap::builder().heap_bytes(8 << 20).build().unwrap();
    let go = std::sync::Arc::new(AtomicBool::new(false));
    let kept = heap.enter(|m| {
        let alive = m.alloc(Payload(String::from("kept"))).unwrap();
        let dead = m.alloc(Waits { go: std::sync::Arc::clone(&go) }).unwrap();
        assert!(m.register_finalizer(dead));
        let refs = (WeakLong::new(m, dead), Soft::new(m, alive), Ephemeron::new(m, alive, dead));
        (Global::new(m, alive), m.on_death(alive, || ()), refs)
    });
    // The ephemeron would keep it alive.
    let (global, notice, (long, soft, ephemeron)) = kept;
    drop(ephemeron);
    while heap.drain_finalizers(Duration::ZERO).is_ok() {
        let _ = heap.collect(Collect::Full);
    }
    let mut handles = Some((heap, global, notice, long, soft));
    let code = in_child(|| {
        let Some((heap, global, notice, long, soft)) = handles.take() else { return 1 };
        match heap.drain_finalizers(Duration::MAX) {
            Err(e) if e.reason == DrainStop::Forked && e.waiting == 1 => {}
            _ => return 2,
        }
        if long.is_cleared() || soft.is_cleared() || !notice.cancel() {
            return 3;
        }
        drop((global, long, soft));
        drop(heap);
        0
    });
    assert_eq!(code, 0);
    go.store(true, Relaxed);
    let (heap, global, notice, long, _soft) = handles.take().unwrap();
    heap.drain_finalizers(Duration::from_secs(100)).unwrap();
    while !long.is_cleared() {
        let _ = heap.collect(Collect::Full);
    }
    // The child's cancelling was its own.
    assert!(notice.cancel());
    heap.enter(|m| assert_eq!(global.get(m).0, "kept"));
}
