//! Derive macro for the Trace trait of the Metronome collector.
