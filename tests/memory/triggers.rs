//! What starts cycles: each reason, provoked, is in the log.

use super::common::{BLOCK, Block, Events, Log, block, eventually, full, list};
use metronome_gc::testing::low_memory;
use metronome_gc::verbosegc::model::{CycleReason, ResizeDirection};
use metronome_gc::{Collect, Heap, Mutator, Notification, Payload, Root, Soft};
use std::sync::mpsc::channel;

/// Makes garbage, with safepoints.
fn churn(m: &mut Mutator<'_>, bytes: u64) {
    for i in 0..bytes / BLOCK {
        if block(m, i, None).is_err() || i % 64 == 0 {
            m.safepoint();
        }
    }
}

fn run(heap_mib: u64, settings: &[(&str, &str)], f: impl FnOnce(&Heap)) -> Events {
    let log = Log::new();
    let heap = log.builder(heap_mib, settings).build().unwrap();
    f(&heap);
    log.read(heap)
}

/// The log has cycles, all for this reason.
#[track_caller]
fn all(log: &Events, reason: &CycleReason) {
    let cycles = log.cycles();
    assert!(!cycles.is_empty() && cycles.iter().all(|r| r == reason), "{cycles:?}");
}

#[test]
fn headroom() {
    // Plenty of room, so that regions do not run short before bytes do.
    let log = run(16, &[], |heap| heap.enter(|m| churn(m, 64 << 20)));
    all(&log, &CycleReason::Headroom);
}

#[test]
fn threshold() {
    let log = run(16, &[("trigger", "30%")], |heap| {
        heap.enter(|m| churn(m, 4 << 20));
        // A quarter is in use.
        assert_eq!(heap.stats().cycles, 0);
        heap.enter(|m| churn(m, 32 << 20));
    });
    all(&log, &CycleReason::Threshold);
}

#[test]
fn interval() {
    let log = run(16, &[("cycle-interval", "20ms")], |heap| {
        eventually("three cycles of an idle heap", || heap.glance().cycles >= 3);
    });
    all(&log, &CycleReason::Interval);
}

#[test]
fn explicit() {
    let log = run(16, &[], |heap| {
        heap.collect(Collect::Cycle).unwrap();
        full(heap);
        let cycles = heap.glance().cycles;
        heap.request_cycle();
        eventually("the cycle asked for", || heap.glance().cycles > cycles);
    });
    all(&log, &CycleReason::Explicit);
    assert_eq!(log.cycles().len(), 3);
}

#[test]
fn external_memory() {
    let log = run(16, &[("external-memory", "1M")], |heap| {
        let external = || heap.stats().external_bytes;
        heap.add_memory_pressure(1 << 20);
        // Taken back, it does not count, however often.
        for _ in 0..100 {
            heap.remove_memory_pressure(1 << 19);
            heap.add_memory_pressure(1 << 19);
        }
        assert_eq!((external(), heap.stats().cycles), (1 << 20, 0));
        heap.add_memory_pressure(1);
        eventually("a cycle for external memory", || heap.glance().cycles == 1);
        // Counted from the last cycle on.
        heap.add_memory_pressure(1 << 20);
        assert_eq!(external(), (2 << 20) + 1);
        heap.remove_memory_pressure(1 << 20);
        // More than there is, in both directions.
        heap.add_memory_pressure(u64::MAX);
        assert_eq!(external(), u64::MAX);
        eventually("another one", || heap.glance().cycles == 2);
        heap.remove_memory_pressure(u64::MAX - 5);
        assert_eq!(external(), 5);
        heap.remove_memory_pressure(6);
        assert_eq!(external(), 0);
        // What is below the mark of the last cycle has not grown.
        heap.add_memory_pressure(10 << 20);
        heap.collect(Collect::Cycle).unwrap();
        assert_eq!(heap.stats().cycles, 3);
    });
    assert_eq!(
        log.cycles(),
        [CycleReason::ExternalMemory, CycleReason::ExternalMemory, CycleReason::Explicit]
    );
}

#[test]
fn regions() {
    let log = run(8, &[("trigger", "99%")], |heap| {
        heap.enter(|m| {
            // Nine cells fill a region but for a twelfth: three regions of 128 are left, and more than a twentieth of the bytes.
            let all = (0..125 * 9u64).map(|i| Root::new(m, m.alloc(Payload([i; 800])).unwrap()));
            let kept: Vec<_> = all.collect();
            eventually("a cycle", || {
                m.safepoint();
                heap.glance().cycles == 1
            });
            assert_eq!(kept.iter().map(|p| p.get(m).0[799]).sum::<u64>(), 125 * 9 * (125 * 9 - 1) / 2);
        });
    });
    all(&log, &CycleReason::Regions);
}

#[test]
fn out_of_memory() {
    let log = run(8, &[("trigger", "99%")], |heap| {
        heap.enter(|m| {
            // Nine cells fill a region but for a twelfth, so that the trigger is never reached.
            let mut kept = Vec::new();
            for failed in 0..3u64 {
                while let Ok(p) = m.alloc(Payload([failed; 800])) {
                    kept.push(Root::new(m, p));
                }
                m.safepoint();
            }
            assert_eq!(kept.len(), 128 * 9);
        });
    });
    assert!(log.cycles().contains(&CycleReason::OutOfMemory), "{:?}", log.cycles());
    assert!(!log.cycles().contains(&CycleReason::Threshold), "{:?}", log.cycles());
}

#[test]
fn low_memory_of_the_system() {
    // Started by the watcher alone, whatever the system's memory is like.
    let log = Log::new();
    let heap = log.builder(16, &[("memory-watch", "true"), ("memory-low", "0")]).build().unwrap();
    let (tell, told) = channel();
    let listener = heap.subscribe(move |n| {
        if let Notification::LowMemory { text } = n {
            tell.send(text.clone()).unwrap();
        }
    });
    let (kept, soft) = heap.enter(|m| {
        let kept: Root<Block> = list(m, 100);
        let soft = {
            let cache = list(m, 100);
            Soft::new(m, cache.get(m))
        };
        churn(m, 4 << 20);
        (kept, soft)
    });
    let before = heap.stats();
    assert_eq!(before.cycles, 0);
    low_memory(&heap);
    // What it was told, if the system is not low besides.
    let text = told.recv().unwrap();
    eventually("the memory is given back", || heap.stats().resident_bytes < before.resident_bytes);
    assert!(soft.is_cleared(), "caches go when the system is low");
    assert!(heap.stats().resident_bytes <= 1 << 20, "{}", heap.stats().resident_bytes);
    heap.enter(|m| super::common::check(m, &kept, 100));
    drop((listener, kept));
    let log = log.read(heap);
    assert_eq!(log.cycles()[0], CycleReason::LowMemory);
    assert!(log.notes().iter().any(|n| n.contains(&text)), "{:?}", log.notes());
    let trims = log.resizes();
    assert!(
        trims.iter().any(|r| r.direction == ResizeDirection::Trim && r.reason == "low memory"),
        "{trims:?}"
    );
}
