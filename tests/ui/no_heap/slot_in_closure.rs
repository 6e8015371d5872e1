#![forbid(unsafe_code)]

// A slot lent to a no-heap thread.
use metronome_gc::{Gc, Heap, NoHeapOptions, Slot, Trace};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let node = m.alloc(NodeInit { next: None }).unwrap();
        let slot: &Slot<Node> = &Gc::object(node).next;
        let _ = heap.spawn_no_heap(NoHeapOptions::default(), move |_| slot.is_null());
    });
}
