#![forbid(unsafe_code)]

// The same with a type in place of the module.
use metronome_gc::Trace;

mod forged {
    pub use metronome_gc::{Gc, Init, Trace, Tracer, __private};
    use metronome_gc::__private::RawRef;

    pub struct Slot<T>(T);
    #[allow(non_upper_case_globals)]
    impl Slot<super::Node> {
        pub const __new: for<'a> unsafe fn(Option<Gc<'a, super::Node>>) -> metronome_gc::Slot<super::Node> =
            metronome_gc::Slot::<super::Node>::__new;
        pub fn __raw_of(value: &Option<Gc<'_, super::Node>>) -> RawRef {
            metronome_gc::Slot::<super::Node>::__raw_of(value)
        }
        pub fn __trace(_: &metronome_gc::Slot<super::Node>, _: &mut Tracer<'_>) {}
    }
}

#[derive(Trace)]
#[trace(crate = forged)]
struct Node {
    next: metronome_gc::Slot<Node>,
}

fn main() {}
