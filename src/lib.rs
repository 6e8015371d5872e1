//! Metronome.
