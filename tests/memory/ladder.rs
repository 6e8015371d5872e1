//! The ladder: what is tried before an allocation fails for good, in each mode.

use super::common::{
    BLOCK, Block, Log, block, builder, check, fill_with_data, fill_with_garbage, list, panic_of,
};
use metronome_gc::verbosegc::model::SyncReason;
use metronome_gc::{
    AllocError, Collect, CollectError, EnterError, Global, Heap, Mutator, Payload, Remedy, Root, Shortage,
    Soft,
};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

const MIB: u64 = 8;

/// Modes in which mutators wait, with cycles that start late.
const WAITING: [[(&str, &str); 2]; 2] =
    [[("exhaustion", "synchronous"), ("trigger", "95%")], [("exhaustion", "degrade"), ("trigger", "95%")]];

/// What a callback was told.
type Calls = Arc<Mutex<Vec<Shortage>>>;

fn soft_list(m: &mut Mutator<'_>, n: u64) -> Soft<Block> {
    let root = list(m, n);
    Soft::new(m, root.get(m))
}

#[test]
fn garbage_makes_room_and_costs_no_soft_reference() {
    for settings in WAITING {
        let log = Log::new();
        let calls = Calls::default();
        let told = Arc::clone(&calls);
        let heap = log.builder(MIB, &settings).before_failure(move |s| {
            told.lock().unwrap().push(*s);
            Remedy::Fail
        });
        let heap = heap.build().unwrap();
        let synchronous = settings[0].1 == "synchronous";
        let mut rounds = 0;
        heap.enter(|m| {
            let kept = list(m, 100);
            let soft = soft_list(m, 100);
            // A quantum that was under way may have ended the cycle, so that nothing synchronous was needed.
            while rounds < 3 || synchronous && heap.stats().synchronous_collections == 0 {
                rounds += 1;
                let error = fill_with_garbage(m);
                assert!(matches!(error, AllocError::Exhausted { requested_bytes: BLOCK, .. }), "{error:?}");
                m.safepoint();
                assert!(block(m, 0, None).is_ok(), "a safepoint makes room");
                check(m, &kept, 100);
                assert!(soft.get(m).is_some(), "a soft reference was cleared while there was garbage");
            }
        });
        let stats = heap.stats();
        assert_eq!((stats.failed_allocations, stats.out_of_memory), (rounds, 0));
        assert_eq!(stats.references.soft_cleared, 0);
        assert!(stats.departures > 0, "mutators waited");
        assert_eq!(stats.synchronous_collections > 0, synchronous);
        assert_eq!(*calls.lock().unwrap(), []);
        let log = log.read(heap);
        assert_eq!(log.syncs().len() as u64, stats.synchronous_collections);
        for sync in log.syncs() {
            assert_eq!((sync.reason, sync.requested_bytes), (Some(SyncReason::OutOfMemory), Some(BLOCK)));
            assert!(sync.free_after_bytes >= sync.free_before_bytes);
        }
        assert_eq!(log.departures().len() as u64, stats.departures);
        // In a cycle that departs twice the first reason is told.
        let reasons: &[&str] =
            if synchronous { &["out of memory"] } else { &["out of memory", "headroom low"] };
        for d in log.departures() {
            assert!(reasons.contains(&d.reason.as_str()), "{d:?}");
            // The heap was not enough, whatever was expected when the cycle began.
            assert!(d.enough_heap_bytes.is_none_or(|b| b > MIB << 20), "{d:?}");
        }
    }
}

#[test]
fn cells_that_are_free_in_regions_in_use_are_found() {
    for settings in WAITING {
        let calls = Calls::default();
        let told = Arc::clone(&calls);
        let heap = builder(MIB, &settings).before_failure(move |s| {
            told.lock().unwrap().push(*s);
            Remedy::Fail
        });
        let heap = heap.build().unwrap();
        heap.enter(|m| {
            // Every second block lives, so that no region becomes free.
            let soft = soft_list(m, 100);
            let mut kept = Root::new(m, block(m, 0, None).unwrap());
            let mut made = 1;
            while let (Ok(b), Ok(_)) = (block(m, made, Some(kept.get(m))), block(m, 0, None)) {
                (kept, made) = (Root::new(m, b), made + 1);
            }
            assert!(made > 10_000, "{made}");
            for _ in 0..made / 2 {
                if block(m, 0, None).is_err() {
                    m.safepoint();
                    assert!(block(m, 0, None).is_ok(), "half of the heap is free, in every region");
                }
                assert!(soft.get(m).is_some());
            }
            check(m, &kept, made);
        });
        assert_eq!(heap.stats().out_of_memory, 0);
        assert_eq!(*calls.lock().unwrap(), []);
    }
}

