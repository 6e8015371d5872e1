#![forbid(unsafe_code)]

// What a queue of the dead gives out is not a reference.
use metronome_gc::{Gc, Payload, ReferenceQueue};

fn queue<'m>() -> ReferenceQueue<Gc<'m, Payload<u32>>> {
    ReferenceQueue::new()
}

fn main() {
    queue();
}
