#![forbid(unsafe_code)]

// The outer token cannot be reached from inside `blocking`.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        m.blocking(|| {
            let _ = m.alloc(Payload(1_u32));
        });
    });
}
