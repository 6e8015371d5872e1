#![forbid(unsafe_code)]

// A crate path with a `Gc` that refers to nothing.
use metronome_gc::{Slot, Trace};

mod forged {
    pub use metronome_gc::{__private, Init, Trace, Tracer};
    use std::marker::PhantomData;

    pub struct Gc<'m, T>(PhantomData<&'m T>);
}

#[derive(Trace)]
#[trace(crate = forged)]
struct Node {
    next: Slot<Node>,
    kids: [Slot<Node>; 2],
}

fn main() {}
