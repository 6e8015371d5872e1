//! What the writer keeps: sums, distributions, windows; the log; what is yet to be told.

use super::{NAMES_MAX, NOTICES_MAX, SUSPECTS_MAX};
use crate::events::{CycleEnd, Drain, Quantum};
use crate::log_sink::LogSink;
use crate::meter::STEP_CEILING_NS;
use crate::notice::Notification;
use crate::shared::{Shared, Told};
use crate::stats::{Distribution, FinalizerCounts, PhaseSteps, Predicted, ReferenceCounts, Stats};
use crate::watch::{Feeds, HeapEvent, Seen, word};
use hdrhistogram::Histogram;
use metronome_barrier::Phase;
use metronome_scheduler::MmuTracker;
use metronome_verbosegc::model;
use metronome_verbosegc::writer::{LogWriter, QuantumFacts, WorkFacts};
use std::sync::atomic::Ordering::Relaxed;

pub(super) struct Trackers {
    pub(super) charged: MmuTracker,
    pub(super) wall: MmuTracker,
}

/// What has been told of the finalizer thread.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) backlog_told: bool,
    /// When the finalizer that was told as stuck began.
    pub(super) stuck_told: u64,
    pub(super) panicked_told: u64,
    pub(super) drops_told: u64,
}

/// The longest steps of one kind of quantum.
pub(super) struct Steps {
    phase: &'static str,
    longest: Histogram<u64>,
    name: &'static str,
    /// The longest, not limited.
    ns: u64,
}

impl Steps {
    /// One for each kind, in the order of a cycle.
    pub(super) fn all(histogram: impl Fn() -> Histogram<u64>) -> [Steps; 4] {
        ["precollect", "mark", "postcollect", "sweep"].map(|phase| Steps {
            phase,
            longest: histogram(),
            name: "none",
            ns: 0,
        })
    }

    fn record(&mut self, q: &Quantum) {
        self.longest.saturating_record(q.longest_step_ns.min(STEP_CEILING_NS));
        if q.longest_step_ns >= self.ns {
            (self.name, self.ns) = (q.longest_step.text(), q.longest_step_ns);
        }
    }

    pub(super) fn stats(&self) -> Option<PhaseSteps> {
        let longest_ns = Distribution::of(&self.longest);
        (longest_ns.count > 0).then_some(PhaseSteps {
            phase: self.phase,
            longest_ns,
            longest_step: self.name,
            unlimited_ns: self.ns,
        })
    }
}

