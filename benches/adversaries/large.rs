//! Structures with very many nodes, slots, handles.

use crate::program::{Done, Node, Size, cell, garbage, nodes, push, same, walk};
use metronome_gc::{GcArray, Heap, Mutator, Root, Slot};

/// Lets the collector run beside a structure that stays: some garbage, and the number of nodes that it was made of.
fn beside(m: &mut Mutator<'_>, size: Size) -> Result<u64, String> {
    let bytes = size.of(512 << 20, 48 << 20);
    garbage(m, bytes)?;
    Ok(bytes / cell::<Node>())
}

pub(crate) fn list(heap: &Heap, size: Size) -> Result<Done, String> {
    let n = size.of(10_000_000, 200_000);
    heap.enter(|m| {
        let mut head = None;
        push(m, &mut head, n, 0)?;
        let more = beside(m, size)?;
        let head = head.ok_or("the list is empty")?;
        same("nodes and sum of the list", walk(m, &head), (n, n * (n - 1) / 2))?;
        Ok(Done { operations: 2 * n + more, live_bytes: n * cell::<Node>() })
    })
}

pub(crate) fn array(heap: &Heap, size: Size) -> Result<Done, String> {
    let n: usize = size.of(100_000_000, 500_000);
    const DISTINCT: u64 = 1024;
    heap.enter(|m| {
        let targets = nodes(m, DISTINCT)?;
        let array: Root<GcArray<Slot<Node>>> = {
            let array = m.alloc_slots(n).map_err(|e| e.to_string())?;
            Root::new(m, array)
        };
        // Each target in a run of slots.
        let run = 4096;
        for (k, from) in (0..n).step_by(run).enumerate() {
            m.safepoint();
            let target = targets[k % targets.len()].get(m);
            array.get(m).fill(m, from..(from + run).min(n), Some(target));
        }
        drop(targets);
        let more = beside(m, size)?;
        for (k, from) in (0..n).step_by(run).enumerate() {
            m.safepoint();
            let should = k as u64 % DISTINCT;
            let array = array.get(m);
            for i in [from, (from + run).min(n) - 1] {
                same("value behind a slot", array.load(m, i).map(|node| node.value), Some(should))?;
            }
        }
        let live_bytes = n as u64 * 8 + DISTINCT * cell::<Node>();
        Ok(Done { operations: n as u64 + more, live_bytes })
    })
}

pub(crate) fn handles(heap: &Heap, size: Size) -> Result<Done, String> {
    let n = size.of(1_000_000, 50_000);
    heap.enter(|m| {
        let all = nodes(m, n)?;
        let more = beside(m, size)?;
        for (i, h) in all.iter().enumerate() {
            same("value behind a handle", h.get(m).value, i as u64)?;
        }
        Ok(Done { operations: n + more, live_bytes: n * cell::<Node>() })
    })
}
