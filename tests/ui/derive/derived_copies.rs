#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

#[derive(Trace, Clone, Default)]
struct Node {
    next: Slot<Node>,
}

fn main() {}
