#![forbid(unsafe_code)]

// A reference to another thread.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| println!("{}", object.0));
        });
    });
}
