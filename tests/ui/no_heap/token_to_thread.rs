#![forbid(unsafe_code)]

// The token is its thread's: another one may be delayed by a collector.
use metronome_gc::{Heap, NoHeapOptions};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let _ = heap.spawn_no_heap(NoHeapOptions::default(), |n| {
        std::thread::scope(|s| {
            s.spawn(|| n.now_ns());
        });
    });
}
