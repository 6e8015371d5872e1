#![forbid(unsafe_code)]

// Tokens of two heaps have different types, so one cannot take the other's place.
use metronome_gc::Mutator;

fn exchange<'a, 'b>(a: &mut Mutator<'a>, b: &mut Mutator<'b>) {
    std::mem::swap(a, b);
}

fn main() {}
