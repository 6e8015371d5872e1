#![forbid(unsafe_code)]

// No way to make a slot: no constructor, no default, no conversion.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let a: Slot<Node> = Slot::new(None);
    let b: Slot<Node> = Slot::default();
    let c: Slot<Node> = None.into();
}
