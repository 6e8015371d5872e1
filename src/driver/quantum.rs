//! One quantum, and the end of a cycle.

use super::{BACK_OFF_MAX, Driver, NO_PATIENCE, NO_PATIENCE_NS, PATIENCE_NS, WAKE_AHEAD_NS};
use crate::boost::Boosted;
use crate::collector::{Progress, StepName, Stopped};
use crate::events::{CycleEnd, Event, Quantum};
use crate::gate::Spin;
use crate::hooks::machine;
use crate::meter::{StepMeter, bucket, cpu_ns};
use crate::reason::SyncReason;
use crate::shared::MutatorState;
use crate::sync::futex_wake;
use metronome_barrier::Phase;
use metronome_scheduler::CycleFacts;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Times that a synchronous collection waits for a helper that has lost its CPU, half a millisecond each.
const NAPS: u32 = 100;

impl Driver {
    /// One quantum of at most `budget_ns` (all of the cycle when `synchronous`).
    #[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
    pub(super) fn quantum(&mut self, budget_ns: u64, wakeup_ns: u64, synchronous: Option<SyncReason>) {
        let shared = Arc::clone(&self.shared);
        let s = &*shared;
        // What mutators say from here on is about this stop.
        // Relaxed: a report.
        s.resumed_ns.store(0, Relaxed);
        let free_before = s.space.free_bytes();
        self.beside.come_back(s);
        self.collector.call_helpers();
        let start_ns = s.clock.now();
        // Relaxed: a report.
        s.asked_ns.store(start_ns, Relaxed);
        // A stop may use up the quantum, but not more.
        let work_budget = budget_ns.saturating_sub(self.margin_ns);
        let stop_budget = s.config.effective_stop_budget_ns().min(work_budget);
        let mut boosted = self.boosted.take();
        let running = || {
            s.records()
                .take(crate::boost::LOOK_AT)
                .find(|r| r.state() == MutatorState::Running)
                .map(|r| r.index)
        };
        let mut suspect = None;
        let mut help = || {
            suspect = running();
            if let Some(b) = &mut boosted {
                b.boost(s);
            }
        };
        // One who spins in a CPU of its own is in nobody's way; without a real-time priority the collector needs one too.
        // Relaxed: written before the heap could be used.
        let fifo = s.collector_fifo.load(Relaxed);
        let running_at_first = s.gate.running();
        // Before the stop, as it takes system calls.
        let room_beside = self.beside.room(s, running_at_first);
        let room = s.cpus.saturating_sub(u32::from(!fifo));
        s.gate.let_spin(if running_at_first <= room { s.pause_spin } else { Spin::NONE });
        let announces = s.cpus > 1 && synchronous.is_none() && (fifo || running_at_first <= room);
        let eager = self.help.at_once();
        let patience = if eager { NO_PATIENCE_NS } else { PATIENCE_NS }.min(stop_budget / 2);
        let spin = if eager { Spin(self.spin.0.max(NO_PATIENCE.0)) } else { self.spin };
        let nudge: Option<(u64, &mut dyn FnMut())> = Some((start_ns.saturating_add(patience), &mut help));
        let stopped = Stopped::try_new(s, Some(start_ns.saturating_add(stop_budget)), spin, nudge);
        self.help.stopped(boosted.as_ref().is_some_and(Boosted::any));
        self.boosted = boosted;
        let stopped = match stopped {
            Ok(stopped) => stopped,
            Err(cancelled) => {
                self.collector.dismiss_helpers();
                // Relaxed: a report, a counter.
                s.asked_ns.store(0, Relaxed);
                s.stops_cancelled.fetch_add(1, Relaxed);
                let end_ns = s.clock.now();
                self.restore_boosted();
                s.announce_memory();
                let charged = self.scheduler.record(start_ns, end_ns);
                self.cycle.collector_ns += charged;
                self.cycle.other_ns += charged;
                // Relaxed: a report.
                s.counts.collector_ns.fetch_add(charged, Relaxed);
                // Ever longer breaks, so that a mutator that does not poll costs the others next to nothing.
                self.cancelled += 1;
                let pause = s.config.beat_ns << (self.cancelled - 1).min(BACK_OFF_MAX);
                self.not_before_ns = end_ns.saturating_add(pause);
                self.events.emit(Event::StopCancelled {
                    ns: end_ns,
                    waited_ns: end_ns.saturating_sub(start_ns),
                    budget_ns: stop_budget,
                    running: cancelled.running,
                    // It may have arrived in the meantime; then it is the one that was late before.
                    record: running().or(suspect).unwrap_or(u32::MAX),
                });
                return;
            }
        };
        self.cancelled = 0;
        let cpu_start = cpu_ns(s);
        let work_start = s.clock.now();
        let deadline = start_ns.saturating_add(work_budget);
        let mut ahead = deadline.saturating_sub(WAKE_AHEAD_NS.min(work_budget / 3));
        let phase = s.phase.get();
        if phase == Phase::Idle {
            self.note_clearing();
        }
        let mut meter = StepMeter::new(cpu_start, work_start);
        let mut progress = Progress::More;
        let mut spent = [0u64; 3];
        let mut now = work_start;
        let mut naps = 0;
        let mut steps_left = if s.gate.polls_always() { 1 } else { self.step_plan.next() };
        // The first step may do whatever is to be done.
        self.collector.hold = None;
        self.collector.held = false;
        // At least one step, so that a cycle always comes forward.
        while progress == Progress::More {
            let before = s.phase.get();
            let (name, p) = self.collector.step(&stopped);
            progress = p;
            machine!(s, m => m.stepped(name.text()));
            let after = s.clock.now();
            if std::mem::take(&mut self.collector.verified) {
                meter.pass_over(s, after);
            } else {
                let took = meter.step(s, name, now, after);
                s.step_times.record(after.saturating_sub(now), 0);
                s.step_kinds.record(name, took);
                if matches!(name, StepName::Roots | StepName::Globals) {
                    self.cycle.handles_ns += took;
                }
            }
            spent[bucket(before)] += after.saturating_sub(now);
            now = after;
            // Whoever waits for the whole cycle would rather wait for a helper than for another quantum.
            if progress == Progress::Waiting && synchronous.is_some() && naps < NAPS {
                naps += 1;
                self.collector.nap();
                progress = Progress::More;
                now = s.clock.now();
            }
            steps_left = steps_left.saturating_sub(1);
            if (now >= deadline || steps_left == 0 || self.collector.held) && synchronous.is_none() {
                break;
            }
            if now >= ahead && announces {
                ahead = u64::MAX;
                let sleepers = s.gate.sleepers();
                stopped.announce_end();
                let woken = s.clock.now();
                meter.release(s, now, woken, sleepers);
                now = woken;
            }
            if synchronous.is_none() {
                self.collector.hold = s.config.stress.yield_before;
            }
        }
        if (2..=s.cpus).contains(&running_at_first) {
            self.placement.spread(s, &stopped);
        }
        let marks = matches!(s.phase.get(), Phase::Snapshot | Phase::Mark);
        let stays = marks && progress == Progress::More && synchronous.is_none();
        let staying = if stays { room_beside } else { 0 };
        let staying = self.collector.leave_helpers(staying);
        self.stressed.yields = self.collector.held;
        let sleepers = s.gate.sleepers();
        // Relaxed: a report.
        s.asked_ns.store(0, Relaxed);
        drop(stopped);
        machine!(s, m => m.released());
        let end_ns = s.clock.now();
        meter.release(s, now, end_ns, sleepers);
        let cpu_ns = cpu_ns(s).saturating_sub(cpu_start);
        self.restore_boosted();
        self.beside.stay(s, staying, end_ns);
        self.learn_margin(end_ns.saturating_sub(now));
        self.scheduler.record(start_ns, end_ns);
        let stop_ns = work_start.saturating_sub(start_ns);
        // The CPU clock is read just outside the wall clock's stretch; a quantum is never charged more than it took.
        let own_ns = cpu_ns.saturating_sub(meter.interrupted_ns);
        let charged_ns = (stop_ns.min(stop_budget) + own_ns).min(end_ns.saturating_sub(start_ns));
        if synchronous.is_none() {
            self.learn_overshoot(charged_ns.saturating_sub(budget_ns));
        }
        self.cycle.quanta += 1;
        self.cycle.cpu_ns += cpu_ns;
        self.cycle.collector_ns += charged_ns;
        // What the system took is left out of the rates that pacing learns.
        let work_ns = end_ns.saturating_sub(work_start).max(1);
        let cpu_share =
            |ns: u64| (u128::from(ns) * u128::from(cpu_ns.min(work_ns)) / u128::from(work_ns)) as u64;
        self.cycle.mark_ns += cpu_share(spent[0]);
        self.cycle.sweep_ns += cpu_share(spent[1]);
        self.cycle.other_ns += cpu_share(spent[2]) + stop_ns.min(stop_budget);
        let counts = self.collector.counts;
        let references = counts.references.since(self.cycle.references_reported);
        self.cycle.references_reported = counts.references;
        let free_bytes = s.space.free_bytes();
        // A synchronous quantum that had to let a mutator run to its safepoint is an ordinary one.
        let synchronous = synchronous.filter(|_| progress == Progress::Done);
        // Relaxed: reports.
        s.counts.quanta.fetch_add(1, Relaxed);
        s.counts.collector_ns.fetch_add(charged_ns, Relaxed);
        self.held = Some(Quantum {
            start_ns,
            end_ns,
            stop_ns,
            wakeup_ns,
            planned_ns: budget_ns,
            cpu_ns,
            work_ns,
            charged_ns,
            resumed_ns: 0,
            phase: if phase == Phase::Idle { Phase::Snapshot } else { phase },
            steps: meter.steps,
            interrupted: meter.interrupted,
            interrupted_ns: meter.interrupted_ns,
            // Relaxed: for reports. Of helpers that are late the next quantum tells.
            helpers_cpu_ns: s.crew.cpu_ns.swap(0, Relaxed),
            longest_step: meter.longest,
            longest_step_ns: meter.longest_ns,
            free_bytes,
            references,
            soft_age: self.collector.soft_age,
            synchronous: synchronous.is_some(),
        });
        if let Some(reason) = synchronous {
            // Relaxed: a report.
            s.counts.synchronous.fetch_add(1, Relaxed);
            self.held_after[0] = Some(Event::Synchronous {
                start_ns,
                end_ns,
                stop_ns,
                cpu_ns,
                free_before,
                free_after: free_bytes,
                references,
                soft_age: self.collector.soft_age,
                reason,
                // Relaxed: a report.
                requested_bytes: s.failed_bytes.load(Relaxed),
            });
        }
        match progress {
            Progress::More | Progress::Waiting => {}
            Progress::Blocked { record } => self.blocked = Some((record, end_ns, false)),
            Progress::Done => self.end_cycle(end_ns),
        }
        s.announce_memory();
        if references.finalizers_enqueued + references.deaths_noted > 0 {
            s.finalizers.wake();
        }
        if !s.space.reap_is_empty() {
            // Release: pairs with the Acquire of the reaper's wait.
            s.reap_seq.fetch_add(1, Release);
            futex_wake(&s.reap_seq, 1);
        }
    }

