#![forbid(unsafe_code)]

use metronome_gc::Trace;

#[derive(Trace)]
union Bits {
    int: u32,
    float: f32,
}

fn main() {}
