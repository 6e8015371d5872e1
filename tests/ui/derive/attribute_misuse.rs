#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
#[trace(skip)]
struct Node {
    #[trace(slot)]
    next: Slot<Node>,
}

fn main() {}
