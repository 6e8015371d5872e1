//! The collector driven by hand: scripted interleavings against every barrier rule, with the rules on (nothing may be
//! found) and with one of them off (the verifier must find it). Random programs are in `tests/programs.rs`.
#![forbid(unsafe_code)]

#[path = "teeth/array_scripts.rs"]
mod array_scripts;
#[path = "teeth/checks.rs"]
mod checks;
#[path = "teeth/pause_points.rs"]
mod pause_points;
#[path = "teeth/protections.rs"]
mod protections;
#[path = "teeth/ref_scripts.rs"]
mod ref_scripts;
#[path = "teeth/scripts.rs"]
mod scripts;
