//! boa_gc, the mark-sweep collector of the Boa JavaScript engine: pointers of one thread, rooted by counting.

use super::shared::counted_pointers;
use boa_gc::{Finalize, Gc, GcRefCell, Trace};

/// boa_gc.
pub(crate) struct Boa;

type Link<T> = GcRefCell<Option<Gc<T>>>;

fn gc<T: Trace + 'static>(value: T) -> Gc<T> {
    Gc::new(value)
}

fn link<T: Trace + 'static>(value: Option<Gc<T>>) -> Link<T> {
    GcRefCell::new(value)
}

fn load<T: Trace + 'static>(link: &Link<T>) -> Option<Gc<T>> {
    link.borrow().clone()
}

fn store<T: Trace + 'static>(link: &Link<T>, value: Option<Gc<T>>) {
    *link.borrow_mut() = value;
}

counted_pointers!(Boa, derive(Trace, Finalize));
