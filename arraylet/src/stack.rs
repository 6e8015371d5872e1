//! A lock-free stack of small indices whose links live in the caller's own table.
//!
//! # State
//! `head` packs a 32-bit tag and `index + 1`. The tag changes with every operation, so that a pop which read a
//! stale link fails its exchange (no ABA within 2^32 operations between two instructions of one thread).
//!
//! # Who may touch what
//! Any thread may push and pop. An index is in at most one stack at a time per link field; its link may be
//! written only by the pusher, before the push.
//!
//! # Ordering
//! Push releases, pop acquires, so what was written about an index before its push is seen after its pop.

use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Treiber stack of indices (IBM RJ 5118, 1986) with a tag against ABA. Push and pop are O(1) and lock-free.
#[derive(Debug, Default)]
pub struct IndexStack {
    head: AtomicU64,
}

impl IndexStack {
    /// An empty stack.
    // Loom's atomics have no constant constructor; its test takes the default.
    #[cfg(not(all(test, loom)))]
    #[must_use]
    pub const fn new() -> Self {
        IndexStack { head: AtomicU64::new(0) }
    }

    /// Pushes `index`; `link(index)` is where its link is kept.
    pub fn push<'a>(&self, index: u32, link: impl Fn(u32) -> &'a AtomicU32) {
        // Relaxed: the exchange below validates the value.
        let mut head = self.head.load(Relaxed);
        loop {
            // Relaxed: published by the exchange below.
            link(index).store(head as u32, Relaxed);
            let next = bump(head) | u64::from(index + 1);
            // Release: pairs with the Acquire in `pop`.
            match self.head.compare_exchange_weak(head, next, Release, Relaxed) {
                Ok(_) => return,
                Err(h) => head = h,
            }
        }
    }

    /// Pops an index, or `None` if the stack is empty.
    pub fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        // Acquire: pairs with the Release in `push`, so that the link read next is the pushed one.
        let mut head = self.head.load(Acquire);
        loop {
            let index = (head as u32).checked_sub(1)?;
            // Relaxed: may be stale if another thread popped meanwhile; then the tag differs and we retry.
            let next = bump(head) | u64::from(link(index).load(Relaxed));
            // Acquire: pairs with the Release in `push`.
            match self.head.compare_exchange_weak(head, next, Acquire, Acquire) {
                Ok(_) => return Some(index),
                Err(h) => head = h,
            }
        }
    }

    /// Forgets the whole content in O(1). The caller re-lists or drops the indices itself.
    pub fn clear(&self) {
        // Relaxed: called while no other thread uses the stack (stopped).
        let head = self.head.load(Relaxed);
        self.head.store(bump(head), Relaxed);
    }

    /// Whether the stack looked empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a hint only.
        self.head.load(Relaxed) as u32 == 0
    }

    /// The top index, for walks while no other thread uses the stack.
    #[must_use]
    pub fn peek(&self) -> Option<u32> {
        // Relaxed: see above.
        (self.head.load(Relaxed) as u32).checked_sub(1)
    }
}

fn bump(head: u64) -> u64 {
    ((head >> 32).wrapping_add(1)) << 32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn last_in_first_out() {
        let links: Vec<AtomicU32> = (0..4).map(|_| AtomicU32::new(0)).collect();
        let s = IndexStack::new();
        for i in 0..4 {
            s.push(i, |i| &links[i as usize]);
        }
        let got: Vec<u32> = std::iter::from_fn(|| s.pop(|i| &links[i as usize])).collect();
        assert_eq!(got, [3, 2, 1, 0]);
        s.push(2, |i| &links[i as usize]);
        s.clear();
        assert_eq!(s.pop(|i| &links[i as usize]), None);
    }

    #[test]
    fn each_index_is_owned_once_under_contention() {
        const N: usize = 16;
        let links: Vec<AtomicU32> = (0..N).map(|_| AtomicU32::new(0)).collect();
        let owners: Vec<AtomicUsize> = (0..N).map(|_| AtomicUsize::new(0)).collect();
        let s = IndexStack::new();
        for i in 0..N as u32 {
            s.push(i, |i| &links[i as usize]);
        }
        std::thread::scope(|t| {
            for _ in 0..4 {
                t.spawn(|| {
                    for _ in 0..20_000 {
                        if let Some(i) = s.pop(|i| &links[i as usize]) {
                            assert_eq!(owners[i as usize].fetch_add(1, Relaxed), 0);
                            owners[i as usize].fetch_sub(1, Relaxed);
                            s.push(i, |i| &links[i as usize]);
                        }
                    }
                });
            }
        });
        let mut left: Vec<u32> = std::iter::from_fn(|| s.pop(|i| &links[i as usize])).collect();
        left.sort_unstable();
        assert_eq!(left, (0..N as u32).collect::<Vec<_>>());
    }
}
