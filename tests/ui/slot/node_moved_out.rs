#![forbid(unsafe_code)]

// An object cannot be moved, taken or swapped out of the heap.
use metronome_gc::{Gc, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn moved(node: Gc<'_, Node>) -> Node {
    *node
}

fn taken(node: Gc<'_, Node>) -> Slot<Node> {
    node.next
}

fn swapped(mut a: Gc<'_, Node>, mut b: Gc<'_, Node>) {
    std::mem::swap(&mut *a, &mut *b);
}

fn main() {}
