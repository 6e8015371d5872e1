//! The conservative collector of Boehm, Demers and Weiser (Debian's libgc), in its default configuration. Built only
//! where build.rs finds the library.

#[cfg(boehm)]
mod libgc;

#[cfg(boehm)]
pub(crate) use libgc::Boehm;

/// Whether this program was built with the library.
pub(crate) const PRESENT: bool = cfg!(boehm);
