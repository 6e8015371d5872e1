//! The tick thread and its handles.
//!
//! *State*: an `Arc` of the loop's shared words. *Who may touch what*: any thread may hold an [`AlarmControl`]; the
//! [`Alarm`] itself, which joins, has one owner. *Ordering*: in the loop's module.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use nix::errno::Errno;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use crate::affinity::{self, AffinityRefused};
use crate::clock::{Clock, to_timespec};
use crate::grid::Tick;
use crate::lateness::{Bucket, LatenessSnapshot};
use crate::priority::{self, PriorityRefused};
use crate::slack::{SlackRefused, set_timer_slack};
use crate::tick_loop::{self, Command, Shared, Timer};

/// Shortest period that [`Alarm::spawn`] accepts, in nanoseconds: 10 µs, the time a tick may take.
pub const MIN_PERIOD_NS: u64 = 10_000;
/// Longest period that [`Alarm::spawn`] accepts, in nanoseconds: one hour.
pub const MAX_PERIOD_NS: u64 = 3_600_000_000_000;

/// Longest uninterrupted sleep: bounds how long `stop` waits, whatever the period.
const SLEEP_PIECE_NS: u64 = 100_000_000;

/// Ticks need little stack; a small one keeps `mlockall` cheap. Enough for a panic message with a backtrace.
const STACK_BYTES: usize = 512 * 1024;

/// What a tick thread is to be. Fields that are `None` leave things as the spawning thread has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmConfig {
    /// Distance of the ticks in nanoseconds, [`MIN_PERIOD_NS`]`..=`[`MAX_PERIOD_NS`].
    pub period_ns: u64,
    /// `SCHED_FIFO` priority, 1..=99.
    pub priority: Option<u8>,
    /// CPU to pin the thread to.
    pub cpu: Option<usize>,
    /// Name of the thread (the kernel shows the first 15 bytes).
    pub name: String,
    /// Whether the alarm starts paused, to be started by [`AlarmControl::resume`].
    pub paused: bool,
}

impl AlarmConfig {
    /// Ordinary priority, any CPU, running at once.
    pub fn with_period(period_ns: u64) -> AlarmConfig {
        AlarmConfig {
            period_ns,
            priority: None,
            cpu: None,
            name: String::from("metronome-alarm"),
            paused: false,
        }
    }
}

/// What the tick thread asked of the kernel and what it got. `None`: not asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlarmReport {
    /// The `SCHED_FIFO` priority in force, or why there is none.
    pub priority: Option<Result<u8, PriorityRefused>>,
    /// The CPU pinned to, or why not.
    pub cpu: Option<Result<usize, AffinityRefused>>,
    /// Timer slack of 1 ns; always asked for, without meaning under `SCHED_FIFO`.
    pub timer_slack: Result<(), SlackRefused>,
}

impl AlarmReport {
    /// Whether everything asked for was granted.
    pub fn is_complete(&self) -> bool {
        self.refusals().next().is_none()
    }

    /// What was refused, each with reason and remedy in one line.
    pub fn refusals(&self) -> impl Iterator<Item = &dyn std::error::Error> {
        let priority =
            self.priority.as_ref().and_then(|got| got.as_ref().err()).map(|e| e as &dyn std::error::Error);
        let cpu = self.cpu.as_ref().and_then(|got| got.as_ref().err()).map(|e| e as &dyn std::error::Error);
        let slack = self.timer_slack.as_ref().err().map(|e| e as &dyn std::error::Error);
        [priority, cpu, slack].into_iter().flatten()
    }
}

/// The life of an alarm in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AlarmSummary {
    /// Calls of the closure.
    pub ticks: u64,
    /// Calls that ended in a panic (they are among the ticks).
    pub panics: u64,
    /// Wake-ups before the deadline: signals, pieces of a long sleep, a clock that went back.
    pub early: u64,
    /// How late the ticks were.
    pub lateness: LatenessSnapshot,
}

/// Pauses, resumes and observes an alarm; cheap to clone, usable from any thread, also after the alarm has ended.
#[derive(Clone)]
pub struct AlarmControl {
    shared: Arc<Shared>,
    thread: Thread,
}

