//! The ways to have memory that are compared, each behind the same few traits: a program is written once for all of them.

pub(crate) mod arc;
pub(crate) mod boa;
pub(crate) mod boehm;
pub(crate) mod boxes;
pub(crate) mod bump;
pub(crate) mod dumpster;
pub(crate) mod epoch;
pub(crate) mod gc_arena;
pub(crate) mod metronome;
pub(crate) mod raw;
pub(crate) mod rust_cc;
pub(crate) mod shared;

/// What a contestant tells about itself at the end, by name.
pub(crate) type Facts = Vec<(String, String)>;

/// A way to have memory.
pub(crate) trait Family: 'static {
    /// What the threads of a program share.
    type Shared: Sync;
    /// What one thread works with.
    type Memory<'a>: Idle;

    /// Makes ready; `heap` is the limit in bytes, for those that have one.
    ///
    /// # Errors
    /// Why there is no such heap.
    fn open(heap: Option<u64>) -> Result<Self::Shared, String>;

    /// Runs `f` on the calling thread.
    fn enter<R>(shared: &Self::Shared, f: impl FnOnce(&mut Self::Memory<'_>) -> R) -> R;

    /// Figures of the whole run.
    fn facts(_shared: &Self::Shared) -> Facts {
        Facts::new()
    }
}

/// Doing something that takes time and touches no memory of the family.
pub(crate) trait Idle {
    /// Runs `f`, which sleeps.
    fn idle<R>(&mut self, f: impl FnOnce() -> R) -> R {
        f()
    }
}
