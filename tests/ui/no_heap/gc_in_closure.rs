#![forbid(unsafe_code)]

// A no-heap thread that would look at a heap object while the collector works.
use metronome_gc::{Heap, NoHeapOptions, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        let _ = heap.spawn_no_heap(NoHeapOptions::default(), move |_| object.0);
    });
}
