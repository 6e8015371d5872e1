//! The arraylet heap of the Metronome collector.
