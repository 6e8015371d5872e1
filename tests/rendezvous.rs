//! Waiting for other threads inside a heap: nothing is lost, nobody is in the collector's way.
#![forbid(unsafe_code)]

#[path = "rendezvous/blocked.rs"]
mod blocked;
#[path = "rendezvous/channels.rs"]
mod channels;
// What these programs do not use of it, others do.
#[allow(dead_code)]
#[path = "safety/common.rs"]
mod common;
#[path = "rendezvous/locks.rs"]
mod locks;

use metronome_gc::Heap;

/// A small heap in which one cycle follows the other.
fn busy_heap() -> Heap {
    Heap::builder().heap_bytes(8 << 20).set("cycle-interval", "1ms").build().unwrap()
}

/// Waits until `n` more cycles have ended that began after this call.
fn cycles_pass(heap: &Heap, n: u64) {
    let before = heap.glance().cycles;
    common::eventually("cycles complete", || {
        heap.request_cycle();
        heap.glance().cycles > before + n
    });
}
