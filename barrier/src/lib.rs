//! The snapshot-at-the-beginning barrier protocol of the Metronome collector.
