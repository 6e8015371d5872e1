//! The writer: drains events into statistics, `tracing` and the verbose GC log. Never on the real-time path.
//!
//! # Who may touch what
//! One low-priority thread drains every 50 ms; whoever asks for [`Stats`] drains too, under the same lock.

use crate::config::VerboseFormat;
use crate::error::BuildError;
use crate::events::{CycleEnd, Drain, Event, Quantum};
use crate::log_sink::LogSink;
use crate::notice::{Listeners, Notification, Subscription};
use crate::shared::{MutatorState, Shared, Told};
use crate::stats::{Distribution, FinalizerCounts, Mmu, Predicted, ReferenceCounts, Stats};
use hdrhistogram::Histogram;
use metronome_alarm::AlarmSummary;
use metronome_barrier::Phase;
use metronome_scheduler::MmuTracker;
use metronome_verbosegc::WallClock;
use metronome_verbosegc::model::{self, Generation, QuantumPhase};
use metronome_verbosegc::writer::{
    CycleStartFacts, LogWriter, Options, QuantumFacts, SyncGcFacts, WorkFacts,
};
use std::io::Write;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Windows for which the minimum mutator utilization is kept, besides the configured one.
const MMU_WINDOWS_NS: [u64; 3] = [1_000_000, 10_000_000, 100_000_000];
const DRAIN_EVERY: Duration = Duration::from_millis(50);
/// Notices kept until the writer thread tells them.
const NOTICES_MAX: usize = 1024;
/// Stragglers kept by name.
const NAMES_MAX: usize = 64;
/// Stragglers looked at in one round of the writer.
const SUSPECTS_MAX: usize = 16;
/// A mutator is said to be blocked at most once in this time.
const BLOCKED_EVERY_NS: u64 = 1_000_000_000;

struct Trackers {
    charged: MmuTracker,
    wall: MmuTracker,
}

/// What has been told of the finalizer thread.
#[derive(Default)]
struct Watch {
    backlog_told: bool,
    /// When the finalizer that was told as stuck began.
    stuck_told: u64,
    panicked_told: u64,
}

struct State {
    drain: Drain,
    /// The finalizer thread's counts in the last quantum's record.
    finalizers_told: FinalizerCounts,
    watch: Watch,
    log: Option<LogWriter<LogSink>>,
    notices: Vec<Notification>,
    /// Records of stragglers that the writer thread has yet to look at.
    suspects: Vec<u32>,
    /// Records of mutators that were said to be blocked, and when.
    blocked: Vec<(u32, u64)>,
    pause: Histogram<u64>,
    cpu: Histogram<u64>,
    charged: Histogram<u64>,
    stop: Histogram<u64>,
    resume: Histogram<u64>,
    wakeup: Histogram<u64>,
    windows: Vec<Trackers>,
    sums: Stats,
    lost_reported: u64,
    longest_stop_ns: u64,
    priority: u64,
}

/// Statistics and sinks of one heap.
pub(crate) struct Reporter {
    shared: Arc<Shared>,
    start_ns: u64,
    state: Mutex<State>,
    quit: Condvar,
    listeners: Listeners,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reporter")
    }
}

fn histogram() -> Histogram<u64> {
    // Up to an hour in ns with two digits; larger values are clamped by `saturating_record`.
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are valid")
}

