//! The mutex and the condition variable.

use crate::common::{check_list, churn, collect, eventually, list, panic_of};
use crate::{busy_heap, cycles_pass};
use metronome_gc::Heap;
use metronome_gc::rendezvous::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Far beyond what any machine needs: a wake-up that is lost fails the test and does not hang it.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn eight_threads_count_together_while_cycles_run() {
    const THREADS: u64 = 8;
    const OPERATIONS: u64 = 2000;
    let heap = busy_heap();
    let (total, atomic) = (Mutex::new(0u64), AtomicU64::new(0));
    std::thread::scope(|s| {
        // At least one cycle runs beside them, whatever the machine.
        s.spawn(|| heap.enter(collect));
        for t in 0..THREADS {
            let (heap, total, atomic) = (&heap, &total, &atomic);
            s.spawn(move || {
                heap.enter(|m| {
                    for i in 0..OPERATIONS {
                        let mut guard = total.lock(m);
                        // Read, work in the heap, write: a second thread inside would lose counts.
                        let seen = *guard;
                        // Allocates, and comes by safepoints with the lock held.
                        churn(m, i % 20 + 1);
                        m.safepoint();
                        *guard = seen + t * i;
                        drop(guard);
                        atomic.fetch_add(t * i, SeqCst);
                    }
                });
            });
        }
    });
    let expected = (0..THREADS).sum::<u64>() * (0..OPERATIONS).sum::<u64>();
    assert_eq!((total.into_inner(), atomic.into_inner()), (expected, expected));
}

#[test]
fn cycles_complete_while_a_mutator_waits_for_a_lock_held_at_pause_points() {
    let heap = busy_heap();
    let lock = Mutex::new(0);
    let (held, waiting, quit) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            heap.enter(|m| {
                let mut guard = lock.lock(m);
                held.store(true, SeqCst);
                while !quit.load(SeqCst) {
                    // Quanta pause the holder here, with the lock held.
                    (0..100).for_each(|_| m.poll());
                    m.safepoint();
                }
                *guard += 1;
            });
        });
        s.spawn(|| {
            eventually("the lock is held", || held.load(SeqCst));
            heap.enter(|m| {
                waiting.store(true, SeqCst);
                let mut guard = lock.lock(m);
                assert!(quit.load(SeqCst), "locked while another thread had it");
                *guard += 10;
            });
        });
        eventually("the waiter comes", || waiting.load(SeqCst));
        let passed = cycles_pass(&heap, 5);
        quit.store(true, SeqCst);
        assert!(passed, "no cycle ends while one waits for a lock");
    });
    assert_eq!(lock.into_inner(), 11);
}

#[test]
fn no_notification_is_lost() {
    const TURNS: u64 = 20_000;
    let heap = busy_heap();
    let (turn, changed) = (Mutex::new(0u64), Condvar::new());
    std::thread::scope(|s| {
        for me in 0..2 {
            let (heap, turn, changed) = (&heap, &turn, &changed);
            s.spawn(move || {
                heap.enter(|m| {
                    loop {
                        let guard = turn.lock(m);
                        let (mut guard, waited) =
                            changed.wait_timeout_while(m, guard, LONG, |t| *t < TURNS && *t % 2 != me);
                        assert!(!waited.timed_out(), "turn {} never came", *guard);
                        if *guard >= TURNS {
                            return;
                        }
                        *guard += 1;
                        // Exactly one waits: a single notification must do.
                        changed.notify_one();
                    }
                });
            });
        }
    });
    assert!(turn.into_inner() >= TURNS);
}

#[test]
fn all_are_woken_and_cycles_complete_while_they_wait() {
    let heap = busy_heap();
    let (state, changed) = (Mutex::new((0, false)), Condvar::new());
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                heap.enter(|m| {
                    let mut guard = state.lock(m);
                    guard.0 += 1;
                    let guard = changed.wait_while(m, guard, |s| !s.1);
                    assert!(guard.1);
                });
            });
        }
        eventually("four wait", || state.lock_outside().0 == 4);
        let passed = cycles_pass(&heap, 5);
        state.lock_outside().1 = true;
        changed.notify_all();
        assert!(passed, "no cycle ends while some wait for a notification");
    });
}

