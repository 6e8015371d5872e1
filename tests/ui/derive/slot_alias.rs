#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

type Link = Slot<Node>;

#[derive(Trace)]
struct Node {
    next: Link,
}

fn main() {}
