#![forbid(unsafe_code)]

// A crate that takes the collector's name, so that no attribute is needed to forge the path.
extern crate metronome_gc as real;
extern crate self as metronome_gc;

pub use real::{__private, Gc, Init, Trace, Tracer};
use std::marker::PhantomData;
use std::rc::Rc;

pub struct Slot<T>(Rc<u32>, PhantomData<T>);

impl<T> Slot<T> {
    pub fn __new(_: Option<Gc<'_, T>>) -> Slot<T> {
        Slot(Rc::new(0), PhantomData)
    }
    pub fn __trace(&self, _: &mut Tracer<'_>) {}
}

#[derive(real::Trace)]
struct Node {
    slot: Slot<real::Payload<u64>>,
}

fn main() {}
