//! Faults on the real heap: each has a stated outcome (`guide/verification/faults.md`).

#[path = "faults/allocation.rs"]
mod allocation;
#[path = "faults/child.rs"]
mod child;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/stalled.rs"]
mod stalled;
