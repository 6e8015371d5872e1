#![forbid(unsafe_code)]

// `wait` is a safepoint, whatever the guard keeps locked.
use metronome_gc::rendezvous::{Condvar, Mutex};
use metronome_gc::{Heap, Payload};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let (lock, condvar) = (Mutex::new(0_u32), Condvar::new());
    heap.enter(|m| {
        let guard = lock.lock(m);
        let object = m.alloc(Payload(1_u32)).unwrap();
        let guard = condvar.wait(m, guard);
        println!("{}", object.0 + *guard);
    });
}
