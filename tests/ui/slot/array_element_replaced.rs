#![forbid(unsafe_code)]

// Elements of an array are reached by `&` only, and an array of slots is not built from slots.
use metronome_gc::{Gc, GcArray, Heap, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn assign(array: Gc<'_, GcArray<u64>>) {
    *array.at(0) = 1;
}

fn build(heap: &Heap, make: fn(usize) -> Slot<Node>) {
    heap.enter(|m| drop(m.alloc_array(10, make)));
}

fn main() {}
