#![forbid(unsafe_code)]

// A finalizer is given a handle; what that yields does not live over a safepoint, nor over a wait.
use metronome_gc::{Finalize, Mutator, Root, Trace};

#[derive(Trace)]
struct Node {
    id: u64,
}

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        let object = this.get(m);
        m.safepoint();
        println!("{}", object.id);
        let object = this.get(m);
        let _ = m.drain_finalizers(std::time::Duration::ZERO);
        println!("{}", object.id);
    }
}

fn main() {}
