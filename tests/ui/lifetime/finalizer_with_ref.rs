#![forbid(unsafe_code)]

// Nor can it ask for a reference instead of the handle.
use metronome_gc::{Finalize, Gc, Mutator, Trace};

#[derive(Trace)]
struct Node {
    id: u64,
}

impl Finalize for Node {
    fn finalize(this: Gc<'_, Self>, m: &mut Mutator<'_>) {
        m.safepoint();
        println!("{}", this.id);
    }
}

fn main() {}
