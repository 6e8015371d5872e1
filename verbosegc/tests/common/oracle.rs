//! What a reader must see of a script.

use super::common::{Fact, Script, Seen, clean, cut};
use metronome_verbosegc::model::*;
use metronome_verbosegc::writer::*;
use metronome_verbosegc::{LogTime, WallClock};

/// Expected events, from lists of quanta.
pub(crate) struct Oracle {
    format: Format,
    clock: WallClock,
    interval: u64,
    quanta: Vec<QuantumFacts>,
    mark: Option<u64>,
    begun: Option<u64>,
    trigger: (u64, Option<u64>, Option<u64>),
    cycle: (u64, Option<u64>, Option<u64>),
    heartbeats: u64,
    syncs: (u64, Option<u64>),
    next: u64,
    context: u64,
    printed: Option<LogTime>,
    pub(crate) seen: Vec<Seen>,
}

fn stats(values: &[u64]) -> (u64, u64, u64) {
    let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
    let mean = (sum / values.len() as u128) as u64;
    (*values.iter().min().unwrap(), mean, *values.iter().max().unwrap())
}

fn durations(values: &[u64]) -> DurationStats {
    let (min, mean, max) = stats(values);
    DurationStats { min_ns: cut(min), mean_ns: cut(mean), max_ns: cut(max) }
}

impl Oracle {
    pub(crate) fn run(script: &Script) -> Vec<Seen> {
        let mut o = Self {
            format: script.format,
            clock: script.options.wall_clock,
            interval: script.options.heartbeat_interval_ns,
            quanta: Vec::new(),
            mark: None,
            begun: None,
            trigger: (0, None, None),
            cycle: (0, None, None),
            heartbeats: 0,
            syncs: (0, None),
            next: 0,
            context: 0,
            printed: None,
            seen: Vec::new(),
        };
        if let Some((ns, facts)) = &script.header {
            (o.begun, o.mark) = (Some(*ns), Some(*ns));
            let id = o.is_new().then(|| o.number(0));
            let mut facts = facts.clone();
            for text in [&mut facts.architecture, &mut facts.os, &mut facts.os_version].into_iter().flatten()
            {
                *text = clean(text);
            }
            for (name, value) in &mut facts.vmargs {
                (*name, *value) = (clean(name), value.as_deref().map(clean));
            }
            for a in &mut facts.attributes {
                (a.name, a.value) = (clean(&a.name), clean(&a.value));
            }
            o.push(id, None, Some(*ns), false, Event::Initialized(Box::new(facts)));
        }
        for fact in &script.facts {
            o.fact(fact);
        }
        o.heartbeat();
        o.seen
    }

    fn is_new(&self) -> bool {
        self.format == Format::OpenJ9
    }

    fn number(&mut self, own: u64) -> u64 {
        if self.is_new() {
            self.next += 1;
            self.next
        } else {
            own
        }
    }

    fn at(&self, ns: u64) -> LogTime {
        let t = self.clock.at(ns);
        if self.is_new() { t } else { t.to_seconds() }
    }

    fn push(
        &mut self,
        id: Option<u64>,
        context: Option<u64>,
        ns: Option<u64>,
        clock_error: bool,
        event: Event,
    ) {
        let time = ns.map(|ns| self.at(ns));
        self.seen.push(Seen { id, context, time, clock_error, event });
    }

    fn warn(&mut self) {
        let details = "clock error detected, following timing may be inaccurate".into();
        self.push(None, None, None, false, Event::Warning { details });
    }

    /// The interval, and whether a warning was due.
    fn since(&mut self, ns: u64, from: Option<u64>) -> (u64, bool) {
        match from {
            Some(from) if from > ns => {
                self.warn();
                (0, true)
            }
            Some(from) => (ns - from, false),
            None => (0, false),
        }
    }

    fn own(&mut self, ns: u64, event: Event) {
        let context = (self.context > 0).then_some(self.context);
        self.push(None, context, Some(ns), false, event);
    }

