//! Weak references, short and long, and soft ones.

use crate::gc::Gc;
use crate::handle::{arc_of, check_heap};
use crate::hooks::fault;
use crate::mutator::Mutator;
use crate::shared::Shared;
use crate::slot::Barrier as _;
use crate::trace::Trace;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When a reference was made: the number of the cycle if its marking had ended, else 0. Such a reference is passed over
/// in that cycle: a mutator held the object.
#[derive(Debug, Default)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    /// Notes now. A running mutator, while it holds the object.
    pub(crate) fn set(&self, s: &Shared) {
        // Relaxed: the cycle changes only while stopped; published with the reference.
        let cycle = if s.phase.get().after_marking() { s.cycle.load(Relaxed) } else { 0 };
        self.0.store(cycle, Relaxed);
    }

    /// Whether the reference was made after the marking of the current cycle had ended.
    pub(crate) fn is_late(&self, s: &Shared) -> bool {
        // Relaxed: as in `set`; read after the reference, or while stopped.
        self.0.load(Relaxed) == s.cycle.load(Relaxed) && !fault!(s, NoStamps)
    }
}

/// What a soft reference's entry holds besides.
#[derive(Debug, Default)]
pub(crate) struct SoftNotes {
    pub(crate) made: Stamp,
    /// Cycles completed when it was last made or used.
    used: AtomicU64,
}

impl SoftNotes {
    fn touch(&self, s: &Shared) {
        // Relaxed: a policy's hint.
        self.used.store(s.cycles_done.load(Relaxed), Relaxed);
    }

    /// Whether a soft reference keeps its object in the cycle that begins after `done` cycles, under this limit of age.
    pub(crate) fn keeps(&self, done: u64, age_limit: u64) -> bool {
        // Relaxed: as above.
        done.saturating_sub(self.used.load(Relaxed)) < age_limit
    }
}

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident, $table:ident, $noun:literal, $shade:expr, $fill:expr, $refuses:expr) => {
        $(#[$doc])*
        pub struct $name<T> {
            shared: Arc<Shared>,
            index: u32,
            _type: PhantomData<fn() -> *const T>,
        }

        impl<T: Trace> $name<T> {
            /// A reference to an object. Cost: a table entry.
            #[must_use]
            pub fn new(m: &Mutator<'_>, object: Gc<'_, T>) -> $name<T> {
                // SAFETY: a mutator's heap is alive and in an `Arc`.
                let shared = unsafe { arc_of(m.shared) };
                $shade(m, object.cell_ptr());
                let index = shared.$table.insert_with(object.cell_ptr(), |e| $fill(e, m.shared()));
                $name { shared, index, _type: PhantomData }
            }

            /// Whether the object has been found dead, as far as this is known without a mutator. Never true before
            /// that; and once true, for good.
            #[must_use]
            pub fn is_cleared(&self) -> bool {
                self.shared.$table.get(self.index).is_null()
            }

            #[track_caller]
            fn object<'m>(&self, m: &'m Mutator<'_>) -> Option<Gc<'m, T>> {
                check_heap(&self.shared, m, $noun);
                let s = m.shared();
                let cell = NonNull::new(s.$table.get(self.index))?;
                if $refuses(s, self.index) && !s.space.is_marked(cell.as_ptr()) {
                    return None;
                }
                if !fault!(s, NoUpgradeBarrier) {
                    m.shade_yielded(cell.as_ptr());
                }
                // SAFETY: the entry is cleared before its object is swept (INV-WEAK-CLEARED); before that the object is
                // complete, and from here on it is held by a local that was shaded.
                Some(unsafe { Gc::from_cell(cell) })
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                self.shared.$table.retain(self.index);
                $name { shared: Arc::clone(&self.shared), index: self.index, _type: PhantomData }
            }
        }

        impl<T> Drop for $name<T> {
            fn drop(&mut self) {
                self.shared.$table.release(self.index);
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($noun, "<{}>"), std::any::type_name::<T>())
            }
        }
    };
}

reference! {
    /// A reference that does not keep its object alive. `Send + Sync`; clones share one entry.
    ///
    /// In the cycle in which the object is found unreachable it is cleared, before any finalizer of that cycle runs:
    /// from that moment, which is the same for all short references to the object, [`upgrade`](Weak::upgrade) gives
    /// `None`, also if a finalizer brings the object back. (.NET: a short weak reference.)
    Weak, weaks, "Weak",
    |_: &Mutator<'_>, _| (),
    |e: &Stamp, s| e.set(s),
    |s: &Shared, i| s.phase.get().unmarked_is_unreachable() && !s.weaks.extra(i).is_late(s)
}

reference! {
    /// A weak reference that outlives finalization: it is cleared when its object cannot come back any more.
    ///
    /// Until then [`upgrade`](WeakLong::upgrade) yields the object, also one that waits for its finalizer or has been
    /// finalized: it may be brought back to life that way. (.NET: a long weak reference, `trackResurrection`.)
    WeakLong, longs, "WeakLong",
    |_: &Mutator<'_>, _| (),
    |(): &(), _| (),
    |s: &Shared, _| s.phase.get().unmarked_is_dead()
}

reference! {
    /// A reference that gives its object up when memory is short: for caches.
    ///
    /// An object that is otherwise unreachable is kept for as many cycles after the reference was last made or
    /// [used](Soft::get) as `soft-age` says, scaled by the share of the heap that is free, rounded up; with nothing free,
    /// or before a mutator that waits is told that memory has run out, for none. (With `exhaustion = fail` nobody waits: the
    /// error comes first, and the cycle that follows it keeps no soft reference.) Cleared like [`Weak`], before finalization, and
    /// all soft references to an object at once if none of them keeps it.
    Soft, softs, "Soft",
    // It keeps its object as a new `Global` does: during the snapshot the table may have been taken already.
    |m: &Mutator<'_>, cell| {
        if !fault!(m.shared(), NoSoftBarrier) {
            m.shade_new(cell);
        }
    },
    |e: &SoftNotes, s: &Shared| {
        e.made.set(s);
        e.touch(s);
    },
    |s: &Shared, i| s.phase.get().unmarked_is_unreachable() && !s.softs.extra(i).made.is_late(s)
}

impl<T: Trace> Weak<T> {
    /// The object, if it has not been found unreachable. A load, and a load and a branch for the barrier.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn upgrade<'m>(&self, m: &'m Mutator<'_>) -> Option<Gc<'m, T>> {
        self.object(m)
    }
}

impl<T: Trace> WeakLong<T> {
    /// The object, if it has not been found dead.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn upgrade<'m>(&self, m: &'m Mutator<'_>) -> Option<Gc<'m, T>> {
        self.object(m)
    }
}

impl<T: Trace> Soft<T> {
    /// The object, if it has not been given up; counts as a use.
    ///
    /// # Panics
    /// If `m` belongs to another heap.
    #[must_use]
    #[track_caller]
    pub fn get<'m>(&self, m: &'m Mutator<'_>) -> Option<Gc<'m, T>> {
        let object = self.object(m)?;
        self.shared.softs.extra(self.index).touch(m.shared());
        Some(object)
    }
}
