#![forbid(unsafe_code)]

use std::sync::Mutex;

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    edges: Mutex<Vec<Slot<Node>>>,
}

fn main() {}
