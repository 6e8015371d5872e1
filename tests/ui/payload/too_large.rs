#![forbid(unsafe_code)]

use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let _ = m.alloc(Payload([0_u8; 10_000]));
    });
}
