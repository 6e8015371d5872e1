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

/// Whether `n` more cycles end that began after this call, within a time far beyond what any machine needs. Told and not
/// asserted: the caller first lets those go that wait, so that a failure is no hang.
#[must_use]
fn cycles_pass(heap: &Heap, n: u64) -> bool {
    let before = heap.glance().cycles;
    (0..20_000).any(|_| {
        heap.request_cycle();
        std::thread::sleep(std::time::Duration::from_millis(1));
        heap.glance().cycles > before + n
    })
}
