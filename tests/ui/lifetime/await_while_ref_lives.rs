#![forbid(unsafe_code)]

// `enter` takes a plain closure: nothing in it can be awaited.
use metronome_gc::{Heap, Payload};

async fn other() {}

async fn run(heap: Heap) {
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        other().await;
        println!("{}", object.0);
    });
}

fn main() {}
