#![forbid(unsafe_code)]

// The token lent to another thread.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        std::thread::scope(|s| {
            s.spawn(|| drop(m.alloc(Payload(1_u32))));
        });
    });
}
