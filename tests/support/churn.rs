//! A program that keeps the collector at work.

use metronome_gc::{Heap, Root, Slot, Trace};

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
    fill: [u64; 6],
}

/// Two named mutators that allocate and poll until `cycles` cycles have ended.
pub(crate) fn churn(heap: &Heap, cycles: u64) {
    std::thread::scope(|s| {
        for i in 0..2 {
            let body = || {
                heap.enter(|m| {
                    let mut kept = Root::new(m, m.alloc(NodeInit { next: None, fill: [0; 6] }).unwrap());
                    while heap.glance().cycles < cycles {
                        for i in 0..2000 {
                            let Ok(n) = m.alloc(NodeInit { next: Some(kept.get(m)), fill: [i; 6] }) else {
                                break;
                            };
                            if i % 100 == 0 && kept.get(m).fill[0] < 1900 {
                                kept = Root::new(m, n);
                            }
                        }
                        kept = Root::new(
                            m,
                            m.alloc(NodeInit { next: None, fill: [0; 6] }).unwrap_or(kept.get(m)),
                        );
                        m.safepoint();
                    }
                });
            };
            std::thread::Builder::new().name(format!("worker-{i}")).spawn_scoped(s, body).unwrap();
        }
    });
}