pub(super) struct State {
    pub(super) drain: Drain,
    /// The finalizer thread's counts in the last quantum's record.
    pub(super) finalizers_told: FinalizerCounts,
    pub(super) watch: Watch,
    pub(super) log: Option<LogWriter<LogSink>>,
    pub(super) notices: Vec<Notification>,
    /// Records of stragglers that the writer thread has yet to look at.
    pub(super) suspects: Vec<u32>,
    /// Records of mutators that were said to be blocked, and when.
    pub(super) blocked: Vec<(u32, u64)>,
    pub(super) pause: Histogram<u64>,
    pub(super) cpu: Histogram<u64>,
    pub(super) charged: Histogram<u64>,
    pub(super) stop: Histogram<u64>,
    pub(super) resume: Histogram<u64>,
    pub(super) wakeup: Histogram<u64>,
    pub(super) overshoot: Histogram<u64>,
    /// Relative errors of predictions in parts per million: collector time, allocation.
    pub(super) errors: [Histogram<u64>; 2],
    pub(super) steps: [Steps; 4],
    pub(super) windows: Vec<Trackers>,
    pub(super) sums: Stats,
    pub(super) lost_reported: u64,
    pub(super) longest_stop_ns: u64,
    pub(super) priority: u64,
    pub(super) feeds: Feeds,
}
impl State {
    /// Writes to the log if there is one; a failing log is given up, said once, and remembered.
    pub(super) fn write(&mut self, f: impl FnOnce(&mut LogWriter<LogSink>) -> std::io::Result<()>) {
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

    pub(super) fn log_failed(&mut self, e: String) {
        eprintln!("metronome: writing the verbose GC log failed, it ends here: {e}");
        self.sums.log_error.get_or_insert(e);
        self.log = None;
    }

    /// Tells the watchers, if there are any.
    pub(super) fn see(&mut self, ns: u64, event: impl FnOnce() -> HeapEvent) {
        if self.feeds.watched() {
            self.feeds.offer(Seen { ns, event: event() });
        }
    }

    /// Tells the watchers what there is to be seen now: memory, and how mutators answered.
    pub(super) fn look(&mut self, s: &Shared) {
        if !self.feeds.watched() {
            return;
        }
        let now = s.clock.now();
        // Relaxed: a hint.
        let trigger = s.trigger_bytes.load(Relaxed);
        self.see(now, || HeapEvent::Memory {
            used_bytes: s.space.used_bytes(),
            heap_bytes: s.space.heap_bytes(),
            trigger_bytes: (trigger != u64::MAX).then_some(trigger),
            allocated_bytes: s.space.allocated_bytes(),
            resident_bytes: s.space.resident_bytes(),
        });
        for r in s.records() {
            let (stops, sum_ns, max_ns) = r.arrivals.take();
            if stops > 0 {
                self.see(now, || HeapEvent::MutatorStops {
                    mutator: r.name().to_string(),
                    stops,
                    sum_ns,
                    max_ns,
                });
            }
        }
    }

    pub(super) fn notice(&mut self, n: Notification) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(n);
        } else {
            self.sums.notifications_lost += 1;
        }
    }

    pub(super) fn straggler(&mut self, name: &str) {
        count(&mut self.sums.stragglers, name);
    }

    pub(super) fn suspect(&mut self, record: u32) {
        if self.suspects.len() < SUSPECTS_MAX && !self.suspects.contains(&record) {
            self.suspects.push(record);
        }
    }

    /// What a quantum did to references, and what the finalizer thread has done since the last one.
    pub(super) fn work(&mut self, s: &Shared, r: ReferenceCounts, soft_age: u64) -> WorkFacts {
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
    pub(super) fn told(&mut self, s: &Shared, ns: u64, told: Told) {
        match told {
            Told::Bookmark(text) => {
                self.see(ns, || HeapEvent::Bookmark { text: text.clone() });
                let text = format!("bookmark: {text}");
                self.write(|log| log.note(ns, &model::Note { text }));
            }
            Told::Note(text) => {
                self.see(ns, || HeapEvent::Note { text: text.clone() });
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
                        self.see(ns, || HeapEvent::Resized {
                            from_bytes: *from_bytes,
                            to_bytes: *to_bytes,
                            reason,
                        });
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
                        self.see(ns, || HeapEvent::Note { text: text.clone() });
                        self.write(|log| log.note(ns, &model::Note { text }));
                    }
                    _ => {}
                }
                self.notice(n);
            }
        }
    }

    /// Looks at the reaper and the finalizer thread: a backlog, a finalizer that does not end, panics.
    pub(super) fn watch_finalizers(&mut self, s: &Shared, now: u64) {
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
        // Relaxed: a counter.
        let drops = s.reaper_panics.load(Relaxed);
        let more = drops - std::mem::replace(&mut self.watch.drops_told, drops);
        if more > 0 {
            self.notice(Notification::DropPanicked { count: more });
            let text = format!("drop glue panicked {more} times ({drops} in all)");
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
    pub(super) fn interval(&mut self, start: u64, end: u64, charged_end: u64) {
        for t in &mut self.windows {
            t.charged.record(start, charged_end);
            t.wall.record(start, end);
        }
    }

    pub(super) fn quantum(&mut self, s: &Shared, q: Quantum) {
        let work = self.work(s, q.references, q.soft_age);
        let over = q.charged_ns.saturating_sub(q.planned_ns);
        let sums = &mut self.sums;
        sums.references.add(q.references);
        sums.steps += u64::from(q.steps);
        sums.interrupted_steps += u64::from(q.interrupted);
        sums.interrupted_ns += q.interrupted_ns;
        sums.helpers_cpu_ns += q.helpers_cpu_ns;
        sums.system_took_ns += q.work_ns.saturating_sub(q.cpu_ns);
        if !q.synchronous {
            sums.over_budget_ns = sums.over_budget_ns.max(over);
            self.overshoot.saturating_record(over);
        }
        if q.longest_step_ns > sums.longest_step_ns {
            (sums.longest_step, sums.longest_step_ns) = (q.longest_step.text(), q.longest_step_ns);
        }
        let kind = match q.phase {
            Phase::Idle | Phase::Snapshot => 0,
            Phase::Mark => 1,
            Phase::Weak | Phase::Finalize | Phase::Phantom => 2,
            Phase::Sweep => 3,
        };
        self.steps[kind].record(&q);
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
            released_ns: Some(q.end_ns),
            phase: word(q.phase),
            exclusive_access_ns: q.stop_ns,
            wakeup_ns: q.wakeup_ns,
            planned_ns: q.planned_ns,
            cpu_ns: Some(q.cpu_ns),
            work_ns: Some(q.work_ns),
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

    pub(super) fn cycle_end(&mut self, end: &CycleEnd) {
        let sums = &mut self.sums;
        sums.last_prediction = end.predicted_collector_ns.zip(end.predicted_allocated_bytes).map(
            |(collector_ns, allocated_bytes)| Predicted {
                collector_ns,
                actual_collector_ns: end.collector_ns,
                allocated_bytes,
                actual_allocated_bytes: end.allocated_bytes,
            },
        );
        if let Some(p) = sums.last_prediction {
            let pairs =
                [(p.collector_ns, p.actual_collector_ns), (p.allocated_bytes, p.actual_allocated_bytes)];
            for (errors, (predicted, actual)) in self.errors.iter_mut().zip(pairs) {
                let ppm = u128::from(predicted.abs_diff(actual)) * 1_000_000 / u128::from(actual.max(1));
                errors.saturating_record(u64::try_from(ppm).unwrap_or(u64::MAX));
            }
        }
        let facts = model::CycleFacts {
            quanta: end.quanta,
            collector_ns: end.collector_ns,
            predicted_collector_ns: end.predicted_collector_ns,
            cpu_ns: Some(end.cpu_ns),
            handles_ns: Some(end.handles_ns),
            allocated_bytes: end.allocated_bytes,
            predicted_allocated_bytes: end.predicted_allocated_bytes,
            live_bytes: Some(end.counts.live_bytes),
            floating_objects: end.counts.floating.map(|f| f.objects),
            floating_bytes: end.counts.floating.map(|f| f.bytes),
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
pub(super) fn count(known: &mut Vec<(String, u64)>, name: &str) {
    if let Some((_, count)) = known.iter_mut().find(|(n, _)| n == name) {
        *count += 1;
    } else if known.len() < NAMES_MAX {
        known.push((name.into(), 1));
    }
}

/// Free immortal memory, if there is such memory. (A collection changes nothing in it.)
pub(super) fn immortal_free(s: &Shared) -> Option<u64> {
    (s.immortal.size_bytes() > 0).then(|| s.immortal.free_bytes())
}
