#![forbid(unsafe_code)]

// The parameter is payload; a slot put there is refused where the type is used.
use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Cell<T> {
    value: T,
}

fn need<T: Trace>() {}

fn main() {
    need::<Cell<u8>>();
    need::<Cell<Slot<Cell<u8>>>>();
}
