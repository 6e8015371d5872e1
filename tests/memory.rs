//! Memory: what happens when it runs out, what starts cycles, how the heap grows and shrinks, what a reservation promises.
#![forbid(unsafe_code)]

#[path = "memory/common.rs"]
mod common;
#[path = "memory/ladder.rs"]
mod ladder;
#[path = "memory/reserve.rs"]
mod reserve;
#[path = "memory/resize.rs"]
mod resize;
#[path = "memory/triggers.rs"]
mod triggers;
