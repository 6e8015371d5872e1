#![forbid(unsafe_code)]

use metronome_gc::Trace;

#[derive(Trace)]
struct Name {
    text: &str,
}

fn main() {}
