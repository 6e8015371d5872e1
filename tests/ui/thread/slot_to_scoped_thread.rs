#![forbid(unsafe_code)]

// The same with the slot alone.
use metronome_gc::{Gc, Heap, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let slot: &Slot<Node> = &Gc::object(m.alloc(NodeInit { value: 1, next: None }).unwrap()).next;
        std::thread::scope(|s| {
            s.spawn(|| slot.is_null());
        });
    });
}
