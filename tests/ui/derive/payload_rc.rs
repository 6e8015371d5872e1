#![forbid(unsafe_code)]

use std::rc::Rc;

use metronome_gc::Trace;

#[derive(Trace)]
struct Object {
    count: u32,
    shared: Rc<u32>,
}

fn main() {}
