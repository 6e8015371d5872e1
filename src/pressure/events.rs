//! `memory.events` of version 2 as a source.
//!
//! Of the own group all events count, its descendants' included. A limit may also be set further out: of the ancestors
//! `memory.events.local` counts, because their `memory.events` also has what happened to other groups below them.

use std::fs::File;
use std::path::PathBuf;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::cgroup::MemoryEvents;
use super::files;
use super::limiter::Gate;
use super::options::Options;
use super::report::{Absence, Method, Source, SourceReport};

#[derive(Debug)]
pub(super) struct Counter {
    pub(super) file: File,
    path: PathBuf,
    seen: MemoryEvents,
}

#[derive(Debug)]
pub(super) struct Events {
    /// From the inside out; at most one per group.
    pub(super) counters: Vec<Counter>,
    pub(super) inotify: Option<Inotify>,
    pub(super) gate: Gate,
    /// Since the last report.
    added: MemoryEvents,
}

impl Events {
    pub(super) fn path(&self) -> PathBuf {
        self.counters.first().map(|counter| counter.path.clone()).unwrap_or_default()
    }

    /// Empties the queue of inotify. What it says does not matter: all counters are read.
    pub(super) fn drain(&self) {
        if let Some(inotify) = &self.inotify {
            // An error is an empty queue. What does not fit the buffer stays, and wakes the next poll.
            let _ = inotify.read_events();
        }
    }

    /// Reads all counters. Whether one is left.
    pub(super) fn update(&mut self) -> bool {
        let added = &mut self.added;
        self.counters.retain_mut(|counter| {
            // A removed group's file cannot be read.
            let Ok(text) = files::reread(&mut counter.file, files::VALUES) else { return false };
            // Nonsense (a file that is being written) is passed over: the next reading will do.
            if let Some(now) = MemoryEvents::parse(&text) {
                *added = added.plus(now.since(counter.seen));
                counter.seen = now;
            }
            true
        });
        if !self.added.is_zero() {
            self.gate.raise();
        }
        !self.counters.is_empty()
    }

    /// What came since the last call.
    pub(super) fn take(&mut self) -> MemoryEvents {
        std::mem::take(&mut self.added)
    }
}

pub(super) fn find(groups: &[PathBuf], options: &Options) -> (Option<Events>, SourceReport) {
    const SOURCE: Source = Source::GroupEvents;
    let Some(own) = groups.first() else {
        return (None, SourceReport::absent(SOURCE, None, Absence::NoGroup));
    };
    let mut counters: Vec<Counter> = Vec::new();
    let mut why = None;
    for group in groups {
        // The memory controller may begin above the own group: then the first group that has it is the own one to it.
        let path = group.join(if counters.is_empty() { "memory.events" } else { "memory.events.local" });
        let opened = files::open(&path, false).and_then(|mut file| {
            let text = files::reread(&mut file, files::VALUES)?;
            Ok((file, MemoryEvents::parse(&text)))
        });
        match opened {
            Ok((file, Some(seen))) => counters.push(Counter { file, path, seen }),
            // Of several reasons the innermost group's is told.
            Ok((_, None)) => {
                why = why.or(Some(SourceReport::absent(SOURCE, Some(path), Absence::NotUnderstood)));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => why = why.or(Some(SourceReport::refused(SOURCE, path, &error))),
        }
    }
    let missing = || SourceReport::absent(SOURCE, Some(own.join("memory.events")), Absence::NoFile);
    let Some(first) = counters.first() else { return (None, why.unwrap_or_else(missing)) };
    let inotify = watch(&counters);
    let report = SourceReport::watched(SOURCE, &first.path, Method::Changes { inotify: inotify.is_some() });
    let gate = Gate::new(options.gap);
    (Some(Events { counters, inotify, gate, added: MemoryEvents::default() }), report)
}

/// All files or none: the number of inotify instances and watches of a user is limited.
fn watch(counters: &[Counter]) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
    for counter in counters {
        inotify.add_watch(&counter.path, AddWatchFlags::IN_MODIFY).ok()?;
    }
    Some(inotify)
}
