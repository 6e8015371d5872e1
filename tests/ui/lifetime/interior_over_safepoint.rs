#![forbid(unsafe_code)]

// A plain `&` into an object is as short as the reference it came from.
use metronome_gc::{Gc, Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let text: &String = &Gc::object(m.alloc(Payload(String::from("text"))).unwrap()).0;
        m.safepoint();
        println!("{text}");
    });
}
