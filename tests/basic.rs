//! The basics: what is reachable lives, what is not goes, arrays of all sizes.
#![forbid(unsafe_code)]
use metronome_gc::{Gc, GcArray, Global, Heap, Mutator, Payload, Root, Slot, Trace, Weak};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn list<'m>(m: &'m Mutator<'_>, n: u64) -> Gc<'m, Node> {
    let mut head = m.alloc(NodeInit { value: 0, next: None }).unwrap();
    for value in 1..n {
        head = m.alloc(NodeInit { value, next: Some(head) }).unwrap();
    }
    head
}

fn sum(m: &Mutator<'_>, head: Gc<'_, Node>) -> u64 {
    let (mut total, mut at) = (head.value, head.next.load(m));
    while let Some(n) = at {
        total += n.value;
        at = n.next.load(m);
        m.poll();
    }
    total
}

#[test]
fn a_rooted_list_survives_and_garbage_does_not() {
    let heap = Heap::builder().heap_bytes(64 << 20).build().unwrap();
    heap.enter(|m| {
        let root = Root::new(m, list(m, 10_000));
        for _ in 0..50 {
            let _garbage = list(m, 10_000);
            m.safepoint();
        }
        m.collect(metronome_gc::Collect::Cycle).unwrap();
        assert_eq!(sum(m, root.get(m)), 10_000 * 9_999 / 2);
        drop(root);
        m.collect(metronome_gc::Collect::Cycle).unwrap();
        m.collect(metronome_gc::Collect::Cycle).unwrap();
    });
    let stats = heap.stats();
    assert!(stats.cycles >= 3);
    assert!(stats.used_bytes < 1 << 20, "{stats:#?}");
}

#[test]
fn weak_globals_and_drop_glue() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Noisy;
    impl Drop for Noisy {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Relaxed);
        }
    }
    let heap = Heap::builder().heap_bytes(16 << 20).build().unwrap();
    let (weak, global) = heap.enter(|m| {
        let a = m.alloc(Payload(Noisy)).unwrap();
        let g = m.alloc(Payload(String::from("kept"))).unwrap();
        (Weak::new(m, a), Global::new(m, g))
    });
    let other = global.clone();
    drop(global);
    heap.enter(|m| {
        m.collect(metronome_gc::Collect::Cycle).unwrap();
        assert!(weak.upgrade(m).is_none());
        assert_eq!(&**other.get(m), "kept");
    });
    drop(heap);
    assert_eq!(DROPS.load(Relaxed), 1);
    drop(other);
    drop(weak);
}

#[test]
fn large_arrays() {
    let heap = Heap::builder().heap_bytes(256 << 20).build().unwrap();
    heap.enter(|m| {
        let values = m.alloc_array::<u32, _>(5_000_000, |i| i as u32).unwrap();
        let root = Root::new(m, values);
        let slots: Gc<'_, GcArray<Slot<Node>>> = m.alloc_slots(1_000_000).unwrap();
        for i in (0..1_000_000).step_by(1000) {
            slots.store(m, i, m.alloc(NodeInit { value: i as u64, next: None }).unwrap());
        }
        let slots = Root::new(m, slots);
        m.collect(metronome_gc::Collect::Cycle).unwrap();
        let v = root.get(m);
        assert_eq!(v.len(), 5_000_000);
        assert!(v.iter().enumerate().all(|(i, &x)| x == i as u32));
        let s = slots.get(m);
        for i in (0..1_000_000).step_by(1000) {
            assert_eq!(s.load(m, i).unwrap().value, i as u64);
        }
        assert!(s.load(m, 1).is_none());
    });
}
