#![forbid(unsafe_code)]

// The initialiser is no object: it cannot be stored to, and an object is no initialiser.
use metronome_gc::{Heap, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn again(heap: &Heap, node: Node) {
    heap.enter(|m| drop(m.alloc(node)));
}

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(NodeInit { value: 1, next: None }).unwrap();
        let init = NodeInit { value: 2, next: None };
        init.next.store(m, object);
    });
}
