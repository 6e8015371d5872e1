#![forbid(unsafe_code)]

use std::sync::Arc;

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

#[derive(Trace)]
struct Object {
    hidden: Arc<Node>,
}

fn main() {}
