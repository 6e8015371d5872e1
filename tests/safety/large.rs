//! Large things: arrays, lists, full heaps.

use crate::common::*;
use metronome_gc::{AllocError, Gc, GcArray, Global, Heap, Payload, Root, Slot};

/// Memory that the system can still give, in bytes.
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

/// A tenth with the heap verifier on or with steps of a tiny build, which need minutes for more.
fn scaled(n: u64) -> u64 {
    if cfg!(metronome_tiny) || std::env::var_os("METRONOME_VERIFY").is_some() { n / 10 } else { n }
}

/// A heap whose collector may take most of the time.
fn large_heap(bytes: u64) -> Heap {
    Heap::builder().heap_bytes(bytes).target_utilization(10).build().unwrap()
}

#[test]
fn an_array_of_a_hundred_million_slots() {
    if available_memory() < 4 << 30 {
        println!("skipped: it needs 4 GiB of memory");
        return;
    }
    // In a tiny build three levels of leaves hold no more.
    let n = if cfg!(metronome_tiny) { 2_000_000 } else { scaled(100_000_000) as usize };
    let step = n / 10 - 9;
    // Room for one such array, not for two.
    let heap = large_heap(n as u64 * 8 / 3 * 4);
    let weak = heap.enter(|m| {
        let array: Gc<'_, GcArray<Slot<Node>>> = m.alloc_slots(n).unwrap();
        for i in (0..n).step_by(step).chain([n - 1]) {
            let node = m.alloc(NodeInit { id: i as u64, next: None }).unwrap();
            array.store(m, i, node);
        }
        let root = Root::new(m, array);
        collect(m);
        let array = root.get(m);
        assert_eq!(array.len(), n);
        assert!(array.get(n).is_none());
        for i in (0..n).step_by(step).chain([n - 1]) {
            assert_eq!(array.load(m, i).unwrap().id, i as u64);
        }
        // A second one does not fit, and says so; the first is unharmed.
        assert!(matches!(m.alloc_slots::<Node>(n), Err(AllocError::Exhausted { .. })));
        assert_eq!(array.load(m, n - 1).unwrap().id, n as u64 - 1);
        metronome_gc::Weak::new(m, array)
    });
    collect_twice(&heap);
    heap.enter(|m| assert!(weak.upgrade(m).is_none()));
    assert_eq!(heap.glance().used_bytes, 0);
}

#[test]
fn a_list_of_ten_million_nodes() {
    let n = scaled(10_000_000);
    if available_memory() < 2 << 30 {
        println!("skipped: it needs 2 GiB of memory");
        return;
    }
    let heap = large_heap(512 << 20);
    let global = heap.enter(|m| Global::new(m, list(m, n)));
    heap.enter(|m| {
        collect(m);
        check_list(m, global.get(m), n);
    });
    assert!(heap.glance().used_bytes >= n * 24);
    // Dropped at once, without recursion.
    drop(global);
    collect_twice(&heap);
    assert_eq!(heap.glance().used_bytes, 0);
}

#[test]
fn requests_larger_than_the_heap() {
    let heap = heap(1);
    heap.enter(|m| {
        for n in [1 << 18, 1 << 40, usize::MAX / 8, usize::MAX] {
            let e = m.alloc_slots::<Node>(n).map(|_| ()).unwrap_err();
            assert!(matches!(e, AllocError::TooLarge { .. }), "{n}: {e}");
        }
        let e = m.alloc_array(1 << 30, |_| 0_u8).map(|_| ()).unwrap_err();
        assert!(e.to_string().contains("give it more memory"), "{e}");
    });
}

/// Fills the heap until nothing more fits; then frees, comes by a safepoint, and allocates again.
fn fill_and_recover(heap: &Heap) {
    heap.enter(|m| {
        let mut counts = vec![];
        for _ in 0..3 {
            let mut kept: Option<Root<Node>> = None;
            let mut n = 0;
            let error = loop {
                let next = kept.as_ref().map(|k| k.get(m));
                match m.alloc(NodeInit { id: n, next }) {
                    Ok(node) => {
                        kept = Some(Root::new(m, node));
                        n += 1;
                    }
                    Err(e) => break e,
                }
            };
            assert!(matches!(error, AllocError::Exhausted { .. }), "{error}");
            check_list(m, kept.as_ref().unwrap().get(m), n);
            // Waiting does not help while all of it is in use.
            m.safepoint();
            assert!(m.reserve(heap.glance().heap_bytes).is_err());
            drop(kept);
            let (mut got, mut tries) = (0, 0);
            while got < n / 2 {
                if m.alloc(NodeInit { id: 0, next: None }).is_ok() {
                    got += 1;
                    continue;
                }
                m.safepoint();
                tries += 1;
                assert!(tries < 100_000, "no memory after the list was dropped");
                std::thread::yield_now();
            }
            collect(m);
            collect(m);
            counts.push(n);
        }
        // Nothing is lost: the heap takes as many again.
        assert!(counts.iter().all(|&n| n == counts[0]), "{counts:?}");
    });
    let stats = heap.stats();
    assert!(stats.failed_allocations >= 3, "{stats:#?}");
}

#[test]
fn a_full_heap_recovers() {
    for exhaustion in ["degrade", "synchronous"] {
        fill_and_recover(&Heap::builder().heap_bytes(2 << 20).set("exhaustion", exhaustion).build().unwrap());
    }
}

#[test]
fn a_full_heap_that_fails_at_once_recovers() {
    let heap = Heap::builder().heap_bytes(2 << 20).set("exhaustion", "fail").build().unwrap();
    fill_and_recover(&heap);
    assert_eq!(heap.stats().departures, 0);
}

/// Garbage of all sizes, allocated as fast as possible: the collector keeps up or the mutator waits.
#[test]
fn allocation_faster_than_collection() {
    let heap = heap(2);
    heap.enter(|m| {
        let kept = Root::new(m, list(m, 1000));
        for i in 0..3000_usize {
            let done = match i % 3 {
                0 => m.alloc_slots::<Node>(i % 2000).is_ok(),
                1 => m.alloc(Payload([i; 100])).is_ok(),
                _ => m.alloc(Payload(vec![i])).is_ok(),
            };
            if !done {
                m.safepoint();
            }
        }
        check_list(m, kept.get(m), 1000);
    });
    eventually("the heap is nearly empty", || {
        collect_twice(&heap);
        heap.glance().used_bytes == 0
    });
}
