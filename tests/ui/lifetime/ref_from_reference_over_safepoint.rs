#![forbid(unsafe_code)]

// A reference lives on; what it yielded does not.
use metronome_gc::{Ephemeron, Heap, Payload, Pinned, Soft, WeakLong, WeakMap};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let long = WeakLong::new(m, m.alloc(Payload(1_u32)).unwrap());
        let object = long.upgrade(m);
        m.safepoint();
        println!("{}", object.is_some());
    });
    heap.enter(|m| {
        let soft = Soft::new(m, m.alloc(Payload(1_u32)).unwrap());
        let object = soft.get(m);
        m.safepoint();
        println!("{}", object.is_some());
    });
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        let ephemeron = Ephemeron::new(m, object, object);
        let (key, value) = (ephemeron.key(m), ephemeron.value(m));
        m.safepoint();
        println!("{} {}", key.is_some(), value.is_some());
    });
    heap.enter(|m| {
        let pinned = Pinned::new(m, m.alloc(Payload(1_u32)).unwrap());
        let object = pinned.get(m);
        m.safepoint();
        println!("{}", object.0);
    });
    heap.enter(|m| {
        let map = WeakMap::new();
        let key = m.alloc(Payload(1_u32)).unwrap();
        let old = map.insert(m, key, key);
        m.safepoint();
        println!("{}", old.is_some());
    });
    heap.enter(|m| {
        let map = WeakMap::<Payload<u32>, Payload<u32>>::new();
        let mut all = vec![];
        map.for_each(m, |k, v| all.push((k, v)));
        m.safepoint();
        println!("{}", all.len());
    });
}
