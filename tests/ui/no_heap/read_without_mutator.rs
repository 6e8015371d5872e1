#![forbid(unsafe_code)]

// The blocking end needs a heap thread's token, which a no-heap thread has not.
use metronome_gc::queue::WaitFreeWriteQueue;
use metronome_gc::{Heap, NoHeapOptions};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let (_writer, reader) = WaitFreeWriteQueue::<u32>::new(heap.immortal_area(), 4).unwrap();
    let _ = heap.spawn_no_heap(NoHeapOptions::default(), move |n| drop(reader.read(n)));
}
