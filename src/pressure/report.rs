//! What a watcher tells: its sources, and low memory, in words and numbers.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::cgroup::MemoryEvents;
use super::psi::{Pressure, Trigger};

/// Who may say that memory is low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// Pressure stall information of the process's control group (version 2).
    GroupStall,
    /// Pressure stall information of the system; used where the group has none.
    SystemStall,
    /// `memory.events` of the process's control group and its ancestors (version 2).
    GroupEvents,
    /// `memory.pressure_level` of the process's control group and its ancestors (version 1).
    GroupReclaim,
    /// Use of the control groups against their limits (both versions).
    GroupLimit,
    /// `MemAvailable` of the system.
    Available,
}

impl Source {
    /// All sources, in the order of [`Watcher::sources`](super::Watcher::sources).
    pub const ALL: [Source; 6] = [
        Source::GroupStall,
        Source::SystemStall,
        Source::GroupEvents,
        Source::GroupReclaim,
        Source::GroupLimit,
        Source::Available,
    ];

    /// A short name without blanks.
    pub fn name(self) -> &'static str {
        match self {
            Source::GroupStall => "group-stall",
            Source::SystemStall => "system-stall",
            Source::GroupEvents => "group-events",
            Source::GroupReclaim => "group-reclaim",
            Source::GroupLimit => "group-limit",
            Source::Available => "available",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a source is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The kernel took a trigger and raises `POLLPRI`.
    Trigger {
        /// What it took.
        trigger: Trigger,
        /// Whether it is the one for those without privilege, because the one asked for was refused.
        unprivileged: bool,
    },
    /// A change of the file raises `POLLPRI`, and an inotify event unless that was refused.
    Changes {
        /// Whether inotify watches, too.
        inotify: bool,
    },
    /// The kernel writes into an eventfd.
    EventFd,
    /// The file is read now and then.
    Sampled {
        /// The period.
        every: Duration,
    },
}

/// Why a source is not heard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absence {
    /// The process is in no control group of this kind, or none is mounted where it can be seen.
    NoGroup,
    /// There is no such file: the kernel, its boot options or the container leave it out.
    NoFile,
    /// The kernel refused to open, read, write or watch it.
    Refused {
        /// The kernel's reason.
        reason: String,
    },
    /// The file holds something else than expected.
    NotUnderstood,
    /// Another source tells the same better.
    Redundant {
        /// That source.
        by: Source,
    },
    /// An option turned it off.
    SwitchedOff,
    /// It was heard, until the kernel took it away (the group was removed).
    Lost,
}

/// Whether a source is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is, in this way.
    Watched(Method),
    /// It is not, for this reason. Normal for some sources on each machine.
    Absent(Absence),
}

/// What became of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceReport {
    /// The source.
    pub source: Source,
    /// Its file: of several groups' files the innermost; or the one that is missing. `None` if no place is known.
    pub file: Option<PathBuf>,
    /// Whether it is heard.
    pub state: State,
}

impl SourceReport {
    /// Whether the source is heard.
    pub fn is_watched(&self) -> bool {
        matches!(self.state, State::Watched(_))
    }

    pub(super) fn watched(source: Source, file: impl Into<PathBuf>, method: Method) -> SourceReport {
        SourceReport { source, file: Some(file.into()), state: State::Watched(method) }
    }

    pub(super) fn absent(source: Source, file: Option<PathBuf>, why: Absence) -> SourceReport {
        SourceReport { source, file, state: State::Absent(why) }
    }

    /// For a file that could not be used.
    pub(super) fn refused(source: Source, file: PathBuf, error: &std::io::Error) -> SourceReport {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => Absence::NoFile,
            _ => Absence::Refused { reason: error.to_string() },
        };
        SourceReport::absent(source, Some(file), why)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Trigger { trigger: Trigger { stall, window }, unprivileged } => {
                let why = if *unprivileged { ", the window that needs no privilege" } else { "" };
                write!(f, "trigger at {stall:?} in {window:?}{why}")
            }
            Method::Changes { inotify: true } => f.write_str("inotify and POLLPRI"),
            Method::Changes { inotify: false } => f.write_str("POLLPRI (inotify was refused)"),
            Method::EventFd => f.write_str("eventfd"),
            Method::Sampled { every } => write!(f, "sampled every {every:?}"),
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::NoGroup => f.write_str("no control group of this version in sight"),
            Absence::NoFile => f.write_str("no such file"),
            Absence::Refused { reason } => write!(f, "refused: {reason}"),
            Absence::NotUnderstood => f.write_str("not understood"),
            Absence::Redundant { by } => write!(f, "not needed beside {by}"),
            Absence::SwitchedOff => f.write_str("switched off by option"),
            Absence::Lost => f.write_str("lost: the kernel took it away"),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Watched(method) => method.fmt(f),
            State::Absent(why) => why.fmt(f),
        }
    }
}

