//! The watcher: all sources that work, and the wait for them.
//!
//! # Who may touch what
//!
//! A watcher is owned by one thread. The eventfd of the wakers is shared; the kernel orders its reads and writes.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::cgroup::{self, Hierarchy};
use super::events::{self, Events};
use super::files::{self, Root};
use super::limit::Figures;
use super::limiter::{Gate, Level};
use super::options::{Options, WatchError};
use super::reclaim::{self, Reclaim};
use super::report::{Absence, Cause, GroupUse, LowMemory, Method, Source, SourceReport, State};
use super::stall::{self, Stalls};

/// Waits for low memory, by every source that works here.
///
/// For one ordinary thread; see the [module](super).
#[derive(Debug)]
pub struct Watcher {
    waker: Waker,
    start: Instant,
    reports: Vec<SourceReport>,
    stalls: Option<Stalls>,
    events: Option<Events>,
    reclaim: Option<Reclaim>,
    figures: Figures,
    limit: Option<Sampled<(GroupUse, PathBuf)>>,
    available: Option<Sampled<(u64, u64)>>,
    every: Duration,
    /// When the levels are looked at next.
    next_sample: Duration,
}

/// A level that is looked at now and then.
#[derive(Debug)]
struct Sampled<T> {
    level: Level,
    gate: Gate,
    /// The figures last seen.
    last: Option<T>,
}

impl<T: Clone> Sampled<T> {
    fn new(percent: u32, options: &Options) -> Sampled<T> {
        Sampled { level: Level::new(percent, options.repeat), gate: Gate::new(options.gap), last: None }
    }

    fn observe(&mut self, now: Duration, (free, whole): (u64, u64), figures: T) {
        self.last = Some(figures);
        if self.level.observe(now, free, whole) {
            self.gate.raise();
        }
        if !self.level.is_low() {
            self.gate.lower();
        }
    }

    /// The figures to report now, if any.
    fn take(&mut self, now: Duration) -> Option<T> {
        if self.gate.take(now) { self.last.clone() } else { None }
    }
}

/// Ends a watcher's [`wait`](Watcher::wait) from any thread. Clones wake the same watcher.
#[derive(Debug, Clone)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// Ends the wait that is going on, or else the next one. Wakes that come before the watcher looks count as one. With
    /// the watcher gone it does nothing.
    ///
    /// One system call that never waits: no lock, no allocation. It may be called in a signal handler (only dropping the
    /// last `Waker` may not), and leaves `errno` alone.
    pub fn wake(&self) {
        // It fails only where 2^64 - 2 wakes are already waiting to be seen: then one is, as it should be.
        let _ = self.0.write(1);
    }

    /// Whether somebody woke since the last call.
    fn take(&self) -> bool {
        self.0.read().is_ok()
    }
}

/// Why a [`wait`](Watcher::wait) ended. Neither: its time was over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wake {
    /// A [`Waker`] was used.
    pub woken: bool,
    /// Memory is low. Others may be waiting: the next wait ends at once then.
    pub low: Option<LowMemory>,
}

/// Whose a polled file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Waker,
    Stalls,
    Events,
    Reclaim,
}

impl Watcher {
    /// Looks for all sources and registers with those that work. What became of each is in [`sources`](Watcher::sources);
    /// a watcher without any still waits for its wakers.
    ///
    /// Reads the process's control groups and mounts, opens a few files, and at most two descriptors per group besides.
    ///
    /// # Errors
    ///
    /// [`WatchError::OutOfRange`] for an option, [`WatchError::NoWaker`] if the process may open no more files.
    pub fn new(options: Options) -> Result<Watcher, WatchError> {
        options.validate()?;
        let waker = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|errno| WatchError::NoWaker { reason: errno.to_string() })?;
        let root = Root(options.root.clone());
        let membership = files::read(&root.at("/proc/self/cgroup"), files::VALUES).unwrap_or_default();
        let mounts = files::read(&root.at("/proc/self/mountinfo"), files::MOUNTS).unwrap_or_default();
        let groups = |hierarchy| -> Vec<PathBuf> {
            cgroup::directories(&membership, &mounts, hierarchy).into_iter().map(|dir| root.at(dir)).collect()
        };
        let (v2, v1) = (groups(Hierarchy::Unified), groups(Hierarchy::Controller("memory")));

