#![forbid(unsafe_code)]

// A callback about a death runs later, on another thread: it owns no references.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        drop(m.on_death(object, move || drop(object)));
    });
}
