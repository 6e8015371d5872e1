//! Why cycles begin, why collections are synchronous, and why the collector leaves its target.

use metronome_verbosegc::model;

/// Why a cycle began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CycleReason {
    /// Free memory had come down to what a cycle is predicted to need.
    Headroom,
    /// The configured share of the heap was in use.
    Threshold,
    /// `cycle-interval` had passed since the last one.
    Interval,
    /// The program asked for it.
    Explicit,
    /// Memory outside the heap had grown by `external-memory`.
    ExternalMemory,
    /// The system was low on memory.
    LowMemory,
    /// Few regions were free, though bytes were.
    Regions,
    /// An allocation had failed.
    OutOfMemory,
}

impl CycleReason {
    pub(crate) const fn model(self) -> model::CycleReason {
        match self {
            CycleReason::Headroom => model::CycleReason::Headroom,
            CycleReason::Threshold => model::CycleReason::Threshold,
            CycleReason::Interval => model::CycleReason::Interval,
            CycleReason::Explicit => model::CycleReason::Explicit,
            CycleReason::ExternalMemory => model::CycleReason::ExternalMemory,
            CycleReason::LowMemory => model::CycleReason::LowMemory,
            CycleReason::Regions => model::CycleReason::Regions,
            CycleReason::OutOfMemory => model::CycleReason::OutOfMemory,
        }
    }
}

/// Why a collection is synchronous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum SyncReason {
    /// A mutator waited for memory (`exhaustion = synchronous`).
    OutOfMemory = 0,
    /// The program asked for it.
    SystemGc = 1,
    /// The program asked for it, to give memory back.
    Trim = 2,
}

impl SyncReason {
    pub(crate) const fn from_u8(v: u8) -> SyncReason {
        match v {
            1 => SyncReason::SystemGc,
            2 => SyncReason::Trim,
            _ => SyncReason::OutOfMemory,
        }
    }

    pub(crate) const fn model(self) -> model::SyncReason {
        match self {
            SyncReason::OutOfMemory => model::SyncReason::OutOfMemory,
            SyncReason::SystemGc => model::SyncReason::Explicit,
            SyncReason::Trim => model::SyncReason::Trim,
        }
    }
}

/// Why the collector left its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DepartureReason {
    /// Memory was running out (`exhaustion = degrade`).
    HeadroomLow,
    /// A mutator was waiting for memory.
    OutOfMemory,
    /// The program asked for a synchronous collection.
    SystemGc,
}

impl DepartureReason {
    /// The reason in words, as in verbose logs.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            DepartureReason::HeadroomLow => "headroom low",
            DepartureReason::OutOfMemory => "out of memory",
            DepartureReason::SystemGc => "system garbage collect",
        }
    }
}

impl std::fmt::Display for CycleReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.model().fmt(f)
    }
}

impl std::fmt::Display for SyncReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.model().fmt(f)
    }
}

impl std::fmt::Display for DepartureReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}
