//! What RealtimeSanitizer is not to report, though a function that it watches calls it.
//!
//! Only with `--cfg metronome_rtsan`, which `scripts/sanitize` sets; else [`excluded`] just runs its closure. Its uses
//! are listed in the verification guide: each is a system call that is bounded, or a wait that is the function's purpose,
//! or work that real heaps do not do.

// SAFETY: the sanitizer's run-time library defines both; they take nothing and return nothing.
#[cfg(metronome_rtsan)]
unsafe extern "C" {
    fn __rtsan_disable();
    fn __rtsan_enable();
}

/// Runs `f` without the sanitizer, on this thread.
#[inline(always)]
pub(crate) fn excluded<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(metronome_rtsan)]
    struct Back;
    #[cfg(metronome_rtsan)]
    impl Drop for Back {
        fn drop(&mut self) {
            // SAFETY: undoes one `__rtsan_disable` of this thread, also when `f` unwinds.
            unsafe { __rtsan_enable() };
        }
    }
    #[cfg(metronome_rtsan)]
    let _back = {
        // SAFETY: counts up in the sanitizer's own state of this thread.
        unsafe { __rtsan_disable() };
        Back
    };
    f()
}
