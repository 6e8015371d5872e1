//! rust-cc: counted pointers of one thread, with automatic collections of cycles; without its finalizers.

use super::shared::counted_pointers;
use rust_cc::{Cc as Gc, Finalize, Trace};
use std::cell::RefCell;

/// rust-cc.
pub(crate) struct RustCc;

type Link<T> = RefCell<Option<Gc<T>>>;

fn gc<T: Trace + 'static>(value: T) -> Gc<T> {
    Gc::new(value)
}

fn link<T: Trace + 'static>(value: Option<Gc<T>>) -> Link<T> {
    RefCell::new(value)
}

fn load<T: Trace + 'static>(link: &Link<T>) -> Option<Gc<T>> {
    link.borrow().clone()
}

fn store<T: Trace + 'static>(link: &Link<T>, value: Option<Gc<T>>) {
    let _old = link.replace(value);
}

counted_pointers!(RustCc, derive(Trace, Finalize));
