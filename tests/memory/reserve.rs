//! Reservations: what is set aside is there, whatever other threads do.

use super::common::{BLOCK, Block, BlockInit, Ends, block, builder, check, list, panic_of};
use metronome_gc::testing::free_regions;
use metronome_gc::{AllocError, Collect, Heap, Payload, Root};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[test]
fn nothing_fails_inside_while_others_exhaust_the_heap() {
    for mode in ["degrade", "synchronous", "fail"] {
        // Others must exhaust the heap meanwhile, which is a matter of pace.
        let heap = builder(32, &[("exhaustion", mode), ("verify", "off")]).build().unwrap();
        let (ended, failures) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    heap.enter(|m| {
                        while !ended.load(Relaxed) {
                            // Data until an allocation fails; then all of it goes.
                            let mut kept = None;
                            loop {
                                let next = kept.as_ref().map(|r: &Root<Block>| r.get(m));
                                match block(m, 1, next) {
                                    Ok(b) => kept = Some(Root::new(m, b)),
                                    Err(_) => break,
                                }
                                if ended.load(Relaxed) {
                                    break;
                                }
                            }
                            failures.fetch_add(1, Relaxed);
                            drop(kept);
                            m.safepoint();
                        }
                    });
                });
            }
            // Also when this thread panics.
            let end = Ends(&ended);
            let (mut rounds, mut tries) = (0, 0);
            heap.enter(|m| {
                // Each time others have run against the wall, too.
                while rounds < 20 {
                    tries += 1;
                    assert!(tries < 60_000, "no reservation is ever had: {rounds}");
                    let seen = failures.load(Relaxed);
                    let done = if rounds % 2 == 0 { by_bytes(m) } else { by_objects(m, &failures, seen) };
                    if done {
                        rounds += 1;
                    } else {
                        m.blocking(|| std::thread::sleep(std::time::Duration::from_millis(1)));
                    }
                }
            });
            drop(end);
            println!("{mode}: {tries} tries for {rounds}, {} failures of others", failures.load(Relaxed));
        });
        assert!(failures.load(Relaxed) > 0);
    }
}

/// Uses a reservation of bytes in a mix of sizes; whether it was had.
fn by_bytes(m: &mut metronome_gc::Mutator<'_>) -> bool {
    let Ok(reserved) = m.reserve(256 << 10) else { return false };
    let mut sum = 0;
    let array = reserved.alloc_array(20_000, |i| i as u32);
    let slots = reserved.alloc_slots::<Block>(3000);
    while reserved.left_bytes() >= 4096 {
        let b = reserved.alloc(BlockInit::of(sum));
        slots.get(sum as usize).unwrap().store(reserved.mutator(), Some(b));
        assert_eq!(reserved.alloc(Payload(sum)).0, sum);
        reserved.alloc(Payload([sum; 7]));
        reserved.mutator().poll();
        sum += 1;
    }
    assert!(sum > 100);
    for i in 0..sum {
        assert_eq!(slots.get(i as usize).unwrap().load(reserved.mutator()).unwrap().id, i);
    }
    assert_eq!(array.get(19_999).copied(), Some(19_999));
    true
}

/// Uses a reservation of objects while others fail; whether it was had.
fn by_objects(m: &mut metronome_gc::Mutator<'_>, failures: &AtomicU64, seen: u64) -> bool {
    let Ok(reserved) = m.reserve_objects::<Block>(1000) else { return false };
    let mut last = None;
    for id in 0..1000 {
        // Some of them only after the heap was full: others cannot get any further while this thread has no safepoint.
        for _ in 0..1000 {
            if id != 500 || failures.load(Relaxed) > seen + 1 {
                break;
            }
            reserved.mutator().poll();
            std::thread::yield_now();
        }
        last = Some(reserved.alloc(BlockInit::chained(id, last)));
    }
    assert_eq!(reserved.left_bytes(), 0);
    let (mut at, mut n) = (last, 1000);
    while let Some(b) = at {
        n -= 1;
        assert_eq!(b.id, n);
        at = b.next.load(reserved.mutator());
    }
    n == 0
}

#[test]
fn more_than_was_reserved_is_a_panic_that_says_so() {
    let heap = builder(16, &[]).build().unwrap();
    heap.enter(|m| {
        let reserved = m.reserve_objects::<Block>(2).unwrap();
        assert_eq!(reserved.left_bytes(), 2 * BLOCK);
        reserved.alloc(BlockInit::of(1));
        reserved.alloc(BlockInit::of(2));
        let text = panic_of(|| reserved.alloc(BlockInit::of(3)).id);
        assert!(text.contains("256 bytes are to be allocated and 0 are left of the reservation"), "{text}");
        drop(reserved);
        let reserved = m.reserve(100).unwrap();
        let text = panic_of(|| reserved.alloc_array(10, |i| i).len());
        assert!(text.contains("reserve more"), "{text}");
        let text = panic_of(|| reserved.alloc_slots::<Block>(usize::MAX).len());
        assert!(text.contains("reserve more"), "{text}");
        drop(reserved);
        assert!(block(m, 1, None).is_ok());
    });
}

