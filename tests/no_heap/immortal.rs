//! Values that no collection sees, and what refers to them and to which they refer.

use crate::common::{collect_twice, discard, eventually, heap};
use metronome_gc::{Global, Heap, Immortal, Payload, Root, Slot, Trace};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts its drops.
struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[derive(Trace)]
struct Labelled {
    label: Immortal<String>,
    next: Slot<Labelled>,
}

#[test]
fn heap_objects_hold_immortal_values_through_collections() {
    let heap = heap(4);
    let label = heap.immortal(String::from("for ever")).unwrap();
    let root = heap.enter(|m| {
        let tail = m.alloc(LabelledInit { label, next: None }).unwrap();
        Root::new(m, m.alloc(LabelledInit { label, next: Some(tail) }).unwrap())
    });
    collect_twice(&heap);
    heap.enter(|m| {
        let head = root.get(m);
        let tail = head.next.load(m).unwrap();
        assert_eq!((head.label.as_str(), tail.label.as_str()), ("for ever", "for ever"));
        assert!(Immortal::ptr_eq(head.label, tail.label) && Immortal::ptr_eq(tail.label, label));
        // The reference needs no mutator.
        Immortal::as_static(head.label)
    });
    drop((root, heap));
    assert_eq!(*label, "for ever");
}

#[test]
fn an_immortal_value_refers_to_the_heap_by_a_global() {
    let heap = heap(4);
    let drops = Arc::new(AtomicU32::new(0));
    let kept = heap.enter(|m| {
        discard(m.alloc(Payload(Dropped(Arc::clone(&drops)))).unwrap());
        Global::new(m, m.alloc(Payload(Dropped(Arc::clone(&drops)))).unwrap())
    });
    let kept = heap.immortal(kept).unwrap();
    collect_twice(&heap);
    // The one that nobody kept is found dead, the other one is not.
    eventually("the drop of the object that nobody kept", || drops.load(Relaxed) == 1);
    collect_twice(&heap);
    assert_eq!(drops.load(Relaxed), 1);
    heap.enter(|m| assert_eq!(Arc::strong_count(&kept.get(m).0.0), 2));
}

#[test]
fn the_drop_of_an_immortal_value_never_runs() {
    let drops = Arc::new(AtomicU32::new(0));
    let heap = heap(4);
    heap.immortal(Dropped(Arc::clone(&drops))).unwrap();
    collect_twice(&heap);
    drop(heap);
    assert_eq!((drops.load(Relaxed), Arc::strong_count(&drops)), (0, 2));
}

#[test]
fn exhaustion_is_an_error_that_gives_the_value_back() {
    let heap = heap(4);
    let area = heap.immortal_area();
    let size = area.size_bytes();
    assert!(size > 0 && area.used_bytes() == 0);
    let (mut made, mut before) = (0, 0);
    let error = loop {
        match heap.immortal([made; 125]) {
            Ok(value) => {
                made += 1;
                let used = area.used_bytes();
                // Exact: eight-byte values of a thousand bytes leave no gap.
                assert_eq!(used - before, 1000);
                before = used;
                assert_eq!(value[0] + 1, made);
            }
            Err(e) => break e,
        }
    };
    assert_eq!(made, size / 1000);
    assert_eq!(error.value, [made; 125]);
    assert_eq!((error.requested_bytes, error.used_bytes, error.size_bytes), (1000, before, size));
    let text = error.to_string();
    assert!(text.contains("option immortal") && text.contains(&format!("{before} of {size}")), "{text}");
    // The collected heap has nothing to do with it, and neither has another heap.
    heap.enter(|m| discard(m.alloc(Payload(1u8)).unwrap()));
    let other: Heap = crate::common::heap(4);
    assert!(other.immortal([0u64; 125]).is_ok());
}

#[test]
fn any_thread_allocates_inside_a_heap_or_not() {
    let heap = heap(4);
    let values: Vec<Immortal<(u32, u64)>> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4u32)
            .map(|k| {
                let heap = &heap;
                s.spawn(move || {
                    let make = || (0..500).map(|i| heap.immortal((k, i)).unwrap()).collect::<Vec<_>>();
                    if k % 2 == 0 { make() } else { heap.enter(|_| make()) }
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    for (n, v) in values.iter().enumerate() {
        assert_eq!(**v, (n as u32 / 500, n as u64 % 500));
    }
    assert_eq!(heap.immortal_area().used_bytes(), 2000 * 16);
}
