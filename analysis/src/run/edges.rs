//! Starts and ends of triggers and cycles.

use super::{MAX_ROWS, OpenCycle, RunBuilder, Spot, named};
use crate::series::Amount;
use metronome_verbosegc::model::{CycleEdge, Generation};

impl RunBuilder {
    pub(super) fn trigger_start(&mut self, spot: Spot) {
        self.trigger_start_ns = Some(spot.at_ns);
        self.cycles_in_trigger = 0;
        self.mark_ns = Some(spot.at_ns);
        self.mark(spot, "trigger-start", || "use of memory passed the trigger".into());
    }

    pub(super) fn trigger_end(&mut self, spot: Spot, interval_ns: Option<u64>) {
        let started = self.trigger_start_ns.take();
        let derived = started.map(|start| spot.at_ns - start);
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

    pub(super) fn cycle_start(&mut self, spot: Spot, edge: &CycleEdge) {
        if self.cycle.take().is_some() {
            self.f.cycles_incomplete += 1;
        }
        if let Some(end) = self.last_cycle_end_ns {
            // The 2007 form tells it, the OpenJ9 form prints milliseconds.
            let told = edge.interval_ns.filter(|_| self.f.generation == Some(Generation::V2007));
            if !spot.clock_error {
                self.cycle_gap.add(told.unwrap_or(spot.at_ns - end));
            }
        }
        if self.trigger_start_ns.is_some() {
            self.cycles_in_trigger += 1;
            let n = self.cycles_in_trigger;
            self.f.cycles_per_trigger.add(n, spot.line, spot.at_ns);
        }
        let mut cycle = OpenCycle::default();
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

    pub(super) fn cycle_end(&mut self, spot: Spot, edge: &CycleEdge) {
        self.f.cycles += 1;
        let cycle = self.cycle.take().unwrap_or_default();
        let mut row = cycle.row;
        row.line = spot.line;
        row.end_ns = spot.at_ns;
        row.free_end_bytes = edge.heap_free_bytes.or(cycle.last_free_max);
        if let Some(start) = row.start_ns {
            let ns = edge.interval_ns.filter(|_| !spot.clock_error).unwrap_or(spot.at_ns - start);
            if !spot.clock_error {
                self.cycle_length.add(ns);
            }
            self.f.series.spread(start, spot.at_ns, spot.at_ns - start, Amount::Cycle);
        }
        // Allocation while marking only: sweeping frees at the same time.
        row.allocated_bytes = cycle.mark_free.map(|(highest, lowest)| highest.saturating_sub(lowest));
        self.f.series.free(spot.at_ns, edge.heap_free_bytes);
        if let Some(free) = row.free_end_bytes {
            self.f.free_after_cycle.add(free);
            if !self.own
                && let Some(heap) = self.f.heap_bytes
            {
                self.f.used_after_cycle.add(spot.at_ns as f64 / 1e9, heap.saturating_sub(free) as f64);
            }
        }
        self.last_cycle_end_ns = Some(spot.at_ns);
        let most = self.most(MAX_ROWS);
        self.f.cycle_rows.push(row, most);
        self.ended_cycle = (self.f.cycle_rows.omitted == 0).then(|| self.f.cycle_rows.rows.len() - 1);
    }

    /// A cycle without its end is shown as far as the log goes.
    pub(super) fn close_cycle_at_end(&mut self) {
        let Some(cycle) = self.cycle.take() else { return };
        self.f.cycles_incomplete += 1;
        if let Some(start) = cycle.row.start_ns {
            let now = self.axis.now_ns();
            self.f.series.spread(start, now, now - start, Amount::Cycle);
        }
    }
}
