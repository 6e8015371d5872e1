#![forbid(unsafe_code)]

// A `Root` of one thread lent to another, which is inside the same heap.
use metronome_gc::{Heap, Payload, Root};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let root = heap.enter(|m| Root::new(m, m.alloc(Payload(1_u32)).unwrap()));
    std::thread::scope(|s| {
        s.spawn(|| heap.enter(|m| println!("{}", root.get(m).0)));
    });
}
