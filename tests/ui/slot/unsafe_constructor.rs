#![forbid(unsafe_code)]

// What the derive uses needs `unsafe`.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let slot: Slot<Node> = Slot::__new(None);
}
