//! Typed events, shared by both generations.
//!
//! Durations are nanoseconds (`_ns`; the logs print microseconds), sizes bytes (`_bytes`). A value that the log
//! does not state is `None`: old builds, fragments and torn files leave out much.

mod header;
mod own;
mod reason;

pub use header::{Attribute, Initialized, Section};
pub(crate) use own::IMMORTAL;
pub use own::{
    CycleFacts, Departure, LostRecords, Mmu, Note, OutputLost, QuantaDetail, References, Resize,
    ResizeDirection, StopCancelled, Summary, SyncDetail, Thread, ThreadKind,
};
pub use reason::{CycleReason, SyncReason};

use crate::time::LogTime;

/// The two generations of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// `<gc type="...">`, 2006 to 2010 and `verboseFormat=deprecated`.
    V2007,
    /// `<gc-op type="...">`, J9 2.6 and OpenJ9.
    OpenJ9,
}

/// One event with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// Line of its first tag, from 1.
    pub line: u64,
    /// Byte column of its first tag, from 1.
    pub column: u64,
    /// Number of the event; in the 2007 generation counted per type, else global.
    pub id: Option<u64>,
    /// Number of the cycle start it belongs to, 0 for none (OpenJ9 only).
    pub context_id: Option<u64>,
    /// Printed time: of the start for a synchronous collection of 2007, else of the end.
    pub timestamp: Option<LogTime>,
    /// The element was not seen whole: its start or its end is missing, or a tag of it was torn.
    pub partial: bool,
    /// The writer or the reader found that the clock went wrong here: times are not to be trusted.
    pub clock_error: bool,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Configuration, once per run.
    Initialized(Box<Initialized>),
    /// Use of memory passed the trigger.
    TriggerStart {
        /// Since the previous trigger end (2007 only).
        interval_ns: Option<u64>,
    },
    /// A cycle ended with use below the trigger.
    TriggerEnd {
        /// Since the trigger start (2007 only).
        interval_ns: Option<u64>,
    },
    /// A cycle begins.
    CycleStart(CycleEdge),
    /// A cycle has ended.
    CycleEnd(CycleEdge),
    /// The heap was made walkable after a cycle.
    HeapFixup {
        /// Time taken.
        duration_ns: Option<u64>,
        /// Why.
        reason: Option<String>,
    },
    /// Quanta in sum.
    Heartbeat(Box<Heartbeat>),
    /// A stop-the-world collection.
    SyncGc(Box<SyncGc>),
    /// An allocation failed for good.
    OutOfMemory(OutOfMemory),
    /// More time slices in a window than the tracker holds.
    TrackerOverflow(TrackerOverflow),
    /// The clock went back.
    NonMonotonicTime(NonMonotonicTime),
    /// A warning in words.
    Warning {
        /// The words.
        details: String,
    },
    /// Facts of a finished cycle (own element).
    Cycle(CycleFacts),
    /// A stop was cancelled (own element).
    StopCancelled(StopCancelled),
    /// Records were lost (own element).
    LostRecords(LostRecords),
    /// The utilization target was left (own element).
    Departure(Departure),
    /// The heap grew, shrank, or gave memory back (own element).
    Resize(Resize),
    /// What a thread of the program asked for and had (own element).
    Thread(Thread),
    /// Minimum mutator utilization (own element).
    Mmu(Mmu),
    /// Totals (own element).
    Summary(Summary),
    /// A note (own element).
    Note(Note),
    /// Output was lost (own element).
    OutputLost(OutputLost),
}

/// Start or end of a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleEdge {
    /// `global`; absent in the 2007 generation.
    pub kind: Option<String>,
    /// At a start: since the previous cycle's end (2007) or start (OpenJ9). At an end: since its start (2007 only).
    pub interval_ns: Option<u64>,
    /// Free heap; in OpenJ9 logs only this project's own attribute has it.
    pub heap_free_bytes: Option<u64>,
    /// Why it began; at a start only (own attribute).
    pub reason: Option<CycleReason>,
}

/// The phase that quanta worked in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantumPhase {
    /// Before marking.
    Precollect,
    /// Marking.
    Mark,
    /// Class unloading.
    ClassUnload,
    /// Sweeping.
    Sweep,
    /// After sweeping.
    Postcollect,
    /// Not told.
    #[default]
    Unknown,
}

impl QuantumPhase {
    /// Every phase.
    pub const ALL: [Self; 6] =
        [Self::Precollect, Self::Mark, Self::ClassUnload, Self::Sweep, Self::Postcollect, Self::Unknown];

    /// The word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Precollect => "precollect",
            Self::Mark => "mark",
            Self::ClassUnload => "classunload",
            Self::Sweep => "sweep",
            Self::Postcollect => "postcollect",
            Self::Unknown => "unknown",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == text)
    }
}

/// Least, mean and most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationStats {
    /// Least.
    pub min_ns: u64,
    /// Mean, cut to a microsecond by the writer.
    pub mean_ns: u64,
    /// Most.
    pub max_ns: u64,
}

/// Least, mean and most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteStats {
    /// Least.
    pub min_bytes: u64,
    /// Mean.
    pub mean_bytes: u64,
    /// Most.
    pub max_bytes: u64,
}

/// When the longest quantum of a heartbeat ended. The attribute changed its meaning in 2019 without a mark;
/// the reader tells the two apart by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongestAt {
    /// Nanoseconds after the heartbeat's first quantum.
    InHeartbeat(u64),
    /// Nanoseconds after the run's start (writers before March 2019).
    InRun(u64),
    /// Not to be told without the neighbouring events.
    Unclear(u64),
}

