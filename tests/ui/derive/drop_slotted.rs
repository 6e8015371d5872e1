#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

impl Drop for Node {
    fn drop(&mut self) {}
}

fn main() {}