impl AlarmControl {
    /// Suppresses the ticks; returns `true` if they were running.
    ///
    /// At most one tick that had already begun ends after this returns. The thread wakes once more at its deadline,
    /// then sleeps without waking until [`resume`](Self::resume). Never blocks; one atomic operation.
    pub fn pause(&self) -> bool {
        self.shared.transition(Command::Run, Command::Pause)
    }

    /// Lets the ticks go on at the next point of the same grid; returns `true` if they were paused. Grid points during
    /// the pause are not counted as missed. Never blocks; one atomic operation and at most one futex wake-up.
    pub fn resume(&self) -> bool {
        let resumed = self.shared.transition(Command::Pause, Command::Run);
        if resumed {
            self.thread.unpark();
        }
        resumed
    }

    /// From the tick after next on, only every `points`-th grid point gets a tick (0 counts as 1): the others are neither
    /// ticks nor missed, and nobody wakes up for them. Never blocks; one store. A thread that sleeps for a far point already
    /// sleeps on.
    pub fn tick_each(&self, points: u32) {
        self.shared.tick_each(points);
    }

    /// Whether the ticks are suppressed.
    pub fn is_paused(&self) -> bool {
        self.shared.command() == Command::Pause
    }

    /// Calls of the closure so far.
    pub fn ticks(&self) -> u64 {
        self.shared.ticks()
    }

    /// Calls of the closure that panicked. Anything but 0 is a defect of the closure's author.
    pub fn panics(&self) -> u64 {
        self.shared.panics()
    }

    /// How late the ticks were so far. No lock, no allocation; reads 15 KiB.
    pub fn lateness(&self) -> LatenessSnapshot {
        self.shared.lateness.snapshot()
    }

    /// The histogram behind [`lateness`](Self::lateness). Allocates.
    pub fn lateness_buckets(&self) -> Vec<Bucket> {
        self.shared.lateness.buckets()
    }

    /// All numbers.
    pub fn summary(&self) -> AlarmSummary {
        AlarmSummary {
            ticks: self.shared.ticks(),
            panics: self.shared.panics(),
            early: self.shared.early(),
            lateness: self.shared.lateness.snapshot(),
        }
    }
}

impl fmt::Debug for AlarmControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlarmControl")
            .field("command", &self.shared.command())
            .field("ticks", &self.ticks())
            .finish()
    }
}

/// A thread that calls a closure on each point of a grid. Stops and joins when dropped.
#[derive(Debug)]
pub struct Alarm {
    control: AlarmControl,
    report: AlarmReport,
    /// `None` once joined.
    handle: Option<JoinHandle<()>>,
}

