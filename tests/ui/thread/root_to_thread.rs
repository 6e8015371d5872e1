#![forbid(unsafe_code)]

// A `Root` sent to another thread.
use metronome_gc::{Heap, Payload, Root};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let root = heap.enter(|m| Root::new(m, m.alloc(Payload(1_u32)).unwrap()));
    std::thread::spawn(move || drop(root));
}
