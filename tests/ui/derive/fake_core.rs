#![forbid(unsafe_code)]

// A crate that takes the name `core`, with an `Option` that never tells which object it refers to.
extern crate self as core;

use metronome_gc::{Slot, Trace};

pub mod ops {
    pub use std::ops::{Drop, FnMut};
}
pub mod marker {
    pub use std::marker::{Send, Sized, Sync};
}
pub mod option {
    pub struct Option<T>(std::option::Option<T>);
    impl<T> Option<T> {
        pub fn map_or<U>(&self, null: U, _: impl FnOnce(T) -> U) -> U {
            null
        }
    }
}

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

fn main() {}
