#![forbid(unsafe_code)]

// `join` is a safepoint.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let other = heap.spawn("other", |_| 1_u32).unwrap();
        let object = m.alloc(Payload(1_u32)).unwrap();
        println!("{}", other.join(m).unwrap_or(0) + object.0);
    });
}
