//! Mutators that keep a graph, replace parts of it, and poll: a heap in which a cycle starts as soon as one has ended.

use crate::Args;
use crate::report::Segment;
use metronome_gc::{AllocError, Gc, Heap, Mutator, Root, Slot, Trace};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Objects that each mutator keeps.
const KEPT: usize = 60_000;

#[derive(Trace)]
struct Node {
    words: [u64; 4],
    left: Slot<Node>,
    right: Slot<Node>,
}

fn next(x: &mut u64) -> usize {
    *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*x >> 33) as usize % KEPT
}

fn mutate(m: &mut Mutator<'_>, quit: &AtomicBool, seed: u64) -> Result<u64, AllocError> {
    let table = m.alloc_slots::<Node>(KEPT)?;
    let table = Root::new(m, table);
    let (mut x, mut sum) = (seed, 0u64);
    // Relaxed: a flag that carries no data.
    while !quit.load(Relaxed) {
        for _ in 0..8 {
            let (at, left) = (next(&mut x), next(&mut x));
            let kept = table.get(m);
            let made = m.alloc(NodeInit { words: [x; 4], left: kept.load(m, left), right: None });
            match made {
                Ok(node) => {
                    // One level deep: what hangs on a node is not to grow for ever.
                    if let Some(old) = node.left.load(m) {
                        old.left.store(m, None::<Gc<'_, Node>>);
                        old.right.store(m, None::<Gc<'_, Node>>);
                        black_box(old.words[0]);
                    }
                    node.right.store(m, node.left.load(m));
                    kept.store(m, at, node);
                }
                Err(AllocError::Exhausted { .. }) => m.safepoint(),
                Err(e) => return Err(e),
            }
        }
        m.safepoint();
        // Arithmetic between allocations, with polls.
        for i in 0..40 {
            sum = black_box(sum.rotate_left(5) ^ x.wrapping_mul(i | 1));
            m.poll();
        }
    }
    Ok(sum)
}

/// Runs the program for a segment.
pub(crate) fn segment(args: &Args) -> Result<Segment, String> {
    let heap = Heap::builder()
        .heap_bytes(128 << 20)
        .set("trigger", "1%")
        .set("quantum", &format!("{}us", args.quantum_us))
        .set("window", &format!("{}us", args.quantum_us * 10))
        .build()
        .map_err(|e| e.to_string())?;
    let quit = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..args.threads)
        .map(|i| {
            let (heap, quit) = (heap.clone(), Arc::clone(&quit));
            std::thread::spawn(move || heap.enter(|m| mutate(m, &quit, i as u64 + 1)))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(args.seconds));
    let stats = heap.stats();
    // Relaxed: as above.
    quit.store(true, Relaxed);
    for t in threads {
        t.join().map_err(|_| "a mutator panicked".to_owned())?.map_err(|e| e.to_string())?;
    }
    let refusals = heap.refusals().to_vec();
    Ok(Segment::of_heap(&stats, refusals))
}
