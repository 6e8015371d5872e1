#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

struct Plain;

#[derive(Trace)]
struct Node {
    next: Slot<Plain>,
}

fn main() {}