    fn heartbeat(&mut self) {
        let q = std::mem::take(&mut self.quanta);
        let (Some(first), Some(last)) = (q.first(), q.last()) else { return };
        let new = self.is_new();
        let walls: Vec<u64> = q.iter().map(|q| q.end_ns.saturating_sub(q.start_ns)).collect();
        let mut bad = q.iter().any(|q| q.end_ns < q.start_ns);
        bad |= q.windows(2).any(|w| w[1].start_ns < w[0].end_ns);
        let since = self.mark.unwrap_or(last.end_ns);
        bad |= last.end_ns < since;
        if bad && new {
            self.warn();
        }
        let longest = *walls.iter().max().unwrap();
        let longest_end = q[walls.iter().position(|w| *w == longest).unwrap()].end_ns;
        let all = |f: fn(&QuantumFacts) -> u64| q.iter().map(f).collect::<Vec<u64>>();
        let sum = |f: fn(&QuantumFacts) -> u64| q.iter().map(f).sum::<u64>();
        let immortal: Vec<u64> = q.iter().filter_map(|q| q.immortal_free_bytes).collect();
        let free = stats(&all(|q| q.heap_free_bytes));
        let wakeup = durations(&all(|q| q.wakeup_ns));
        let measured: Vec<(u64, u64)> =
            q.iter().zip(&walls).filter_map(|(q, w)| Some((q.cpu_ns?, *w))).collect();
        let took = |q: &QuantumFacts| {
            let end = q.released_ns.map_or(q.end_ns, |ns| ns.min(q.end_ns));
            end.saturating_sub(q.start_ns)
        };
        let over: Vec<u64> =
            q.iter().filter(|q| took(q) > q.planned_ns).map(|q| took(q) - q.planned_ns).collect();
        // Told for all quanta, or for none.
        let told = q.iter().all(|q| q.released_ns.is_some());
        let collector = durations(&q.iter().map(took).collect::<Vec<_>>());
        let resume: Vec<u64> = q.iter().zip(&walls).map(|(q, wall)| wall - took(q)).collect();
        let resume = durations(&resume);
        let works: Option<Vec<u64>> = q.iter().filter(|q| q.cpu_ns.is_some()).map(|q| q.work_ns).collect();
        let works = works.filter(|w| !w.is_empty());
        // The first of the longest steps; a step without a name gives way to any that has one.
        let mut step = (0, "");
        for q in &q {
            if q.longest_step_ns > step.0 || step.1.is_empty() {
                step = (step.0.max(q.longest_step_ns), q.longest_step);
            }
        }
        let (packets, objects) = (sum(|q| q.overflow_packets), sum(|q| q.overflow_objects));
        self.heartbeats += 1;
        let id = self.number(self.heartbeats);
        let printed = self.at(last.end_ns);
        let derived = self
            .printed
            .filter(|_| new)
            .and_then(|p| u64::try_from(printed.ms_since(p)).ok())
            .map(|ms| ms * 1_000_000);
        let event = Heartbeat {
            interval_ns: (!new).then(|| cut(last.end_ns.saturating_sub(since))),
            derived_interval_ns: derived,
            quantum_count: Some(q.len() as u64),
            phase: new.then_some(first.phase),
            quantum: Some(durations(&walls)),
            longest_at: new.then(|| LongestAt::InHeartbeat(cut(longest_end.saturating_sub(first.end_ns)))),
            exclusive_access: Some(durations(&all(|q| q.exclusive_access_ns))),
            heap_free: Some(ByteStats { min_bytes: free.0, mean_bytes: free.1, max_bytes: free.2 }),
            immortal_free: (!immortal.is_empty()).then(|| {
                let (min_bytes, mean_bytes, max_bytes) = stats(&immortal);
                ByteStats { min_bytes, mean_bytes, max_bytes }
            }),
            work: work(
                new,
                &total(&q),
                (packets + objects > 0)
                    .then_some(QueueOverflow { packets: Some(packets), objects: Some(objects) }),
            ),
            allocator_sweep: None,
            priority_max: q.iter().map(|q| q.gc_thread_priority).max(),
            priority_min: q.iter().map(|q| q.gc_thread_priority).min(),
            detail: Some(Box::new(QuantaDetail {
                first_start_ns: first.start_ns,
                last_end_ns: last.end_ns,
                wakeup_min_ns: wakeup.min_ns,
                wakeup_mean_ns: wakeup.mean_ns,
                wakeup_max_ns: wakeup.max_ns,
                planned_max_ns: cut(q.iter().map(|q| q.planned_ns).max().unwrap()),
                over_plan: over.len() as u64,
                over_plan_max_ns: cut(over.iter().copied().max().unwrap_or(0)),
                cpu_quanta: measured.len() as u64,
                cpu_ns: cut(measured.iter().map(|m| m.0).sum()),
                cpu_wall_ns: cut(measured.iter().map(|m| m.1).sum()),
                work_wall_ns: works.map(|w| cut(w.iter().sum())),
                collector_min_ns: told.then_some(collector.min_ns),
                collector_mean_ns: told.then_some(collector.mean_ns),
                collector_max_ns: told.then_some(collector.max_ns),
                resume_mean_ns: told.then_some(resume.mean_ns),
                resume_max_ns: told.then_some(resume.max_ns),
                longest_step_ns: cut(step.0),
                longest_step: step.1.into(),
            })),
        };
        let context = new.then_some(self.context);
        self.push(Some(id), context, Some(last.end_ns), bad, Event::Heartbeat(Box::new(event)));
        self.printed = Some(printed);
        self.mark = Some(last.end_ns);
    }

