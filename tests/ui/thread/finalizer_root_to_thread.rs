#![forbid(unsafe_code)]

// The root that a finalizer is given belongs to the finalizer thread.
use metronome_gc::{Finalize, Mutator, Root, Trace};
use std::sync::Mutex;

#[derive(Trace)]
struct Node {
    id: u64,
}

static KEPT: Mutex<Vec<Root<Node>>> = Mutex::new(Vec::new());

impl Finalize for Node {
    fn finalize(this: Root<Self>, m: &mut Mutator<'_>) {
        if this.get(m).id == 0 {
            std::thread::spawn(move || drop(this));
        } else {
            KEPT.lock().unwrap().push(this);
        }
    }
}

fn main() {}
