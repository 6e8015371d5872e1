//! Many threads, short-lived threads, threads that do not come to a stop.

use crate::common::*;
use metronome_gc::{EnterError, Global, Heap, Payload, Root};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};

#[test]
fn sixty_four_mutators() {
    let heap = heap(32);
    let shared = heap.enter(|m| Global::new(m, m.alloc_slots::<Node>(64).unwrap()));
    let sum = AtomicU64::new(0);
    std::thread::scope(|s| {
        for t in 0..64_usize {
            let (heap, shared, sum) = (&heap, &shared, &sum);
            s.spawn(move || {
                heap.enter(|m| {
                    for round in 0..100_u64 {
                        let mine = node(m, t as u64 * 1000 + round);
                        // Each slot is written by two threads.
                        let to = if round % 2 == 0 { t } else { (t + 1) % 64 };
                        let got = shared.get(m).at(to).swap(m, mine.get(m));
                        if let Some(got) = got {
                            let (owner, round) = (got.id / 1000, got.id % 1000);
                            assert_eq!(if round % 2 == 0 { owner } else { (owner + 1) % 64 }, to as u64);
                            sum.fetch_add(1, Relaxed);
                        }
                        m.safepoint();
                    }
                });
            });
        }
    });
    heap.enter(|m| {
        let left = shared.get(m).iter().filter(|s| !s.is_null()).count() as u64;
        assert_eq!(sum.load(Relaxed) + left, 6400);
    });
    collect_twice(&heap);
    heap.enter(|m| assert!(shared.get(m).iter().all(|s| s.load(m).is_some_and(|n| n.id < 64_100))));
}

#[test]
fn threads_come_and_go() {
    let heap = Heap::builder().heap_bytes(8 << 20).set("max-mutators", "16").build().unwrap();
    let kept = Mutex::new(vec![]);
    for i in 0..2000_u64 {
        let spawn = || {
            let (heap, kept) = (heap.clone(), &kept);
            move || {
                let global = heap.enter(|m| {
                    let root = Root::new(m, list(m, 3));
                    m.safepoint();
                    Global::new(m, root.get(m))
                });
                if i % 10 == 0 {
                    kept.lock().unwrap().push(global);
                }
            }
        };
        std::thread::scope(|s| {
            let threads = [s.spawn(spawn()), s.spawn(spawn())];
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
        if i % 100 == 0 {
            heap.request_cycle();
        }
    }
    let kept = kept.into_inner().unwrap();
    heap.enter(|m| kept.iter().for_each(|g| check_list(m, g.get(m), 3)));
    assert_eq!(kept.len(), 400);
}

#[test]
fn more_threads_than_allowed_are_refused() {
    let max = 8;
    let heap = Heap::builder().heap_bytes(4 << 20).set("max-mutators", "8").build().unwrap();
    let (barrier, refused) = (Barrier::new(20), AtomicUsize::new(0));
    std::thread::scope(|s| {
        for _ in 0..20 {
            s.spawn(|| {
                let r = heap.try_enter(|m| check_list(m, list(m, 5), 5));
                match r {
                    Ok(()) => {}
                    Err(EnterError::TooManyMutators { max: m }) if m == max => {
                        refused.fetch_add(1, Relaxed);
                    }
                    Err(e) => panic!("{e}"),
                }
                // A thread stays attached until it ends.
                barrier.wait();
            });
        }
    });
    // The heap's reaper may hold one of the places.
    assert!((12..=13).contains(&refused.load(Relaxed)), "{refused:?}");
    // There is room again once they have ended.
    eventually("a place is free", || heap.try_enter(|m| check_list(m, list(m, 5), 5)).is_ok());
}

/// Drop glue runs although user threads hold every place.
#[test]
fn the_reaper_has_its_place() {
    let heap = Heap::builder().heap_bytes(4 << 20).set("max-mutators", "8").build().unwrap();
    let (all_in, done) = (Barrier::new(9), AtomicBool::new(false));
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                let _ = heap.try_enter(|_| ());
                all_in.wait();
                while !done.load(Relaxed) {
                    let _ = heap.try_enter(|m| {
                        discard(m.alloc(Payload(String::from("glue"))).unwrap());
                        m.collect(metronome_gc::Collect::Cycle).is_ok()
                    });
                    std::thread::yield_now();
                }
            });
        }
        all_in.wait();
        let stop = StopThem(&done);
        eventually("drop glue has run", || heap.stats().reaped >= 100);
        drop(stop);
    });
}

/// Lets the threads of a scope end also when the test fails.
struct StopThem<'a>(&'a AtomicBool);

impl Drop for StopThem<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_mutator_that_never_polls_blocks_nobody() {
    let heap = heap(8);
    let (inside, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|s| {
        let straggler = std::thread::Builder::new().name("straggler".into());
        straggler
            .spawn_scoped(s, || {
                heap.enter(|m| {
                    let object = list(m, 10);
                    inside.store(true, Relaxed);
                    while !done.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                    check_list(m, object, 10);
                });
            })
            .unwrap();
        let stop = StopThem(&done);
        eventually("the straggler is inside", || inside.load(Relaxed));
        heap.request_cycle();
        heap.enter(|m| {
            let root = Root::new(m, list(m, 100));
            // Others work on while the collector cannot stop the straggler, and the collector says who it is.
            let mut safepoints = 0;
            eventually("the straggler is named", || {
                for _ in 0..100 {
                    discard(list(m, 10));
                    m.safepoint();
                    safepoints += 1;
                }
                let stats = m.blocking(|| heap.stats());
                stats.stops_cancelled > 0
                    && stats.stragglers.iter().any(|(name, n)| name == "straggler" && *n > 0)
            });
            assert_eq!(heap.glance().cycles, 0);
            assert!(safepoints > 0);
            check_list(m, root.get(m), 100);
        });
        drop(stop);
    });
    collect_twice(&heap);
}

#[test]
fn a_mutator_that_never_comes_by_a_safepoint_is_named() {
    let heap = heap(8);
    let (inside, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|s| {
        let poller = std::thread::Builder::new().name("poller".into());
        poller
            .spawn_scoped(s, || {
                heap.enter(|m| {
                    let object = list(m, 10);
                    inside.store(true, Relaxed);
                    while !done.load(Relaxed) {
                        m.poll();
                    }
                    check_list(m, object, 10);
                });
            })
            .unwrap();
        let stop = StopThem(&done);
        eventually("the poller is inside", || inside.load(Relaxed));
        heap.request_cycle();
        eventually("the poller is named", || {
            heap.enter(|m| discard(list(m, 10)));
            heap.stats().stragglers.iter().any(|(name, n)| name == "poller" && *n > 0)
        });
        assert_eq!(heap.glance().cycles, 0);
        drop(stop);
    });
    collect_twice(&heap);
}

/// Objects handed from thread to thread by globals and slots, read by the other side at once.
#[test]
fn objects_are_published() {
    let heap = heap(16);
    let mailbox = heap.enter(|m| Global::new(m, m.alloc(NodeInit { id: 0, next: None }).unwrap()));
    let n = 20_000_u64;
    std::thread::scope(|s| {
        s.spawn(|| {
            heap.enter(|m| {
                for id in 1..=n {
                    let letter = node(m, id);
                    mailbox.get(m).next.store(m, letter.get(m));
                    m.safepoint();
                }
            });
        });
        s.spawn(|| {
            heap.enter(|m| {
                let mut last = 0;
                while last < n {
                    if let Some(letter) = mailbox.get(m).next.load(m) {
                        assert!(letter.id >= last);
                        last = letter.id;
                    }
                    m.safepoint();
                }
            });
        });
    });
}
