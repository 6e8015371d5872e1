#![forbid(unsafe_code)]

// No `mem::take`, no `mem::replace` on a slot: it is reached by `&` only.
use metronome_gc::{Gc, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn take(a: Gc<'_, Node>, b: Slot<Node>) -> Slot<Node> {
    std::mem::replace(&mut Gc::object(a).next, b)
}

fn main() {}
