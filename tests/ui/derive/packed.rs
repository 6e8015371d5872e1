#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
#[repr(C, packed(8))]
struct Node {
    key: u64,
    next: Slot<Node>,
}

fn main() {}
