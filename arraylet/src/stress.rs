//! Modes for tests that make misuse of memory visible and rare paths common.

use crate::space::{RUN_BYTES_MAX, Space};

/// Modes of one heap's memory. The default is none.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SpaceStress {
    /// Each run is one cell, so that every allocation is a refill.
    pub single_cells: bool,
}

impl SpaceStress {
    /// Bytes of the longest run, if they hold more than one cell.
    pub(crate) fn run_bytes_max(&self) -> usize {
        if self.single_cells { 0 } else { RUN_BYTES_MAX }
    }
}

impl Space {
    /// Sets the modes. Before the heap is used.
    pub fn set_stress(&mut self, stress: SpaceStress) {
        self.stress = stress;
    }
}
