#![forbid(unsafe_code)]

// A no-heap thread that would allocate by its maker's token.
use metronome_gc::{Heap, NoHeapOptions, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let m = &*m;
        let _ = heap.spawn_no_heap(NoHeapOptions::default(), move |_| drop(m.alloc(Payload(1_u32))));
    });
}
