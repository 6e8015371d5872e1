//! Collections that the program asks for: what is dead afterwards, what they cost, and what they say when they cannot.
#![forbid(unsafe_code)]

#[path = "memory/common.rs"]
mod common;
#[path = "memory/stressed.rs"]
mod stressed;

use common::{BLOCK, Holder, Log, block, builder, check, eventually, full, list};
use metronome_gc::testing::system_resident_bytes;
use metronome_gc::verbosegc::model::{CycleReason, ResizeDirection, SyncReason};
use metronome_gc::{Collect, CollectError, Finalize, Global, Heap, Mutator, Root, Trace, Weak};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use stressed::begins_cycles;

/// Weak references to `n` objects that are dead when this returns, and to `n` that the roots keep.
#[allow(clippy::type_complexity)]
fn dead_and_alive(
    m: &mut Mutator<'_>,
    n: u64,
) -> (Vec<Weak<common::Block>>, Vec<(Root<common::Block>, Weak<common::Block>)>) {
    let dead = (0..n).map(|i| Weak::new(m, block(m, i, None).unwrap())).collect();
    let alive = (0..n)
        .map(|i| {
            let b = block(m, i, None).unwrap();
            (Root::new(m, b), Weak::new(m, b))
        })
        .collect();
    (dead, alive)
}

fn cleared(weaks: &[Weak<common::Block>]) -> usize {
    weaks.iter().filter(|w| w.is_cleared()).count()
}

#[test]
fn full_finds_all_that_is_dead_and_says_that_it_left_the_target() {
    if begins_cycles("full finds all that is dead and says that it left the target") {
        return;
    }
    for (format, words) in [("openj9", "system GC"), ("2007", "system garbage collect")] {
        let log = Log::new();
        // Cycles of the heap's own begin late: a pace measured on a busy machine must not begin one.
        let heap = log.builder(32, &[("verbose-format", format), ("trigger", "90%")]).build().unwrap();
        let (dead, alive) = heap.enter(|m| dead_and_alive(m, 500));
        let done = heap.collect(Collect::Full).unwrap();
        assert_eq!((done.cycles, done.skipped, done.returned_bytes), (1, false, 0));
        assert_eq!(cleared(&dead), 500);
        assert!(alive.iter().all(|(_, w)| !w.is_cleared()));
        heap.enter(|m| assert!(alive.iter().all(|(r, w)| w.upgrade(m).unwrap().id == r.get(m).id)));
        let (roots, weaks): (Vec<_>, Vec<_>) = alive.into_iter().unzip();
        drop(roots);
        let done = heap.enter(|m| m.collect(Collect::Full)).unwrap();
        assert_eq!((done.cycles, cleared(&weaks)), (1, 500));
        let stats = heap.stats();
        assert_eq!((stats.cycles, stats.synchronous_collections, stats.departures), (2, 2, 2));
        assert_eq!(stats.last_departure, Some("system garbage collect"));
        assert_eq!(stats.live_bytes, 0);
        // A quantum's report comes when its mutators have run on.
        eventually("all is reported", || heap.stats().references.weak_cleared == 1000);
        let log = log.read(heap);
        assert_eq!(log.cycles(), [CycleReason::Explicit, CycleReason::Explicit]);
        assert_eq!(log.sync_reasons(), [SyncReason::Explicit, SyncReason::Explicit]);
        assert!(log.text.contains(words), "{format}");
        let departures = log.departures();
        assert_eq!(departures.len(), 2);
        for d in departures {
            // A heap of another size would not have helped.
            assert_eq!((d.reason.as_str(), d.enough_heap_bytes), ("system garbage collect", None));
            assert_eq!(d.achieved_ppm, 0);
        }
    }
}

#[test]
fn a_cycle_by_quanta_finds_the_same_and_keeps_the_target() {
    if begins_cycles("a cycle by quanta finds the same and keeps the target") {
        return;
    }
    let log = Log::new();
    let heap = log.builder(32, &[]).build().unwrap();
    let (dead, alive) = heap.enter(|m| dead_and_alive(m, 500));
    let done = heap.collect(Collect::Cycle).unwrap();
    assert!(done.cycles >= 1 && !done.skipped);
    assert_eq!(cleared(&dead), 500);
    assert!(alive.iter().all(|(_, w)| !w.is_cleared()));
    let stats = heap.stats();
    assert_eq!((stats.synchronous_collections, stats.departures), (0, 0));
    let log = log.read(heap);
    // Where cycles take long the pacer may begin one of its own before the heap is closed.
    assert_eq!(log.cycles().first(), Some(&CycleReason::Explicit));
    assert_eq!((log.syncs().len(), log.departures().len()), (0, 0));
}