    fn fact(&mut self, fact: &Fact) {
        let new = self.is_new();
        match fact {
            Fact::TriggerStart(ns) => {
                self.heartbeat();
                self.trigger.0 += 1;
                let id = self.number(self.trigger.0);
                let from = self.trigger.2.or(self.begun).filter(|_| !new);
                let (interval, bad) = self.since(*ns, from);
                let interval_ns = (!new).then(|| cut(interval));
                self.push(Some(id), None, Some(*ns), bad, Event::TriggerStart { interval_ns });
                (self.trigger.1, self.mark) = (Some(*ns), Some(*ns));
            }
            Fact::TriggerEnd(ns) => {
                self.heartbeat();
                let id = self.number(self.trigger.0.max(1));
                let (interval, bad) = self.since(*ns, self.trigger.1.filter(|_| !new));
                let interval_ns = (!new).then(|| cut(interval));
                self.push(Some(id), None, Some(*ns), bad, Event::TriggerEnd { interval_ns });
                (self.trigger.2, self.mark) = (Some(*ns), Some(*ns));
            }
            Fact::CycleStart(ns, facts) => {
                self.heartbeat();
                self.cycle.0 += 1;
                let id = self.number(self.cycle.0);
                let from = if new { self.cycle.1 } else { self.cycle.2 };
                let (interval, bad) = self.since(*ns, from.or(self.begun));
                let edge = CycleEdge {
                    kind: new.then(|| "global".into()),
                    interval_ns: Some(cut(interval)),
                    heap_free_bytes: Some(facts.heap_free_bytes),
                    reason: facts.reason.clone().map(|r| match r {
                        CycleReason::Other(text) => CycleReason::Other(clean(&text)),
                        known => known,
                    }),
                };
                self.push(Some(id), new.then_some(0), Some(*ns), bad, Event::CycleStart(edge));
                self.cycle.1 = Some(*ns);
                self.printed = Some(self.at(*ns));
                if new {
                    (self.context, self.mark) = (id, Some(*ns));
                }
            }
            Fact::CycleEnd(ns, free, facts) => {
                self.heartbeat();
                let id = self.number(self.cycle.0.max(1));
                let (interval, bad) = self.since(*ns, self.cycle.1.filter(|_| !new));
                let edge = CycleEdge {
                    kind: new.then(|| "global".into()),
                    interval_ns: (!new).then(|| cut(interval)),
                    heap_free_bytes: Some(*free),
                    reason: None,
                };
                let context = new.then_some(self.context);
                self.push(Some(id), context, Some(*ns), bad, Event::CycleEnd(edge));
                self.own(*ns, Event::Cycle(facts.clone()));
                self.cycle.2 = Some(*ns);
                self.context = 0;
            }
            Fact::Quantum(q) => {
                if new && self.quanta.first().is_some_and(|f| f.phase != q.phase) {
                    self.heartbeat();
                }
                let mark = *self.mark.get_or_insert(q.start_ns);
                self.quanta.push(q.clone());
                if q.end_ns < mark || q.end_ns - mark >= self.interval {
                    self.heartbeat();
                }
            }
            Fact::Sync(f) => self.sync(f),
            Fact::Oom(ns, f) => {
                let f = OutOfMemory { space: f.space.as_deref().map(clean), address: f.address };
                self.plain(*ns, Event::OutOfMemory(f));
            }
            Fact::Tracker(ns, f) => self.plain(*ns, Event::TrackerOverflow(f.clone())),
            Fact::Clock(ns, f) => {
                let f = NonMonotonicTime { timer: f.timer.as_deref().map(clean), ..f.clone() };
                self.plain(*ns, Event::NonMonotonicTime(f));
            }
            Fact::Warning(text) => {
                self.push(None, None, None, false, Event::Warning { details: clean(text) });
            }
            Fact::Stop(ns, f) => {
                let f = StopCancelled { mutator: clean(&f.mutator), ..f.clone() };
                self.own(*ns, Event::StopCancelled(f));
            }
            Fact::Lost(ns, f) => self.own(*ns, Event::LostRecords(f.clone())),
            Fact::Departure(ns, f) => {
                self.own(*ns, Event::Departure(Departure { reason: clean(&f.reason), ..f.clone() }));
            }
            Fact::Resize(ns, f) => {
                self.own(*ns, Event::Resize(Resize { reason: clean(&f.reason), ..f.clone() }));
            }
            Fact::Thread(ns, f) => {
                let (name, refused) = (clean(&f.name), f.refused.as_deref().map(clean));
                self.own(*ns, Event::Thread(Thread { name, refused, ..f.clone() }));
            }
            // Both speak of all quanta so far.
            Fact::Mmu(ns, f) => {
                self.heartbeat();
                self.own(*ns, Event::Mmu(f.clone()));
            }
            Fact::Summary(ns, f) => {
                self.heartbeat();
                self.own(*ns, Event::Summary(f.clone()));
            }
            Fact::Note(ns, f) => self.own(*ns, Event::Note(Note { text: clean(&f.text) })),
        }
    }

