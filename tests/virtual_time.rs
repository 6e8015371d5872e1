//! The driver in virtual time, with faults of ticks, clock, mutators and machine; judged by what the machine saw.

#[path = "virtual_time/common.rs"]
mod common;
#[path = "virtual_time/machine.rs"]
mod machine;
#[path = "virtual_time/quanta.rs"]
mod quanta;
#[path = "virtual_time/ticks.rs"]
mod ticks;
