#![forbid(unsafe_code)]

// A reference yields what it was made of.
use metronome_gc::{Ephemeron, Heap, Payload, Pinned, Soft, WeakLong};

type A = Payload<u32>;
type B = Payload<u64>;

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let a = m.alloc(Payload(1_u32)).unwrap();
        let b = m.alloc(Payload(1_u64)).unwrap();
        let soft = Soft::new(m, a);
        let _: Soft<B> = soft;
        let long = WeakLong::new(m, a);
        let _: WeakLong<B> = long;
        let pinned = Pinned::new(m, a);
        let _: Pinned<B> = pinned;
        let ephemeron = Ephemeron::new(m, b, a);
        let _: Ephemeron<A, B> = ephemeron;
    });
}