#[test]
fn more_than_the_heap_is_an_error_at_once() {
    let heap = builder(16, &[]).build().unwrap();
    heap.enter(|m| {
        for bytes in [17 << 20, 1 << 40, u64::MAX] {
            let error = m.reserve(bytes).map(|_| ()).unwrap_err();
            let AllocError::TooLarge { requested_bytes, heap_bytes } = error else { panic!("{error}") };
            assert!(requested_bytes >= bytes && heap_bytes == 16 << 20, "{error}");
        }
        // Less than the heap, but not in any mix of sizes: the error says what that needs.
        let error = m.reserve(1 << 20).map(|_| ()).unwrap_err();
        let AllocError::TooLarge { requested_bytes, .. } = error else { panic!("{error}") };
        assert!((20 << 20..30 << 20).contains(&requested_bytes), "{error}");
        let error = m.reserve_objects::<Block>(u64::MAX).map(|_| ()).unwrap_err();
        assert!(matches!(error, AllocError::TooLarge { .. }), "{error}");
    });
    let stats = heap.stats();
    assert_eq!((stats.cycles, stats.out_of_memory), (0, 0));
}

#[test]
fn what_was_not_used_is_given_back() {
    let heap = builder(17, &[]).build().unwrap();
    let all = free_regions(&heap);
    heap.enter(|m| {
        for bytes in [0, 1, 4096, 100 << 10] {
            let reserved = m.reserve(bytes).unwrap();
            let left = free_regions(&heap);
            assert!(bytes < 16 || u64::from(all - left) << 16 >= bytes, "{bytes}");
            drop(reserved);
            assert_eq!(free_regions(&heap), all, "{bytes}");
        }
        // Exactly as many as so many cells need in the worst case: 255 to a region.
        let reserved = m.reserve_objects::<Block>(3 + 4 * 256).unwrap();
        assert_eq!(all - free_regions(&heap), 3 + 4);
        for id in 0..300 {
            reserved.alloc(BlockInit::of(id));
        }
        drop(reserved);
        assert_eq!(all - free_regions(&heap), 2, "the two regions in use");
        // Also by a panic.
        panic_of(|| {
            let _reserved = m.reserve(16 << 10).unwrap();
            panic!("in the middle");
        });
        assert_eq!(all - free_regions(&heap), 2);
    });
    heap.collect(Collect::Full).unwrap();
    assert_eq!(free_regions(&heap), all);
}

#[test]
fn a_forgotten_reservation_ends_with_the_stretch_inside() {
    let heap = builder(17, &[]).build().unwrap();
    let all = free_regions(&heap);
    let forget = |heap: &Heap| {
        heap.enter(|m| {
            std::mem::forget(m.reserve(100 << 10).unwrap());
            assert!(all - free_regions(heap) > 16);
            // The mutator goes on, with safepoints and all.
            let l = list(m, 1000);
            m.safepoint();
            check(m, &l, 1000);
            std::mem::forget(m.reserve_objects::<Block>(1000).unwrap());
            drop(l);
        });
    };
    forget(&heap);
    heap.collect(Collect::Full).unwrap();
    assert_eq!(free_regions(&heap), all);
    heap.enter(|m| {
        std::mem::forget(m.reserve(100 << 10).unwrap());
        m.blocking(|| assert_eq!(free_regions(&heap), all));
        assert!(block(m, 1, None).is_ok());
    });
}

#[test]
fn a_reservation_waits_for_garbage_to_go() {
    for mode in ["degrade", "synchronous"] {
        let heap = builder(16, &[("exhaustion", mode), ("trigger", "95%")]).build().unwrap();
        heap.enter(|m| {
            for _ in 0..3 {
                super::common::fill_with_garbage(m);
                let n = (10 << 20) / BLOCK;
                let reserved = m.reserve_objects::<Block>(n).unwrap();
                (0..n).for_each(|id| assert_eq!(reserved.alloc(BlockInit::of(id)).id, id));
            }
        });
        assert_eq!(heap.stats().out_of_memory, 0);
    }
}

/// Room for objects of one type is for them alone: others would use up its regions while bytes are left.
#[test]
fn objects_of_another_type_are_refused() {
    let heap = builder(1, &[]).build().unwrap();
    heap.enter(|m| {
        let reserved = m.reserve_objects::<Payload<[u64; 8]>>(100).unwrap();
        for i in 0..100u64 {
            assert_eq!(reserved.alloc(Payload([i; 8])).0[7], i);
        }
    });
    heap.enter(|m| {
        let reserved = m.reserve_objects::<Payload<[u64; 8]>>(100).unwrap();
        let text = panic_of(|| reserved.alloc(Payload(1u8)).0);
        assert!(text.contains("objects of one type"), "{text}");
        let text = panic_of(|| reserved.alloc_array(3, |i| i).len());
        assert!(text.contains("objects of one type"), "{text}");
    });
}
