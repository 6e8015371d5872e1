#![forbid(unsafe_code)]

use metronome_gc::Heap;

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let _ = m.alloc_array(10, |i| i.to_string());
    });
}
