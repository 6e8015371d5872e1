#![forbid(unsafe_code)]

// A reference held in a local over a safepoint.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        m.safepoint();
        println!("{}", object.0);
    });
}
