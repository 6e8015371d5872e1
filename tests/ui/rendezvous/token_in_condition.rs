#![forbid(unsafe_code)]

// The condition of a wait has no mutator: it could keep a `Gc` from one question to the next.
use metronome_gc::rendezvous::{Condvar, Mutex};
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let (lock, condvar) = (Mutex::new(0_u32), Condvar::new());
    heap.enter(|m| {
        let guard = lock.lock(m);
        drop(condvar.wait_while(m, guard, |n| m.alloc(Payload(1_u32)).is_ok_and(|object| object.0 == *n)));
    });
}
