//! Starts and ends of triggers and cycles.

use super::{MAX_ROWS, OpenCycle, RunBuilder, Since, Spot, named};
use crate::figures::CYCLES_PER_TRIGGER;
use crate::series::Amount;
use metronome_verbosegc::model::{CycleEdge, Generation};

/// What two printed times, each cut to a millisecond, may be wrong by together.
pub(super) const PRINTED_GRAIN_NS: u64 = 2_000_000;

impl RunBuilder {
    pub(super) fn trigger_start(&mut self, spot: Spot) {
        self.trigger_start_ns = Some(spot.at_ns);
        self.trigger_torn = false;
        self.cycles_in_trigger = 0;
        self.trigger_free = None;
        self.mark_ns = Some(spot.at_ns);
        self.mark(spot, "trigger-start", || "use of memory passed the trigger".into());
    }

    pub(super) fn trigger_end(&mut self, spot: Spot, interval_ns: Option<u64>) {
        let started = self.trigger_start_ns.take();
        let derived = started.filter(|_| !self.trigger_torn).map(|start| spot.at_ns - start);
        if let Some(ns) = interval_ns.filter(|_| !spot.clock_error).or(derived) {
            let most = self.most(MAX_ROWS);
            self.f.triggers_ns.push(ns, most);
        }
        if let (Some(start), 0) = (started, self.cycles_in_trigger) {
            // The oldest logs have no cycle lines: the trigger is what shows when the collector was at work.
            self.f.series.spread(start, spot.at_ns, spot.at_ns - start, Amount::Cycle);
        }
        self.mark_ns = Some(spot.at_ns);
        self.trigger_end_ns = spot.at_ns;
        self.mark(spot, "trigger-end", || "use of memory fell below the trigger".into());
    }

    pub(super) fn cycle_start(&mut self, spot: Spot, edge: &CycleEdge, id: Option<u64>) {
        self.prove(spot.line);
        self.flush_cycle();
        self.flush_length();
        if self.cycle.take().is_some() {
            self.f.cycles_incomplete += 1;
        }
        let mut cycle = OpenCycle { id, ..OpenCycle::default() };
        if let (Some(end), false) = (self.last_cycle_end_ns, spot.clock_error) {
            // The 2007 form tells it, the OpenJ9 form prints milliseconds.
            match edge.interval_ns.filter(|_| self.f.generation == Some(Generation::V2007)) {
                Some(told) => self.cycle_gap.add(told),
                None => cycle.gap_ns = Some(spot.at_ns - end),
            }
        }
        self.since = spot.fine.then_some(Since { at_ns: spot.at_ns, mono_ns: None });
        if self.trigger_start_ns.is_some() {
            self.cycles_in_trigger += 1;
            let n = self.cycles_in_trigger;
            self.f.cycles_per_trigger.add(n, spot.line, spot.at_ns);
            self.crowd(n, edge.heap_free_bytes);
        }
        cycle.row.start_ns = Some(spot.at_ns);
        cycle.row.free_start_bytes = edge.heap_free_bytes;
        if let Some(reason) = &edge.reason {
            *named(&mut self.f.own.cycle_reasons, reason.text()) += 1;
            cycle.row.reason = Some(reason.text().to_owned());
            self.own = true;
        }
        self.f.series.free(spot.at_ns, edge.heap_free_bytes);
        self.cycle = Some(cycle);
    }

    /// The n-th cycle of a trigger begins.
    fn crowd(&mut self, n: u64, free: Option<u64>) {
        if n == 1 {
            self.trigger_free = free;
        } else if let Some((first, before)) = self.trigger_free.zip(self.free_after_cycle) {
            self.f.followers += 1;
            self.f.followers_above += u64::from(before <= first);
        }
        if n == CYCLES_PER_TRIGGER {
            self.f.crowded_triggers += 1;
            self.f.crowded_cycles += n;
        } else if n > CYCLES_PER_TRIGGER {
            self.f.crowded_cycles += 1;
        }
    }

    pub(super) fn cycle_end(&mut self, spot: Spot, edge: &CycleEdge, start_id: Option<u64>) {
        self.f.cycles += 1;
        self.flush_cycle();
        self.flush_length();
        let mut cycle = self.cycle.take().unwrap_or_default();
        self.rough_gap(&mut cycle);
        if let (Some(a), Some(b)) = (cycle.id, start_id)
            && a != b
            && b > 1
        {
            // The start belongs to another cycle: an end and a start between are lost.
            self.f.cycles_incomplete += 1;
            cycle = OpenCycle { torn: true, ..OpenCycle::default() };
        }
        let mono = cycle.mono;
        let mut row = cycle.row;
        row.line = spot.line;
        row.end_ns = spot.at_ns;
        row.free_end_bytes = edge.heap_free_bytes.or(cycle.last_free_max);
        self.free_after_cycle = row.free_end_bytes;
        if let Some(start) = row.start_ns {
            // The 2007 form tells it to the microsecond; else printed times do, and monotonic ones where they are of the
            // same ends: before the first quantum a cycle may wait for a mutator, which belongs to it.
            let printed = spot.at_ns - start;
            let exact = mono
                .map(|(from, to)| to.saturating_sub(from))
                .filter(|ns| ns.abs_diff(printed) < PRINTED_GRAIN_NS);
            let told = edge.interval_ns.or(exact).filter(|_| !spot.clock_error);
            match told {
                Some(ns) => self.cycle_length.add(ns),
                None if !spot.clock_error && !cycle.torn => self.rough_length = Some(printed),
                None => {}
            }
            row.length_ns = told.or(self.rough_length);
            self.f.series.spread(start, spot.at_ns, spot.at_ns - start, Amount::Cycle);
        }
        // Allocation while marking only: sweeping frees at the same time.
        row.allocated_bytes = cycle.mark_free.map(|(highest, lowest)| highest.saturating_sub(lowest));
        self.f.series.free(spot.at_ns, edge.heap_free_bytes);
        if let Some(free) = row.free_end_bytes {
            self.f.free_after_cycle.add(free);
        }
        self.last_cycle_end_ns = Some(spot.at_ns);
        self.last_cycle_mono_ns = mono.map(|m| m.1);
        row.torn = cycle.torn;
        self.ended_cycle = Some(row);
    }

    /// No quantum told when the cycle began: printed times do.
    pub(super) fn rough_gap(&mut self, cycle: &mut OpenCycle) {
        if let Some(ns) = cycle.gap_ns.take() {
            self.cycle_gap.add(ns);
            self.f.gaps_rough = true;
        }
    }

    /// A cycle without its end is shown as far as the log goes.
    pub(super) fn close_cycle_at_end(&mut self) {
        let Some(mut cycle) = self.cycle.take() else { return };
        self.f.cycles_incomplete += 1;
        self.rough_gap(&mut cycle);
        if let Some(start) = cycle.row.start_ns {
            let now = self.axis.now_ns();
            self.f.series.spread(start, now, now - start, Amount::Cycle);
        }
    }
}
