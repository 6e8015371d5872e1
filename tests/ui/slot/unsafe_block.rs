#![forbid(unsafe_code)]

// And `unsafe` is forbidden here, although the derive writes some.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let slot: Slot<Node> = unsafe { Slot::__new(None) };
}
