#![forbid(unsafe_code)]

// A wait-free end belongs to one thread at a time.
use metronome_gc::Heap;
use metronome_gc::queue::WaitFreeWriteQueue;

fn main() {
    let heap = Heap::builder().build().unwrap();
    let (writer, _reader) = WaitFreeWriteQueue::<u32>::new(heap.immortal_area(), 4).unwrap();
    let _ = writer.clone();
    let shared = std::sync::Arc::new(writer);
    let _ = shared.write(1);
}
