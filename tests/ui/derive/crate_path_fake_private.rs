#![forbid(unsafe_code)]

// A crate path with a payload rule that everything obeys, and a reference that is none.
use std::rc::Rc;

use metronome_gc::{Slot, Trace};

mod forged_payload {
    pub use metronome_gc::*;
    pub mod __private {
        pub use metronome_gc::__private::RawRef;
        pub trait Payload {}
        impl<T: ?Sized> Payload for T {}
    }
}

mod forged_raw {
    pub use metronome_gc::*;
    pub mod __private {
        pub struct RawRef;
    }
}

#[derive(Trace)]
#[trace(crate = forged_payload)]
struct Open<T> {
    value: T,
    shared: Rc<u32>,
    next: Slot<Open<T>>,
}

#[derive(Trace)]
#[trace(crate = forged_raw)]
struct Raw {
    next: Slot<Raw>,
}

fn main() {}
