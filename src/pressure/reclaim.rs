//! `memory.pressure_level` of version 1 as a source: the kernel writes into an eventfd.
//!
//! The kernel tells the group that reclaim was aimed at, and its ancestors. So the own group is registered, and each
//! visible ancestor for what is aimed at itself (mode `local`), up to the root, which hears of the whole machine.

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::files;
use super::limiter::Gate;
use super::options::Options;
use super::report::{Absence, Method, Severity, Source, SourceReport};

#[derive(Debug)]
pub(super) struct Reclaim {
    /// All groups share the two.
    pub(super) medium: EventFd,
    pub(super) critical: EventFd,
    pub(super) gate: Gate,
    /// `memory.pressure_level` of the innermost group.
    pub(super) path: PathBuf,
    /// Worst since the last report.
    severity: Option<Severity>,
}

impl Reclaim {
    /// Takes what the kernel wrote. Whether the group is still there: its removal is signalled, too.
    pub(super) fn update(&mut self) -> bool {
        if !self.path.exists() {
            return false;
        }
        // Critical pressure is signalled to both.
        for (fd, severity) in [(&self.medium, Severity::Medium), (&self.critical, Severity::Critical)] {
            if fd.read().is_ok() {
                self.severity = self.severity.max(Some(severity));
                self.gate.raise();
            }
        }
        true
    }

    /// The worst since the last call.
    pub(super) fn take(&mut self) -> Option<Severity> {
        self.severity.take()
    }
}

pub(super) fn find(groups: &[PathBuf], options: &Options) -> (Option<Reclaim>, SourceReport) {
    const SOURCE: Source = Source::GroupReclaim;
    let Some(own) = groups.first() else {
        return (None, SourceReport::absent(SOURCE, None, Absence::NoGroup));
    };
    let event_fd =
        || EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map_err(io::Error::from);
    let (medium, critical) = match event_fd().and_then(|one| Ok((one, event_fd()?))) {
        Ok(two) => two,
        Err(error) => {
            return (None, SourceReport::refused(SOURCE, own.join("memory.pressure_level"), &error));
        }
    };
    let mut innermost: Option<PathBuf> = None;
    let mut why = None;
    for group in groups {
        let mode = if innermost.is_none() { "" } else { ",local" };
        let registered = register(group, &medium, &format!("medium{mode}"))
            .and_then(|()| register(group, &critical, &format!("critical{mode}")));
        let path = group.join("memory.pressure_level");
        match registered {
            Ok(()) => innermost = innermost.or(Some(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Of several refusals the innermost group's is told.
            Err(error) => why = why.or(Some(SourceReport::refused(SOURCE, path, &error))),
        }
    }
    let missing = || SourceReport::absent(SOURCE, Some(own.join("memory.pressure_level")), Absence::NoFile);
    let Some(path) = innermost else { return (None, why.unwrap_or_else(missing)) };
    let report = SourceReport::watched(SOURCE, &path, Method::EventFd);
    (Some(Reclaim { medium, critical, gate: Gate::new(options.gap), path, severity: None }), report)
}

/// The registration lives until the eventfd is closed.
fn register(group: &Path, event_fd: &EventFd, level: &str) -> io::Result<()> {
    let pressure = files::open(&group.join("memory.pressure_level"), false)?;
    let mut control = files::open_to_write(&group.join("cgroup.event_control"))?;
    files::command(&mut control, &format!("{} {} {level}", event_fd.as_raw_fd(), pressure.as_raw_fd()))
}
