#![forbid(unsafe_code)]

// Names that the derive does not use may mean anything: a `Slot` behind the crate path and methods in scope that
// visit nothing leave the real slots traced and shaded.
use metronome_gc::{Heap, Payload, Root, Trace};

mod forged {
    pub use metronome_gc::{__private, Gc, Init, Trace, Tracer};

    pub struct Slot<T>(T);
    impl<T> Slot<T> {
        pub fn __trace(_: &metronome_gc::Slot<T>, _: &mut Tracer<'_>) {}
    }
}

trait Hijack: Sized {
    fn __visit<T>(self, _: T) {}
    fn __visit_all<T>(self, _: T) {}
    fn __payload<T>(self, _: T) {}
    fn __value<T, U>(_: T, _: U) {}
    fn __values<T, U>(_: T, _: U) {}
}
impl<T> Hijack for T {}

#[derive(Trace)]
#[trace(crate = forged)]
struct Node {
    one: metronome_gc::Slot<Payload<String>>,
    two: [metronome_gc::Slot<Payload<String>>; 2],
}

fn main() {
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    heap.enter(|m| {
        let node = {
            let text = |s: &str| m.alloc(Payload(s.to_owned())).unwrap();
            let (a, b, c) = (text("a"), text("b"), text("c"));
            Root::new(m, m.alloc(NodeInit { one: Some(a), two: [Some(b), Some(c)] }).unwrap())
        };
        for _ in 0..3 {
            m.collect(metronome_gc::Collect::Cycle).unwrap();
            for i in 0..10_000 {
                let _ = m.alloc(Payload(i.to_string()));
                m.safepoint();
            }
        }
        let node = node.get(m);
        let seen: String =
            [&node.one, &node.two[0], &node.two[1]].map(|s| s.load(m).unwrap().0.clone()).concat();
        assert_eq!(seen, "abc");
    });
}
