#![forbid(unsafe_code)]

// Payload that borrows from the stack.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let text = String::from("short");
    heap.enter(|m| {
        let _ = m.alloc(Payload(text.as_str()));
    });
}
