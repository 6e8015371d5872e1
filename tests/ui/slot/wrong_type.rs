#![forbid(unsafe_code)]

// A slot takes objects of its type only.
use metronome_gc::{Gc, Payload, Mutator, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn store(m: &Mutator<'_>, node: Gc<'_, Node>, other: Gc<'_, Payload<u64>>) {
    node.next.store(m, other);
}

fn main() {}
