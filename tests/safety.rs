//! Whatever a safe program does with panics, threads, leaks and drops, the heap stays sound.
//!
//! Small programs, all under `forbid(unsafe_code)`; they mean most under AddressSanitizer and with
//! `METRONOME_VERIFY=1`, where the process ends at the first broken invariant.
#![forbid(unsafe_code)]

#[path = "safety/common.rs"]
mod common;
#[path = "safety/handles.rs"]
mod handles;
#[path = "safety/heaps.rs"]
mod heaps;
#[path = "safety/large.rs"]
mod large;
#[path = "safety/panics.rs"]
mod panics;
#[path = "safety/payload_drop.rs"]
mod payload_drop;
#[path = "safety/references.rs"]
mod references;
#[path = "safety/threads.rs"]
mod threads;
