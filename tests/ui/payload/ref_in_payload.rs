#![forbid(unsafe_code)]

// A reference to a heap object is not payload: slots are for that.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        let _ = m.alloc(Payload(object));
    });
}
