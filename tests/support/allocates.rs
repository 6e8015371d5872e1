//! An object whose tracing allocates, which no derived one does: a fault that must be seen.

use metronome_gc::{Init, Trace, Tracer};
use std::hint::black_box;

pub(crate) struct Allocates(pub(crate) u64);

// SAFETY: there are no slots.
unsafe impl Trace for Allocates {
    const NEEDS_TRACE: bool = true;

    unsafe fn trace(&self, _: &mut Tracer<'_>) {
        black_box(Box::new(self.0));
    }
}

// SAFETY: there are no slots, and the value is written as it is.
unsafe impl<'m> Init<'m> for Allocates {
    type Target = Allocates;
    const HAS_SLOTS: bool = false;

    fn values(&self, _: &mut dyn FnMut(metronome_gc::__private::RawRef)) {}

    unsafe fn write(self, place: *mut Allocates) {
        // SAFETY: by this function's contract.
        unsafe { place.write(self) }
    }
}
