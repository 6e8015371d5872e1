#![forbid(unsafe_code)]

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
enum Tree<T: Send + Sync + 'static> {
    Leaf(T),
    Fork([Slot<Tree<T>>; 2]),
}

impl<T: Send + Sync + 'static> Drop for Tree<T> {
    fn drop(&mut self) {}
}

fn main() {}
