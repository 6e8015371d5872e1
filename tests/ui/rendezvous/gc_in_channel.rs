#![forbid(unsafe_code)]

// A `Gc` is not `Send`: a channel takes it to no other thread.
use metronome_gc::rendezvous::channel;
use metronome_gc::{Gc, Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let (sender, receiver) = channel::<Gc<'_, Payload<u32>>>();
    std::thread::scope(|s| {
        s.spawn(|| receiver.recv_outside().map(|object| println!("{}", object.0)));
        heap.enter(|m| sender.try_send(m.alloc(Payload(1_u32)).unwrap()).is_ok());
    });
}