impl Alarm {
    /// Starts the tick thread and waits until it has its priority and CPU, or the refusals, which are in
    /// [`report`](Self::report): a refusal is not an error here.
    ///
    /// The closure is called on that thread once per grid point, starting one period from now. It has 10 µs: it must
    /// not block, allocate or do I/O, or the alarm will be late. A tick that comes late is delivered once with the
    /// count of the points it stands for, and the next one is again on the grid.
    ///
    /// **Panics in the closure** are caught and counted ([`AlarmControl::panics`]); the closure is called again at the
    /// next beat, in whatever state its panic left it. (The panic hook, which prints, does I/O on the alarm thread. Built
    /// with `panic = "abort"`, the process ends as always.)
    ///
    /// # Errors
    /// `InvalidInput` if the period is out of range or the name contains a NUL; otherwise the operating system's error
    /// when it has no thread to give.
    pub fn spawn(config: AlarmConfig, tick: impl FnMut(Tick) + Send + 'static) -> io::Result<Alarm> {
        if !(MIN_PERIOD_NS..=MAX_PERIOD_NS).contains(&config.period_ns) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "alarm period of {} ns: must be {MIN_PERIOD_NS} to {MAX_PERIOD_NS} ns",
                    config.period_ns
                ),
            ));
        }
        if config.name.contains('\0') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("alarm name {:?}: must not contain a NUL character", config.name),
            ));
        }
        let shared = Arc::new(Shared::new(if config.paused { Command::Pause } else { Command::Run }));
        let (send, receive) = mpsc::sync_channel(1);
        let theirs = Arc::clone(&shared);
        let AlarmConfig { period_ns, priority, cpu, name, paused: _ } = config;
        let handle = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
            let report = prepare(priority, cpu);
            // `spawn` waits for it; if the receiver were gone nobody would want the report.
            let _ = send.send(report);
            drop(send);
            tick_loop::run(&mut SystemTimer(Clock::monotonic()), &theirs, period_ns, tick);
        })?;
        let control = AlarmControl { shared, thread: handle.thread().clone() };
        match receive.recv() {
            Ok(report) => Ok(Alarm { control, report, handle: Some(handle) }),
            // The thread unwound before the loop: only an allocation failure could do that.
            Err(mpsc::RecvError) => Err(io::Error::other("the alarm thread ended before its first tick")),
        }
    }

    /// What was asked of the kernel and what could be had.
    pub fn report(&self) -> &AlarmReport {
        &self.report
    }

    /// A handle to pause, resume and observe this alarm from anywhere.
    pub fn control(&self) -> AlarmControl {
        self.control.clone()
    }

    /// See [`AlarmControl::pause`].
    pub fn pause(&self) -> bool {
        self.control.pause()
    }

    /// See [`AlarmControl::resume`].
    pub fn resume(&self) -> bool {
        self.control.resume()
    }

    /// See [`AlarmControl::lateness`].
    pub fn lateness(&self) -> LatenessSnapshot {
        self.control.lateness()
    }

    /// Ends the ticks, waits for the thread, and sums up. No tick happens after it returns.
    ///
    /// Waits for the rest of the running sleep, at most one period and never much more than 100 ms, and for the
    /// closure if it is running.
    pub fn stop(mut self) -> AlarmSummary {
        self.end();
        self.control.summary()
    }

    fn end(&mut self) {
        self.control.shared.transition_to_stop();
        let Some(handle) = self.handle.take() else { return };
        // Wakes a paused thread; a running one finds the command when its sleep ends.
        handle.thread().unpark();
        if handle.thread().id() == thread::current().id() {
            // Dropped by its own closure: joining would wait for itself. The thread ends after this tick.
            return;
        }
        // An error would be a panic in the closure's destructor, at the very end of the thread: nothing is left undone
        // by it, and the panic hook has already reported it.
        let _ = handle.join();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.end();
    }
}

/// Asks the kernel for what a tick thread wants, on the thread that wants it.
fn prepare(priority: Option<u8>, cpu: Option<usize>) -> AlarmReport {
    AlarmReport {
        // CPU first, so that the thread never runs on another with its high priority.
        cpu: cpu.map(|cpu| affinity::pin(cpu).map(|()| cpu)),
        timer_slack: set_timer_slack(1),
        priority: priority.map(|priority| priority::set_fifo(priority).map(|()| priority)),
    }
}

/// The kernel's time.
struct SystemTimer(Clock);

impl Timer for SystemTimer {
    fn now(&mut self) -> u64 {
        self.0.now()
    }

    fn sleep_until(&mut self, deadline_ns: u64) {
        let piece_end = self.0.now().saturating_add(SLEEP_PIECE_NS);
        let until = deadline_ns.min(piece_end);
        let absolute = ClockNanosleepFlags::TIMER_ABSTIME;
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, absolute, &to_timespec(until)) {
            // A signal: the loop looks at the clock and sleeps again.
            Ok(_) | Err(Errno::EINTR) => {}
            // Some sandboxes lack absolute sleeps. A relative one keeps this loop from spinning, with real-time
            // priority, for ever; what it is late by is measured like any lateness.
            #[expect(clippy::disallowed_methods, reason = "only as long as until the next look at the clock")]
            Err(_) => thread::sleep(Duration::from_nanos(until.saturating_sub(self.0.now()))),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the alarm has nothing to do until a controller ends it")]
    fn park(&mut self) {
        thread::park();
    }
}
