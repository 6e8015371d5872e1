#![forbid(unsafe_code)]

// An immortal value outlives whatever it could borrow.
use metronome_gc::Heap;

fn main() {
    let heap = Heap::builder().build().unwrap();
    let text = String::from("short");
    let _ = heap.immortal(text.as_str());
}
