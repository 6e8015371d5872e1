//! Utilization ledger, quantum decision, pacing and MMU arithmetic of the Metronome collector.
