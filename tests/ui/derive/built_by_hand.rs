#![forbid(unsafe_code)]

// Writing the object is the collector's business.
use metronome_gc::{Init, Slot, Trace};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

fn build(place: *mut Node) {
    NodeInit { next: None }.write(place);
}

fn main() {}
