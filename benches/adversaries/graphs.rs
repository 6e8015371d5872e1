//! Fragmentation, references that move while they are marked, bursts.

use crate::program::{
    Done, Fat, Node, NodeInit, Random, Size, cell, garbage, nodes, patiently, push, same, walk,
};
use metronome_gc::{Gc, GcArray, Global, Heap, Mutator, Root, Slot};
use std::collections::HashSet;

/// Allocates `bytes` of objects of `8 * (N + 1)` bytes; keeps one in each region that is seen for the first time, at most `most`.
fn keep_one_each<const N: usize>(
    m: &mut Mutator<'_>,
    bytes: u64,
    most: usize,
    round: u64,
) -> Result<Vec<Global<Fat<N>>>, String> {
    let (mut seen, mut keep) = (HashSet::new(), Vec::new());
    patiently(m, bytes / cell::<Fat<N>>(), |m, _, most_now| {
        let mut count = 0;
        while count < most_now {
            let value = round * 1_000_000 + keep.len() as u64;
            let Ok(fat) = m.alloc(Fat { value, rest: [value; N] }) else { break };
            // A region is 64 KiB.
            if keep.len() < most && seen.insert(Gc::address(fat) >> 16) {
                keep.push(Global::new(m, fat));
            }
            count += 1;
        }
        count
    })?;
    Ok(keep)
}

fn intact<const N: usize>(m: &Mutator<'_>, round: u64, kept: &[Global<Fat<N>>]) -> Result<(), String> {
    for (i, k) in kept.iter().enumerate() {
        let (fat, should) = (k.get(m), round * 1_000_000 + i as u64);
        same("survivor of a round", (fat.value, fat.rest), (should, [should; N]))?;
    }
    Ok(())
}

/// As in Robson's proof, the worst survivor stays in each round and the sizes grow: 16, 64, 256 and 1024 bytes. The survivors of
/// all rounds together hold at most half of the regions.
pub(crate) fn fragmentation(heap: &Heap, size: Size) -> Result<Done, String> {
    let bytes = size.of(160 << 20, 14 << 20);
    let each = size.of(512, 48);
    heap.enter(|m| {
        let a = keep_one_each::<0>(m, bytes, each, 1)?;
        let b = keep_one_each::<6>(m, bytes, each, 2)?;
        let c = keep_one_each::<30>(m, bytes, each, 3)?;
        let d = keep_one_each::<126>(m, bytes, each, 4)?;
        intact(m, 1, &a)?;
        intact(m, 2, &b)?;
        intact(m, 3, &c)?;
        intact(m, 4, &d)?;
        let live_bytes = a.len() as u64 * cell::<Fat<0>>()
            + b.len() as u64 * cell::<Fat<6>>()
            + c.len() as u64 * cell::<Fat<30>>()
            + d.len() as u64 * cell::<Fat<126>>();
        let operations = bytes / cell::<Fat<0>>() + bytes / cell::<Fat<6>>() + bytes / cell::<Fat<30>>();
        Ok(Done { operations: operations + bytes / cell::<Fat<126>>(), live_bytes })
    })
}

/// The objects are a permutation at any time: threads exchange the contents of two slots of an array, each thread in a stretch
/// of its own, while others allocate; at the end each object is in exactly one slot.
pub(crate) fn storm(heap: &Heap, size: Size) -> Result<Done, String> {
    const THREADS: usize = 4;
    let n: usize = size.of(2_000_000, 100_000);
    let rounds: u64 = size.of(100_000, 6_000);
    let array: Global<GcArray<Slot<Node>>> = heap.enter(|m| {
        let all = nodes(m, n as u64)?;
        let array = m.alloc_slots(n).map_err(|e| e.to_string())?;
        for (i, node) in all.iter().enumerate() {
            array.store(m, i, node.get(m));
        }
        Ok::<_, String>(Global::new(m, array))
    })?;
    let swap = |t: usize, array: &Global<GcArray<Slot<Node>>>| {
        heap.enter(|m| {
            let (from, len) = (n / THREADS * t, n / THREADS);
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ t as u64);
            for _ in 0..rounds {
                {
                    let array = array.get(m);
                    for _ in 0..32 {
                        let (i, j) = (from + random.below(len), from + random.below(len));
                        let (a, b) = (array.load(m, i), array.load(m, j));
                        array.store(m, i, b);
                        array.store(m, j, a);
                    }
                }
                // Something to collect; also a safepoint.
                garbage(m, 64 * 24)?;
            }
            Ok::<(), String>(())
        })
    };
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                s.spawn({
                    let (swap, array) = (&swap, &array);
                    move || swap(t, array)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    heap.enter(|m| {
        let mut found = vec![false; n];
        for i in 0..n {
            let value = array.get(m).load(m, i).ok_or("an empty slot")?.value;
            let seen = found.get_mut(value as usize).ok_or("a broken object")?;
            same("an object in two slots", std::mem::replace(seen, true), false)?;
        }
        Ok(Done {
            operations: THREADS as u64 * rounds * (32 + 64),
            live_bytes: n as u64 * (8 + cell::<Node>()),
        })
    })
}

/// Quiet, burst of small garbage, burst of large garbage, a live set that is replaced; eight times.
pub(crate) fn bursts(heap: &Heap, size: Size) -> Result<Done, String> {
    let bytes: u64 = size.of(128 << 20, 6 << 20);
    let live: u64 = size.of(1_000_000, 50_000);
    heap.enter(|m| {
        let mut list: Option<Root<Node>> = None;
        let mut operations = 0;
        for round in 0..8u64 {
            m.blocking(|| std::thread::sleep(std::time::Duration::from_millis(size.of(100, 10))));
            garbage(m, bytes)?;
            patiently(m, bytes / cell::<Fat<254>>(), |m, _, most| {
                (0..most).take_while(|&i| m.alloc(Fat { value: i, rest: [i; 254] }).is_ok()).count() as u64
            })?;
            // The size of the live set changes, too.
            let n = if round % 2 == 0 { live } else { live / 8 };
            list = None;
            push(m, &mut list, n, round)?;
            let head = list.as_ref().ok_or("the list is empty")?;
            let sum = n * round + n * (n - 1) / 2;
            same("nodes and sum of a list", walk(m, head), (n, sum))?;
            operations += bytes / cell::<Node>() + bytes / cell::<Fat<254>>() + n;
        }
        drop(list);
        // A node outside any list, so that the last cycle has something to keep.
        let last = m.alloc(NodeInit { value: 1, next: None }).map_err(|e| e.to_string())?;
        same("the last node", last.value, 1)?;
        Ok(Done { operations, live_bytes: live * cell::<Node>() })
    })
}