        let (stalls, [group_stall, system_stall]) = stall::find(&root, &v2, &options);
        let (events, group_events) = events::find(&v2, &options);
        let (reclaim, group_reclaim) = reclaim::find(&v1, &options);
        let figures = Figures::new(&root, &v2, &v1);
        let group_limit = limit_report(&figures, v2.first().or(v1.first()), &options);
        let available = available_report(&figures, &options);
        Ok(Watcher {
            waker: Waker(Arc::new(waker)),
            start: Instant::now(),
            stalls,
            events,
            reclaim,
            limit: group_limit.is_watched().then(|| Sampled::new(options.group_percent, &options)),
            available: available.is_watched().then(|| Sampled::new(options.available_percent, &options)),
            figures,
            every: options.sample_every,
            next_sample: Duration::ZERO,
            reports: vec![group_stall, system_stall, group_events, group_reclaim, group_limit, available],
        })
    }

    /// What became of each source, in the order of [`Source::ALL`]. One that is lost later is reported so.
    pub fn sources(&self) -> &[SourceReport] {
        &self.reports
    }

    /// A handle that ends this watcher's waits.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits for low memory, a [`Waker`], or the end of `timeout` (`None`: for ever), whichever comes first.
    ///
    /// A level that is low already is reported by the first wait. Between waits nothing is lost but repetitions. Wakes
    /// from sleep once per [`Options::sample_every`] to read a handful of small files. A signal does not end the wait.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Wake {
        let deadline = timeout.and_then(|timeout| self.start.elapsed().checked_add(timeout));
        let mut patience = Some(Duration::ZERO);
        loop {
            self.poll(patience);
            let now = self.start.elapsed();
            let wake = Wake { woken: self.waker.take(), low: self.examine(now) };
            if wake.woken || wake.low.is_some() || deadline.is_some_and(|deadline| deadline <= now) {
                return wake;
            }
            let until = [deadline, self.due()].into_iter().flatten().min();
            patience = until.map(|until| until.saturating_sub(now));
        }
    }

    /// Looks at the levels if it is time to, and returns what may be reported now.
    fn examine(&mut self, now: Duration) -> Option<LowMemory> {
        if now >= self.next_sample {
            self.next_sample = now.saturating_add(self.every);
            self.sample(now);
        }
        self.take(now)
    }

    /// When something is to be done although no file wakes: the next sample, or the end of a gap.
    fn due(&self) -> Option<Duration> {
        let sampled = self.limit.is_some() || self.available.is_some();
        let gates = [
            self.stalls.as_ref().map(|s| &s.gate),
            self.events.as_ref().map(|s| &s.gate),
            self.reclaim.as_ref().map(|s| &s.gate),
            self.limit.as_ref().map(|s| &s.gate),
            self.available.as_ref().map(|s| &s.gate),
        ];
        let ends = gates.into_iter().flatten().filter_map(Gate::due);
        ends.chain(sampled.then_some(self.next_sample)).min()
    }

    /// Reads the levels. What is available counts as unchanged while it cannot be read; groups without limit are ignored.
    fn sample(&mut self, now: Duration) {
        if let Some(limit) = &mut self.limit {
            // Without any limit there is always enough left.
            let (group, path) =
                self.figures.tightest().unwrap_or((GroupUse { limit: 1, used: 0 }, PathBuf::new()));
            limit.observe(now, (group.free(), group.limit), (group, path));
        }
        if let Some(available) = &mut self.available
            && let Ok(Some(figures)) = self.figures.available()
        {
            available.observe(now, figures, figures);
        }
    }

    fn take(&mut self, now: Duration) -> Option<LowMemory> {
        let (source, file, cause) = self.take_cause(now)?;
        let available = match cause {
            Cause::Available { available, .. } => Some(available),
            _ => self.figures.available().ok().flatten().map(|(available, _)| available),
        };
        let group = match cause {
            Cause::NearLimit { group } => Some(group),
            _ => self.figures.tightest().map(|(group, _)| group),
        };
        Some(LowMemory { source, file, cause, available, group })
    }

    /// The first source that has something to report and may.
    fn take_cause(&mut self, now: Duration) -> Option<(Source, PathBuf, Cause)> {
        if let Some(stalls) = &mut self.stalls
            && stalls.gate.take(now)
        {
            return Some((stalls.source, stalls.path.clone(), stalls.cause()));
        }
        if let Some(events) = &mut self.events
            && events.gate.take(now)
        {
            return Some((Source::GroupEvents, events.path(), Cause::Events { added: events.take() }));
        }
        if let Some(reclaim) = &mut self.reclaim
            && reclaim.gate.take(now)
            && let Some(severity) = reclaim.take()
        {
            return Some((Source::GroupReclaim, reclaim.path.clone(), Cause::Reclaim { severity }));
        }
        if let Some((group, path)) = self.limit.as_mut().and_then(|limit| limit.take(now)) {
            return Some((Source::GroupLimit, path, Cause::NearLimit { group }));
        }
        let (available, total) = self.available.as_mut()?.take(now)?;
        Some((Source::Available, self.figures.meminfo.clone(), Cause::Available { available, total }))
    }

    /// Waits for the files for at most `patience` (`None`: for ever), and asks the sources that woke.
    fn poll(&mut self, patience: Option<Duration>) {
        let found = self.poll_files(patience);
        let of = |part| found.iter().filter(move |(p, _)| *p == part).map(|&(_, flags)| flags);
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        if let Some(stalls) = &mut self.stalls {
            if of(Part::Stalls).any(|flags| flags.intersects(gone)) {
                // Polling on would return at once, for ever.
                let source = stalls.source;
                self.stalls = None;
                self.lose(source);
            } else if of(Part::Stalls).any(|flags| flags.contains(PollFlags::POLLPRI)) {
                stalls.gate.raise();
            }
        }
        if let Some(events) = &mut self.events
            && of(Part::Events).next().is_some()
        {
            events.drain();
            if !events.update() {
                self.events = None;
                self.lose(Source::GroupEvents);
            }
        }
        if let Some(reclaim) = &mut self.reclaim
            && of(Part::Reclaim).next().is_some()
            && !reclaim.update()
        {
            self.reclaim = None;
            self.lose(Source::GroupReclaim);
        }
    }

    fn poll_files(&self, patience: Option<Duration>) -> Vec<(Part, PollFlags)> {
        let mut parts = vec![Part::Waker];
        let mut fds = vec![PollFd::new(self.waker.0.as_fd(), PollFlags::POLLIN)];
        if let Some(stalls) = &self.stalls {
            parts.push(Part::Stalls);
            fds.push(PollFd::new(stalls.file.as_fd(), PollFlags::POLLPRI));
        }
        if let Some(events) = &self.events {
            if let Some(inotify) = &events.inotify {
                parts.push(Part::Events);
                fds.push(PollFd::new(inotify.as_fd(), PollFlags::POLLIN));
            }
            for counter in &events.counters {
                parts.push(Part::Events);
                fds.push(PollFd::new(counter.file.as_fd(), PollFlags::POLLPRI));
            }
        }
        if let Some(reclaim) = &self.reclaim {
            for fd in [&reclaim.medium, &reclaim.critical] {
                parts.push(Part::Reclaim);
                fds.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
            }
        }
        match poll(&mut fds, milliseconds(patience)) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Vec::new(),
            Err(_) => {
                // The kernel is out of memory, or the limit of open files was lowered: wait without it.
                std::thread::sleep(patience.map_or(self.every, |patience| patience.min(self.every)));
                return Vec::new();
            }
        }
        let flags = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        parts.into_iter().zip(flags).filter(|(_, flags)| !flags.is_empty()).collect()
    }

    fn lose(&mut self, source: Source) {
        for report in self.reports.iter_mut().filter(|report| report.source == source) {
            report.state = State::Absent(Absence::Lost);
        }
    }
}

