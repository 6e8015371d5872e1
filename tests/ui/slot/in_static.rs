#![forbid(unsafe_code)]

// A slot in a static: as such, and inside a slotted type.
use std::sync::{Mutex, OnceLock};

use metronome_gc::{Slot, Trace};

#[derive(Trace)]
struct Node {
    value: u64,
    next: Slot<Node>,
}

static ONE: OnceLock<Slot<Node>> = OnceLock::new();
static MANY: Mutex<Vec<Node>> = Mutex::new(Vec::new());

fn main() {
    let _ = (&ONE, &MANY);
}
