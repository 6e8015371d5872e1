#![forbid(unsafe_code)]

// A crate that takes the name `core` must not hide the real `Drop` from the check.
extern crate self as core;

use metronome_gc::{Slot, Trace};

pub mod ops {
    pub use std::ops::FnMut;
    pub trait Drop {}
}
pub mod marker {
    pub use std::marker::{Send, Sized, Sync};
}
pub mod option {
    pub use std::option::Option;
}

#[derive(Trace)]
struct Node {
    next: Slot<Node>,
}

impl ::std::ops::Drop for Node {
    fn drop(&mut self) {}
}

fn main() {}
