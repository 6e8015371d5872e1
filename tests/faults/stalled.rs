//! A reaper that stands still in the program's drop glue.

use metronome_gc::{Collect, Heap, Payload};
use std::sync::mpsc::{Receiver, Sender, channel};

struct Gate {
    inside: Sender<()>,
    go: std::sync::Mutex<Receiver<()>>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.inside.send(()).unwrap();
        // An error when the test has ended: go on as well.
        let _ = self.go.lock().unwrap().recv();
    }
}

#[test]
fn while_the_reaper_stands_still_cycles_end_and_the_dead_without_drop_glue_make_room() {
    let heap = Heap::builder().heap_bytes(8 << 20).build().unwrap();
    let (inside, told) = channel();
    let (open, go) = channel();
    heap.enter(|m| {
        assert!(m.alloc(Payload(Gate { inside, go: std::sync::Mutex::new(go) })).is_ok());
        m.collect(Collect::Cycle).unwrap();
        m.blocking(|| told.recv().unwrap());
        let before = heap.stats().cycles;
        // Four heaps full: it takes cycles.
        for i in 0..32u64 << 20 >> 10 {
            // The usual answer to an error.
            let mut tries = 0;
            while m.alloc(Payload([i; 127])).is_err() {
                m.safepoint();
                tries += 1;
                assert!(tries < 10, "no room is made");
            }
            m.safepoint();
        }
        let stats = heap.stats();
        assert!(stats.cycles > before, "{stats:?}");
        assert_eq!(stats.reaped, 0, "the one that is stuck");
        assert_eq!(stats.out_of_memory, 0);
        open.send(()).unwrap();
    });
    drop(heap);
}
