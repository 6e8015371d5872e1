//! Model, writer and tolerant reader of Metronome verbose GC logs.
