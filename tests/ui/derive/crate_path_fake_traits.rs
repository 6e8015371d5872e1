#![forbid(unsafe_code)]

// A crate path with traits of its own. To declare them takes `unsafe`, and what is derived cannot be allocated.
use std::rc::Rc;

use metronome_gc::Heap;

mod forged {
    pub use metronome_gc::__private;

    pub struct Tracer<'a>(&'a mut ());
    impl Tracer<'_> {
        pub fn __payload<T>(&mut self, _: [&T; 1]) {}
    }
    pub unsafe trait Trace {
        const NEEDS_TRACE: bool;
        unsafe fn trace(&self, tracer: &mut Tracer<'_>);
    }
    pub unsafe trait Init<'m>: Sized {
        type Target;
        const HAS_SLOTS: bool;
        fn values(&self, visit: &mut dyn FnMut(__private::RawRef));
        unsafe fn write(self, place: *mut Self::Target);
    }
}

#[derive(metronome_gc::Trace)]
#[trace(crate = forged)]
struct Object {
    shared: Rc<u32>,
}

fn allocate(heap: &Heap) {
    heap.enter(|m| {
        let _ = m.alloc(Object { shared: Rc::new(0) });
    });
}

fn main() {}
