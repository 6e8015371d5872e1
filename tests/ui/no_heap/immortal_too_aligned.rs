#![forbid(unsafe_code)]

// Immortal memory is aligned to pages at most.
use metronome_gc::Heap;

#[repr(align(8192))]
struct TwoPages(u8);

fn main() {
    let heap = Heap::builder().build().unwrap();
    let _ = heap.immortal(TwoPages(1));
}
