#![forbid(unsafe_code)]

use std::any::Any;

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

#[derive(Trace)]
struct Object {
    hidden: Box<dyn Any>,
}

fn main() {}
