//! Decisions between quanta: when a cycle starts, how much of a window it may take, how large the heap should be.

use super::{CycleSums, DOZE_NS, Driver, IDLE_SAMPLE_NS, IDLE_TICK_NS};
use crate::config::{Exhaustion, TriggerMode};
use crate::events::{Enough, Event};
use crate::reason::{CycleReason, DepartureReason};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

impl Driver {
    /// The heap has grown or shrunk: paces for its new size.
    pub(super) fn follow_size(&mut self, now: u64) {
        let to_bytes = self.shared.space.heap_bytes();
        let from_bytes = std::mem::replace(&mut self.heap_bytes, to_bytes);
        if from_bytes == to_bytes {
            return;
        }
        self.pacer.set_heap_bytes(to_bytes);
        self.publish_trigger();
        // Who made it shrink tells that too.
        if to_bytes > from_bytes {
            self.events.emit(Event::Grown { ns: now, from_bytes, to_bytes });
        }
    }

    /// Mutators wait for memory, or soon will: a heap that may grow does so before the target is left. Whether the memory
    /// thread is about to make it larger.
    pub(super) fn grow_when_short(&self) -> bool {
        let s = &self.shared;
        // Relaxed: a hint. Where memory is touched first, ahead of need.
        let wanted = s.backs_memory() || s.waiting_for_memory.load(Relaxed) > 0;
        if wanted && s.grow_on_demand() {
            s.announce_memory();
        }
        s.grow_soon()
    }

    /// A heap that may grow becomes as large as the contract asks for, and a quarter more. Not in a quantum; O(1).
    pub(super) fn grow_to_contract(&mut self) {
        let s = &self.shared;
        // A cycle that somebody asked for says nothing about the room that the program needs.
        if !self.cycle.for_room {
            return;
        }
        let needed = self.pacer.heap_needed();
        let wanted = needed.saturating_add(needed / 4);
        if wanted > s.space.heap_bytes() && s.space.limit_regions() < s.space.max_regions() {
            let regions = u32::try_from(wanted / metronome_arraylet::REGION_BYTES as u64).unwrap_or(u32::MAX);
            s.grow_regions(regions.saturating_add(1).min(s.space.max_regions()));
        }
    }

    pub(super) fn publish_trigger(&mut self) {
        // Relaxed: a hint for the alarm and for refills.
        self.shared.trigger_bytes.store(self.pacer.prediction().trigger_used_bytes, Relaxed);
    }

    /// Why a cycle has to start now, if it has to.
    pub(super) fn should_start(&mut self, now: u64, commanded: bool) -> Option<CycleReason> {
        let s = &self.shared;
        // Acquire: pairs with the AcqRel in `request_cycle`. Relaxed: counted by this thread.
        let requested = s.requested.load(Acquire) > s.cycles_done.load(Relaxed);
        let used = s.space.used_bytes();
        let full = self.pacer.should_start(used);
        if full != self.triggered {
            self.triggered = full;
            self.events.emit(if full {
                Event::TriggerStart { ns: now }
            } else {
                Event::TriggerEnd { ns: now }
            });
        }
        // Relaxed, here and below: hints and this thread's own notes.
        let since = now.saturating_sub(s.last_cycle_ns.load(Relaxed));
        let overdue = s.config.cycle_interval_ns.is_some_and(|i| since >= i);
        // Regions can run out before bytes do: by size classes, and by threads that each hold some. Not at once after a
        // cycle that could not help.
        let scarce = s.regions_scarce();
        let external = s.external.load(Relaxed).saturating_sub(self.external_at_end);
        let by_size = match s.config.trigger {
            TriggerMode::Paced => CycleReason::Headroom,
            TriggerMode::Static { .. } => CycleReason::Threshold,
        };
        let failed = || s.space.free_regions() == 0 && used > 0 && self.failed_now();
        // Relaxed, here and below: hints.
        let reasons = [
            (s.low_memory.load(Relaxed), CycleReason::LowMemory),
            (requested || commanded, CycleReason::Explicit),
            (full, by_size),
            (scarce, CycleReason::Regions),
            (overdue, CycleReason::Interval),
            (external > s.config.effective_external_memory(), CycleReason::ExternalMemory),
            (failed(), CycleReason::OutOfMemory),
        ];
        let reason = reasons.into_iter().find_map(|(is, reason)| is.then_some(reason))?;
        // Relaxed: a hint. Those who wait for memory ask for cycles too.
        let waited = s.waiting_for_memory.load(Relaxed) > 0;
        Some(if reason == CycleReason::Explicit && waited { CycleReason::OutOfMemory } else { reason })
    }

