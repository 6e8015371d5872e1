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
    /// What `fail_after` counts: every allocating entry, or refills alone.
    everything: AtomicBool,
    low_memory: AtomicBool,
    machine: std::sync::OnceLock<std::sync::Arc<dyn Machine>>,
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

    /// Makes the `n`-th call from now of any allocating entry fail (0: none): a cell (object, spine, leaf, index leaf), a
    /// thread's attachment, a chunk of a log, a place in immortal memory. From now on each cell is a call of its own.
    #[cfg(feature = "hooks")]
    pub(crate) fn fail_call(&self, n: u32) {
        // Relaxed, both: a test's switches.
        self.everything.store(true, Relaxed);
        self.fail_after.store(n, Relaxed);
    }

    /// Whether each cell is to come by the refill.
    pub(crate) fn every_cell(&self) -> bool {
        // Relaxed: a test's switch.
        self.everything.load(Relaxed)
    }

    /// Whether this call of an entry other than the refill fails.
    pub(crate) fn call_fails(&self) -> bool {
        self.every_cell() && self.refill_fails()
    }

    /// Calls until the one that fails (0: it has failed, or none is to).
    #[cfg(feature = "hooks")]
    pub(crate) fn calls_left(&self) -> u32 {
        // Relaxed: a test's switch.
        self.fail_after.load(Relaxed)
    }

    /// Puts a machine under the heap, once.
    #[cfg(feature = "hooks")]
    pub(crate) fn set_machine(&self, m: std::sync::Arc<dyn Machine>) {
        let _ = self.machine.set(m);
    }

    pub(crate) fn machine(&self) -> Option<&dyn Machine> {
        self.machine.get().map(|m| &**m)
    }
}

/// A simulated machine under a heap in virtual time: says what the collector thread's doings cost.
#[cfg(any(test, feature = "hooks"))]
pub(crate) trait Machine: std::fmt::Debug + Send + Sync {
    /// CPU time of the collector thread.
    fn cpu_ns(&self) -> u64;
    /// The collector requests a stop.
    fn stop_begins(&self);
    /// The collector, which waits for running mutators, looks at the clock.
    fn looked(&self, shared: &crate::shared::Shared);
    /// The stop has come about, or was given up.
    fn stop_ends(&self, came_about: bool);
    /// A step has been taken.
    fn stepped(&self, name: &'static str);
    /// The mutators were let run on.
    fn released(&self);
}

/// Tells the machine under a heap in virtual time, if there is one; nothing outside tests.
macro_rules! machine {
    ($shared:expr, $m:ident => $tell:expr) => {{
        #[cfg(any(test, feature = "hooks"))]
        if let Some($m) = $shared.hooks.machine() {
            $tell;
        }
    }};
}
pub(crate) use machine;

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

#[cfg(any(test, feature = "hooks"))]
thread_local! {
    /// Threads that a build on this thread will still be given, and then one that it is refused; 0: none is.
    static REFUSE_THREAD: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Refuses this thread the `n`-th thread of a heap from now (0: none); returns what was left of the last such wish.
#[cfg(feature = "hooks")]
pub(crate) fn refuse_thread(n: u32) -> u32 {
    REFUSE_THREAD.replace(n)
}

/// Asked before each of a heap's threads is started.
///
/// # Errors
/// The system's error that a test wants instead.
pub(crate) fn thread_refused() -> std::io::Result<()> {
    #[cfg(any(test, feature = "hooks"))]
    {
        let n = REFUSE_THREAD.get();
        REFUSE_THREAD.set(n.saturating_sub(1));
        if n == 1 {
            return Err(std::io::Error::from_raw_os_error(libc::EAGAIN));
        }
    }
    Ok(())
}
