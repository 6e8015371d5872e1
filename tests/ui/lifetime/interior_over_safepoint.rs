#![forbid(unsafe_code)]

// A plain `&` into an object is as short as the reference it came from.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let text: &String = &m.alloc(Payload(String::from("text"))).unwrap().as_ref().0;
        m.safepoint();
        println!("{text}");
    });
}
