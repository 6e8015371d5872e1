#![forbid(unsafe_code)]

use metronome_gc::{Gc, GcArray, Heap, Mutator, Payload, Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
    name: Option<String>,
}

#[derive(Trace)]
struct Pair(Slot<Node>, Slot<Pair>, u8);

#[derive(Trace)]
struct Unit;

#[derive(Trace, Debug, Clone, PartialEq)]
struct Plain {
    a: u32,
    b: Vec<u8>,
}

#[derive(Trace)]
struct Lists {
    small: [Slot<Node>; 3],
    large: Slot<GcArray<Slot<Node>>>,
    bytes: Slot<GcArray<u8>>,
    text: Slot<Payload<String>>,
}

fn length<'m>(m: &'m Mutator<'_>, mut at: Option<Gc<'m, Node>>) -> usize {
    let mut n = 0;
    while let Some(node) = at {
        n += 1;
        at = node.next.load(m);
    }
    n
}

fn main() {
    let heap = Heap::builder().heap_bytes(4 << 20).build().unwrap();
    heap.enter(|m| {
        let a = m.alloc(NodeInit { value: 1, next: None, name: None }).unwrap();
        let b = m.alloc(NodeInit { value: 2, next: Some(a), name: Some("b".into()) }).unwrap();
        assert_eq!(length(m, Some(b)), 2);
        let p = m.alloc(PairInit(Some(b), None, 7)).unwrap();
        p.1.store(m, p);
        assert!(Gc::ptr_eq(p.1.load(m).unwrap(), p) && p.2 == 7);
        m.alloc(Unit).unwrap();
        let plain = Plain { a: 1, b: vec![2] };
        assert_eq!(*m.alloc(plain.clone()).unwrap(), plain);
        let slots = m.alloc_slots(1000).unwrap();
        slots.store(m, 999, a);
        let lists = m
            .alloc(ListsInit {
                small: [Some(a), None, Some(b)],
                large: Some(slots),
                bytes: Some(m.alloc_array(10, |i| i as u8).unwrap()),
                text: Some(m.alloc(Payload(String::from("text"))).unwrap()),
            })
            .unwrap();
        assert_eq!(lists.small[2].load(m).unwrap().name.as_deref(), Some("b"));
        assert_eq!(lists.large.load(m).unwrap().load(m, 999).unwrap().value, 1);
        assert_eq!(*lists.bytes.load(m).unwrap().at(3), 3);
        assert_eq!(lists.text.load(m).unwrap().0, "text");
    });
}
