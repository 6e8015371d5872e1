#![forbid(unsafe_code)]

// The token to another thread: neither by reference nor by value.
use metronome_gc::{Heap, Mutator, Payload};

fn need_send<T: Send>() {}
fn need_sync<T: Sync>() {}

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        std::thread::scope(|s| {
            s.spawn(|| drop(m.alloc(Payload(1_u32))));
        });
    });
    need_send::<Mutator<'static>>();
    need_sync::<Mutator<'static>>();
}
