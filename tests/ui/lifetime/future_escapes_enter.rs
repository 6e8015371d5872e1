#![forbid(unsafe_code)]

// An async block cannot carry a reference or the token out of `enter`.
use metronome_gc::{Heap, Payload};

async fn other() {}

async fn run(heap: Heap) {
    let task = heap.enter(|m| async move {
        let object = m.alloc(Payload(1_u32)).unwrap();
        other().await;
        println!("{}", object.0);
    });
    task.await;
}

fn main() {}
