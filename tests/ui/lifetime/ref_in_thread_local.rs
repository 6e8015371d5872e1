#![forbid(unsafe_code)]

// A reference parked in a thread-local.
use std::cell::Cell;

use metronome_gc::{Gc, Heap, Payload};

thread_local! {
    static KEPT: Cell<Option<Gc<'static, Payload<u32>>>> = const { Cell::new(None) };
}

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        KEPT.set(Some(object));
    });
}
