#![forbid(unsafe_code)]

// A weak map is from objects to objects.
use metronome_gc::{Ephemeron, Soft, WeakLong, WeakMap};

fn main() {
    let _ = WeakMap::<String, String>::new();
    let _ = WeakMap::<metronome_gc::Payload<u8>, u8>::default();
    let _ = Soft::<u8>::new;
    let _ = WeakLong::<u8>::new;
    let _ = Ephemeron::<u8, u8>::new;
}