#[test]
fn soft_references_are_cleared_before_the_program_is_told() {
    for settings in WAITING {
        let (calls, softs) = (Calls::default(), Arc::new(OnceLock::<Soft<Block>>::new()));
        let (told, seen) = (Arc::clone(&calls), Arc::clone(&softs));
        let heap = builder(MIB, &settings).set("soft-age", "1000000").before_failure(move |s| {
            assert!(seen.get().unwrap().is_cleared(), "the program was asked before the cache was given up");
            told.lock().unwrap().push(*s);
            Remedy::Fail
        });
        let heap = heap.build().unwrap();
        heap.enter(|m| {
            let soft = soft_list(m, (2 << 20) / BLOCK);
            softs.set(soft.clone()).unwrap();
            // Nine cells fill a region but for a twelfth: so bytes are free all the time, which by its age alone would
            // keep the cache.
            let mut kept = Vec::new();
            let mut grow = |m: &mut Mutator<'_>| {
                while let Ok(p) = m.alloc(Payload([7u64; 800])) {
                    kept.push(Root::new(m, p));
                }
                m.safepoint();
                kept.len()
            };
            // Until the cache goes, which is in time for the program not to notice.
            while !soft.is_cleared() {
                let cells = grow(m);
                assert_eq!(*calls.lock().unwrap(), []);
                assert!(soft.get(m).is_some() || cells >= 90 * 9, "given up with {cells} of 128 * 9 cells");
            }
            while calls.lock().unwrap().is_empty() {
                grow(m);
            }
            assert_eq!(grow(m), 128 * 9);
            let calls = calls.lock().unwrap();
            let [Shortage { requested_bytes: 6656, free_bytes, .. }, _] = calls[..] else {
                panic!("{calls:?}")
            };
            assert!((1 << 19..1 << 20).contains(&free_bytes), "{free_bytes}");
        });
        let stats = heap.stats();
        assert_eq!(stats.references.soft_cleared, 1);
        assert_eq!(stats.out_of_memory, 2, "once by each safepoint that could not help");
    }
}

/// A heap whose callback takes what is in the returned cell, if anything, and asks for another try.
fn with_cache(settings: &[(&str, &str)]) -> (Heap, Calls, Arc<Mutex<Option<Global<Block>>>>) {
    let (calls, cache) = (Calls::default(), Arc::new(Mutex::new(None)));
    let (told, cached) = (Arc::clone(&calls), Arc::clone(&cache));
    let heap = builder(MIB, settings).before_failure(move |s| {
        told.lock().unwrap().push(*s);
        drop(cached.lock().unwrap().take());
        Remedy::Retry
    });
    (heap.build().unwrap(), calls, cache)
}

#[test]
fn a_callback_that_lets_go_of_something_saves_the_allocation() {
    for settings in WAITING {
        let (heap, calls, cache) = with_cache(&settings);
        heap.enter(|m| {
            let root = list(m, (2 << 20) / BLOCK);
            *cache.lock().unwrap() = Some(Global::new(m, root.get(m)));
            drop(root);
            let mut kept = Root::new(m, block(m, 0, None).unwrap());
            while calls.lock().unwrap().is_empty() {
                match block(m, 0, Some(kept.get(m))) {
                    Ok(b) => kept = Root::new(m, b),
                    Err(_) => m.safepoint(),
                }
            }
            assert!(block(m, 0, None).is_ok(), "what the callback let go of is free");
            assert_eq!(calls.lock().unwrap().len(), 1);
        });
        assert_eq!(heap.stats().out_of_memory, 0);
    }
}

