#![forbid(unsafe_code)]

// `lock` is a safepoint.
use metronome_gc::rendezvous::Mutex;
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let lock = Mutex::new(0_u32);
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        *lock.lock(m) += object.0;
        println!("{}", object.0);
    });
}