impl fmt::Display for SourceReport {
    /// One line, such as `system-stall: /proc/pressure/memory, trigger at 150ms in 1s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.source)?;
        if let Some(file) = &self.file {
            // Quoted only if it must be: the line stays one line whatever the file is called.
            let name = file.to_string_lossy();
            match name.chars().any(char::is_control) {
                true => write!(f, "{name:?}, ")?,
                false => write!(f, "{name}, ")?,
            }
        }
        write!(f, "{}", self.state)
    }
}

/// How hard the kernel finds it to reclaim (version 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It swaps and drops caches in use.
    Medium,
    /// It is about to kill.
    Critical,
}

/// What a source said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Threads stood still for at least the trigger's time.
    Stalled {
        /// What was asked of the kernel.
        trigger: Trigger,
        /// The figures at the time of the report, if they could be read.
        pressure: Option<Pressure>,
    },
    /// Groups met their limits.
    Events {
        /// How often since the last report, or since the watcher was made; of all groups watched.
        added: MemoryEvents,
    },
    /// Reclaim had little success.
    Reclaim {
        /// The worst since the last report.
        severity: Severity,
    },
    /// A group is near its limit.
    NearLimit {
        /// The group that has the smallest share left.
        group: GroupUse,
    },
    /// Little is left of the machine's memory.
    Available {
        /// Bytes that can be had without swapping.
        available: u64,
        /// Bytes of the machine.
        total: u64,
    },
}

/// A control group's limit and use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupUse {
    /// The lowest of its limits, in bytes.
    pub limit: u64,
    /// What it uses, in bytes, without file pages that have not been used of late.
    pub used: u64,
}

impl GroupUse {
    /// Bytes left below the limit.
    pub fn free(self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// A report of low memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowMemory {
    /// Who says so.
    pub source: Source,
    /// The file that says so; for a limit the folder of the group.
    pub file: PathBuf,
    /// What was said.
    pub cause: Cause,
    /// `MemAvailable` in bytes at the time of the report, if it can be read.
    pub available: Option<u64>,
    /// The control group with the smallest share left at the time of the report, if any has a limit.
    pub group: Option<GroupUse>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Stalled { trigger: Trigger { stall, window }, pressure } => {
                write!(f, "threads waited for memory at least {stall:?} within {window:?}")?;
                let Some(Pressure { some, .. }) = pressure else { return Ok(()) };
                let [ten, ..] = some.average;
                write!(f, ", {}.{:02} % of the last 10 s, ", ten / 100, ten % 100)?;
                write!(f, "{:?} in all", Duration::from_micros(some.total_us))
            }
            Cause::Events { added: MemoryEvents { low, high, max, oom, oom_kill } } => write!(
                f,
                "limits were met: {low} times low, {high} high, {max} max, {oom} oom, {oom_kill} processes killed"
            ),
            Cause::Reclaim { severity: Severity::Medium } => f.write_str("reclaim at medium pressure"),
            Cause::Reclaim { severity: Severity::Critical } => f.write_str("reclaim at critical pressure"),
            Cause::NearLimit { group } => write!(f, "near the limit: {group}"),
            Cause::Available { available, total } => {
                write!(f, "{} of {} available", Size(*available), Size(*total))
            }
        }
    }
}

impl fmt::Display for GroupUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} used of {} by control group", Size(self.used), Size(self.limit))
    }
}

impl fmt::Display for LowMemory {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.cause, self.source)?;
        match (self.cause, self.available) {
            (Cause::Available { .. }, _) | (_, None) => {}
            (_, Some(available)) => write!(f, "; {} available", Size(available))?,
        }
        match (self.cause, self.group) {
            (Cause::NearLimit { .. }, _) | (_, None) => Ok(()),
            (_, Some(group)) => write!(f, "; {group}"),
        }
    }
}

/// Bytes for people: `1.5 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if self.0 >= 1 << shift {
                let tenths = (u128::from(self.0) * 10) >> shift;
                return write!(f, "{}.{} {unit}", tenths / 10, tenths % 10);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
