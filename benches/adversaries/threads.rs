//! Many threads, and threads that come and go.

use crate::program::{Done, Node, Size, cell, garbage, push, same, walk};
use metronome_gc::Heap;

/// What a thread does: a list that it keeps while it makes garbage.
fn work(heap: &Heap, nodes: u64, bytes: u64, first: u64) -> Result<(), String> {
    heap.enter(|m| {
        let mut head = None;
        push(m, &mut head, nodes, first)?;
        garbage(m, bytes)?;
        let head = head.ok_or("the list is empty")?;
        same(
            "nodes and sum of a thread's list",
            walk(m, &head),
            (nodes, nodes * first + nodes * (nodes - 1) / 2),
        )
    })
}

/// `threads` threads in batches of at most `together`.
fn batches(heap: &Heap, threads: u64, together: u64, nodes: u64, bytes: u64) -> Result<Done, String> {
    let mut first = 0;
    while first < threads {
        let batch = together.min(threads - first);
        std::thread::scope(|s| {
            let all: Vec<_> =
                (first..first + batch).map(|t| s.spawn(move || work(heap, nodes, bytes, t))).collect();
            all.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked".to_owned())?)
        })?;
        first += batch;
    }
    let operations = threads * (2 * nodes + bytes / cell::<Node>());
    Ok(Done { operations, live_bytes: together * nodes * cell::<Node>() })
}

pub(crate) fn mutators(heap: &Heap, size: Size) -> Result<Done, String> {
    batches(heap, 64, 64, size.of(20_000, 2_000), size.of(20 << 20, 2 << 20))
}

pub(crate) fn churn(heap: &Heap, size: Size) -> Result<Done, String> {
    batches(heap, size.of(4_000, 200), 4, 1_000, 256 << 10)
}