#[test]
fn a_limit_ends_a_wait() {
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    let (lock, condvar) = (Mutex::new(7), Condvar::new());
    let (held, quit) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            let _guard = lock.lock_outside();
            held.store(true, SeqCst);
            eventually("told to end", || quit.load(SeqCst));
        });
        eventually("the lock is held", || held.load(SeqCst));
        heap.enter(|m| {
            assert!(lock.try_lock().is_none());
            for limit in [Duration::ZERO, Duration::from_millis(2)] {
                assert!(lock.lock_timeout(m, limit).is_none());
                assert!(m.blocking(|| lock.lock_outside_timeout(limit).is_none()));
            }
            // The mutator runs on, and so do cycles.
            collect(m);
            quit.store(true, SeqCst);
            let guard = lock.lock_timeout(m, Duration::MAX).expect("no limit");
            let (guard, result) = condvar.wait_timeout(m, guard, Duration::from_millis(2));
            assert_eq!((*guard, result.timed_out()), (7, true));
            let (guard, result) = condvar.wait_timeout_while(m, guard, Duration::ZERO, |_| true);
            assert_eq!((*guard, result.timed_out()), (7, true));
            let (guard, result) = condvar.wait_timeout_while(m, guard, Duration::MAX, |_| false);
            assert_eq!((*guard, result.timed_out()), (7, false));
        });
    });
}

#[test]
fn a_panic_in_a_critical_section_unlocks_and_leaves_the_mutator_running() {
    let heap = busy_heap();
    let (lock, condvar) = (Mutex::new(0), Condvar::new());
    heap.enter(|m| {
        for i in 0..20 {
            let r = catch_unwind(AssertUnwindSafe(|| {
                let mut guard = lock.lock(m);
                *guard += 1;
                m.safepoint();
                panic!("on purpose");
            }));
            assert!(r.is_err());
            let r = catch_unwind(AssertUnwindSafe(|| {
                let guard = lock.lock(m);
                // Asked once while running, so that the second question comes after a wait.
                let mut asked = 0;
                let (guard, _) = condvar.wait_timeout(m, guard, Duration::from_micros(100));
                let _ = condvar.wait_while(m, guard, |_| {
                    asked += 1;
                    assert_ne!(asked, 1, "on purpose");
                    false
                });
            }));
            assert!(r.is_err());
            // No poison, and the value as it was left.
            assert_eq!(lock.try_lock().map(|g| *g), Some(i + 1));
            check_list(m, list(m, 100), 100);
            collect(m);
        }
    });
}

#[test]
fn a_panic_of_the_wait_itself_leaves_the_mutator_running() {
    let heap = busy_heap();
    let (first, second, condvar) = (Mutex::new(false), Mutex::new(()), Condvar::new());
    let waiting = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            heap.enter(|m| {
                let guard = first.lock(m);
                let guard = condvar.wait_while(m, guard, |done| {
                    waiting.store(true, SeqCst);
                    !*done
                });
                assert!(*guard);
            });
        });
        eventually("the first waits", || waiting.load(SeqCst));
        heap.enter(|m| {
            // Locked once: the other thread has let go of its mutex, so it waits.
            drop(first.lock(m));
            let message = panic_of(|| {
                let guard = second.lock(m);
                let _ = condvar.wait(m, guard);
            });
            assert!(message.contains("more than one mutex"), "{message}");
            assert!(second.try_lock().is_some(), "unlocked by the panic");
            check_list(m, list(m, 100), 100);
            collect(m);
            *first.lock(m) = true;
            condvar.notify_all();
        });
    });
}

#[test]
fn threads_of_two_heaps_and_of_none_share_a_lock() {
    let (a, b) = (busy_heap(), busy_heap());
    let mut lock = Mutex::from(0);
    std::thread::scope(|s| {
        for heap in [&a, &b, &a, &b] {
            let lock = &lock;
            s.spawn(move || heap.enter(|m| (0..5000).for_each(|_| *lock.lock(m) += 1)));
        }
        for _ in 0..2 {
            s.spawn(|| (0..5000).for_each(|_| *lock.lock_outside() += 1));
        }
    });
    assert_eq!(*lock.get_mut(), 30_000);
    let text = format!("{lock:?} {:?}", lock.lock_outside());
    assert!(text.contains("30000"), "{text}");
}
