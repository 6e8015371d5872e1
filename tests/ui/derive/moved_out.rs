#![forbid(unsafe_code)]

// A slot cannot leave its object: not by update syntax, not by a pattern, not by a copy.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    key: u32,
    next: Slot<Node>,
}

fn update(node: &Node) -> Node {
    Node { key: 1, ..*node }
}

fn pattern(node: &Node) -> Slot<Node> {
    let Node { next, .. } = *node;
    next
}

fn main() {}
