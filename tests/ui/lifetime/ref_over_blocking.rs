#![forbid(unsafe_code)]

// `blocking` is a safepoint.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        m.blocking(|| println!("away"));
        println!("{}", object.0);
    });
}
