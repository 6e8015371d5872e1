//! Immortal memory, no-heap threads, and the queues between them and heap threads.
#![forbid(unsafe_code)]

#[path = "safety/common.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod common;
#[path = "no_heap/immortal.rs"]
mod immortal;
#[path = "no_heap/queues.rs"]
mod queues;
#[path = "no_heap/queues_model.rs"]
mod queues_model;
#[path = "no_heap/threads.rs"]
mod threads;