/// Quanta since the last heartbeat, in sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Since the last heartbeat, synchronous collection or trigger, as written (2007 only).
    pub interval_ns: Option<u64>,
    /// The same taken from the printed times of this and the preceding event, where nothing was written.
    pub derived_interval_ns: Option<u64>,
    /// Number of quanta.
    pub quantum_count: Option<u64>,
    /// Their phase (OpenJ9 only).
    pub phase: Option<QuantumPhase>,
    /// Lengths of the quanta.
    pub quantum: Option<DurationStats>,
    /// When the longest one was.
    pub longest_at: Option<LongestAt>,
    /// Time to stop the mutators.
    pub exclusive_access: Option<DurationStats>,
    /// Free heap.
    pub heap_free: Option<ByteStats>,
    /// Free immortal memory (2007, and this project's own element in the OpenJ9 form).
    pub immortal_free: Option<ByteStats>,
    /// Cleared references, unloaded classes and the like.
    pub work: Work,
    /// Sweeping that allocation had to do itself.
    pub allocator_sweep: Option<AllocatorSweep>,
    /// Highest priority of the collector's thread.
    pub priority_max: Option<u64>,
    /// Lowest priority of the collector's thread.
    pub priority_min: Option<u64>,
    /// This project's own detail.
    pub detail: Option<Box<QuantaDetail>>,
}

impl Heartbeat {
    /// Collector time: count times mean, so off by up to a microsecond for each quantum.
    pub fn collector_ns(&self) -> Option<u64> {
        self.quantum_count?.checked_mul(self.quantum?.mean_ns)
    }

    /// Soft references cleared, as far as the log can be believed: OpenJ9's own writer prints the weak count in
    /// their place, this project's does not.
    pub fn soft_cleared(&self) -> Option<u64> {
        // Only the OpenJ9 form names a phase, and only this project's heartbeats have the detail.
        if self.phase.is_some() && self.detail.is_none() {
            return None;
        }
        self.work.soft?.cleared
    }

    /// Share of the interval that the collector had, in parts per million.
    pub fn collector_share_ppm(&self) -> Option<u32> {
        let interval = u128::from(self.interval_ns.or(self.derived_interval_ns)?);
        let share = (u128::from(self.collector_ns()?) * 1_000_000).checked_div(interval)?;
        u32::try_from(share).ok()
    }
}

/// Work that heartbeats and synchronous collections both report; zero is usually not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Unloaded classes.
    pub class_unload: Option<ClassUnload>,
    /// Soft references.
    pub soft: Option<SoftReferences>,
    /// Weak references cleared.
    pub weak_cleared: Option<u64>,
    /// Phantom references cleared.
    pub phantom_cleared: Option<u64>,
    /// Objects handed to finalization.
    pub finalizer_enqueued: Option<u64>,
    /// The mark queue overflowed.
    pub overflow: Option<QueueOverflow>,
    /// This project's own counts.
    pub references: Option<References>,
}

/// Unloaded classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassUnload {
    /// Class loaders.
    pub loaders: Option<u64>,
    /// Classes.
    pub classes: Option<u64>,
    /// Anonymous classes among them (newer builds only).
    pub anonymous: Option<u64>,
}

/// Soft references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftReferences {
    /// Cleared. In a *heartbeat* OpenJ9's own writer prints the weak count here: use
    /// [`Heartbeat::soft_cleared`].
    pub cleared: Option<u64>,
    /// Age in cycles at which they are cleared now.
    pub threshold: Option<u64>,
    /// The highest such age, with all memory free.
    pub threshold_max: Option<u64>,
}

/// Overflow of the mark queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOverflow {
    /// Packets that overflowed.
    pub packets: Option<u64>,
    /// Objects marked as overflowed directly.
    pub objects: Option<u64>,
}

/// Sweeping on the allocation path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorSweep {
    /// Longest.
    pub max_ns: Option<u64>,
    /// Regions swept in sum.
    pub total_regions: Option<u64>,
    /// Most regions swept at once.
    pub max_regions: Option<u64>,
}

/// A stop-the-world collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncGc {
    /// Why.
    pub reason: Option<SyncReason>,
    /// The request that failed.
    pub requested_bytes: Option<u64>,
    /// Printed or computed start.
    pub start: Option<LogTime>,
    /// Printed or computed end.
    pub end: Option<LogTime>,
    /// How long the mutators stood still.
    pub duration_ns: Option<u64>,
    /// From the previous synchronous collection's start to this one's (2007 only).
    pub interval_ns: Option<u64>,
    /// Time to stop the mutators (OpenJ9 only).
    pub exclusive_access_ns: Option<u64>,
    /// Free heap before.
    pub free_before_bytes: Option<u64>,
    /// Free heap after.
    pub free_after_bytes: Option<u64>,
    /// Free immortal memory before (2007, and this project's own element in the OpenJ9 form).
    pub immortal_before_bytes: Option<u64>,
    /// Free immortal memory after (likewise).
    pub immortal_after_bytes: Option<u64>,
    /// Priority of the collector's thread.
    pub priority: Option<u64>,
    /// Cleared references, unloaded classes and the like.
    pub work: Work,
    /// This project's own detail.
    pub detail: Option<SyncDetail>,
}

/// An allocation failed for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Name of the memory space.
    pub space: Option<String>,
    /// Its address, for telling several apart.
    pub address: Option<u64>,
}

/// More time slices in a window than the tracker holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackerOverflow {
    /// Address of the tracker, for telling several apart.
    pub tracker: Option<u64>,
    /// Address of its array.
    pub array: Option<u64>,
    /// Position in the array.
    pub cursor: Option<u64>,
}

/// The clock went back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NonMonotonicTime {
    /// Which clock.
    pub timer: Option<String>,
    /// The reading before (own attribute).
    pub from_ns: Option<u64>,
    /// The reading after (own attribute).
    pub to_ns: Option<u64>,
}
