#![forbid(unsafe_code)]

// What a finalizer keeps beyond its end is a handle, not a reference.
use metronome_gc::{Finalize, Gc, Mutator, Root, Trace};
use std::cell::RefCell;

#[derive(Trace)]
struct Node {
    id: u64,
}

thread_local! {
    static KEPT: RefCell<Vec<Gc<'static, Node>>> = const { RefCell::new(Vec::new()) };
}

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        KEPT.with_borrow_mut(|k| k.push(this.get(m)));
    }
}

fn main() {}
