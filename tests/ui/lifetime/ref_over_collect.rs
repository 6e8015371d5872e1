#![forbid(unsafe_code)]

// `collect` and `reserve` wait at a safepoint.
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        m.collect(metronome_gc::Collect::Cycle).is_ok();
        println!("{}", object.0);
    });
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        drop(m.reserve(64).unwrap());
        println!("{}", object.0);
    });
}
