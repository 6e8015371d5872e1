//! Atomics of the index stack; its loom test puts a module of its own in this one's place.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
