#![forbid(unsafe_code)]

// The fields of a slot are private.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let slot: Slot<Node> = Slot { cell: panic!(), _type: std::marker::PhantomData };
}
