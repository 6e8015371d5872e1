//! crossbeam-epoch: the lock-free structures with deferred destruction. What is taken out is freed once no thread can
//! be reading it; that a thread tells by pinning itself at each operation.

use super::{Family, Idle};
use crate::program::lru::bucket;
use crate::program::{map, queue};
use crossbeam_epoch::{Atomic, Guard, Owned, Shared, pin};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Epochs.
pub(crate) struct Epoch;

impl Family for Epoch {
    type Shared = ();
    type Memory<'a> = Epoch;

    fn open(_heap: Option<u64>) -> Result<(), String> {
        Ok(())
    }

    fn enter<R>((): &(), f: impl FnOnce(&mut Epoch) -> R) -> R {
        f(&mut Epoch)
    }
}

impl Idle for Epoch {}

/// An element of the queue.
pub(crate) struct Link {
    value: u64,
    next: Atomic<Link>,
}

/// The queue: `head` is the element taken last.
pub(crate) struct Queue {
    head: Atomic<Link>,
    tail: Atomic<Link>,
}

impl queue::Queue for Epoch {
    type Queue = Queue;

    fn queue(_: &mut Epoch) -> Queue {
        let first = Atomic::new(Link { value: 0, next: Atomic::null() });
        // Relaxed: not shared yet.
        Queue { tail: first.clone(), head: first }
    }

    fn push(_: &mut Epoch, queue: &Queue, value: u64) {
        let guard = &pin();
        let new = Owned::new(Link { value, next: Atomic::null() }).into_shared(guard);
        loop {
            // Acquire, here and below: pairs with the Release of whoever published the element.
            let tail = queue.tail.load(Acquire, guard);
            // SAFETY: never null; freed only after the tail has left it, and not while this thread is pinned.
            let next = unsafe { &tail.deref().next };
            // Release: publishes the element.
            match next.compare_exchange(Shared::null(), new, Release, Acquire, guard) {
                Ok(_) => {
                    // Release: as above. Relaxed: what is there instead does not matter.
                    let _ = queue.tail.compare_exchange(tail, new, Release, Relaxed, guard);
                    return;
                }
                Err(e) => {
                    // Release and Relaxed as above: another thread was faster; help it.
                    let _ = queue.tail.compare_exchange(tail, e.current, Release, Relaxed, guard);
                }
            }
        }
    }

    fn pop(_: &mut Epoch, queue: &Queue) -> Option<u64> {
        let guard = &pin();
        loop {
            // Acquire: pairs with the Release of the push, or of the pop before.
            let head = queue.head.load(Acquire, guard);
            // SAFETY: never null; not freed while this thread is pinned.
            let next = unsafe { head.deref() }.next.load(Acquire, guard);
            // SAFETY: as above.
            let value = unsafe { next.as_ref() }?.value;
            // Acquire as above.
            let tail = queue.tail.load(Acquire, guard);
            if head == tail {
                // The tail must not be left behind on what is freed. Release and Relaxed as in `push`.
                let _ = queue.tail.compare_exchange(tail, next, Release, Relaxed, guard);
            }
            // Release: passes on what was acquired. Relaxed: tried again.
            if queue.head.compare_exchange(head, next, Release, Relaxed, guard).is_ok() {
                // SAFETY: out of the queue: neither head nor tail refers to it, and none will again.
                unsafe { guard.defer_destroy(head) };
                return Some(value);
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let guard = &pin();
        // Relaxed: nobody else has the queue any more.
        let mut at = self.head.load(Relaxed, guard);
        while !at.is_null() {
            // SAFETY: ours alone, each element once.
            let link = unsafe { at.into_owned() };
            // Relaxed: as above.
            at = link.next.load(Relaxed, guard);
        }
    }
}

/// An entry of the map; never changes.
pub(crate) struct Entry {
    key: u64,
    value: u64,
    next: Atomic<Entry>,
}

/// The map.
pub(crate) struct Map(Box<[Atomic<Entry>]>);

/// The list with the entry of `key` replaced, or added at its end, and how many of the old entries were copied.
fn replaced(list: Shared<'_, Entry>, key: u64, value: u64, guard: &Guard) -> Owned<Entry> {
    // Acquire: pairs with the Release that published the list.
    let rest = |entry: &Entry| entry.next.load(Acquire, guard);
    // SAFETY: reachable in the bucket when it was read, and not freed while this thread is pinned.
    match unsafe { list.as_ref() } {
        None => Owned::new(Entry { key, value, next: Atomic::null() }),
        Some(entry) if entry.key == key => {
            Owned::new(Entry { key, value, next: Atomic::from(rest(entry).as_raw()) })
        }
        Some(entry) => {
            let next = Atomic::from(replaced(rest(entry), key, value, guard));
            Owned::new(Entry { key: entry.key, value: entry.value, next })
        }
    }
}

/// The entries of a list up to and with the one of `key`.
fn prefix<'g>(list: Shared<'g, Entry>, key: u64, guard: &'g Guard) -> Vec<Shared<'g, Entry>> {
    let (mut found, mut at) = (Vec::new(), list);
    // SAFETY: as in `replaced`.
    while let Some(entry) = unsafe { at.as_ref() } {
        found.push(at);
        if entry.key == key {
            break;
        }
        // Acquire: as in `replaced`.
        at = entry.next.load(Acquire, guard);
    }
    found
}

impl map::Map for Epoch {
    type Map = Map;

    fn map(_: &mut Epoch, buckets: usize) -> Map {
        Map((0..buckets).map(|_| Atomic::null()).collect())
    }

    fn get(_: &mut Epoch, map: &Map, key: u64) -> Option<u64> {
        let guard = &pin();
        // Acquire, both: pairs with the Release that published the list.
        let mut at = map.0[bucket(key, map.0.len())].load(Acquire, guard);
        // SAFETY: as in `replaced`.
        while let Some(entry) = unsafe { at.as_ref() } {
            if entry.key == key {
                return Some(entry.value);
            }
            at = entry.next.load(Acquire, guard);
        }
        None
    }

    fn put(_: &mut Epoch, map: &Map, key: u64, value: u64) {
        let guard = &pin();
        let head = &map.0[bucket(key, map.0.len())];
        loop {
            // Acquire: as in `get`.
            let old = head.load(Acquire, guard);
            let new = replaced(old, key, value, guard).into_shared(guard);
            // AcqRel: publishes the new list and passes on the old one. Relaxed: tried again.
            if head.compare_exchange(old, new, AcqRel, Relaxed, guard).is_ok() {
                for entry in prefix(old, key, guard) {
                    // SAFETY: copied or replaced, so in no list any more.
                    unsafe { guard.defer_destroy(entry) };
                }
                return;
            }
            let copies = prefix(new, key, guard);
            for copy in copies {
                // SAFETY: never published; the rest of the list is the old one's.
                drop(unsafe { copy.into_owned() });
            }
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let guard = &pin();
        for head in &self.0 {
            // Relaxed, both: nobody else has the map any more.
            let mut at = head.load(Relaxed, guard);
            while !at.is_null() {
                // SAFETY: ours alone, each entry once.
                let entry = unsafe { at.into_owned() };
                at = entry.next.load(Relaxed, guard);
            }
        }
    }
}
