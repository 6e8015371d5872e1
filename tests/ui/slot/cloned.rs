#![forbid(unsafe_code)]

// No copy of a slot.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn copy(slot: &Slot<Node>) -> Slot<Node> {
    slot.clone()
}

fn clone<T: Clone>(slot: &T) -> T {
    slot.clone()
}

fn main() {
    let _: fn(&Slot<Node>) -> Slot<Node> = clone::<Slot<Node>>;
}
