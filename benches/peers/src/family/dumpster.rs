//! dumpster's `sync` collector: counted pointers, cycles found by a collection now and then. Links are in a `Mutex`, as
//! its pointers go between threads.

use super::shared::counted_pointers;
use dumpster::Trace;
use dumpster::sync::Gc;
use std::sync::{Mutex, PoisonError};

/// dumpster.
pub(crate) struct Dumpster;

type Link<T> = Mutex<Option<Gc<T>>>;

fn gc<T: Trace + Send + Sync + 'static>(value: T) -> Gc<T> {
    Gc::new(value)
}

fn link<T: Trace + Send + Sync + 'static>(value: Option<Gc<T>>) -> Link<T> {
    Mutex::new(value)
}

fn load<T: Trace + Send + Sync + 'static>(link: &Link<T>) -> Option<Gc<T>> {
    link.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn store<T: Trace + Send + Sync + 'static>(link: &Link<T>, value: Option<Gc<T>>) {
    // What was there is dropped after the lock is open again.
    let _old = std::mem::replace(&mut *link.lock().unwrap_or_else(PoisonError::into_inner), value);
}

counted_pointers!(Dumpster, derive(Trace));
