//! The lock-free queue and map: what is read cannot be freed, so there is nothing to retire.

use super::{Metronome, insist};
use crate::program::lru::bucket;
use crate::program::{map, queue};
use metronome_gc::{AllocError, Gc, GcArray, Global, Mutator, Slot, Trace};

/// An element of the queue.
#[derive(Trace)]
pub(crate) struct Link {
    value: u64,
    next: Slot<Link>,
}

/// The queue: `head` is the element taken last.
#[derive(Trace)]
pub(crate) struct Queue {
    head: Slot<Link>,
    tail: Slot<Link>,
}

fn append(m: &Mutator<'_>, queue: Gc<'_, Queue>, link: Gc<'_, Link>) {
    // Never null: there is always the element taken last.
    while let Some(tail) = queue.tail.load(m) {
        match tail.next.compare_exchange(m, None, Some(link)) {
            Ok(_) => {
                let _ = queue.tail.compare_exchange(m, Some(tail), Some(link));
                return;
            }
            // Another thread was faster: help it.
            Err(next) => {
                let _ = queue.tail.compare_exchange(m, Some(tail), next);
            }
        }
        m.poll();
    }
}

impl queue::Queue for Metronome {
    type Queue = Global<Queue>;

    fn queue(m: &mut Mutator<'_>) -> Global<Queue> {
        insist(m, |m| {
            let first = m.alloc(LinkInit { value: 0, next: None })?;
            Ok(Global::new(m, m.alloc(QueueInit { head: Some(first), tail: Some(first) })?))
        })
    }

    fn push(m: &mut Mutator<'_>, queue: &Global<Queue>, value: u64) {
        insist(m, |m| {
            append(m, queue.get(m), m.alloc(LinkInit { value, next: None })?);
            Ok(())
        });
    }

    fn pop(m: &mut Mutator<'_>, queue: &Global<Queue>) -> Option<u64> {
        m.safepoint();
        let m = &*m;
        let queue = queue.get(m);
        loop {
            let head = queue.head.load(m)?;
            let next = head.next.load(m)?;
            if queue.head.compare_exchange(m, Some(head), Some(next)).is_ok() {
                // The tail may lag behind by one.
                let _ = queue.tail.compare_exchange(m, Some(head), Some(next));
                return Some(next.value);
            }
            m.poll();
        }
    }
}

/// An entry of the map; never changes.
#[derive(Trace)]
pub(crate) struct Entry {
    key: u64,
    value: u64,
    next: Slot<Entry>,
}

type Table = GcArray<Slot<Entry>>;

/// The list with the entry of `key` replaced, or added at its end.
fn replaced<'m>(
    m: &'m Mutator<'_>,
    list: Option<Gc<'m, Entry>>,
    key: u64,
    value: u64,
) -> Result<Gc<'m, Entry>, AllocError> {
    match list {
        None => m.alloc(EntryInit { key, value, next: None }),
        Some(entry) if entry.key == key => m.alloc(EntryInit { key, value, next: entry.next.load(m) }),
        Some(entry) => {
            let next = replaced(m, entry.next.load(m), key, value)?;
            m.alloc(EntryInit { key: entry.key, value: entry.value, next: Some(next) })
        }
    }
}

impl map::Map for Metronome {
    type Map = Global<Table>;

    fn map(m: &mut Mutator<'_>, buckets: usize) -> Global<Table> {
        insist(m, |m| Ok(Global::new(m, m.alloc_slots::<Entry>(buckets)?)))
    }

    fn get(m: &mut Mutator<'_>, map: &Global<Table>, key: u64) -> Option<u64> {
        m.safepoint();
        let m = &*m;
        let table = map.get(m);
        let mut at = table.load(m, bucket(key, table.len()));
        while let Some(entry) = at {
            if entry.key == key {
                return Some(entry.value);
            }
            at = entry.next.load(m);
        }
        None
    }

    fn put(m: &mut Mutator<'_>, map: &Global<Table>, key: u64, value: u64) {
        insist(m, |m| {
            let table = map.get(m);
            let head = table.at(bucket(key, table.len()));
            loop {
                let old = head.load(m);
                let new = replaced(m, old, key, value)?;
                if head.compare_exchange(m, old, Some(new)).is_ok() {
                    return Ok(());
                }
                m.poll();
            }
        });
    }
}
