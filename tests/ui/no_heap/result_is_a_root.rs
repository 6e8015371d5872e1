#![forbid(unsafe_code)]

// What comes back from a no-heap thread cannot be a thread's own handle either.
use metronome_gc::{Heap, NoHeapOptions, Payload, Root};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let _ = heap.spawn_no_heap(NoHeapOptions::default(), |_| None::<Root<Payload<u32>>>);
}
