#![forbid(unsafe_code)]

// The token is bound to its thread, and so is what it hands out.
use metronome_gc::{Gc, Mutator, Payload, Root, Slot, Trace};

fn need_send<T: Send>() {}
fn need_sync<T: Sync>() {}

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

fn main() {
    need_send::<Mutator<'static>>();
    need_sync::<Mutator<'static>>();
    need_send::<Gc<'static, Payload<u32>>>();
    need_sync::<Gc<'static, Payload<u32>>>();
    need_send::<Root<Payload<u32>>>();
    need_sync::<Root<Payload<u32>>>();
    need_send::<Slot<Node>>();
    need_sync::<Slot<Node>>();
    need_send::<Node>();
    need_sync::<Node>();
}
