#![forbid(unsafe_code)]

// Nor can the token.
use metronome_gc::{Heap, Mutator};

fn main() {
    let heap = Heap::builder().build().unwrap();
    let mut kept: Option<&mut Mutator<'_>> = None;
    heap.enter(|m| kept = Some(m));
    kept.unwrap().safepoint();
}
