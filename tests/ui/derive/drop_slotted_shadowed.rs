#![forbid(unsafe_code)]

// The user's own `Drop` must not stand in for the real one.
use metronome_gc::{Slot, Trace};

trait Drop {}

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

impl ::core::ops::Drop for Node {
    fn drop(&mut self) {}
}

fn main() {}