#[test]
fn finish_ends_the_active_cycle_and_nothing_else() {
    if begins_cycles("finish ends the active cycle and nothing else") {
        return;
    }
    let heap = builder(32, &[("memory-wait", "200ms")]).build().unwrap();
    let done = heap.collect(Collect::Finish).unwrap();
    assert!(done.skipped && done.cycles == 0);
    let before = heap.enter(|m| dead_and_alive(m, 100).0);
    let holder = Holder::new(&heap, "holder");
    heap.request_cycle();
    eventually("the cycle begins", || heap.glance().phase != "idle");
    // Allocated after the snapshot: this cycle keeps them.
    let later = heap.enter(|m| dead_and_alive(m, 100).0);
    let error = heap.collect(Collect::Finish).unwrap_err();
    assert_eq!(error, CollectError::TimedOut { mutator: Some("holder".into()) });
    assert!(error.to_string().contains("holder"), "{error}");
    assert_eq!(cleared(&before), 0);
    holder.let_go();
    eventually("the cycle ends by itself", || heap.glance().cycles == 1);
    assert_eq!((cleared(&before), cleared(&later)), (100, 0));
    assert_eq!(heap.stats().synchronous_collections, 1);
    assert!(heap.collect(Collect::Finish).unwrap().skipped);
    assert_eq!(heap.stats().cycles, 1);
    full(&heap);
    assert_eq!(cleared(&later), 100);
}

#[test]
fn full_in_an_active_cycle_does_a_whole_one_besides() {
    if begins_cycles("full in an active cycle does a whole one besides") {
        return;
    }
    let heap = builder(32, &[("memory-wait", "200ms")]).build().unwrap();
    let holder = Holder::new(&heap, "holder");
    heap.request_cycle();
    eventually("the cycle begins", || heap.glance().phase != "idle");
    let later = heap.enter(|m| dead_and_alive(m, 100).0);
    let error = heap.collect(Collect::Full).unwrap_err();
    assert_eq!(error, CollectError::TimedOut { mutator: Some("holder".into()) });
    holder.let_go();
    eventually("both cycles end", || heap.glance().cycles == 2);
    assert_eq!(cleared(&later), 100);
    let stats = heap.stats();
    assert_eq!((stats.cycles, stats.synchronous_collections), (2, 2));
}

#[test]
fn a_thread_that_does_not_even_poll_is_named() {
    let heap = builder(32, &[("memory-wait", "300ms")]).build().unwrap();
    let (go, inside) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|s| {
        let spin = || {
            heap.enter(|_| {
                inside.store(true, Relaxed);
                while !go.load(Relaxed) {
                    std::thread::yield_now();
                }
            });
        };
        std::thread::Builder::new().name("spinner".into()).spawn_scoped(s, spin).unwrap();
        eventually("it is inside", || inside.load(Relaxed));
        let error = heap.collect(Collect::Cycle);
        go.store(true, Relaxed);
        assert_eq!(error, Err(CollectError::TimedOut { mutator: Some("spinner".into()) }));
    });
    assert!(heap.stats().stops_cancelled > 0);
    full(&heap);
}

#[test]
fn trim_gives_the_memory_of_empty_regions_back() {
    let log = Log::new();
    let heap = log.builder(32, &[]).build().unwrap();
    let kept = heap.enter(|m| {
        let kept = list(m, 1000);
        let garbage = list(m, (16 << 20) / BLOCK);
        drop(garbage);
        kept
    });
    let before = heap.stats().resident_bytes;
    assert!(before >= 16 << 20, "{before}");
    let done = heap.collect(Collect::Trim).unwrap();
    assert!(done.cycles >= 1 && !done.skipped);
    assert!(done.returned_bytes > 15 << 20, "{done:?}");
    let stats = heap.stats();
    assert_eq!(stats.resident_bytes, before - done.returned_bytes);
    assert_eq!(stats.heap_bytes, 32 << 20);
    match system_resident_bytes(&heap) {
        Ok(bytes) => assert!(bytes <= stats.resident_bytes, "{bytes}: {stats:?}"),
        Err(e) => println!("skipped: mincore says {e}"),
    }
    heap.enter(|m| check(m, &kept, 1000));
    // Nothing is left to give back.
    assert_eq!(heap.collect(Collect::Trim).unwrap().returned_bytes, 0);
    // What was given back is used again.
    heap.enter(|m| {
        let more = list(m, (16 << 20) / BLOCK);
        check(m, &more, (16 << 20) / BLOCK);
        check(m, &kept, 1000);
    });
    let log = log.read(heap);
    assert!(log.sync_reasons().contains(&SyncReason::Trim));
    let trims = log.resizes();
    assert_eq!(trims.len(), 1, "{trims:?}");
    assert_eq!((trims[0].direction, trims[0].reason.as_str()), (ResizeDirection::Trim, "explicit"));
    assert_eq!(trims[0].returned_bytes, done.returned_bytes);
    assert_eq!((trims[0].from_bytes, trims[0].to_bytes), (32 << 20, 32 << 20));
}