/// Rounded up, so that the wait does not end a little too early, again and again. Longer than 24 days is cut: the loop
/// waits on.
fn milliseconds(patience: Option<Duration>) -> PollTimeout {
    let Some(patience) = patience else { return PollTimeout::NONE };
    let ms = patience.as_nanos().div_ceil(1_000_000);
    PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
}

fn limit_report(figures: &Figures, group: Option<&PathBuf>, options: &Options) -> SourceReport {
    const SOURCE: Source = Source::GroupLimit;
    match (figures.file(), group) {
        (file, _) if options.group_percent == 0 => SourceReport::absent(SOURCE, file, Absence::SwitchedOff),
        (Some(file), _) => {
            SourceReport::watched(SOURCE, file, Method::Sampled { every: options.sample_every })
        }
        (None, Some(group)) => {
            SourceReport::absent(SOURCE, Some(group.join("memory.current")), Absence::NoFile)
        }
        (None, None) => SourceReport::absent(SOURCE, None, Absence::NoGroup),
    }
}

fn available_report(figures: &Figures, options: &Options) -> SourceReport {
    const SOURCE: Source = Source::Available;
    let file = figures.meminfo.clone();
    match figures.available() {
        _ if options.available_percent == 0 => SourceReport::absent(SOURCE, Some(file), Absence::SwitchedOff),
        Ok(Some(_)) => SourceReport::watched(SOURCE, file, Method::Sampled { every: options.sample_every }),
        Ok(None) => SourceReport::absent(SOURCE, Some(file), Absence::NotUnderstood),
        Err(error) => SourceReport::refused(SOURCE, file, &error),
    }
}

#[cfg(test)]
#[path = "watcher_tests.rs"]
mod tests;