    /// How long the idle collector thread sleeps: the longer, the longer nobody has allocated.
    pub(super) fn idle_sleep(&self) -> u64 {
        let s = &self.shared;
        let sleep = IDLE_SAMPLE_NS.saturating_mul(1 << self.quiet.min(10)).min(DOZE_NS);
        // Relaxed: a hint for refills. One that misses it is late by the sleep at most, which the next one ends.
        s.dozes.store(sleep > IDLE_SAMPLE_NS, Relaxed);
        match s.config.cycle_interval_ns {
            // Relaxed: this thread's own note.
            Some(i) => sleep.min(
                s.last_cycle_ns
                    .load(Relaxed)
                    .saturating_add(i)
                    .saturating_sub(self.last_now_ns)
                    .max(IDLE_SAMPLE_NS / 10),
            ),
            None => sleep,
        }
    }

    /// While no cycle is active the alarm has next to nothing to do, as refills look at the trigger: it ticks seldom, or
    /// with `suppress-idle-ticks` not at all.
    pub(super) fn suppress_ticks(&self, idle: bool) {
        let Some(alarm) = self.shared.alarm.get() else { return };
        let c = &self.shared.config;
        match (c.suppress_idle_ticks, idle) {
            (true, true) => {
                alarm.pause();
            }
            (true, false) => {
                alarm.resume();
            }
            (false, true) => alarm.tick_each(u32::try_from(IDLE_TICK_NS / c.beat_ns).unwrap_or(1)),
            (false, false) => alarm.tick_each(1),
        }
    }

    /// An allocation has failed since the last cycle ended.
    pub(super) fn failed_now(&self) -> bool {
        // Relaxed: a hint for pacing; each mutator waits by its own note.
        self.shared.records().any(|r| r.starved.load(Relaxed))
    }

    pub(super) fn start_cycle(&mut self, now: u64, reason: CycleReason) {
        let s = &self.shared;
        // Relaxed: a hint.
        s.low_memory.store(false, Relaxed);
        let share = u128::from(s.config.soft_age) * u128::from(self.free_at_end);
        let age = share.div_ceil(u128::from(s.space.heap_bytes()));
        // At most the configured age, which fits.
        self.collector.soft_age = if reason == CycleReason::LowMemory { 0 } else { age as u64 };
        self.pacer.cycle_started();
        self.beside.begin_cycle();
        self.cycle = CycleSums {
            open: true,
            for_room: matches!(
                reason,
                CycleReason::Headroom
                    | CycleReason::Threshold
                    | CycleReason::Regions
                    | CycleReason::OutOfMemory
            ),
            start_ns: now,
            start_allocated: s.space.allocated_bytes(),
            used_at_start: s.space.used_bytes(),
            ..CycleSums::default()
        };
        // Relaxed: a hint for the alarm and for refills.
        s.wants_ticks.store(true, Relaxed);
        self.suppress_ticks(false);
        let free_bytes = s.space.free_bytes();
        self.events.emit(Event::CycleStart { ns: now, reason, free_bytes });
    }

    /// The cycle is about to be armed: the last moment to hear that soft references are to be cleared in it.
    pub(super) fn note_clearing(&mut self) {
        let s = &self.shared;
        // Relaxed: the number is this thread's own.
        let next = s.cycle.load(Relaxed) + 1;
        // Relaxed: published by the request that comes after it.
        if s.clear_softs_through.load(Relaxed) >= next {
            self.collector.soft_age = 0;
        }
        if self.collector.soft_age == 0 {
            // Release: pairs with the Acquire of those who wait for this cycle's end.
            s.softs_cleared.store(next, Release);
        }
    }