impl Reporter {
    pub(crate) fn new(shared: Arc<Shared>, drain: Drain) -> Result<Arc<Reporter>, BuildError> {
        let start_ns = shared.clock.now();
        let c = &shared.config;
        let log = match &c.verbose_gc {
            None => None,
            Some(path) => {
                let sink = LogSink::create(path)?;
                let format = match c.verbose_format {
                    VerboseFormat::V2007 => Generation::V2007,
                    VerboseFormat::OpenJ9 => Generation::OpenJ9,
                };
                let mut options = Options::new(
                    concat!("metronome-gc ", env!("CARGO_PKG_VERSION")),
                    WallClock::utc_now(start_ns),
                );
                options.heartbeat_interval_ns = c.verbose_interval_ns;
                Some(LogWriter::new(sink, format, options))
            }
        };
        let tracker = |window: u64| {
            let allowance = window - window * u64::from(c.target_utilization) / 100;
            let mut t = Trackers {
                charged: MmuTracker::with_allowance(window, allowance),
                wall: MmuTracker::with_allowance(window, allowance),
            };
            t.charged.start_at(start_ns);
            t.wall.start_at(start_ns);
            t
        };
        // The configured window comes first; violations are counted there.
        let mut windows = vec![tracker(c.window_ns)];
        windows.extend(MMU_WINDOWS_NS.iter().filter(|&&w| w != c.window_ns).map(|&w| tracker(w)));
        let state = State {
            drain,
            finalizers_told: FinalizerCounts::default(),
            watch: Watch::default(),
            log,
            notices: Vec::new(),
            suspects: Vec::new(),
            blocked: Vec::new(),
            pause: histogram(),
            cpu: histogram(),
            charged: histogram(),
            stop: histogram(),
            resume: histogram(),
            wakeup: histogram(),
            windows,
            sums: Stats { longest_step: "none", ..Stats::default() },
            lost_reported: 0,
            longest_stop_ns: 0,
            priority: u64::from(c.gc_priority),
        };
        Ok(Arc::new(Reporter {
            shared,
            start_ns,
            state: Mutex::new(state),
            quit: Condvar::new(),
            listeners: Listeners::default(),
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The heap is built: writes the log's header.
    pub(crate) fn started(&self, refusals: &[String]) {
        let facts = self.header(refusals);
        let now = self.start_ns;
        self.lock().write(|log| log.initialized(now, &facts));
        for r in refusals {
            tracing::warn!(target: "metronome", "refused by the system: {r}");
        }
    }

    fn header(&self, refusals: &[String]) -> model::Initialized {
        let c = &self.shared.config;
        let own = |name: &str, value: String| model::Attribute {
            section: model::Section::Own,
            name: name.into(),
            value,
        };
        let mut attributes = vec![
            own("quantum", c.quantum_ns.to_string()),
            own("stopBudget", self.shared.config.effective_stop_budget_ns().to_string()),
            own("resumeMargin", self.shared.config.effective_resume_margin_ns().to_string()),
        ];
        attributes.extend(refusals.iter().map(|r| own("refused", r.clone())));
        // SAFETY: sysconf has no preconditions.
        let (pages, page) =
            unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        let memory = u64::try_from(pages).ok().zip(u64::try_from(page).ok()).map(|(a, b)| a * b);
        model::Initialized {
            policy: Some("-Xgcpolicy:metronome".into()),
            heap_max_bytes: Some(self.shared.space.max_bytes()),
            heap_initial_bytes: Some(self.shared.space.heap_bytes()),
            gc_threads: Some(1),
            region_bytes: Some(metronome_arraylet::REGION_BYTES as u64),
            region_count: Some(u64::from(self.shared.space.max_regions())),
            leaf_bytes: Some(metronome_arraylet::LEAF_BYTES as u64),
            beat_ns: Some(c.beat_ns),
            window_ns: Some(c.window_ns),
            target_ppm: Some(c.target_utilization * 10_000),
            // Relaxed: the collector's prediction before the first cycle.
            trigger_bytes: Some(self.shared.trigger_bytes.load(Relaxed)),
            headroom_bytes: None,
            physical_memory_bytes: memory,
            cpus: std::thread::available_parallelism().ok().map(|n| n.get() as u64),
            architecture: Some(std::env::consts::ARCH.into()),
            os: Some(std::env::consts::OS.into()),
            os_version: std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|s| s.trim().into()),
            vmargs: c.pairs().map(|(k, v)| (format!("--{k}"), Some(v))).collect(),
            attributes,
        }
    }

    /// The writer thread's body: until the heap is closed and its collector has ended.
    pub(crate) fn run(&self) {
        crate::thread::set_service();
        loop {
            // Acquire: pairs with the Release at the collector's end: then all events are in the ring.
            // Relaxed: the Acquire is what counts.
            let ended = self.shared.shutdown.load(Relaxed) && self.shared.collector_done.load(Acquire) != 0;
            let mut state = self.lock();
            self.drain(&mut state);
            for (ns, told) in self.shared.take_outbox() {
                state.told(&self.shared, ns, told);
            }
            state.watch_finalizers(&self.shared, self.shared.clock.now());
            if ended {
                self.finish(&mut state);
            }
            let notices = std::mem::take(&mut state.notices);
            let suspects = std::mem::take(&mut state.suspects);
            drop(state);
            // Foreign code: a subscriber may do anything with the heap, so nothing is locked here.
            let panics = self.listeners.tell(&notices);
            self.lock().sums.listener_panics += panics;
            if ended {
                return;
            }
            suspects.iter().for_each(|&record| self.look_at(record));
            let state = self.lock();
            drop(self.quit.wait_timeout(state, DRAIN_EVERY).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Adds a listener.
    pub(crate) fn subscribe(&self, f: Box<dyn FnMut(&Notification) + Send>) -> Subscription {
        self.listeners.add(f)
    }

    /// Reports a straggler that sleeps in the kernel while it counts as a running mutator. The writer thread, with
    /// nothing locked. One whose sleep is over by now goes unnamed.
    fn look_at(&self, record: u32) {
        let Some(r) = self.shared.record(record as usize) else { return };
        // Relaxed: compared with itself later; a report.
        let thread = r.thread_id.load(Relaxed);
        let running = || r.state() == MutatorState::Running && r.thread_id.load(Relaxed) == thread;
        let Some(place) = crate::blocked::asleep_while(thread, running) else { return };
        let name = r.name().to_string();
        let now = self.shared.clock.now();
        let mut state = self.lock();
        state.blocked.retain(|(_, at)| now.saturating_sub(*at) < BLOCKED_EVERY_NS);
        if state.blocked.iter().any(|(r, _)| *r == record) {
            return;
        }
        state.blocked.push((record, now));
        count(&mut state.sums.blocked_in_kernel, &name);
        let text = format!(
            "mutator {name} is blocked in the kernel ({place}) without Mutator::blocking: it holds up the collector; wrap \
             the call in Mutator::blocking, or wait with metronome_gc::rendezvous"
        );
        state.write(|log| log.note(now, &model::Note { text }));
        state.notice(Notification::BlockedInKernel { mutator: name, place });
    }

    /// Makes the writer look at once.
    pub(crate) fn hurry(&self) {
        self.quit.notify_all();
    }

    /// Writes the summary and ends the log.
    fn finish(&self, state: &mut State) {
        let now = self.shared.clock.now();
        let stats = self.collect(state);
        let facts = model::Summary {
            cycles: stats.cycles,
            quanta: stats.quanta,
            longest_quantum_ns: stats.pause_ns.max,
            longest_stop_ns: state.longest_stop_ns,
            collector_ns: stats.collector_ns,
            run_ns: stats.elapsed_ns,
            sync_gcs: stats.synchronous_collections,
            stops_cancelled: stats.stops_cancelled,
            departures: stats.departures,
            lost_records: stats.lost_events,
        };
        for m in &stats.mmu {
            let Some(charged_ppm) = m.charged_ppm else { continue };
            let mmu = model::Mmu { window_ns: m.window_ns, charged_ppm, wall_ppm: m.wall_ppm };
            state.write(|log| log.mmu(now, &mmu));
        }
        state.write(|log| log.summary(now, &facts));
        if let Some(log) = state.log.take() {
            match log.finish() {
                Ok(mut sink) => {
                    sink.sync();
                    if let Some(e) = sink.error() {
                        state.log_failed(e);
                    }
                }
                Err(e) => state.log_failed(e.to_string()),
            }
        }
    }

    /// The alarm has ended: its last figures.
    pub(crate) fn alarm_stopped(&self, summary: &AlarmSummary) {
        self.lock().sums.alarm(summary);
    }

    /// The figures so far; what they rest on has been written to the log.
    pub(crate) fn stats(&self, alarm: &AlarmSummary) -> Stats {
        if self.shared.forked() {
            // The lock may have been held at the fork by a thread that does not exist here.
            return Stats { longest_step: "none", ..Stats::default() };
        }
        let mut state = self.lock();
        self.drain(&mut state);
        state.sums.alarm(alarm);
        if let Some(log) = &mut state.log {
            let sink = log.get_mut();
            sink.sync();
            if let Some(e) = sink.error() {
                state.log_failed(e);
            }
        }
        self.collect(&state)
    }

    fn collect(&self, state: &State) -> Stats {
        let s = &self.shared;
        let mut out = state.sums.clone();
        // Relaxed: a counter.
        out.notifications_lost += s.untold.load(Relaxed);
        out.elapsed_ns = s.clock.now().saturating_sub(self.start_ns);
        out.pause_ns = Distribution::of(&state.pause);
        out.quantum_cpu_ns = Distribution::of(&state.cpu);
        out.quantum_charged_ns = Distribution::of(&state.charged);
        out.time_to_stop_ns = Distribution::of(&state.stop);
        out.resume_ns = Distribution::of(&state.resume);
        out.wakeup_ns = Distribution::of(&state.wakeup);
        out.mmu = state
            .windows
            .iter()
            .map(|t| Mmu {
                window_ns: t.charged.window_ns(),
                charged_ppm: t.charged.mmu_ppm(),
                wall_ppm: t.wall.mmu_ppm(),
            })
            .collect();
        out.mmu.sort_by_key(|m| m.window_ns);
        out.step_ns = s.step_times.snapshot().into();
        out.window_ns = s.config.window_ns;
        out.target_ppm = s.config.target_utilization * 10_000;
        out.violations = state.windows[0].charged.violations();
        out.violations_wall = state.windows[0].wall.violations();
        out.allocated_bytes = s.space.allocated_bytes();
        out.used_bytes = s.space.used_bytes();
        out.heap_bytes = s.space.heap_bytes();
        out.max_heap_bytes = s.space.max_bytes();
        out.resident_bytes = s.space.resident_bytes();
        // Relaxed: counters.
        out.finalizers = FinalizerCounts { stuck: out.finalizers.stuck, ..s.finalizers.counts(s) };
        (out.immortal_bytes, out.immortal_used_bytes) = (s.immortal.size_bytes(), s.immortal.used_bytes());
        // Relaxed: counters.
        out.external_bytes = s.external.load(Relaxed);
        out.reaped = s.reaped.load(Relaxed);
        out.reaper_panics = s.reaper_panics.load(Relaxed);
        out.failed_allocations = s.failed_allocations.load(Relaxed);
        out.out_of_memory = s.out_of_memory.load(Relaxed);
        out.lost_events = state.drain.lost();
        // Counted beside the ring, so exact also when events were lost.
        let n = &s.counts;
        out.cycles = s.cycles_done.load(Relaxed);
        out.quanta = n.quanta.load(Relaxed);
        out.collector_ns = n.collector_ns.load(Relaxed);
        // Relaxed: counters.
        out.departures = n.departures.load(Relaxed);
        out.stops_cancelled = s.stops_cancelled.load(Relaxed);
        // Relaxed: counters.
        out.synchronous_collections = n.synchronous.load(Relaxed);
        out.live_bytes = n.live_bytes.load(Relaxed);
        out
    }

    fn drain(&self, state: &mut State) {
        while let Some(e) = state.drain.next() {
            self.one(state, e);
        }
        let lost = state.drain.lost();
        if lost > state.lost_reported {
            let facts = model::LostRecords { count: lost - state.lost_reported, total: lost };
            state.lost_reported = lost;
            let now = self.shared.clock.now();
            state.write(|log| log.lost_records(now, &facts));
        }
        if let Some(log) = &mut state.log {
            // Passes the text on to the disk's thread; never blocks, never fails.
            let _ = log.get_mut().flush();
        }
    }

    fn name_of(&self, record: u32) -> String {
        self.shared.record(record as usize).map_or_else(|| "unknown".into(), |r| r.name().to_string())
    }

    fn one(&self, state: &mut State, e: Event) {
        let c = &self.shared.config;
        match e {
            Event::Quantum(q) => state.quantum(&self.shared, q),
            Event::TriggerStart { ns } => state.write(|log| log.trigger_start(ns)),
            Event::TriggerEnd { ns } => state.write(|log| log.trigger_end(ns)),
            Event::CycleStart { ns, reason, free_bytes } => {
                state.notice(Notification::CycleStart { reason, free_bytes });
                let facts = CycleStartFacts { heap_free_bytes: free_bytes, reason: Some(reason.model()) };
                state.write(|log| log.cycle_start(ns, &facts));
            }
            Event::CycleEnd(end) => state.cycle_end(&end),
            Event::Synchronous {
                start_ns,
                end_ns,
                stop_ns,
                cpu_ns,
                free_before,
                free_after,
                references,
                soft_age,
                reason,
                requested_bytes,
            } => {
                let facts = SyncGcFacts {
                    start_ns,
                    end_ns,
                    reason: reason.model(),
                    requested_bytes,
                    free_before_bytes: free_before,
                    free_after_bytes: free_after,
                    exclusive_access_ns: stop_ns,
                    priority: u64::from(c.gc_priority),
                    cpu_ns: Some(cpu_ns),
                    immortal_before_bytes: immortal_free(&self.shared),
                    immortal_after_bytes: immortal_free(&self.shared),
                    work: state.work(&self.shared, references, soft_age),
                };
                state.notice(Notification::Synchronous { reason, ns: end_ns.saturating_sub(start_ns) });
                state.write(|log| log.sync_gc(&facts));
            }
            Event::StopCancelled { ns, waited_ns, budget_ns, running, record } => {
                let name = self.name_of(record);
                state.straggler(&name);
                if c.report_blocked {
                    state.suspect(record);
                }
                let end = ns;
                let start = ns.saturating_sub(waited_ns);
                // Those who had arrived waited for the one who did not.
                state.pause.saturating_record(waited_ns);
                state.interval(start, end, start + waited_ns.min(budget_ns));
                state.notice(Notification::Straggler { mutator: name.clone() });
                let facts = model::StopCancelled {
                    mutator: name,
                    waited_ns,
                    budget_ns,
                    missing_mutators: u64::from(running),
                };
                state.write(|log| log.stop_cancelled(ns, &facts));
            }
            Event::SafepointOverdue { ns, since_ns, record } => {
                let name = self.name_of(record);
                state.straggler(&name);
                let ms = ns.saturating_sub(since_ns) / 1_000_000;
                state.notice(Notification::SafepointOverdue { mutator: name.clone(), ms });
                let text = format!(
                    "safepoint overdue: mutator {name} has polled for {ms} ms without a safepoint; the cycle waits for it"
                );
                state.write(|log| log.note(ns, &model::Note { text }));
            }
            Event::Departure { ns, reason, allowance_ns, enough } => {
                state.sums.last_departure = Some(reason.text());
                let ppm = |gc: u64| {
                    let left = c.window_ns.saturating_sub(gc);
                    u32::try_from(u128::from(left) * 1_000_000 / u128::from(c.window_ns)).unwrap_or(0)
                };
                let facts = model::Departure {
                    reason: reason.text().into(),
                    window_ns: c.window_ns,
                    target_ppm: c.target_utilization * 10_000,
                    achieved_ppm: ppm(allowance_ns),
                    enough_heap_bytes: enough.map(|e| e.heap_bytes),
                    live_bytes: enough.map(|e| e.live_bytes),
                    allocation_bytes: enough.map(|e| e.allocation_bytes),
                    fragmentation_ppm: enough.map(|_| c.fragmentation_percent * 10_000),
                };
                state.notice(Notification::TargetMissed {
                    reason,
                    enough_heap_bytes: enough.map(|e| e.heap_bytes),
                });
                state.write(|log| log.departure(ns, &facts));
            }
            Event::HeadroomLow { free_bytes, heap_bytes } => {
                state.notice(Notification::HeadroomLow { free_bytes, heap_bytes });
            }
            Event::Grown { ns, from_bytes, to_bytes } => {
                let facts = model::Resize {
                    direction: model::ResizeDirection::Grow,
                    from_bytes,
                    to_bytes,
                    reason: "headroom".into(),
                    total_bytes: Some(self.shared.space.resident_bytes()),
                    limit_bytes: Some(self.shared.space.max_bytes()),
                    ..model::Resize::default()
                };
                state.notice(Notification::Resized {
                    from_bytes,
                    to_bytes,
                    returned_bytes: 0,
                    reason: "headroom",
                });
                state.write(|log| log.resize(ns, &facts));
            }
            Event::AllocationFailed { ns, count, total, enough } => {
                let enough_heap_bytes = enough.map(|e| e.heap_bytes);
                state.notice(Notification::AllocationFailed { count, enough_heap_bytes });
                let facts = model::OutOfMemory { space: Some("heap".into()), address: None };
                state.write(|log| log.out_of_memory(ns, &facts));
                // With `exhaustion = fail` the target is kept, and no departure says it.
                let enough = enough_heap_bytes.map_or(String::new(), |bytes| {
                    format!("; by what was measured a heap of {bytes} bytes would have been enough")
                });
                let text =
                    format!("{count} allocations returned an error to the program ({total} in all){enough}");
                state.write(|log| log.note(ns, &model::Note { text }));
            }
            Event::ClockStep { ns } => {
                let facts = model::NonMonotonicTime {
                    timer: Some("CLOCK_MONOTONIC".into()),
                    to_ns: Some(ns),
                    ..model::NonMonotonicTime::default()
                };
                state.write(|log| log.clock_error(ns, &facts));
            }
        }
    }
}

impl State {
    /// Writes to the log if there is one; a failing log is given up, said once, and remembered.
    fn write(&mut self, f: impl FnOnce(&mut LogWriter<LogSink>) -> std::io::Result<()>) {
        let Some(log) = &mut self.log else { return };
        match f(log) {
            Ok(()) => {}
            // The disk is slower than the log: the log's writer counts what is lost and goes on.
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                self.sums.log_error.get_or_insert(e.to_string());
            }
            Err(e) => self.log_failed(e.to_string()),
        }
    }

    fn log_failed(&mut self, e: String) {
        eprintln!("metronome: writing the verbose GC log failed, it ends here: {e}");
        self.sums.log_error.get_or_insert(e);
        self.log = None;
    }

    fn notice(&mut self, n: Notification) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(n);
        } else {
            self.sums.notifications_lost += 1;
        }
    }

    fn straggler(&mut self, name: &str) {
        count(&mut self.sums.stragglers, name);
    }

    fn suspect(&mut self, record: u32) {
        if self.suspects.len() < SUSPECTS_MAX && !self.suspects.contains(&record) {
            self.suspects.push(record);
        }
    }

    /// What a quantum did to references, and what the finalizer thread has done since the last one.
    fn work(&mut self, s: &Shared, r: ReferenceCounts, soft_age: u64) -> WorkFacts {
        let now = s.finalizers.counts(s);
        let before = std::mem::replace(&mut self.finalizers_told, now);
        WorkFacts {
            soft_cleared: r.soft_cleared,
            soft_threshold: soft_age.min(u64::from(s.config.soft_age)),
            soft_threshold_max: u64::from(s.config.soft_age),
            weak_cleared: r.weak_cleared,
            phantom_cleared: r.deaths_noted,
            finalizer_enqueued: r.finalizers_enqueued,
            references: model::References {
                weak_long_cleared: r.long_cleared,
                ephemerons_cleared: r.ephemerons_cleared,
                finalizers_run: (now.run - before.run).saturating_sub(now.panicked - before.panicked),
                finalizers_suppressed: now.suppressed - before.suppressed,
                finalizers_panicked: now.panicked - before.panicked,
                finalizer_backlog: now.backlog,
            },
        }
    }

    /// What ordinary threads have told.
    fn told(&mut self, s: &Shared, ns: u64, told: Told) {
        match told {
            Told::Note(text) => {
                self.write(|log| log.note(ns, &model::Note { text: text.clone() }));
                self.notice(Notification::Note { text });
            }
            Told::Thread(thread) => {
                if let Some(refused) = &thread.refused {
                    let text = format!("the system refused the thread {}: {refused}", thread.name);
                    self.notice(Notification::Note { text });
                }
                self.write(|log| log.thread(ns, &thread));
            }
            Told::Notification(n) => {
                match &n {
                    Notification::Resized { from_bytes, to_bytes, returned_bytes, reason } => {
                        let facts = model::Resize {
                            direction: match to_bytes.cmp(from_bytes) {
                                std::cmp::Ordering::Less => model::ResizeDirection::Shrink,
                                std::cmp::Ordering::Equal => model::ResizeDirection::Trim,
                                std::cmp::Ordering::Greater => model::ResizeDirection::Grow,
                            },
                            from_bytes: *from_bytes,
                            to_bytes: *to_bytes,
                            returned_bytes: *returned_bytes,
                            reason: (*reason).into(),
                            total_bytes: Some(s.space.resident_bytes()),
                            limit_bytes: Some(s.space.max_bytes()),
                        };
                        self.write(|log| log.resize(ns, &facts));
                    }
                    Notification::LowMemory { text } => {
                        let text = format!("the system is low on memory: {text}");
                        self.write(|log| log.note(ns, &model::Note { text }));
                    }
                    _ => {}
                }
                self.notice(n);
            }
        }
    }

    /// Looks at the finalizer thread: a backlog, a finalizer that does not end, panics.
    fn watch_finalizers(&mut self, s: &Shared, now: u64) {
        let counts = s.finalizers.counts(s);
        let limit = s.config.finalizer_backlog;
        if self.watch.backlog_told {
            self.watch.backlog_told = counts.backlog > limit / 2;
        } else if counts.backlog > limit {
            self.watch.backlog_told = true;
            self.notice(Notification::FinalizerBacklog { waiting: counts.backlog });
            let text =
                format!("finalizer backlog: {} objects wait (finalizer-backlog is {limit})", counts.backlog);
            self.write(|log| log.note(now, &model::Note { text }));
        }
        let panicked = counts.panicked - std::mem::replace(&mut self.watch.panicked_told, counts.panicked);
        if panicked > 0 {
            self.notice(Notification::FinalizerPanicked { count: panicked });
            let text = format!("{panicked} finalizers or callbacks panicked ({} in all)", counts.panicked);
            self.write(|log| log.note(now, &model::Note { text }));
        }
        let Some(limit) = s.config.finalizer_watchdog_ns else { return };
        if let Some((type_name, began)) = s.finalizers.running()
            && now.saturating_sub(began) >= limit
            && std::mem::replace(&mut self.watch.stuck_told, began) != began
        {
            let ms = now.saturating_sub(began) / 1_000_000;
            self.sums.finalizers.stuck += 1;
            self.notice(Notification::FinalizerStuck { type_name, ms });
            let text = format!("the finalizer of a {type_name} has run for {ms} ms; all others wait for it");
            self.write(|log| log.note(now, &model::Note { text }));
        }
    }

    /// A pause: charged until `charged_end`, in wall time until `end`.
    fn interval(&mut self, start: u64, end: u64, charged_end: u64) {
        for t in &mut self.windows {
            t.charged.record(start, charged_end);
            t.wall.record(start, end);
        }
    }

    fn quantum(&mut self, s: &Shared, q: Quantum) {
        let work = self.work(s, q.references, q.soft_age);
        let over = q.charged_ns.saturating_sub(q.planned_ns);
        let sums = &mut self.sums;
        sums.references.add(q.references);
        sums.steps += u64::from(q.steps);
        sums.interrupted_steps += u64::from(q.interrupted);
        sums.interrupted_ns += q.interrupted_ns;
        sums.system_took_ns += q.work_ns.saturating_sub(q.cpu_ns);
        if !q.synchronous {
            sums.over_budget_ns = sums.over_budget_ns.max(over);
        }
        if q.longest_step_ns > sums.longest_step_ns {
            (sums.longest_step, sums.longest_step_ns) = (q.longest_step.text(), q.longest_step_ns);
        }
        self.cpu.saturating_record(q.cpu_ns);
        self.charged.saturating_record(q.charged_ns);
        self.stop.saturating_record(q.stop_ns);
        self.wakeup.saturating_record(q.wakeup_ns);
        self.longest_stop_ns = self.longest_stop_ns.max(q.stop_ns);
        let end = q.resumed_ns.max(q.end_ns);
        if q.resumed_ns > q.end_ns {
            self.resume.saturating_record(q.resumed_ns - q.end_ns);
        }
        self.pause.saturating_record(end.saturating_sub(q.start_ns));
        self.interval(q.start_ns, end, q.start_ns.saturating_add(q.charged_ns));
        if q.synchronous {
            return;
        }
        let facts = QuantumFacts {
            start_ns: q.start_ns,
            end_ns: end,
            phase: match q.phase {
                Phase::Idle => QuantumPhase::Unknown,
                Phase::Snapshot => QuantumPhase::Precollect,
                Phase::Mark => QuantumPhase::Mark,
                Phase::Weak | Phase::Finalize | Phase::Phantom => QuantumPhase::Postcollect,
                Phase::Sweep => QuantumPhase::Sweep,
            },
            exclusive_access_ns: q.stop_ns,
            wakeup_ns: q.wakeup_ns,
            planned_ns: q.planned_ns,
            cpu_ns: Some(q.cpu_ns),
            heap_free_bytes: q.free_bytes,
            immortal_free_bytes: immortal_free(s),
            work,
            gc_thread_priority: self.priority,
            longest_step_ns: q.longest_step_ns,
            longest_step: q.longest_step.text(),
            ..QuantumFacts::default()
        };
        self.write(|log| log.quantum(&facts));
    }

    fn cycle_end(&mut self, end: &CycleEnd) {
        let sums = &mut self.sums;
        sums.last_prediction = end.predicted_collector_ns.zip(end.predicted_allocated_bytes).map(
            |(collector_ns, allocated_bytes)| Predicted {
                collector_ns,
                actual_collector_ns: end.collector_ns,
                allocated_bytes,
                actual_allocated_bytes: end.allocated_bytes,
            },
        );
        let facts = model::CycleFacts {
            quanta: end.quanta,
            collector_ns: end.collector_ns,
            predicted_collector_ns: end.predicted_collector_ns,
            cpu_ns: Some(end.cpu_ns),
            allocated_bytes: end.allocated_bytes,
            predicted_allocated_bytes: end.predicted_allocated_bytes,
            live_bytes: Some(end.counts.live_bytes),
        };
        self.notice(Notification::CycleEnd {
            quanta: end.quanta,
            collector_ns: end.collector_ns,
            elapsed_ns: end.elapsed_ns,
            live_bytes: end.counts.live_bytes,
            freed_bytes: end.counts.freed_bytes,
        });
        self.write(|log| log.cycle_end(end.ns, end.free_bytes, &facts));
    }
}

/// Counts a name in a list that is bounded.
fn count(known: &mut Vec<(String, u64)>, name: &str) {
    if let Some((_, count)) = known.iter_mut().find(|(n, _)| n == name) {
        *count += 1;
    } else if known.len() < NAMES_MAX {
        known.push((name.into(), 1));
    }
}

/// Free immortal memory, if there is such memory. (A collection changes nothing in it.)
fn immortal_free(s: &Shared) -> Option<u64> {
    (s.immortal.size_bytes() > 0).then(|| s.immortal.free_bytes())
}
