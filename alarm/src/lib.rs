//! Clocks and the tick thread of the Metronome collector.
