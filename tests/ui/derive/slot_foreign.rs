#![forbid(unsafe_code)]

// Another type of the name `Slot`, even one that dereferences to the real one.
use std::ops::Deref;

use metronome_gc::Trace;

struct Slot<T: 'static>(&'static metronome_gc::Slot<T>);

impl<T: 'static> Deref for Slot<T> {
    type Target = metronome_gc::Slot<T>;
    fn deref(&self) -> &metronome_gc::Slot<T> {
        self.0
    }
}

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

fn main() {}
