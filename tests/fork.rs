//! A forked child has no collector: it must be told so, and must be able to end.

use metronome_gc::{
    Collect, CollectError, DrainStop, EnterError, Ephemeron, Finalize, Global, Heap, Mutator, Payload, Root,
    Soft, Trace, WeakLong,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Runs `f` in a forked child; its exit code. A child that hangs is killed by its alarm.
fn in_child(f: impl FnOnce() -> i32) -> i32 {
    match fork() {
        Some(child) => code_of(child),
        None => end(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(99)),
    }
}

/// The child, or `None` in the child itself, which must use this library and the allocator only (glibc's is usable after a
/// fork), and end by [`end`].
fn fork() -> Option<libc::pid_t> {
    // SAFETY: as said above of the child.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: no handler is needed.
            unsafe { libc::alarm(20) };
            None
        }
        child => {
            assert!(child > 0, "{}", std::io::Error::last_os_error());
            Some(child)
        }
    }
}

fn end(code: i32) -> ! {
    // SAFETY: nothing of the parent's is touched on the way.
    unsafe { libc::_exit(code) }
}

fn code_of(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the pointer is valid.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
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

/// Stops that last for 40 ms where this thread does not poll, so that the fork comes in the middle of one.
fn long_stops() -> Heap {
    let options = [("quantum", "50ms"), ("beat", "1ms"), ("window", "500ms"), ("stop-budget", "40ms")];
    let builder = Heap::builder().heap_bytes(8 << 20).set("verify", "off");
    options.into_iter().fold(builder, |b, (name, value)| b.set(name, value)).build().unwrap()
}

/// Everything that a mutator of a forked child may ask for: an error, or done. The number of the first that is not so.
fn use_after_fork(m: &mut Mutator<'_>, root: &Root<Payload<String>>, waiting: u64) -> i32 {
    if root.get(m).0 != "kept" {
        return 1;
    }
    for mode in [Collect::Cycle, Collect::Finish, Collect::Full, Collect::Trim, Collect::Hint] {
        if m.collect(mode) != Err(CollectError::Forked) {
            return 2;
        }
    }
    match m.drain_finalizers(Duration::MAX) {
        Err(e) if waiting > 0 && e.reason == DrainStop::Forked && e.waiting == waiting => {}
        Ok(()) if waiting == 0 => {}
        _ => return 3,
    }
    if m.blocking(|| 5) != 5 {
        return 4;
    }
    let panics = || std::panic::resume_unwind(Box::new(6));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| m.blocking::<()>(panics)));
    if caught.err().and_then(|e| e.downcast::<i32>().ok()) != Some(Box::new(6)) {
        return 5;
    }
    m.poll();
    m.safepoint();
    // The heap runs full, and nobody frees anything: an error each time, not a wait.
    let mut last = Root::new(m, m.alloc(Payload([0_u64; 128])).unwrap());
    let mut made = 0;
    while let Ok(object) = m.alloc(Payload([made; 128])) {
        last = Root::new(m, object);
        made += 1;
        if made % 16 == 0 {
            m.safepoint();
        }
    }
    m.safepoint();
    if made < 100 || m.alloc(Payload([0_u64; 128])).is_ok() || last.get(m).0 != [made - 1; 128] {
        return 6;
    }
    if root.get(m).0 != "kept" { 7 } else { 0 }
}

/// Forks inside; what the child may do there, and that it can leave.
fn forks_inside(heap: &Heap, waiting: u64, first: impl FnOnce()) {
    let (child, code) = heap.enter(|m| {
        let root = Root::new(m, m.alloc(Payload(String::from("kept"))).unwrap());
        first();
        let child = fork();
        let code = if child.is_none() { use_after_fork(m, &root, waiting) } else { 0 };
        (child, code)
    });
    let Some(child) = child else {
        end(if code == 0 && heap.try_enter(|_| ()) != Err(EnterError::Forked) { 8 } else { code });
    };
    assert_eq!(code_of(child), 0);
    // The parent goes on as if nothing had happened.
    heap.enter(|m| m.collect(Collect::Cycle)).unwrap();
}

#[test]
fn a_child_forked_inside_goes_on_to_its_end() {
    let heap = Heap::builder().heap_bytes(8 << 20).build().unwrap();
    // One whose finalizer runs and waits.
    let go = std::sync::Arc::new(AtomicBool::new(false));
    heap.enter(|m| {
        let dead = m.alloc(Waits { go: std::sync::Arc::clone(&go) }).unwrap();
        assert!(m.register_finalizer(dead));
    });
    while heap.drain_finalizers(Duration::ZERO).is_ok() {
        let _ = heap.collect(Collect::Full);
    }
    forks_inside(&heap, 1, || ());
    go.store(true, Relaxed);
    heap.drain_finalizers(Duration::from_secs(100)).unwrap();
}

#[test]
fn a_child_forked_inside_during_a_stop_goes_on_to_its_end() {
    let heap = long_stops();
    // The first stop begins with the request, and waits for this thread.
    forks_inside(&heap, 0, || {
        heap.request_cycle();
        std::thread::sleep(Duration::from_millis(15));
    });
}

/// Other threads are inside meanwhile, cycles run, and quanta are under way at some of the forks.
#[test]
fn a_child_forked_in_blocking_comes_back() {
    // Many cycles of many objects: to verify them takes minutes.
    let heap = Heap::builder().heap_bytes(16 << 20).set("verify", "off").build().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            heap.enter(|m| {
                while !done.load(Relaxed) {
                    let _ = m.alloc(Payload([0_u64; 16]));
                    m.safepoint();
                }
            });
        });
        for round in 0..20 {
            heap.request_cycle();
            let (child, code) = heap.enter(|m| {
                let root = Root::new(m, m.alloc(Payload(String::from("kept"))).unwrap());
                let child = m.blocking(fork);
                let code = if child.is_none() { use_after_fork(m, &root, 0) } else { 0 };
                (child, code)
            });
            let Some(child) = child else { end(code) };
            assert_eq!(code_of(child), 0, "round {round}");
        }
        done.store(true, Relaxed);
    });
    heap.enter(|m| m.collect(Collect::Cycle)).unwrap();
}
