//! Loom model of the stack of free indices (regions, handles), and of claiming before popping.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_stack`
//!
//! The stack's own source is compiled here with loom's atomics. What was written about an index before its push is a loom
//! cell, so that an access which push and pop do not order is reported; an index with two owners is too.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "the models use a part of the library's own files")]

#[path = "loom/explore.rs"]
mod explore;

#[path = "../arraylet/src/stack.rs"]
mod stack;
#[path = "loom/sync.rs"]
mod sync;

use explore::explore;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::thread;
use stack::IndexStack;

/// A stack, its links, what belongs to each index, and the number of indices that may be claimed.
struct World {
    stack: IndexStack,
    links: Vec<AtomicU32>,
    values: Vec<UnsafeCell<u32>>,
    free: AtomicU64,
}

// SAFETY: loom checks every access to the cells; that is what these tests are for.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    /// The indices are pushed in order, so that the last one is on top.
    fn new(indices: usize) -> Arc<World> {
        let w = World {
            stack: IndexStack::default(),
            links: (0..indices).map(|_| AtomicU32::new(0)).collect(),
            values: (0..indices).map(|_| UnsafeCell::new(0)).collect(),
            free: AtomicU64::new(indices as u64),
        };
        (0..indices as u32).for_each(|i| w.push(i));
        Arc::new(w)
    }

    fn push(&self, i: u32) {
        self.stack.push(i, |i| &self.links[i as usize]);
    }

    fn pop(&self) -> Option<u32> {
        self.stack.pop(|i| &self.links[i as usize])
    }

    /// Uses what belongs to an index that the caller owns.
    fn touch(&self, i: u32) {
        // SAFETY: checked by loom.
        self.values[i as usize].with_mut(|p| unsafe { *p += 1 });
    }

    fn claim(&self) -> bool {
        // Acquire, Relaxed: as `Pool::claim`.
        self.free.fetch_update(Acquire, Relaxed, |n| n.checked_sub(1)).is_ok()
    }
}

/// Two threads take an index each, use it and give it back: no index has two owners, each sees what the last owner
/// wrote, and none is lost.
#[test]
fn each_index_has_one_owner() {
    explore(3, || {
        let world = World::new(2);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let w = Arc::clone(&world);
                thread::spawn(move || {
                    if let Some(i) = w.pop() {
                        w.touch(i);
                        w.push(i);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let mut left: Vec<u32> = std::iter::from_fn(|| world.pop()).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1]);
    });
}

/// One thread reads the top's link; another takes both and gives the top back meanwhile. Without the tag the first would
/// make an index that is in use the top.
#[test]
fn a_stale_link_is_not_used() {
    explore(3, || {
        let world = World::new(2);
        let w = Arc::clone(&world);
        let other = thread::spawn(move || {
            let i = w.pop()?;
            w.touch(i);
            Some(i)
        });
        let (first, second) = (world.pop(), world.pop());
        if let Some(i) = first {
            world.push(i);
        }
        let taken = other.join().unwrap();
        let mut all: Vec<u32> = taken.into_iter().chain(second).collect();
        all.extend(std::iter::from_fn(|| world.pop()));
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
    });
}

/// Who has claimed an index finds one: giving back pushes before it lowers the count (INV-HEAP-POOL). One that is taken
/// and pushed again while another looks costs that one another look.
#[test]
fn a_claim_is_good() {
    explore(3, || {
        let world = World::new(1);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let w = Arc::clone(&world);
                thread::spawn(move || {
                    if w.claim() {
                        let i = w.pop().expect("a claim was refused");
                        w.touch(i);
                        w.push(i);
                        w.free.fetch_add(1, Release);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// The same properties of stacks that break them: the model must notice.
mod broken {
    use super::*;

    /// The count is lowered before the push: a claim finds nothing.
    #[test]
    #[should_panic(expected = "a claim was refused")]
    fn counting_before_pushing() {
        loom::model(|| {
            let world = World::new(1);
            assert!(world.claim());
            let i = world.pop().unwrap();
            let w = Arc::clone(&world);
            let other = thread::spawn(move || {
                w.free.fetch_add(1, Release);
                w.push(i);
            });
            if world.claim() {
                assert!(world.pop().is_some(), "a claim was refused");
            }
            other.join().unwrap();
        });
    }

    /// A stack whose head has no tag.
    fn pop_untagged(head: &AtomicU32, links: &[AtomicU32]) -> Option<u32> {
        let mut h = head.load(Acquire);
        loop {
            let i = h.checked_sub(1)?;
            let next = links[i as usize].load(Relaxed);
            match head.compare_exchange(h, next, Acquire, Acquire) {
                Ok(_) => return Some(i),
                Err(x) => h = x,
            }
        }
    }

    fn push_untagged(head: &AtomicU32, links: &[AtomicU32], i: u32) {
        let mut h = head.load(Relaxed);
        loop {
            links[i as usize].store(h, Relaxed);
            match head.compare_exchange(h, i + 1, Release, Relaxed) {
                Ok(_) => return,
                Err(x) => h = x,
            }
        }
    }

    /// Without a tag the program of `a_stale_link_is_not_used` hands an index out twice.
    #[test]
    #[should_panic(expected = "two owners")]
    fn a_stale_link() {
        loom::model(|| {
            let links: Arc<Vec<AtomicU32>> = Arc::new((0..2).map(|_| AtomicU32::new(0)).collect());
            let head = Arc::new(AtomicU32::new(0));
            push_untagged(&head, &links, 0);
            push_untagged(&head, &links, 1);
            let (h, l) = (Arc::clone(&head), Arc::clone(&links));
            let other = thread::spawn(move || pop_untagged(&h, &l));
            let (first, second) = (pop_untagged(&head, &links), pop_untagged(&head, &links));
            if let Some(i) = first {
                push_untagged(&head, &links, i);
            }
            let taken = other.join().unwrap();
            let mut all: Vec<u32> = taken.into_iter().chain(second).collect();
            // Bounded: a broken stack may be a ring.
            all.extend((0..2).map_while(|_| pop_untagged(&head, &links)));
            all.sort_unstable();
            assert_eq!(all, [0, 1], "two owners");
        });
    }

    /// A push that does not release: the next owner does not see what the last one wrote.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn pushing_without_release() {
        loom::model(|| {
            let world = World::new(1);
            let i = world.pop().unwrap();
            let head = Arc::new(AtomicU32::new(0));
            let (w, h) = (Arc::clone(&world), Arc::clone(&head));
            let other = thread::spawn(move || {
                w.touch(i);
                h.store(i + 1, Relaxed);
            });
            if let Some(i) = pop_untagged(&head, &world.links) {
                world.touch(i);
            }
            other.join().unwrap();
        });
    }
}