#[test]
fn a_hint_is_followed_when_a_sixteenth_has_been_allocated() {
    if begins_cycles("a hint is followed when a sixteenth has been allocated") {
        return;
    }
    let heap = builder(32, &[]).build().unwrap();
    let hint = || heap.collect(Collect::Hint).unwrap();
    assert!(hint().skipped, "nothing had been allocated");
    heap.enter(|m| drop(list(m, (3 << 20) / BLOCK)));
    let done = hint();
    assert!(!done.skipped);
    eventually("the cycle runs", || heap.glance().cycles == 1);
    assert!(hint().skipped, "a cycle had just ended");
    // While one is active, a hint is no news.
    heap.enter(|m| drop(list(m, (3 << 20) / BLOCK)));
    let holder = Holder::new(&heap, "holder");
    heap.request_cycle();
    eventually("the cycle begins", || heap.glance().phase != "idle");
    assert!(hint().skipped, "a cycle was active");
    holder.let_go();
    eventually("the cycle ends", || heap.glance().cycles == 2);
    assert_eq!(heap.stats().departures, 0);
}

#[test]
fn a_thread_inside_the_heap_must_ask_its_mutator() {
    let (heap, other) = (builder(4, &[]).build().unwrap(), builder(4, &[]).build().unwrap());
    for mode in [Collect::Cycle, Collect::Finish, Collect::Full, Collect::Trim, Collect::Hint] {
        heap.enter(|m| {
            assert_eq!(heap.collect(mode), Err(CollectError::Inside));
            assert_eq!(m.blocking(|| heap.collect(mode)), Err(CollectError::Inside));
            other.collect(mode).unwrap();
            m.collect(mode).unwrap();
            assert_eq!(m.blocking(|| other.enter(|_| heap.collect(mode))), Err(CollectError::Inside));
        });
        heap.collect(mode).unwrap();
    }
    assert!(heap.stats().cycles >= 6 && other.stats().cycles >= 3);
}

static CLOSED: AtomicBool = AtomicBool::new(false);
static FINALIZING: AtomicBool = AtomicBool::new(false);

#[derive(Trace)]
struct Stubborn {
    id: u64,
}

impl Finalize for Stubborn {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        assert_eq!(this.get(m).id, 1);
        FINALIZING.store(true, Relaxed);
        loop {
            match m.collect(Collect::Cycle) {
                Err(CollectError::Closed) => break,
                Ok(_) | Err(CollectError::TimedOut { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
        CLOSED.store(true, Relaxed);
    }
}

#[test]
fn a_heap_that_is_being_closed_does_not_collect() {
    let heap = builder(4, &[("finalizer-drain", "none")]).build().unwrap();
    heap.enter(|m| {
        let s = m.alloc(Stubborn { id: 1 }).unwrap();
        assert!(m.register_finalizer(s));
    });
    full(&heap);
    eventually("the finalizer runs", || FINALIZING.load(Relaxed));
    drop(heap);
    assert!(CLOSED.load(Relaxed), "closing waits for the finalizer");
}

/// What one thread of the test below has found wrong, if anything.
fn one_of_many(heap: &Heap, seed: u64) {
    let (root, global) = heap.enter(|m| {
        let kept = list(m, 200);
        let global = Global::new(m, block(m, seed, None).unwrap());
        (kept, global)
    });
    let modes = [Collect::Full, Collect::Cycle, Collect::Trim, Collect::Finish, Collect::Hint];
    for round in 0..15 {
        let mode = modes[(seed as usize + round) % modes.len()];
        let dead = heap.enter(|m| dead_and_alive(m, 50).0);
        let result = if round % 2 == 0 { heap.collect(mode) } else { heap.enter(|m| m.collect(mode)) };
        let done = result.unwrap_or_else(|e| panic!("{mode:?}: {e}"));
        // A whole cycle has begun and ended since they died, whoever else asked for what.
        if matches!(mode, Collect::Full | Collect::Cycle | Collect::Trim) {
            assert!(done.cycles >= 1);
            assert_eq!(cleared(&dead), 50, "{mode:?} {done:?}");
        }
        heap.enter(|m| {
            check(m, &root, 200);
            assert_eq!(global.get(m).id, seed);
        });
    }
}

#[test]
fn many_threads_may_ask_at_once() {
    let heap = builder(32, &[("memory-wait", "60s")]).build().unwrap();
    std::thread::scope(|s| {
        for seed in 0..4 {
            let heap = &heap;
            s.spawn(move || one_of_many(heap, seed));
        }
        // One that asks for nothing.
        s.spawn(|| {
            heap.enter(|m| {
                for _ in 0..200 {
                    let l = list(m, 100);
                    check(m, &l, 100);
                }
            });
        });
    });
    let stats = heap.stats();
    assert_eq!((stats.out_of_memory, stats.lost_events), (0, 0));
    // Nobody's collection counts twice: each of 4 threads asked 9 times for one that ends at least one cycle.
    assert!(stats.cycles >= 9 && stats.synchronous_collections <= stats.cycles, "{stats:?}");
}
