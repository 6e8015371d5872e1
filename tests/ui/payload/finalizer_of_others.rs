#![forbid(unsafe_code)]

// Only what says how is finalized.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        m.register_finalizer(object);
        m.suppress_finalizer(object);
    });
}
