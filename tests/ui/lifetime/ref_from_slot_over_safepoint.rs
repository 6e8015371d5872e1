#![forbid(unsafe_code)]

// A reference loaded from a slot is bound to the token, not to the object.
use metronome_gc::{Heap, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let node = m.alloc(NodeInit { value: 1, next: None }).unwrap();
        let next = node.next.load(m);
        m.safepoint();
        println!("{}", next.is_some());
    });
}