#[test]
fn a_callback_that_does_not_help_is_asked_once_for_each_wait() {
    for settings in WAITING {
        let (heap, calls, _) = with_cache(&settings);
        heap.enter(|m| {
            let kept = fill_with_data(m);
            let asked = calls.lock().unwrap().len();
            assert_eq!(asked, 1);
            for more in 1..3 {
                let cycles = heap.glance().cycles;
                let error = block(m, 0, None).err().expect("nothing is free");
                assert!(matches!(error, AllocError::Exhausted { requested_bytes: BLOCK, .. }));
                m.safepoint();
                assert_eq!(calls.lock().unwrap().len(), asked + more);
                assert!(heap.glance().cycles >= cycles + 2, "one cycle before the question, one after it");
            }
            drop(kept);
            m.collect(Collect::Full).unwrap();
            assert!(block(m, 0, None).is_ok());
        });
        let stats = heap.stats();
        assert_eq!(stats.out_of_memory, 3);
    }
}

#[test]
fn a_reservation_that_cannot_be_had_asks_too() {
    let (heap, calls, _) = with_cache(&WAITING[0]);
    heap.enter(|m| {
        let kept = list(m, (6 << 20) / BLOCK);
        let error = m.reserve_objects::<Block>((4 << 20) / BLOCK).map(|_| ()).unwrap_err();
        assert!(matches!(error, AllocError::Exhausted { requested_bytes: 0x40_0000, .. }), "{error:?}");
        let calls = calls.lock().unwrap();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].requested_bytes, 4 << 20);
        assert!((1 << 20..3 << 20).contains(&calls[0].free_bytes), "{calls:?}");
        check(m, &kept, (6 << 20) / BLOCK);
    });
}

#[test]
fn a_panic_in_the_callback_goes_on_in_the_mutator_and_breaks_nothing() {
    for settings in WAITING {
        let heap = builder(MIB, &settings).before_failure(|s| panic!("no {} bytes", s.requested_bytes));
        let heap = heap.build().unwrap();
        heap.enter(|m| {
            let mut kept = Root::new(m, block(m, 0, None).unwrap());
            let text = panic_of(|| {
                loop {
                    match block(m, 0, Some(kept.get(m))) {
                        Ok(b) => kept = Root::new(m, b),
                        Err(_) => m.safepoint(),
                    }
                }
            });
            assert_eq!(text, format!("no {BLOCK} bytes"));
            // The mutator is what it was.
            assert_eq!(kept.get(m).id, 0);
            drop(kept);
            m.collect(Collect::Full).unwrap();
            let l = list(m, 1000);
            check(m, &l, 1000);
        });
        heap.collect(Collect::Full).unwrap();
    }
}

#[test]
fn a_callback_may_use_another_heap_and_not_this_one() {
    for settings in WAITING {
        let (own, other) = (Arc::new(Mutex::new(None::<Heap>)), builder(4, &[]).build().unwrap());
        let (this, that, calls) = (Arc::clone(&own), other.clone(), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&calls);
        let heap = builder(MIB, &settings).before_failure(move |_| {
            let heap = this.lock().unwrap().take().unwrap();
            assert_eq!(heap.try_enter(|_| ()), Err(EnterError::SameHeap));
            assert_eq!(heap.collect(Collect::Full), Err(CollectError::Inside));
            that.enter(|m| {
                let l = list(m, 1000);
                m.collect(Collect::Full).unwrap();
                check(m, &l, 1000);
            });
            counted.fetch_add(1, Relaxed);
            Remedy::Fail
        });
        let heap = heap.build().unwrap();
        *own.lock().unwrap() = Some(heap.clone());
        heap.enter(|m| drop(fill_with_data(m)));
        assert_eq!(calls.load(Relaxed), 1);
        assert!(other.stats().cycles > 0);
    }
}

#[test]
fn with_fail_an_allocation_fails_at_once_and_the_target_is_kept() {
    let log = Log::new();
    let calls = Calls::default();
    let told = Arc::clone(&calls);
    let heap = log.builder(MIB, &[("exhaustion", "fail"), ("trigger", "95%")]).before_failure(move |s| {
        told.lock().unwrap().push(*s);
        Remedy::Retry
    });
    let heap = heap.build().unwrap();
    heap.enter(|m| {
        let error = fill_with_garbage(m);
        let AllocError::Exhausted { requested_bytes, used_bytes, heap_bytes } = error else {
            panic!("{error}")
        };
        assert_eq!((requested_bytes, heap_bytes), (BLOCK, MIB << 20));
        assert!(used_bytes > heap_bytes / 10 * 9);
        for i in 1..100 {
            // No cycle can end without a safepoint of this thread, so a wait would last for `memory-wait` each time.
            assert!(block(m, 0, None).is_err());
            assert!(m.record_failures(&heap) > i);
        }
        m.collect(Collect::Cycle).unwrap();
        m.collect(Collect::Cycle).unwrap();
        assert!(block(m, 0, None).is_ok());
    });
    let stats = heap.stats();
    assert_eq!((stats.departures, stats.synchronous_collections), (0, 0));
    assert_eq!(*calls.lock().unwrap(), []);
    let log = log.read(heap);
    assert_eq!((log.departures().len(), log.syncs().len()), (0, 0));
    assert!(!log.cycles().is_empty());
}

