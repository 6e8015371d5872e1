//! Which rows of the long lists are kept, and sums over all of them.

use super::{MAX_HEARTBEATS, MAX_ROWS, RunBuilder};
use crate::contract;
use crate::figures::{CycleRow, HeartbeatRow, SyncRow};

impl RunBuilder {
    /// The cycle that ended is known as well as it will be.
    pub(super) fn flush_cycle(&mut self) {
        let Some(row) = self.ended_cycle.take() else { return };
        contract::sum_up(&mut self.f.cycle_sums, &row, self.f.heap_bytes, self.own);
        let most = self.most(MAX_ROWS);
        self.f.cycle_rows.push_even(row, most, CycleRow::weight);
    }

    /// The clock was not set in the last cycle.
    pub(super) fn flush_length(&mut self) {
        if let Some(ns) = self.rough_length.take() {
            self.cycle_length.add(ns);
            self.f.lengths_rough = true;
        }
    }

    pub(super) fn keep_collection(&mut self, row: SyncRow) {
        let most = self.most(MAX_ROWS);
        self.f.synchronous.push_even(row, most, |r| r.ns.unwrap_or(0));
    }

    pub(super) fn keep_heartbeat(&mut self, row: HeartbeatRow) {
        let most = self.most(MAX_HEARTBEATS);
        self.f.heartbeats.push_even(row, most, |r| r.max_ns.unwrap_or(0));
    }
}
