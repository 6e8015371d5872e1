#![forbid(unsafe_code)]

// Payload that must stay on its thread.
use std::cell::Cell;
use std::rc::Rc;
use std::sync::MutexGuard;

use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let _ = m.alloc(Payload(Rc::new(1)));
        let _ = m.alloc(Payload(Cell::new(1)));
        let _ = m.alloc(Payload(None::<MutexGuard<'static, u32>>));
    });
}
