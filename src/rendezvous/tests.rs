//! Whether an operation leaves the running state: asked of the gate itself.

use super::*;
use crate::config::Config;
use crate::gate::Spin;
use crate::heap::{build_shared, enter_shared};
use crate::mutator::Mutator;
use metronome_alarm::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Runs `f` as a mutator while a stop is requested; whether the stop came about before `f` had ended.
fn stopped_during(f: impl FnOnce(&mut Mutator<'_>)) -> bool {
    let config = Config { heap: 4 << 20, ..Config::DEFAULT };
    let shared = Arc::new(build_shared(config, Clock::monotonic()).unwrap().0);
    let (inside, stopped, during) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            while !inside.load(SeqCst) {
                std::thread::yield_now();
            }
            shared.gate.stop(None, || 0, Spin(0), false, None).unwrap();
            stopped.store(true, SeqCst);
            shared.gate.release();
        });
        enter_shared(&shared, |m| {
            inside.store(true, SeqCst);
            while !shared.gate.stop_requested() {
                std::thread::yield_now();
            }
            f(m);
            during.store(stopped.load(SeqCst), SeqCst);
            m.safepoint();
        })
        .unwrap();
    });
    assert!(stopped.load(SeqCst), "the safepoint answers it at the latest");
    during.load(SeqCst)
}

#[test]
fn what_need_not_wait_does_not_leave_the_running_state() {
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let (bounded, end) = sync_channel(4);
    let (unbounded, other_end) = channel();
    let never = stopped_during(|m| {
        for i in 0..1000 {
            *mutex.lock(m) += 1;
            drop(mutex.lock_timeout(m, Duration::ZERO));
            let guard = mutex.lock(m);
            drop(condvar.wait_while(m, guard, |n| *n < 0));
            condvar.notify_all();
            bounded.send(m, i).unwrap();
            unbounded.send_timeout(m, i, Duration::MAX).unwrap();
            assert_eq!((end.recv(m), other_end.recv_timeout(m, Duration::MAX)), (Ok(i), Ok(i)));
            assert!(end.try_recv().is_err() && unbounded.try_send(i).is_ok() && mutex.try_lock().is_some());
            assert!(other_end.try_recv().is_ok());
        }
        let (gone, receiver) = sync_channel::<u8>(1);
        drop(gone);
        assert!(receiver.recv(m).is_err());
    });
    assert!(!never);
}

#[test]
fn what_waits_leaves_it() {
    let short = Duration::from_millis(1);
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let held = Mutex::new(0);
    let _guard = held.lock_outside();
    let (full, end) = sync_channel(1);
    full.try_send(0).unwrap();
    let (_sender, empty) = channel::<u8>();
    type Wait<'a> = (&'a str, &'a dyn Fn(&mut Mutator<'_>));
    let waits: [Wait<'_>; 5] = [
        ("lock", &|m| assert!(held.lock_timeout(m, short).is_none())),
        ("recv", &|m| assert!(empty.recv_timeout(m, short).is_err())),
        ("send", &|m| assert!(full.send_timeout(m, 1, short).is_err())),
        ("condvar", &|m| {
            let guard = mutex.lock(m);
            assert!(condvar.wait_timeout(m, guard, short).1.timed_out());
        }),
        ("condvar, while", &|m| {
            let guard = mutex.lock(m);
            assert!(condvar.wait_timeout_while(m, guard, short, |_| true).1.timed_out());
        }),
    ];
    for (what, wait) in waits {
        // Native for as long as it takes: the stop needs no more than this thread's leaving, but may come late.
        let answered = stopped_during(|m| (0..10_000).for_each(|_| wait_until_answered(m, wait)));
        assert!(answered, "{what}");
    }
    drop(end);
}

/// Once more, unless the stop is over.
fn wait_until_answered(m: &mut Mutator<'_>, wait: &dyn Fn(&mut Mutator<'_>)) {
    if m.shared().gate.stop_requested() {
        wait(m);
    }
}
