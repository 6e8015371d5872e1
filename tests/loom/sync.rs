//! In place of the library's `sync`: loom's atomics, and futexes made of loom's lock.
#![allow(unused_imports, dead_code, reason = "each test uses its part")]

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::Arc;
use loom::sync::Condvar;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use loom::sync::{Mutex, Mutex as SlowMutex};

#[derive(Default)]
struct Queue {
    ticket: u32,
    /// Address of the word, and ticket of the sleeper.
    sleepers: Vec<(usize, u32)>,
}

loom::lazy_static! {
    static ref QUEUE: Mutex<Queue> = Mutex::new(Queue::default());
    static ref WOKEN: Condvar = Condvar::new();
}

fn key(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
    if deadline_ns.is_some() {
        // A wait with a limit may end at once.
        loom::thread::yield_now();
        return;
    }
    let mut queue = QUEUE.lock().unwrap();
    // AcqRel: see `loom_gate.rs`.
    if word.fetch_add(0, Ordering::AcqRel) != expected {
        return;
    }
    queue.ticket += 1;
    let me = (key(word), queue.ticket);
    queue.sleepers.push(me);
    while queue.sleepers.contains(&me) {
        queue = WOKEN.wait(queue).unwrap();
    }
}

pub(crate) fn futex_wake(word: &AtomicU32, count: u32) {
    let mut queue = QUEUE.lock().unwrap();
    for _ in 0..count {
        let Some(i) = queue.sleepers.iter().position(|s| s.0 == key(word)) else { break };
        queue.sleepers.remove(i);
    }
    WOKEN.notify_all();
}
