#![forbid(unsafe_code)]

use std::sync::Mutex;

use metronome_gc::{Payload, Root};

static KEPT: Mutex<Option<Root<Payload<u32>>>> = Mutex::new(None);

fn main() {
    drop(KEPT.lock());
}
