#![forbid(unsafe_code)]

// A root belongs to its thread, a callback about a death runs on another one.
use metronome_gc::{Heap, Payload, Root};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        let root = Root::new(m, object);
        drop(m.on_death(object, move || drop(root)));
    });
}
