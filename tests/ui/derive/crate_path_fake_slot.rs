#![forbid(unsafe_code)]

// A crate path that lends the real constructor to a module whose `__trace` visits nothing.
use metronome_gc::Trace;

mod forged {
    pub use metronome_gc::{Gc, Init, Trace, Tracer, __private};

    #[allow(non_snake_case)]
    pub mod Slot {
        use metronome_gc::{__private::RawRef, Gc, Slot, Tracer};
        #[allow(non_upper_case_globals)]
        pub const __new: for<'a> unsafe fn(Option<Gc<'a, super::super::Node>>) -> Slot<super::super::Node> =
            Slot::<super::super::Node>::__new;
        pub fn __raw_of(value: &Option<Gc<'_, super::super::Node>>) -> RawRef {
            Slot::<super::super::Node>::__raw_of(value)
        }
        pub fn __trace(_: &Slot<super::super::Node>, _: &mut Tracer<'_>) {}
    }
}

#[derive(Trace)]
#[trace(crate = forged)]
struct Node {
    next: metronome_gc::Slot<Node>,
}

fn main() {}
