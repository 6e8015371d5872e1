//! Notifications: each one, provoked, is delivered on the writer's thread; listeners that misbehave harm nobody else.
#![forbid(unsafe_code)]

#[path = "memory/common.rs"]
mod common;
#[path = "notifications/listeners.rs"]
mod listeners;
#[path = "notifications/variants.rs"]
mod variants;
