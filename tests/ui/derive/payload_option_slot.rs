#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
enum Node {
    Leaf,
    Fork(Option<Slot<Node>>, (Slot<Node>, u8)),
}

fn main() {}
