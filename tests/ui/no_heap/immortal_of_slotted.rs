#![forbid(unsafe_code)]

// The collector does not look at immortal memory: what refers into the heap must not be there.
use std::sync::Mutex;

use metronome_gc::{Gc, Heap, Payload, Root, Slot, Trace};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

fn whole_node(heap: &Heap, node: Node) {
    let _ = heap.immortal(node);
}

fn hidden_slot(heap: &Heap, slots: Mutex<Vec<Slot<Node>>>) {
    let _ = heap.immortal(slots);
}

fn reference(heap: &Heap, object: Gc<'static, Payload<u32>>) {
    let _ = heap.immortal(object);
}

fn root(heap: &Heap, root: Root<Node>) {
    let _ = heap.immortal(root);
}

fn main() {}
