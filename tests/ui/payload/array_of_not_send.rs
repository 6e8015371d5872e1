#![forbid(unsafe_code)]

use std::cell::Cell;

use metronome_gc::Heap;

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let _ = m.alloc_array(10, |i| Cell::new(i));
    });
}
