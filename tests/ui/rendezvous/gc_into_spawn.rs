#![forbid(unsafe_code)]

// A heap's new thread gets a mutator of its own, and nobody's references.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        let _ = heap.spawn("other", move |_| object.0);
    });
}
