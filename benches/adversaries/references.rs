//! Weak and soft references, ephemerons and finalizers in masses.

use crate::program::{Done, Node, NodeInit, Random, Size, cell, garbage, nodes, patiently, same};
use metronome_gc::{Collect, Ephemeron, Finalize, Global, Heap, Mutator, Root, Slot, Soft, Trace, Weak};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Waits for the end of two cycles by quanta: what was unreachable at the call has been found then.
fn two_cycles(m: &mut Mutator<'_>) -> Result<(), String> {
    for _ in 0..2 {
        m.collect(Collect::Cycle).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// An object of a chain.
#[derive(Trace)]
struct Link {
    value: u64,
    next: Slot<Link>,
}

static RUN: AtomicU64 = AtomicU64::new(0);
static SUM: AtomicU64 = AtomicU64::new(0);
/// What the last finalizer brought back.
static HELD: Mutex<Option<Global<Link>>> = Mutex::new(None);

impl Finalize for Link {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let link = this.get(m);
        // Relaxed, both: counters, read when the finalizers have been drained.
        RUN.fetch_add(1, Relaxed);
        SUM.fetch_add(link.value, Relaxed);
        let next = link.next.load(m).map(|next| Global::new(m, next));
        let before = std::mem::replace(&mut *HELD.lock().unwrap_or_else(PoisonError::into_inner), next);
        drop(before);
    }
}

pub(crate) fn finalizers(heap: &Heap, size: Size) -> Result<Done, String> {
    let n: u64 = size.of(100_000, 10_000);
    let rounds = size.of(4, 2);
    // Relaxed, both: no finalizer runs yet.
    RUN.store(0, Relaxed);
    SUM.store(0, Relaxed);
    let bytes = size.of(32 << 20, 4 << 20);
    for _ in 0..rounds {
        heap.enter(|m| {
            let mut head: Option<Root<Link>> = None;
            patiently(m, n, |m, done, most| {
                let mut count = 0;
                while count < most {
                    let next = head.as_ref().map(|h| h.get(m));
                    let Ok(link) = m.alloc(LinkInit { value: done + count, next }) else { break };
                    m.register_finalizer(link);
                    head = Some(Root::new(m, link));
                    count += 1;
                }
                count
            })?;
            drop(head);
            garbage(m, bytes)?;
            if !size.control {
                two_cycles(m)?;
                m.drain_finalizers(Duration::from_secs(120)).map_err(|e| e.to_string())?;
            }
            Ok::<(), String>(())
        })?;
    }
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(held);
    if !size.control {
        // Relaxed, both: counters.
        same("finalizers run", RUN.load(Relaxed), rounds * n)?;
        same("sum of what they saw", SUM.load(Relaxed), rounds * (n * (n - 1) / 2))?;
    }
    let operations = rounds * (n + bytes / cell::<Node>());
    Ok(Done { operations, live_bytes: 2 * n * cell::<Link>() })
}

pub(crate) fn weak(heap: &Heap, size: Size) -> Result<Done, String> {
    let n: u64 = size.of(1_000_000, 50_000);
    let rounds = size.of(200_000, 10_000);
    heap.enter(|m| {
        let all = nodes(m, n)?;
        let mut weaks: Vec<Option<Weak<Node>>> = Vec::with_capacity(all.len());
        for (i, node) in all.iter().enumerate() {
            if i % 128 == 0 {
                m.safepoint();
            }
            weaks.push(Some(Weak::new(m, node.get(m))));
        }
        // Every third stays.
        let kept: Vec<_> = all.into_iter().enumerate().filter(|(i, _)| i % 3 == 0).map(|(_, g)| g).collect();
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        for round in 0..rounds {
            for _ in 0..8 {
                let i = random.below(weaks.len());
                let Some(weak) = &weaks[i] else { continue };
                match weak.upgrade(m) {
                    Some(node) => same("value behind a weak reference", node.value, i as u64)?,
                    None => same("index of a cleared one, modulo 3", !i.is_multiple_of(3), true)?,
                }
            }
            // Some go, also while others are cleared.
            if round % 4 == 0 {
                let i = random.below(weaks.len());
                weaks[i] = None;
            }
            garbage(m, 24 * 64)?;
        }
        if !size.control {
            two_cycles(m)?;
            for (i, weak) in weaks.iter().enumerate() {
                if let Some(weak) = weak {
                    same("whether a weak reference was cleared", weak.is_cleared(), i % 3 != 0)?;
                }
            }
        }
        for (i, k) in kept.iter().enumerate() {
            same("value that stays", k.get(m).value, 3 * i as u64)?;
        }
        Ok(Done { operations: n + rounds * 72, live_bytes: n * cell::<Node>() })
    })
}

pub(crate) fn soft(heap: &Heap, size: Size) -> Result<Done, String> {
    let n: u64 = size.of(500_000, 30_000);
    let rounds = size.of(200_000, 10_000);
    heap.enter(|m| {
        let all = nodes(m, n)?;
        let mut softs = Vec::with_capacity(all.len());
        for (i, node) in all.iter().enumerate() {
            if i % 128 == 0 {
                m.safepoint();
            }
            softs.push(Soft::new(m, node.get(m)));
        }
        let kept: Vec<_> = all.into_iter().enumerate().filter(|(i, _)| i % 3 == 0).map(|(_, g)| g).collect();
        let mut random = Random(0x1234_5678_9abc_def1);
        for _ in 0..rounds {
            for _ in 0..8 {
                let i = random.below(softs.len());
                match softs[i].get(m) {
                    Some(node) => same("value behind a soft reference", node.value, i as u64)?,
                    None => same("a cleared one's object was let go", !i.is_multiple_of(3), true)?,
                }
            }
            garbage(m, 24 * 64)?;
        }
        for (i, k) in kept.iter().enumerate() {
            same("value that stays", k.get(m).value, 3 * i as u64)?;
            same("whether a kept object's soft reference was cleared", softs[3 * i].is_cleared(), false)?;
        }
        Ok(Done { operations: n + rounds * 72, live_bytes: n * cell::<Node>() })
    })
}

pub(crate) fn ephemerons(heap: &Heap, size: Size) -> Result<Done, String> {
    let n: u64 = size.of(100_000, 10_000);
    let bytes = size.of(192 << 20, 32 << 20);
    heap.enter(|m| {
        let all = nodes(m, n)?;
        let mut chain = Vec::with_capacity(all.len());
        // The last comes first in the table, which is the worst order.
        for (i, pair) in all.windows(2).rev().enumerate() {
            if i % 128 == 0 {
                m.safepoint();
            }
            chain.push(Ephemeron::new(m, pair[0].get(m), pair[1].get(m)));
        }
        let first = all.into_iter().next();
        garbage(m, bytes)?;
        if !size.control {
            two_cycles(m)?;
        }
        let alive = |m: &Mutator<'_>| chain.iter().filter(|e| e.value(m).is_some()).count() as u64;
        same("ephemerons with their first key", alive(m), n - 1)?;
        drop(first);
        if !size.control {
            two_cycles(m)?;
            same("ephemerons without it", alive(m), 0)?;
        }
        let last = m.alloc(NodeInit { value: n, next: None }).map_err(|e| e.to_string())?;
        same("a node after all that", last.value, n)?;
        Ok(Done { operations: 2 * n + bytes / cell::<Node>(), live_bytes: n * cell::<Node>() })
    })
}
