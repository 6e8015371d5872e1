#![forbid(unsafe_code)]

// A reference cannot leave `enter`: not as its value, not by way of a captured variable.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let object = heap.enter(|m| m.alloc(Payload(1_u32)).unwrap());
    println!("{}", object.0);
}