    fn plain(&mut self, ns: u64, event: Event) {
        let id = self.is_new().then(|| self.number(0));
        self.push(id, None, Some(ns), false, event);
    }

    fn sync(&mut self, f: &SyncGcFacts) {
        let new = self.is_new();
        self.heartbeat();
        self.syncs.0 += 1;
        let id = self.number(self.syncs.0);
        let from = self.syncs.1.unwrap_or(f.start_ns);
        let bad = f.end_ns < f.start_ns || f.start_ns < from;
        if bad && new {
            self.warn();
        }
        let length = cut(f.end_ns.saturating_sub(f.start_ns));
        let (start, end) = if new {
            (self.at(f.end_ns).offset_ns(-i128::from(length)), self.at(f.end_ns))
        } else {
            (self.at(f.start_ns), self.at(f.start_ns).offset_ns(i128::from(length)))
        };
        let reason = match &f.reason {
            SyncReason::Other(text) => SyncReason::Other(clean(text)),
            known => known.clone(),
        };
        let event = SyncGc {
            requested_bytes: (f.reason == SyncReason::OutOfMemory).then_some(f.requested_bytes),
            reason: Some(reason),
            start: Some(start),
            end: Some(end),
            duration_ns: Some(length),
            interval_ns: (!new).then(|| cut(f.start_ns.saturating_sub(from))),
            exclusive_access_ns: new.then(|| cut(f.exclusive_access_ns)),
            free_before_bytes: Some(f.free_before_bytes),
            free_after_bytes: Some(f.free_after_bytes),
            immortal_before_bytes: f.immortal_before_bytes,
            immortal_after_bytes: f.immortal_after_bytes,
            priority: Some(f.priority),
            work: work(new, &f.work, None),
            detail: Some(SyncDetail {
                start_ns: f.start_ns,
                end_ns: f.end_ns,
                exclusive_access_ns: f.exclusive_access_ns,
                cpu_ns: f.cpu_ns,
            }),
        };
        let (context, printed) = (new.then_some(self.context), if new { f.end_ns } else { f.start_ns });
        self.push(Some(id), context, Some(printed), bad, Event::SyncGc(Box::new(event)));
        self.printed = Some(end);
        self.syncs.1 = Some(f.start_ns);
        self.mark = Some(f.end_ns);
    }
}

