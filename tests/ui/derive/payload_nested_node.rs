#![forbid(unsafe_code)]

// A slotted type by value inside another would hide its slots.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

#[derive(Trace)]
struct Outer {
    inner: Node,
}

fn main() {}
