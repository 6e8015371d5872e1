#![forbid(unsafe_code)]

// A root belongs to its heap thread.
use metronome_gc::{Heap, NoHeapOptions, Payload, Root};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let root = heap.enter(|m| Root::new(m, m.alloc(Payload(1_u32)).unwrap()));
    let _ = heap.spawn_no_heap(NoHeapOptions::default(), move |_| drop(root));
}
