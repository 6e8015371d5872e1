#![forbid(unsafe_code)]

// `&Node` lent to a scoped thread, which could load its slots with another heap's token.
use metronome_gc::{Gc, Heap, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let heap = Heap::builder().build().unwrap();
    let other = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let node: &Node = Gc::object(m.alloc(NodeInit { value: 1, next: None }).unwrap());
        std::thread::scope(|s| {
            s.spawn(|| other.enter(|m| node.next.load(m).is_some()));
        });
    });
}
