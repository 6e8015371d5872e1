#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node<'a> {
    name: &'a str,
    next: Slot<Node<'static>>,
}

fn main() {}
