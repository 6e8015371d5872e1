#![forbid(unsafe_code)]

// A crate path that forges the payload rule.
use std::rc::Rc;

use metronome_gc::Trace;

mod forged {
    pub use metronome_gc::*;
    pub mod __private {
        pub use metronome_gc::__private::RawRef;
        pub trait Payload {}
        impl<T: ?Sized> Payload for T {}
    }
}

#[derive(Trace)]
#[trace(crate = forged)]
struct Object {
    shared: Rc<u32>,
}

fn main() {}