    /// With `exhaustion = degrade`, utilization sinks as the headroom falls behind the predicted need.
    pub(super) fn set_allowance(&mut self, now: u64, hurry: Option<DepartureReason>) {
        let s = &self.shared;
        // The plan stays a margin below the allowance, so that what a quantum's end takes longer breaks no window; where
        // budgets are overshot by more (interrupts count as the collector's time), by as much.
        let full = self.scheduler.base_allowance();
        let base = full - self.margin_ns.min(full / 20).max(self.overshoot_ns.min(full / 8));
        let window = s.config.window_ns;
        let allowance = match s.config.exhaustion {
            _ if hurry == Some(DepartureReason::SystemGc) => window,
            Exhaustion::Fail => base,
            _ if hurry.is_some() => window,
            Exhaustion::Synchronous => base,
            Exhaustion::Degrade => {
                // What the heap may still grow by is room too.
                let heap = s.space.max_bytes();
                let headroom = heap.saturating_sub(s.space.used_bytes());
                let predicted = self.pacer.prediction().collector_most_ns.min(self.last_collector_ns);
                // A prediction that was passed is worth a tenth of itself, or what this cycle's own pace says.
                let remaining = predicted.saturating_sub(self.cycle.collector_ns).max(predicted / 10);
                let remaining = remaining.max(self.remaining_by_pace());
                // The promise is broken only if this cycle's own rate says that memory will not last, or when little
                // is left; a burst remembered by the pacer is no reason yet.
                if headroom > heap / 4
                    || headroom > heap / 16 && self.need_at_target(now, remaining) <= headroom
                {
                    base
                } else {
                    self.pacer.degrade_allowance(headroom, remaining.max(1), window, base)
                }
            }
        };
        let set = self.scheduler.set_allowance(allowance);
        if set > full && !self.cycle.departed {
            self.cycle.departed = true;
            let reason = hurry.unwrap_or(DepartureReason::HeadroomLow);
            let enough = (reason != DepartureReason::SystemGc).then(|| self.enough()).flatten();
            // Relaxed, as all of these counts: reports.
            s.counts.departures.fetch_add(1, Relaxed);
            self.events.emit(Event::Departure { ns: now, reason, allowance_ns: set, enough });
        }
    }

    /// The heap that would have been enough, as far as it is known: (1+f)(m+2A).
    pub(super) fn enough(&self) -> Option<Enough> {
        let p = self.pacer.prediction();
        // The target is left because this cycle is going to allocate all that is free, whatever was predicted.
        let space = &self.shared.space;
        let so_far = space.allocated_bytes().saturating_sub(self.cycle.start_allocated);
        // A static trigger is seen some allocation late.
        let late = match self.shared.config.trigger {
            TriggerMode::Paced => 0,
            TriggerMode::Static { .. } => self.cycle.used_at_start.saturating_sub(p.trigger_used_bytes),
        };
        let free = space.max_bytes().saturating_sub(space.used_bytes());
        let expected = so_far.saturating_add(free).saturating_add(late);
        (p.allocation_most_bytes > 0).then(|| Enough {
            // More than the heap that is not enough, in any case: the live set may have grown since it was measured.
            heap_bytes: self.pacer.heap_needed_with(expected).max(space.max_bytes() / 8 * 9),
            live_bytes: p.live_bytes,
            allocation_bytes: p.allocation_most_bytes.max(expected),
        })
    }

    /// Waking takes a system call and an interrupt for each sleeping CPU, so what it costs depends on the host and on
    /// the number of mutators. With `resume-margin = auto` the margin follows the longest recent one, up to twice its
    /// starting value.
    pub(super) fn learn_margin(&mut self, release_ns: u64) {
        let base = self.shared.config.effective_resume_margin_ns();
        if self.shared.config.resume_margin_ns.is_some() {
            return;
        }
        let wanted = (release_ns + base / 4).min(base * 2);
        self.margin_ns =
            wanted.max(self.margin_ns - (self.margin_ns - base.min(self.margin_ns)) / 64).max(base);
    }

    /// Overshoots are held for some ten windows' worth of quanta and forgotten slowly.
    pub(super) fn learn_overshoot(&mut self, by_ns: u64) {
        self.overshoot_ns = by_ns.max(self.overshoot_ns - self.overshoot_ns / 64);
    }

    /// Collector time that this cycle still needs if it has as many objects to scan as the last one, at its own pace so
    /// far: some cycles are slowed down by what else the machine does. 0 while that is not known.
    fn remaining_by_pace(&self) -> u64 {
        let (done, whole) = (self.collector.scanned(), self.last_scanned);
        if done < whole / 16 || done == 0 {
            return 0;
        }
        let left = u128::from(whole.saturating_sub(done));
        let mark = u128::from(self.cycle.mark_ns) * left / u128::from(done);
        let sweep = self.last_sweep_ns.saturating_sub(self.cycle.sweep_ns);
        u64::try_from(mark).unwrap_or(u64::MAX).saturating_add(sweep)
    }

    /// Allocation to come if the cycle needs `remaining` more collector time and the target is kept, at the rate of
    /// this cycle so far.
    pub(super) fn need_at_target(&self, now: u64, remaining: u64) -> u64 {
        let s = &self.shared;
        let mutator = now.saturating_sub(self.cycle.start_ns).saturating_sub(self.cycle.collector_ns);
        if mutator < s.config.window_ns / 2 {
            return 0;
        }
        let allocated = s.space.allocated_bytes().saturating_sub(self.cycle.start_allocated);
        let u = u128::from(s.config.target_utilization);
        let mutator_to_come = u128::from(remaining) * u / (100 - u).max(1);
        u64::try_from(u128::from(allocated) * mutator_to_come / u128::from(mutator)).unwrap_or(u64::MAX)
    }
}
