#![forbid(unsafe_code)]

// All threads share an immortal value.
use metronome_gc::Heap;

fn main() {
    let heap = Heap::builder().build().unwrap();
    let mut text = heap.immortal(String::new()).unwrap();
    text.push('x');
}
