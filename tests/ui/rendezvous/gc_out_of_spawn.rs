#![forbid(unsafe_code)]

// What a heap's thread returns cannot be a reference.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let other = heap.spawn("other", |m| m.alloc(Payload(1_u32)).unwrap()).unwrap();
    println!("{}", other.join_outside().unwrap().0);
}
