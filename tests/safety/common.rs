//! What the programs share.

use metronome_gc::{AllocError, Gc, Heap, Mutator, Root, Slot, Trace};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[derive(Trace)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) next: Slot<Node>,
}

/// A heap of `mib` MiB.
pub(crate) fn heap(mib: u64) -> Heap {
    Heap::builder().heap_bytes(mib << 20).build().unwrap()
}

/// A node, waiting for memory if need be: so no `Gc` can be alive.
pub(crate) fn node(m: &mut Mutator<'_>, id: u64) -> Root<Node> {
    for _ in 0..1000 {
        if let Ok(n) = m.alloc(NodeInit { id, next: None }) {
            return Root::new(m, n);
        }
        m.safepoint();
    }
    panic!("no memory after a thousand safepoints");
}

/// A list with the ids `n - 1` down to 0.
pub(crate) fn list<'m>(m: &'m Mutator<'_>, n: u64) -> Gc<'m, Node> {
    try_list(m, n).unwrap()
}

fn try_list<'m>(m: &'m Mutator<'_>, n: u64) -> Result<Gc<'m, Node>, AllocError> {
    let mut head = m.alloc(NodeInit { id: 0, next: None })?;
    for id in 1..n {
        head = m.alloc(NodeInit { id, next: Some(head) })?;
    }
    Ok(head)
}

/// Makes a list and walks it, waiting for memory if need be: for threads that together are faster than the collector.
#[allow(dead_code)] // Not all programs need it.
pub(crate) fn churn(m: &mut Mutator<'_>, n: u64) {
    for _ in 0..1000 {
        if let Ok(head) = try_list(m, n) {
            return check_list(m, head, n);
        }
        m.safepoint();
    }
    panic!("no memory after a thousand safepoints");
}

/// Walks a list that `list` made, and checks every id.
pub(crate) fn check_list(m: &Mutator<'_>, head: Gc<'_, Node>, n: u64) {
    let (mut at, mut left) = (Some(head), n);
    while let Some(node) = at {
        left -= 1;
        assert_eq!(node.id, left);
        at = node.next.load(m);
        m.poll();
    }
    assert_eq!(left, 0);
}

/// The message of the panic of `f`.
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("it did not panic"),
        Err(e) => match e.downcast::<String>() {
            Ok(text) => *text,
            Err(e) => e.downcast_ref::<&str>().map_or_else(String::new, |s| (*s).to_owned()),
        },
    }
}

/// Waits until `done`, with a bound far beyond what any machine needs, so that a failure is a failure and not a hang.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never happened: {what}");
}

/// A whole cycle. One call waits at most `memory-wait`, which a slow machine may need several times.
pub(crate) fn collect(m: &mut Mutator<'_>) {
    assert!((0..100).any(|_| m.collect(metronome_gc::Collect::Cycle).is_ok()), "the cycle does not end");
}

/// Two cycles, after which everything that was dead before has been found.
pub(crate) fn collect_twice(heap: &Heap) {
    heap.enter(|m| {
        collect(m);
        collect(m);
    });
}

/// An object that nobody keeps.
pub(crate) fn discard<T>(_: Gc<'_, T>) {}
