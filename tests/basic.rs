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

/// The slices of arrays of one element type: all elements in order, one slice per leaf of 4 KiB, and as many as foretold.
fn leaves_of<E: Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static>(
    m: &mut Mutator<'_>,
    lengths: &[usize],
    element: impl Fn(usize) -> E,
) {
    for &len in lengths {
        let array = Root::new(m, m.alloc_array::<E, _>(len, &element).unwrap());
        let array = array.get(m);
        let mut leaves = array.leaves();
        let (mut at, mut slices, foretold) = (0, 0, leaves.len());
        while let Some(leaf) = leaves.next() {
            assert!(!leaf.is_empty());
            let last = at + leaf.len() == len;
            let full = leaf.len() == 4096usize.checked_div(size_of::<E>()).unwrap_or(0);
            assert!(
                last || full || cfg!(metronome_tiny),
                "slice {slices} of {len} has {} elements",
                leaf.len()
            );
            for (i, found) in leaf.iter().enumerate() {
                assert_eq!(*found, element(at + i), "element {} of {len}", at + i);
                // The slice is where access by index finds the element.
                assert!(std::ptr::eq(found, array.at(at + i)));
            }
            at += leaf.len();
            slices += 1;
            assert_eq!(leaves.len(), foretold - slices);
        }
        assert_eq!((at, slices), (len, foretold));
        assert!(leaves.next().is_none(), "it stays at its end");
        assert_eq!(array.iter().count(), len);
        m.safepoint();
    }
}

#[test]
fn leaves_are_the_elements_in_order() {
    let heap = Heap::builder().heap_bytes(64 << 20).build().unwrap();
    // None, one cell, the ends of the first leaves, two tables of leaves (512 leaves each), and a few levels in a tiny build.
    let words = [0, 1, 2, 511, 512, 513, 1021, 1022, 1023, 1024, 5_000, 512 * 513, 600_000];
    heap.enter(|m| {
        leaves_of(m, &words, |i| i as u64);
        leaves_of(m, &[0, 1, 4095, 4096, 8168, 8169, 100_001], |i| i as u8);
        // Leaves that are not filled to the last byte.
        leaves_of(m, &[1, 170, 171, 341, 10_000], |i| [i as u64, 1, 2]);
        // Not even compiled where a leaf is smaller.
        #[cfg(not(metronome_tiny))]
        leaves_of(m, &[1, 2, 3, 40], |i| [i as u8; 3000]);
        leaves_of(m, &[1, 1000], |i| Aligned(i as u64));
    });
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Aligned(u64);

#[test]
fn leaves_of_nothing() {
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    heap.enter(|m| {
        // Elements without a size are all in one slice.
        let array = m.alloc_array::<(), _>(1_000_000, |_| ()).unwrap();
        let sizes: Vec<usize> = array.leaves().map(<[()]>::len).collect();
        assert_eq!(sizes, [1_000_000]);
        assert_eq!(m.alloc_array::<(), _>(0, |_| ()).unwrap().leaves().len(), 0);
    });
}
