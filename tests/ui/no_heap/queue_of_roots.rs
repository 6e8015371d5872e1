#![forbid(unsafe_code)]

// Values cross to another thread: no root, no reference.
use metronome_gc::queue::{WaitFreeReadQueue, WaitFreeWriteQueue};
use metronome_gc::{Gc, Heap, Payload, Root};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let _ = WaitFreeWriteQueue::<Root<Payload<u32>>>::new(heap.immortal_area(), 4);
    let _ = WaitFreeReadQueue::<Gc<'static, Payload<u32>>>::new(heap.immortal_area(), 4);
}
