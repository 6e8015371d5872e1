#![forbid(unsafe_code)]

// A guard stays on the thread that locked.
use metronome_gc::rendezvous::Mutex;

fn main() {
    let lock = Mutex::new(0_u32);
    let guard = lock.lock_outside();
    std::thread::scope(|s| {
        s.spawn(move || println!("{}", *guard));
    });
}
