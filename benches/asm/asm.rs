//! Small functions around each fast path, for `check-asm.sh` and ASSEMBLY.md. Running it shows that they work.

use metronome_gc::{Gc, Heap, Mutator, Payload, Slot, Trace};
use std::hint::black_box;

/// A list node.
#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

#[inline(never)]
fn slot_load<'m>(m: &'m Mutator<'_>, node: Gc<'m, Node>) -> Option<Gc<'m, Node>> {
    node.next.load(m)
}

#[inline(never)]
fn slot_store(m: &Mutator<'_>, node: Gc<'_, Node>, value: Gc<'_, Node>) {
    node.next.store(m, value);
}

/// In a loop the heap's address stays in a register.
#[inline(never)]
fn slot_store_loop(m: &Mutator<'_>, nodes: &[Gc<'_, Node>], value: Gc<'_, Node>) {
    for node in nodes {
        node.next.store(m, value);
    }
}

#[inline(never)]
fn poll(m: &Mutator<'_>) {
    m.poll();
}

/// A walk along a list that polls at each node.
#[inline(never)]
fn poll_loop(m: &Mutator<'_>, head: Gc<'_, Node>) -> u64 {
    let (mut sum, mut at) = (head.value, head.next.load(m));
    while let Some(node) = at {
        sum += node.value;
        at = node.next.load(m);
        m.poll();
    }
    sum
}

/// 32 bytes with the header, no slot.
#[inline(never)]
fn alloc_values<'m>(m: &'m Mutator<'_>, a: u64, b: u64, c: u64) -> Option<Gc<'m, Payload<[u64; 3]>>> {
    m.alloc(Payload([a, b, c])).ok()
}

/// 24 bytes with the header, one of them a slot.
#[inline(never)]
fn alloc_node<'m>(m: &'m Mutator<'_>, value: u64, next: Option<Gc<'m, Node>>) -> Option<Gc<'m, Node>> {
    m.alloc(NodeInit { value, next }).ok()
}

fn main() {
    let heap = Heap::builder().heap_bytes(16 << 20).build().expect("a small heap");
    // Arguments are hidden from the compiler, which would specialise the functions for them.
    heap.enter(|m| {
        let last = alloc_node(m, black_box(1), black_box(None)).expect("room");
        let first = alloc_node(m, black_box(2), black_box(Some(last))).expect("room");
        slot_store(m, black_box(first), black_box(last));
        slot_store_loop(m, black_box(&[first]), black_box(last));
        poll(m);
        let next = slot_load(m, black_box(first)).expect("stored above");
        let values = alloc_values(m, black_box(1), black_box(2), black_box(3)).expect("room");
        println!("{} {} {:?}", next.value, poll_loop(m, black_box(first)), **values);
    });
}
