//! [`Heap`]: building one, entering it, its threads, its end.

use crate::collector::Stopped;
use crate::config::{Config, ConfigError};
use crate::driver::Driver;
use crate::error::{BeforeFailure, BuildError, EnterError};
use crate::events;
use crate::immortal::ImmortalArea;
use crate::mutator::Mutator;
use crate::report::Reporter;
use crate::shared::Shared;
use crate::stats::Stats;
use crate::sync::futex_wake;
use metronome_alarm::{Alarm, AlarmConfig, Clock, affinity, priority, set_timer_slack};
use metronome_arraylet::{OsOptions, Space, SpaceOptions};
use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Configures and builds a [`Heap`]. Every option of [`Config`] can be set by name; the common ones have methods.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HeapBuilder {
    config: Config,
    error: Option<ConfigError>,
    before_failure: Option<BeforeFailure>,
}

impl HeapBuilder {
    /// Starts from a whole configuration.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the option `name` (see [`config::OPTIONS`](crate::config::OPTIONS)) from text, as a configuration file
    /// would. An error is kept and returned by [`build`](HeapBuilder::build).
    pub fn set(mut self, name: &str, value: &str) -> Self {
        if let Err(e) = self.config.set(name, value) {
            self.error.get_or_insert(e);
        }
        self
    }

    /// Hard limit of the heap in bytes.
    pub fn heap_bytes(mut self, bytes: u64) -> Self {
        self.config.heap = bytes;
        self
    }

    /// Share of every window that the mutators keep, in percent.
    pub fn target_utilization(mut self, percent: u32) -> Self {
        self.config.target_utilization = percent;
        self
    }

    /// Asks `f` before a mutator that waits for memory at a safepoint gets an error, after the collector has done all it
    /// can. `f` runs on that mutator's thread, which is native meanwhile (it may not enter this heap), and may let go of
    /// caches; one more cycle follows if it says so. It is not asked with `exhaustion = fail`, where nobody waits. A panic
    /// in it goes on in the mutator.
    pub fn before_failure(
        mut self,
        f: impl Fn(&crate::Shortage) -> crate::Remedy + Send + Sync + 'static,
    ) -> Self {
        self.before_failure = Some(BeforeFailure(Arc::new(f)));
        self
    }

    /// Builds the heap and starts its threads: alarm, collector, reaper, finalizer, writer, and the
    /// memory thread if there is something for it to do.
    ///
    /// # Errors
    /// [`BuildError`] for settings that are out of range or do not go together, memory or threads that cannot be
    /// had, and a verbose log that cannot be created. Priorities, CPUs and locked memory that the system refuses
    /// are no errors: they are in the log and in [`Heap::refusals`].
    pub fn build(self) -> Result<Heap, BuildError> {
        if let Some(e) = self.error {
            return Err(e.into());
        }
        self.config.validate()?;
        Heap::start(self.config, self.before_failure)
    }
}

/// A garbage-collected heap with its own collector. Cheap to clone; the last clone closes it.
///
/// Several heaps may live in one process; they share nothing. Closing waits for the collector's threads and runs
/// the drop glue of all objects that are left. Handles that outlive the heap keep its memory, and can no longer be
/// used.
#[derive(Clone, Debug)]
pub struct Heap {
    owner: Arc<Owner>,
}

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    reporter: Arc<Reporter>,
    refusals: Vec<String>,
    alarm: Mutex<Option<Alarm>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Builds the shared part: used by tests that drive the collector by hand too.
pub(crate) fn build_shared(config: Config, clock: Clock) -> Result<(Shared, Vec<String>), BuildError> {
    if !cfg!(feature = "verify") && config.verify.is_some_and(|v| v.is_on()) {
        return Err(BuildError::VerifierAbsent);
    }
    let os = OsOptions { prefault: config.prefault, lock: config.lock_memory, huge_pages: config.huge_pages };
    let options = SpaceOptions { max_bytes: config.heap, initial_bytes: config.effective_initial_heap(), os };
    // SAFETY: the space is reached by the mutators and the collector of this heap alone, which keep the access rules: that
    // is what the gate, the phases and the type `Gc` are for.
    let (mut space, mut refused) = unsafe { Space::new(options) }.map_err(BuildError::Memory)?;
    space.set_stress(config.stress.of_space());
    let bytes = config.immortal;
    let (immortal, more) = ImmortalArea::new(bytes, config.lock_memory)
        .map_err(|source| BuildError::Immortal { bytes, source })?;
    refused.extend(more);
    Ok((Shared::new(config, clock, space, immortal), refused))
}

