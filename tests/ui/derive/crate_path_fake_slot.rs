#![forbid(unsafe_code)]

// A crate path with the real traits and a `Slot` that holds what must not be dropped on another thread.
use metronome_gc::{Payload, Trace};

mod forged {
    pub use metronome_gc::{__private, Gc, Init, Trace, Tracer};
    use std::marker::PhantomData;
    use std::rc::Rc;

    pub struct Slot<T>(Rc<u32>, PhantomData<T>);
    impl<T> Slot<T> {
        pub fn __new(_: Option<Gc<'_, T>>) -> Slot<T> {
            Slot(Rc::new(0), PhantomData)
        }
        pub fn __trace(&self, _: &mut Tracer<'_>) {}
        pub fn __visit(&self, _: &mut Tracer<'_>) {}
    }
}

// Methods of the names that the derive calls, in scope.
trait Hijack: Sized {
    fn __visit<T>(self, _: T) {}
    fn __visit_all<T>(self, _: T) {}
    fn __payload<T>(self, _: T) {}
}
impl<T> Hijack for T {}

#[derive(Trace)]
#[trace(crate = forged)]
struct One {
    slot: forged::Slot<Payload<u64>>,
}

#[derive(Trace)]
#[trace(crate = forged)]
struct Many {
    slots: [forged::Slot<Payload<u64>>; 3],
}

fn main() {}
