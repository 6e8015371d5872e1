//! Why a cycle began or a synchronous collection ran.

use super::Generation;
use std::fmt;

/// Why a synchronous collection ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SyncReason {
    /// An allocation failed.
    OutOfMemory,
    /// The program asked (`system GC`, in old logs `system garbage collect`).
    Explicit,
    /// Shutdown: not part of pause statistics.
    Shutdown,
    /// Time.
    TimeTriggered,
    /// Work.
    WorkTriggered,
    /// The operating system ran short of memory (own word).
    LowMemory,
    /// The program asked for memory to be given back to the operating system (own word).
    Trim,
    /// The writer did not know.
    #[default]
    Unknown,
    /// Other words.
    Other(String),
}

impl SyncReason {
    /// Every reason with words of its own.
    const KNOWN: [Self; 8] = [
        Self::OutOfMemory,
        Self::Explicit,
        Self::Shutdown,
        Self::TimeTriggered,
        Self::WorkTriggered,
        Self::LowMemory,
        Self::Trim,
        Self::Unknown,
    ];

    /// The words in the OpenJ9 form, and for people.
    pub fn text(&self) -> &str {
        self.text_in(Generation::OpenJ9)
    }

    /// The words in this generation's form; the reader takes the words of both in both.
    pub fn text_in(&self, generation: Generation) -> &str {
        match (self, generation) {
            (Self::OutOfMemory, _) => "out of memory",
            (Self::Explicit, Generation::V2007) => "system garbage collect",
            (Self::Explicit, Generation::OpenJ9) => "system GC",
            (Self::Shutdown, _) => "VM shut down",
            (Self::TimeTriggered, _) => "time triggered",
            (Self::WorkTriggered, _) => "work triggered",
            (Self::LowMemory, _) => "low memory",
            (Self::Trim, _) => "trim",
            (Self::Unknown, _) => "unknown",
            (Self::Other(text), _) => text,
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        let named = |r: &Self| [Generation::V2007, Generation::OpenJ9].iter().any(|g| r.text_in(*g) == text);
        Self::KNOWN.into_iter().find(named).unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

impl fmt::Display for SyncReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Why a cycle began (own attribute `metronome-reason`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CycleReason {
    /// The free memory would not have lasted for a later cycle, by the measured rates.
    Headroom,
    /// Use of memory passed a fixed threshold.
    Threshold,
    /// The longest time between two cycles was over.
    Interval,
    /// The program asked.
    Explicit,
    /// Memory outside the heap, as the program declared it.
    ExternalMemory,
    /// The operating system ran short of memory.
    LowMemory,
    /// Free regions ran short, although bytes were free.
    Regions,
    /// An allocation failed.
    OutOfMemory,
    /// Other words.
    Other(String),
}

impl CycleReason {
    /// Every reason with words of its own.
    const KNOWN: [Self; 8] = [
        Self::Headroom,
        Self::Threshold,
        Self::Interval,
        Self::Explicit,
        Self::ExternalMemory,
        Self::LowMemory,
        Self::Regions,
        Self::OutOfMemory,
    ];

    /// The words in the log.
    pub fn text(&self) -> &str {
        match self {
            Self::Headroom => "headroom",
            Self::Threshold => "threshold",
            Self::Interval => "interval",
            Self::Explicit => "explicit",
            Self::ExternalMemory => "external memory",
            Self::LowMemory => "low memory",
            Self::Regions => "regions",
            Self::OutOfMemory => "out of memory",
            Self::Other(text) => text,
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|r| r.text() == text);
        known.unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

impl fmt::Display for CycleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
