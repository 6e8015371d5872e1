#![forbid(unsafe_code)]

use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let mut kept = None;
    heap.enter(|m| {
        kept = Some(m.alloc(Payload(1_u32)).unwrap());
    });
    println!("{}", kept.unwrap().0);
}
