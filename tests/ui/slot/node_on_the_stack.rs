#![forbid(unsafe_code)]

// An object on the stack would have slots that are not in the heap: nothing to store through.
use metronome_gc::{Heap, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(NodeInit { value: 1, next: None }).unwrap();
        let outside = Node { value: 2, next: None };
        outside.next.store(m, object);
    });
}
