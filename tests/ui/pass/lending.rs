#![forbid(unsafe_code)]

// What may leave: payload lent to a scoped thread, handles to any thread, values.
use metronome_gc::{Gc, Global, Heap, Payload, Slot, Trace, Weak};

#[derive(Trace)]
struct Node {
    name: String,
    next: Slot<Node>,
}

fn need_send_sync<T: Send + Sync>() {}

fn main() {
    need_send_sync::<Heap>();
    need_send_sync::<Global<Node>>();
    need_send_sync::<Weak<Node>>();
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    let (global, weak) = heap.enter(|m| {
        let node = m.alloc(NodeInit { name: "lent".into(), next: None }).unwrap();
        let name: &str = &Gc::object(node).name;
        let length = std::thread::scope(|s| s.spawn(|| name.len()).join().unwrap());
        assert_eq!(length, 4);
        (Global::new(m, node), Weak::new(m, node))
    });
    let other = heap.clone();
    std::thread::spawn(move || {
        other.enter(|m| {
            assert_eq!(global.get(m).name, weak.upgrade(m).unwrap().name);
            m.alloc(Payload(weak.clone())).unwrap();
        });
    })
    .join()
    .unwrap();
}
