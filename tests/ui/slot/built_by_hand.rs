#![forbid(unsafe_code)]

// No way to make a slot: no constructor, no literal, no default, no clone.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

fn main() {
    let a: Slot<Node> = Slot::new(None);
    let b: Slot<Node> = Slot::default();
    let c: Slot<Node> = Slot { cell: Default::default(), _type: std::marker::PhantomData };
    let d: Slot<Node> = Slot::__new(None);
    let e = a.clone();
    let f: Slot<Node> = None.into();
}