impl Heap {
    /// A builder with the default configuration.
    pub fn builder() -> HeapBuilder {
        HeapBuilder::default()
    }

    fn start(mut config: Config, before_failure: Option<BeforeFailure>) -> Result<Heap, BuildError> {
        let verify = config.verify_in_force(std::env::var_os("METRONOME_VERIFY"))?;
        config.verify = Some(verify);
        // Whatever reads no other setting from the environment, such as a test program, can still be run under stress.
        let modes = std::env::var_os("METRONOME_STRESS").filter(|_| !config.stress.is_on());
        config.merge_os_env(modes.into_iter().map(|modes| ("METRONOME_STRESS".into(), modes)))?;
        if config.stress.is_on() {
            config.stress.seed.get_or_insert_with(|| RandomState::new().hash_one(0));
            eprintln!("metronome: stress={}", config.stress);
        }
        let (shared, mut refusals) = build_shared(config, Clock::monotonic())?;
        shared.set_before_failure(before_failure);
        let shared = Arc::new(shared);
        let config = &shared.config;
        if config.stress.poll {
            shared.gate.poll_always();
        }
        let (recorder, drain) = events::ring(config.event_ring);
        let reporter = Reporter::new(Arc::clone(&shared), drain)?;

        let s = Arc::clone(&shared);
        let (tell, told) = std::sync::mpsc::channel();
        let collector = spawn("metronome-gc", "collector", move || {
            let (fifo, refused) = take_place(s.config.gc_priority, s.config.gc_cpu);
            // Relaxed: ordered by the message below, before which no user has the heap.
            s.collector_fifo.store(fifo, Relaxed);
            // Set also if the thread unwinds, so that closing never waits for ever.
            let _done = Done(Arc::clone(&s));
            let driver = Driver::new(Arc::clone(&s), recorder, fifo);
            // The receiver waits for this one message; the trigger has been published by now.
            let _ = tell.send(refused);
            let mut driver = driver.run();
            s.crew.end();
            close(&s, &mut driver);
        })?;
        let mut threads = vec![collector];
        let closing = Closer { shared: &shared, threads: &mut threads, done: false };
        refusals.extend(told.recv().unwrap_or_default());

        for index in 0..shared.crew.seats.len() {
            let s = Arc::clone(&shared);
            shared.crew.seats[index].come();
            let helper = spawn("metronome-mark", "marking", move || {
                // What is refused was refused to the collector's thread, which has told.
                let _ = take_place(s.config.gc_priority, None);
                // Relaxed: a thread that is not known yet keeps its priority.
                // SAFETY: no preconditions.
                s.helper_threads[index].store(unsafe { libc::gettid() }, Relaxed);
                crate::crew::helper::run(&s.crew, index, &s.space);
            });
            closing.threads.push(helper.inspect_err(|_| shared.crew.seats[index].gone())?);
        }

        let s = Arc::clone(&shared);
        let (ready, attached) = std::sync::mpsc::channel();
        closing.threads.push(spawn("metronome-reap", "reaper", move || crate::reaper::run(&s, ready))?);
        // The reaper's attachment is set aside before any user's.
        let _ = attached.recv();
        let s = Arc::clone(&shared);
        let (ready, attached) = std::sync::mpsc::channel();
        closing.threads.push(spawn(FINALIZER, "finalizer", move || crate::finalize::run(&s, ready))?);
        let _ = attached.recv();
        if crate::memory::is_needed(&shared) {
            let (watcher, refused) = crate::memory::watcher(&shared);
            refusals.extend(refused);
            if let Some(w) = &watcher {
                let _ = shared.memory_waker.set(w.waker());
            }
            let s = Arc::clone(&shared);
            closing.threads.push(spawn("metronome-mem", "memory", move || crate::memory::run(&s, watcher))?);
        }
        let r = Arc::clone(&reporter);
        closing.threads.push(spawn(WRITER, "writer", move || r.run())?);

        let s = Arc::clone(&shared);
        let options = AlarmConfig {
            period_ns: config.beat_ns,
            priority: (config.alarm_priority > 0).then_some(config.alarm_priority),
            cpu: config.alarm_cpu,
            name: "metronome-tick".into(),
            paused: false,
        };
        let alarm = crate::hooks::thread_refused()
            .and_then(|()| Alarm::spawn(options, move |tick| s.tick(tick.now_ns)))
            .map_err(|source| BuildError::Thread { name: "alarm", source })?;
        let _ = shared.alarm.set(alarm.control());
        refusals.extend(alarm.report().refusals().map(|e| format!("alarm: {e}")));
        let mut closing = closing;
        closing.done = true;
        drop(closing);
        reporter.started(&refusals);
        Ok(Heap {
            owner: Arc::new(Owner {
                shared,
                reporter,
                refusals,
                alarm: Mutex::new(Some(alarm)),
                threads: Mutex::new(threads),
            }),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// Runs `f` inside the heap, on this thread.
    ///
    /// # Panics
    /// If the thread cannot enter: see [`try_enter`](Heap::try_enter) and [`EnterError`].
    #[track_caller]
    pub fn enter<R>(&self, f: impl FnOnce(&mut Mutator<'_>) -> R) -> R {
        match self.try_enter(f) {
            Ok(r) => r,
            Err(e) => panic!("{e}"),
        }
    }

    /// Runs `f` inside the heap, on this thread. Waits for the end of a quantum if one is running.
    ///
    /// # Errors
    /// [`EnterError`] if the thread is inside a heap already, or cannot be attached.
    pub fn try_enter<R>(&self, f: impl FnOnce(&mut Mutator<'_>) -> R) -> Result<R, EnterError> {
        enter_shared(&self.owner.shared, f)
    }

    /// Collects as `mode` says, and waits for it, at most `memory-wait`; for threads outside the heap (inside, use
    /// [`Mutator::collect`]). What is synchronous leaves the utilization target: see there.
    ///
    /// # Errors
    /// [`CollectError`](crate::CollectError).
    pub fn collect(&self, mode: crate::Collect) -> Result<crate::Collected, crate::CollectError> {
        if crate::thread::is_inside(&self.owner.shared) {
            return Err(crate::CollectError::Inside);
        }
        crate::collect::collect(&self.owner.shared, mode)
    }

    /// Announces memory outside the heap that objects in the heap keep (buffers, textures, files): when it has grown by
    /// `external-memory` since the last cycle, one starts. Any thread; O(1), and a wake-up when the mark is passed.
    /// (.NET: `GC.AddMemoryPressure`.)
    pub fn add_memory_pressure(&self, bytes: u64) {
        let s = &self.owner.shared;
        // Relaxed: a hint for the collector. Saturates.
        let add = |x: u64| Some(x.saturating_add(bytes));
        let before = s.external.fetch_update(Relaxed, Relaxed, add).unwrap_or_default();
        let mark = s.config.effective_external_memory();
        if before / mark != before.saturating_add(bytes) / mark {
            s.wake_collector();
        }
    }

    /// Takes back what [`add_memory_pressure`](Heap::add_memory_pressure) announced; more than was announced counts as
    /// all of it.
    pub fn remove_memory_pressure(&self, bytes: u64) {
        // Relaxed: a hint for the collector.
        let less = |x: u64| Some(x.saturating_sub(bytes));
        let _ = self.owner.shared.external.fetch_update(Relaxed, Relaxed, less);
    }

    /// Calls `f` with what happens from now on, on the heap's writer thread, until the subscription is dropped. `f` may use
    /// the heap, but holds up the log and other listeners while it runs; a panic is caught and counted.
    pub fn subscribe(&self, f: impl FnMut(&crate::Notification) + Send + 'static) -> crate::Subscription {
        self.owner.reporter.subscribe(Box::new(f))
    }

    /// Watches the heap: every event of the collector from now on, by way of a ring for `records` events, which is allocated
    /// here (about 200 bytes each). The writer thread fills it up to 50 ms later and never waits: what finds it full is
    /// dropped and counted ([`Watch::lost`](crate::Watch::lost)). 8192 records hold some seconds of a busy collector.
    ///
    /// ```
    /// use metronome_gc::watch::HeapEvent;
    /// # let heap = metronome_gc::Heap::builder().heap_bytes(4 << 20).build()?;
    /// let mut watch = heap.watch(1024);
    /// heap.bookmark("ready");
    /// drop(heap);
    /// let bookmark = std::iter::from_fn(|| watch.try_next()).find(|s| matches!(s.event, HeapEvent::Bookmark { .. }));
    /// assert!(bookmark.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn watch(&self, records: usize) -> crate::Watch {
        self.owner.reporter.watch(records)
    }

    /// Sets a bookmark: those who watch the heap see the text beside what the collector does, and the verbose GC log has it
    /// as a note. Of long texts the first 1024 bytes are kept. Locks and allocates: not for real-time threads; more than
    /// about a thousand in 50 ms are lost and counted in [`Stats::notifications_lost`](crate::Stats).
    pub fn bookmark(&self, text: &str) {
        self.owner.shared.bookmark(text);
    }

    /// Checks the heap's invariants now: what the option `verify=heap` checks at each edge of a phase. For threads outside
    /// the heap.
    ///
    /// The collector does it between two quanta, with all mutators stopped for as long as it takes: O(heap), so that the
    /// utilization target is left. It waits for that at most `memory-wait`. For tests and for tracking down a fault.
    ///
    /// ```
    /// # let heap = metronome_gc::Heap::builder().heap_bytes(4 << 20).build()?;
    /// let report = heap.verify()?;
    /// assert_eq!(report.objects, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`VerifyError`](crate::VerifyError): what is broken (the heap must not be used any more), or why it could not be
    /// verified.
    pub fn verify(&self) -> Result<crate::VerifyReport, crate::VerifyError> {
        crate::verify::demand::ask(&self.owner.shared)
    }

    /// Asks for a collection cycle, which then runs by quanta as every other one. Does not wait.
    pub fn request_cycle(&self) {
        self.owner.shared.request_cycle();
    }

    /// Waits until no object waits for its finalizer, at most `limit` (callbacks about deaths do not count); for threads outside the heap (inside, use
    /// [`Mutator::drain_finalizers`]). (.NET: `GC.WaitForPendingFinalizers`.)
    ///
    /// # Errors
    /// [`DrainError`](crate::DrainError) when the limit is over and some still wait; at once then on the finalizer thread itself and in a forked child.
    pub fn drain_finalizers(&self, limit: std::time::Duration) -> Result<(), crate::DrainError> {
        let s = &self.owner.shared;
        crate::finalize::drain(s, s.deadline_in(limit))
    }

    /// What the collector did so far. Waits until the writer has caught up; not for real-time threads.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.owner.reporter.stats(&self.owner.shared.alarm.get().map(|a| a.summary()).unwrap_or_default())
    }

    /// What the system refused (priorities, CPUs, locked memory), with reasons; empty if nothing.
    #[must_use]
    pub fn refusals(&self) -> &[String] {
        &self.owner.refusals
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.owner.shared.config
    }

    /// A cheap look at the present, for progress displays: phase, bytes in use, cycles.
    #[must_use]
    pub fn glance(&self) -> Glance {
        let s = &self.owner.shared;
        Glance {
            phase: s.phase.get().name(),
            used_bytes: s.space.used_bytes(),
            heap_bytes: s.space.heap_bytes(),
            allocated_bytes: s.space.allocated_bytes(),
            // Relaxed, both: reports.
            cycles: s.cycles_done.load(Relaxed),
            collector_ns: s.counts.collector_ns.load(Relaxed),
        }
    }
}

/// What [`Heap::glance`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Glance {
    /// The collector's phase.
    pub phase: &'static str,
    /// Bytes in allocated cells.
    pub used_bytes: u64,
    /// Size of the heap.
    pub heap_bytes: u64,
    /// Bytes allocated since the heap was made.
    pub allocated_bytes: u64,
    /// Cycles completed.
    pub cycles: u64,
    /// Collector time (charged) of all quanta that have ended: what is left of the wall time is the mutators'.
    pub collector_ns: u64,
}

/// Closes the half-built heap if building fails.
struct Closer<'a> {
    shared: &'a Arc<Shared>,
    threads: &'a mut Vec<JoinHandle<()>>,
    done: bool,
}

impl Drop for Closer<'_> {
    fn drop(&mut self) {
        if !self.done {
            if !self.threads.iter().any(|t| t.thread().name() == Some(FINALIZER)) {
                // The reaper waits for the end of a thread that has never begun.
                // Release: pairs with the Acquire in the reaper.
                self.shared.finalizer_done.store(1, Release);
            }
            signal_shutdown(self.shared);
            for t in self.threads.drain(..) {
                let _ = t.join();
            }
        }
    }
}

