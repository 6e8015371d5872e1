#![forbid(unsafe_code)]

// `recv` is a safepoint.
use metronome_gc::rendezvous::channel;
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let (_sender, receiver) = channel::<u32>();
    heap.enter(|m| {
        let object = m.alloc(Payload(1_u32)).unwrap();
        let more = receiver.recv(m).unwrap_or(0);
        println!("{}", object.0 + more);
    });
}
