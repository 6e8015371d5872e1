#![forbid(unsafe_code)]

// A handle lives on; what it yielded does not.
use metronome_gc::{Global, Heap, Payload, Root, Weak};

fn main() {
    let heap = Heap::builder().build().unwrap();
    heap.enter(|m| {
        let root = Root::new(m, m.alloc(Payload(1_u32)).unwrap());
        let object = root.get(m);
        m.safepoint();
        println!("{}", object.0);
    });
    heap.enter(|m| {
        let global = Global::new(m, m.alloc(Payload(1_u32)).unwrap());
        let object = global.get(m);
        m.safepoint();
        println!("{}", object.0);
    });
    heap.enter(|m| {
        let weak = Weak::new(m, m.alloc(Payload(1_u32)).unwrap());
        let object = weak.upgrade(m);
        m.safepoint();
        println!("{}", object.is_some());
    });
}
