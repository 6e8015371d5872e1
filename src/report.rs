//! The writer: drains events into statistics, `tracing` and the verbose GC log. Never on the real-time path.
//!
//! # Who may touch what
//! One low-priority thread drains every 50 ms; whoever asks for [`Stats`] drains too, under the same lock.

mod events;
mod state;

use crate::collector::StepName;
use crate::config::VerboseFormat;
use crate::error::BuildError;
use crate::events::Drain;
use crate::log_sink::LogSink;
use crate::notice::{Listeners, Notification, Subscription};
use crate::shared::{MutatorState, Shared};
use crate::stats::{Distribution, FinalizerCounts, Mmu, Stats, StepKind};
use crate::verify::Floating;
use crate::watch::{self, Feeds, HeapEvent, Seen, Watched};
use hdrhistogram::Histogram;
use metronome_alarm::AlarmSummary;
use metronome_scheduler::MmuTracker;
use metronome_verbosegc::WallClock;
use metronome_verbosegc::model::{self, Generation};
use metronome_verbosegc::writer::{LogWriter, Options};
use state::{State, Steps, Trackers, Watch, count};
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
            overshoot: histogram(),
            errors: [histogram(), histogram()],
            steps: Steps::all(histogram),
            windows,
            sums: Stats { longest_step: "none", ..Stats::default() },
            lost_reported: 0,
            longest_stop_ns: 0,
            priority: u64::from(c.gc_priority),
            feeds: Feeds::new(Watched {
                config: c.clone(),
                version: env!("CARGO_PKG_VERSION"),
                start_ns,
                start_unix_ns: WallClock::utc_now(start_ns).unix_ns,
            }),
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
            state.look(&self.shared);
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

    /// Adds a watcher.
    pub(crate) fn watch(&self, records: usize) -> watch::Watch {
        if self.shared.forked() {
            // As in `stats`; and nothing will ever happen here.
            let mut none = Feeds::new(Watched {
                config: self.shared.config.clone(),
                version: env!("CARGO_PKG_VERSION"),
                start_ns: self.start_ns,
                start_unix_ns: WallClock::utc_now(self.start_ns).unix_ns,
            });
            none.close();
            return none.add(records);
        }
        let mut state = self.lock();
        // What happened before is not for the new one; what the ring still holds did.
        self.drain(&mut state);
        state.feeds.add(records)
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
        state.feeds.close();
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
        // Only tried by a no-heap thread, which must not wait for an ordinary one.
        let state = if crate::thread::is_no_heap() { self.state.try_lock().ok() } else { Some(self.lock()) };
        if let Some(mut state) = state {
            state.sums.alarm(summary);
        }
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
        out.phase_steps = state.steps.iter().filter_map(Steps::stats).collect();
        out.overshoot_ns = Distribution::of(&state.overshoot);
        let [collector, allocation] = &state.errors;
        (out.collector_error_ppm, out.allocation_error_ppm) =
            (Distribution::of(collector), Distribution::of(allocation));
        let kinds =
            StepName::ALL.iter().map(|&name| StepKind { name: name.text(), cpu_ns: s.step_kinds.of(name) });
        out.step_kinds = kinds.filter(|k| k.cpu_ns.count > 0).collect();
        out.step_ns = s.step_times.snapshot().into();
        out.gc_threads = s.crew.seats.len() as u32 + 1;
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
        // Acquire: pairs with the Release at a cycle's end, so that what was counted in it is there.
        out.cycles = s.cycles_done.load(Acquire);
        out.quanta = n.quanta.load(Relaxed);
        out.collector_ns = n.collector_ns.load(Relaxed);
        // Relaxed: counters.
        out.departures = n.departures.load(Relaxed);
        out.marked_beside = n.marked_beside.load(Relaxed);
        out.stops_cancelled = s.stops_cancelled.load(Relaxed);
        // Relaxed: counters.
        out.synchronous_collections = n.synchronous.load(Relaxed);
        out.live_bytes = n.live_bytes.load(Relaxed);
        // One may end between the readings.
        out.verified_cycles = n.verified.load(Relaxed).min(out.cycles);
        out.remarked_cycles = n.remarked.load(Relaxed);
        let floating = |[objects, bytes]: &[std::sync::atomic::AtomicU64; 2]| Floating {
            // Relaxed: counters.
            objects: objects.load(Relaxed),
            bytes: bytes.load(Relaxed),
        };
        (out.floating, out.floating_total) = (floating(&n.floating_last), floating(&n.floating_total));
        out
    }

    fn drain(&self, state: &mut State) {
        while let Some(e) = state.drain.next() {
            if state.feeds.watched() {
                let seen = Seen::of(&e, self.shared.clock.now(), |record| self.name_of(record));
                state.feeds.offer(seen);
            }
            self.one(state, e);
        }
        let lost = state.drain.lost();
        if lost > state.lost_reported {
            let facts = model::LostRecords { count: lost - state.lost_reported, total: lost };
            state.lost_reported = lost;
            let now = self.shared.clock.now();
            state.see(now, || HeapEvent::Lost { count: facts.count, total: facts.total });
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
}