fn spawn(
    name: &'static str,
    role: &'static str,
    f: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, BuildError> {
    crate::hooks::thread_refused()
        .and_then(|()| std::thread::Builder::new().name(name.into()).spawn(f))
        .map_err(|source| BuildError::Thread { name: role, source })
}

/// Priority, CPU and timer slack of the collector thread; whether it got SCHED_FIFO, and what was refused.
fn take_place(wanted: u8, cpu: Option<usize>) -> (bool, Vec<String>) {
    let mut refused = Vec::new();
    let mut fifo = false;
    if wanted > 0 {
        match priority::set_fifo(wanted) {
            Ok(()) => fifo = true,
            Err(e) => refused.push(format!("collector: {e}")),
        }
    }
    if let Some(cpu) = cpu
        && let Err(e) = affinity::pin(cpu)
    {
        refused.push(format!("collector: {e}"));
    }
    if let Err(e) = set_timer_slack(1) {
        refused.push(format!("collector: {e}"));
    }
    (fifo, refused)
}

fn signal_shutdown(s: &Shared) {
    // Release, both: seen by those that the wake-ups wake; pairs with the Acquire of each sleeper's word.
    s.shutdown.store(true, Release);
    s.wake_collector();
    s.announce_memory();
    s.reap_seq.fetch_add(1, Release);
    futex_wake(&s.reap_seq, 1);
    s.finalizers.wake();
    s.wake_memory();
}

/// How long closing waits for a last stop.
const CLOSE_NS: u64 = 1_000_000_000;

/// The finalizer thread's name.
const FINALIZER: &str = "metronome-final";
/// How long closing waits at least for a finalizer that is running.
const FINALIZER_NS: u64 = 1_000_000_000;

impl Owner {
    /// Waits for the finalizer thread's end; if a finalizer does not end, the heap's objects are left alone.
    fn await_finalizer(&self, deadline_ns: u64) {
        let s = &self.shared;
        // Acquire: pairs with the Release at its end.
        while s.finalizer_done.load(Acquire) == 0 {
            if s.clock.now() >= deadline_ns {
                let what = match s.finalizers.running() {
                    Some((name, _)) => format!("the finalizer of a {name}"),
                    None => "a finalizer or a callback about a death".into(),
                };
                eprintln!(
                    "metronome: {what} does not end: the closed heap's objects are neither dropped nor freed"
                );
                // Relaxed: the reaper looks at it again and again.
                s.abandoned.store(true, Relaxed);
                return;
            }
            crate::sync::futex_wait(&s.finalizer_done, 0, Some(deadline_ns));
        }
    }
}

/// After this time closing says what it waits for.
const PATIENCE: Duration = Duration::from_secs(2);
/// After this time it waits no longer for the writer, which is in a listener's hands.
const WRITER_LIMIT: Duration = Duration::from_secs(10);
const WRITER: &str = "metronome-log";

/// Waits for a thread's end. What it may be waiting for is the program's code: a listener, drop glue.
fn join_patiently(t: JoinHandle<()>) {
    let begin = Instant::now();
    let mut said = false;
    while !t.is_finished() {
        let waited = begin.elapsed();
        let writer = t.thread().name() == Some(WRITER);
        if waited >= PATIENCE && !std::mem::replace(&mut said, true) {
            let what = if writer { "a listener" } else { "drop glue" };
            let name = t.thread().name().unwrap_or("a thread");
            eprintln!("metronome: closing a heap waits for {name}: {what} of the program does not end");
        }
        if writer && waited >= WRITER_LIMIT {
            eprintln!(
                "metronome: closing a heap waits no longer for a listener; the end of the log may be missing"
            );
            return;
        }
        std::thread::sleep(if said { PATIENCE / 20 } else { Duration::from_micros(200) });
    }
    // A panic in it has been reported by the panic hook.
    let _ = t.join();
}

/// Tells the reaper that the collector has ended.
struct Done(Arc<Shared>);

impl Drop for Done {
    fn drop(&mut self) {
        // A late helper may still look at objects.
        self.0.crew.end();
        // Release: pairs with the Acquire in the reaper.
        self.0.collector_done.store(1, Release);
        futex_wake(&self.0.collector_done, 1);
    }
}

/// The collector thread's last act: a half-done cycle is given up.
fn close(s: &Arc<Shared>, driver: &mut Driver) {
    // Bounded: if the process exits while a thread is inside, it never arrives.
    let deadline = s.clock.now().saturating_add(CLOSE_NS);
    if let Ok(stopped) = Stopped::try_new(s, Some(deadline), s.spin, None) {
        driver.collector.abandon();
        drop(stopped);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if crate::fork::generation() != self.shared.fork_generation {
            // A forked child has none of the threads, and its parent goes on writing the log: leave all alone.
            std::mem::forget((Arc::clone(&self.shared), Arc::clone(&self.reporter)));
            if let Ok(mut alarm) = self.alarm.try_lock() {
                std::mem::forget(alarm.take());
            }
            return;
        }
        let service = crate::thread::is_service() || crate::thread::is_no_heap();
        // A finalizer that drops the last clone leaves the heap when it ends.
        if crate::thread::is_inside(&self.shared) && !service {
            // Only when a thread that is inside the heap runs its destructors: the process is exiting.
            // Relaxed: read after the signal below.
            self.shared.abandoned.store(true, Relaxed);
        }
        // Relaxed: written above.
        let wait = !service && !self.shared.abandoned.load(Relaxed);
        let drain_ns = self.shared.config.finalizer_drain_ns.unwrap_or(0);
        let drained = self.shared.clock.now().saturating_add(drain_ns);
        if wait
            && drain_ns > 0
            && let Err(e) = crate::finalize::drain(&self.shared, drained)
        {
            self.shared.note(format!("closing the heap: {e} (finalizer-drain is over)"));
        }
        if let Some(alarm) = self.alarm.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.reporter.alarm_stopped(&alarm.stop());
        }
        signal_shutdown(&self.shared);
        self.shared.set_before_failure(None);
        self.reporter.hurry();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // The last clone may be dropped by drop glue on a reaper, or by a subscriber on a writer, this heap's or another
        // one's, or by a no-heap thread: such a thread waits for nobody. All threads end by the signal.
        if wait {
            self.await_finalizer(drained.max(self.shared.clock.now().saturating_add(FINALIZER_NS)));
            for t in threads {
                // Relaxed: written by this thread.
                if t.thread().name() != Some(FINALIZER) || !self.shared.abandoned.load(Relaxed) {
                    join_patiently(t);
                }
            }
        }
    }
}

/// Enters a heap by its shared part.
pub(crate) fn enter_shared<R>(
    shared: &Arc<Shared>,
    f: impl FnOnce(&mut Mutator<'_>) -> R,
) -> Result<R, EnterError> {
    struct Leave(NonNull<Shared>, NonNull<crate::shared::Record>);
    impl Drop for Leave {
        fn drop(&mut self) {
            // SAFETY: as below; this is the end of the same stretch.
            unsafe { Mutator::new(self.0, self.1) }.stop_running();
            crate::thread::leave(self.1);
        }
    }
    let record = crate::thread::enter(shared)?;
    // `Arc::as_ptr` keeps the right to raise the count, which handles need.
    let ptr = NonNull::new(Arc::as_ptr(shared).cast_mut()).expect("an Arc is never null");
    // SAFETY: `shared` is borrowed for the whole call; the record is this thread's and marked as its current one,
    // so no other mutator runs on this thread.
    let mut m = unsafe { Mutator::new(ptr, record) };
    m.start_running();
    let _leave = Leave(ptr, record);
    Ok(f(&mut m))
}