/// What the quanta of a heartbeat did in sum.
fn total(q: &[QuantumFacts]) -> WorkFacts {
    let sum = |f: fn(&WorkFacts) -> u64| {
        let exact: u128 = q.iter().map(|q| u128::from(f(&q.work))).sum();
        u64::try_from(exact).unwrap_or(u64::MAX)
    };
    // The last quantum that knew of thresholds.
    let knew = q.iter().map(|q| &q.work).rfind(|w| w.soft_threshold_max != 0);
    WorkFacts {
        soft_cleared: sum(|w| w.soft_cleared),
        soft_threshold: knew.map_or(0, |w| w.soft_threshold),
        soft_threshold_max: knew.map_or(0, |w| w.soft_threshold_max),
        weak_cleared: sum(|w| w.weak_cleared),
        phantom_cleared: sum(|w| w.phantom_cleared),
        finalizer_enqueued: sum(|w| w.finalizer_enqueued),
        references: References {
            weak_long_cleared: sum(|w| w.references.weak_long_cleared),
            ephemerons_cleared: sum(|w| w.references.ephemerons_cleared),
            finalizers_run: sum(|w| w.references.finalizers_run),
            finalizers_suppressed: sum(|w| w.references.finalizers_suppressed),
            finalizers_panicked: sum(|w| w.references.finalizers_panicked),
            finalizer_backlog: q.iter().map(|q| q.work.references.finalizer_backlog).max().unwrap(),
        },
    }
}

/// The 2007 form writes all kinds of references or none; the OpenJ9 form each that is not 0.
fn work(new: bool, f: &WorkFacts, overflow: Option<QueueOverflow>) -> Work {
    let any = f.soft_cleared > 0 || f.weak_cleared > 0 || f.phantom_cleared > 0;
    let written = |count: u64| if new { count > 0 } else { any };
    let r = &f.references;
    let own = [
        r.weak_long_cleared,
        r.ephemerons_cleared,
        r.finalizers_run,
        r.finalizers_suppressed,
        r.finalizers_panicked,
        r.finalizer_backlog,
    ];
    Work {
        class_unload: None,
        soft: written(f.soft_cleared).then_some(SoftReferences {
            cleared: Some(f.soft_cleared),
            threshold: Some(f.soft_threshold),
            threshold_max: Some(f.soft_threshold_max),
        }),
        weak_cleared: written(f.weak_cleared).then_some(f.weak_cleared),
        phantom_cleared: written(f.phantom_cleared).then_some(f.phantom_cleared),
        finalizer_enqueued: (f.finalizer_enqueued > 0).then_some(f.finalizer_enqueued),
        overflow,
        references: own.iter().any(|n| *n > 0).then(|| r.clone()),
    }
}
