//! The collector driven by hand: scripted interleavings against every barrier rule, with the rules on (nothing may be
//! found) and with one of them off (the verifier must find it), and random programs against an oracle.
#![forbid(unsafe_code)]

#[path = "teeth/protections.rs"]
mod protections;
#[path = "teeth/random.rs"]
mod random;
#[path = "teeth/ref_scripts.rs"]
mod ref_scripts;
#[path = "teeth/refs.rs"]
mod refs;
#[path = "teeth/scripts.rs"]
mod scripts;
