#![forbid(unsafe_code)]

// Nor is a `Root`, which belongs to a thread.
use metronome_gc::{Payload, Root, Trace};

#[derive(Trace)]
struct Object {
    root: Root<Payload<u32>>,
}

fn main() {}