trait Failures {
    fn record_failures(&self, heap: &Heap) -> u64;
}

impl Failures for Mutator<'_> {
    /// Allocations that have failed so far.
    fn record_failures(&self, heap: &Heap) -> u64 {
        heap.stats().failed_allocations
    }
}

/// Threads that keep `each` bytes of data and replace it block by block, `rounds` times all of it.
fn steady(heap: &Heap, threads: u64, each: u64, rounds: u64) -> u64 {
    std::thread::scope(|s| {
        let one = || {
            heap.enter(|m| {
                const LISTS: u64 = 64;
                let n = each / BLOCK / LISTS;
                let mut lists: Vec<Root<Block>> = (0..LISTS).map(|_| list(m, n)).collect();
                for round in 0..rounds {
                    for at in 0..LISTS {
                        lists[at as usize] = list(m, n);
                        check(m, &lists[((at + round) % LISTS) as usize], n);
                    }
                }
            });
        };
        let all: Vec<_> = (0..threads).map(|_| s.spawn(one)).collect();
        all.into_iter().map(|t| t.join().map_or(1, |()| 0)).sum()
    })
}

#[test]
fn several_threads_in_a_heap_that_is_too_small_get_no_error() {
    for settings in WAITING {
        let heap = builder(MIB, &settings).build().unwrap();
        // 4 MiB of data, and garbage of 10 times that.
        assert_eq!(steady(&heap, 2, 2 << 20, 10), 0);
        let stats = heap.stats();
        assert_eq!(stats.out_of_memory, 0);
        assert!(stats.cycles > 3);
    }
}

#[test]
fn the_log_says_what_heap_would_have_been_enough_and_it_is() {
    for mode in ["degrade", "synchronous"] {
        let run = |heap_bytes: u64| {
            // It is about the pace of the collector, which verifying takes away.
            let log = Log::new();
            let heap = log
                .builder(1, &[("exhaustion", mode), ("verify", "off")])
                .heap_bytes(heap_bytes)
                .build()
                .unwrap();
            assert_eq!(steady(&heap, 1, 4 << 20, 12), 0);
            let stats = heap.stats();
            let log = log.read(heap);
            // A cycle may depart after the figures were taken.
            let told = log.departures().len() as u64;
            assert!(told == stats.departures || told == stats.departures + 1, "{told}, {}", stats.departures);
            log.departures()
        };
        // A collector that is fast enough may do with little more than the data.
        let small = [6 << 20, 5 << 20, 9 << 19].map(run);
        let departures = small.into_iter().find(|d| d.iter().any(|d| d.enough_heap_bytes.is_some()));
        let departures = departures.expect("4 MiB of data in 4.5 MiB are too much");
        for d in &departures {
            assert!(["headroom low", "out of memory"].contains(&d.reason.as_str()), "{d:?}");
        }
        let told = departures.iter().filter_map(|d| d.enough_heap_bytes);
        let enough = told.max().expect("one of them is known");
        println!("{mode}: {} departures, enough: {enough}", departures.len());
        let again = run(enough);
        assert!(again.is_empty(), "{mode}, {enough} bytes: {again:?}");
    }
}

#[test]
fn data_that_fills_the_heap_is_out_of_memory_in_the_log() {
    for settings in WAITING {
        let log = Log::new();
        let heap = log.builder(MIB, &settings).build().unwrap();
        heap.enter(|m| drop(fill_with_data(m)));
        let stats = heap.stats();
        assert_eq!(stats.out_of_memory, 1);
        let log = log.read(heap);
        assert!(log.cycles().len() > 1);
        assert!(!log.departures().is_empty());
        assert!(log.notes().iter().any(|n| n.contains("returned an error to the program")), "{:?}", log.notes());
    }
}