    /// Those who were helped to arrive get their own policies back; only now, so that they run on as soon as they may.
    fn restore_boosted(&mut self) {
        if let Some(b) = &mut self.boosted {
            b.restore();
        }
    }

    pub(super) fn end_cycle(&mut self, now: u64) {
        let shared = Arc::clone(&self.shared);
        let s = &*shared;
        let c = self.cycle;
        let counts = self.collector.counts;
        let allocated = s.space.allocated_bytes().saturating_sub(c.start_allocated);
        let elapsed_ns = now.saturating_sub(c.start_ns);
        self.pacer.cycle_finished(CycleFacts {
            mark_ns: self.beside.whole_ns(counts.scanned, c.mark_ns),
            sweep_ns: c.sweep_ns,
            other_ns: c.other_ns,
            elapsed_ns,
            allocated_bytes: allocated,
            // Objects allocated black during the cycle are counted as live by the sweep, but were not marked.
            live_bytes: counts.live_bytes.saturating_sub(allocated),
            heap_bytes_swept: counts.regions_swept << 16,
            used_at_start: c.used_at_start,
        });
        // What was predicted when the cycle began; samples have changed the prediction since.
        let predicted = self.pacer.last_cycle().and_then(|report| report.predicted);
        self.cycle.open = false;
        self.grow_to_contract();
        self.publish_trigger();
        self.free_at_end = s.space.free_bytes();
        // Relaxed, here and below: reports, hints.
        self.external_at_end = s.external.load(Relaxed);
        s.allocated_at_end.store(s.space.allocated_bytes(), Relaxed);
        s.counts.live_bytes.store(counts.live_bytes, Relaxed);
        if let Some(f) = counts.floating {
            s.counts.remarked.fetch_add(1, Relaxed);
            for (i, n) in [f.objects, f.bytes].into_iter().enumerate() {
                s.counts.floating_last[i].store(n, Relaxed);
                s.counts.floating_total[i].fetch_add(n, Relaxed);
            }
        }
        s.last_cycle_ns.store(now, Relaxed);
        self.last_collector_ns = c.collector_ns;
        (self.last_sweep_ns, self.last_scanned) = (c.sweep_ns, counts.scanned);
        self.held_after[1] = Some(Event::CycleEnd(CycleEnd {
            ns: now,
            free_bytes: s.space.free_bytes(),
            quanta: c.quanta,
            collector_ns: c.collector_ns,
            cpu_ns: c.cpu_ns,
            handles_ns: c.handles_ns,
            elapsed_ns,
            allocated_bytes: allocated,
            predicted_collector_ns: predicted.map(|p| p.collector_ns),
            predicted_allocated_bytes: predicted.map(|p| p.allocation_bytes),
            counts,
        }));
    }
}
