//! Faults that tests switch on to see that the verifier has teeth. Compiled only for tests.

#[cfg(any(test, feature = "hooks"))]
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

#[cfg(any(test, feature = "hooks"))]
/// A protection that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// Removed slot values are not shaded.
    NoDeletionBarrier = 1,
    /// New slot values are not shaded during the snapshot.
    NoInsertionBarrier = 2,
    /// Initialisers' values are not shaded during the snapshot.
    NoInitialiserBarrier = 4,
    /// Handles do not shade what they yield.
    NoHandleBarrier = 8,
    /// Weak upgrades do not shade.
    NoUpgradeBarrier = 16,
    /// New objects are white in every phase.
    AllocateWhite = 32,
    /// Logs are not drained before marking ends.
    NoLogFlush = 64,
    /// Weak and soft references to dead objects are not cleared.
    NoWeakClearing = 128,
    /// The global table is not scanned.
    NoGlobalScan = 256,
    /// New globals are not shaded during the snapshot.
    NoGlobalCreateBarrier = 512,
    /// Shading while marks stand still does nothing.
    NoDeferredShading = 1024,
    /// Objects whose finalizers are queued are no roots.
    NoQueuedScan = 2048,
    /// What due finalizers reach is not marked.
    NoFinalizeMarking = 4096,
    /// Values of ephemerons are not visited.
    NoEphemeronPass = 8192,
    /// Scanned objects are not looked up among the keys of ephemerons.
    NoEphemeronLookup = 1 << 14,
    /// Suppressed registrations of unreachable objects are not released.
    NoSuppressedRelease = 1 << 15,
    /// References and registrations made after marking are not passed over.
    NoStamps = 1 << 16,
    /// Long references, ephemerons and notices of death of the dead are left as they are.
    NoBurying = 1 << 17,
    /// New soft references do not shade.
    NoSoftBarrier = 1 << 18,
    /// A registration that is taken up again after marking is treated as an old one.
    NoRenewal = 1 << 19,
    /// Mutators keep their runs of cells when the colour of new objects changes.
    NoCursorFlush = 1 << 20,
}

#[cfg(any(test, feature = "hooks"))]
/// Faults of one heap, and the failing of an allocation.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    faults: AtomicU32,
    fail_after: AtomicU32,
    low_memory: AtomicBool,
}

#[cfg(any(test, feature = "hooks"))]
impl Hooks {
    pub(crate) fn on(&self, f: Fault) -> bool {
        // Relaxed: set before the mutators of a test start.
        self.faults.load(Relaxed) & f as u32 != 0
    }

    pub(crate) fn set(&self, f: Fault, on: bool) {
        // Relaxed: see `on`.
        if on {
            self.faults.fetch_or(f as u32, Relaxed);
        } else {
            self.faults.fetch_and(!(f as u32), Relaxed);
        }
    }

    /// Lets the memory thread believe once that the system is low on memory.
    #[cfg(feature = "hooks")]
    pub(crate) fn set_low_memory(&self) {
        // Relaxed: a test's switch.
        self.low_memory.store(true, Relaxed);
    }

    pub(crate) fn take_low_memory(&self) -> Option<String> {
        // Relaxed: a test's switch.
        self.low_memory.swap(false, Relaxed).then(|| "a test says so".into())
    }

    /// Makes the `n`-th refill from now fail (0: none).
    pub(crate) fn fail_refill(&self, n: u32) {
        // Relaxed: a test's switch.
        self.fail_after.store(n, Relaxed);
    }

    pub(crate) fn refill_fails(&self) -> bool {
        // Relaxed: a test's switch.
        self.fail_after.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)) == Ok(1)
    }
}

/// Whether a fault is on; a constant `false` outside tests.
macro_rules! fault {
    ($shared:expr, $f:ident) => {{
        #[cfg(any(test, feature = "hooks"))]
        let on = $shared.hooks.on(crate::hooks::Fault::$f);
        #[cfg(not(any(test, feature = "hooks")))]
        let on = false;
        on
    }};
}
pub(crate) use fault;
