#![forbid(unsafe_code)]

// `Trace` by hand needs `unsafe`.
use metronome_gc::{Trace, Tracer};

struct Mine;

impl Trace for Mine {
    const NEEDS_TRACE: bool = false;
    unsafe fn trace(&self, _: &mut Tracer<'_>) {}
}

fn main() {}
