#![forbid(unsafe_code)]

// A `Gc` parked in a mutex is still one: it ends at the next safepoint, also with the lock held.
use metronome_gc::rendezvous::Mutex;
use metronome_gc::{Gc, Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let lock: Mutex<Option<Gc<'_, Payload<u32>>>> = Mutex::new(None);
        let mut guard = lock.lock_outside();
        *guard = m.alloc(Payload(1_u32)).ok();
        m.safepoint();
        println!("{}", guard.map_or(0, |object| object.0));
    });
}
