#![forbid(unsafe_code)]

// Nor can a reference be used while the thread counts as stopped.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        m.blocking(|| println!("{}", object.0));
    });
}
