//! Signals: the user's wish to end a run early, and the file size limit.

use crate::output::say;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// What signals have asked for.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// Set when the user wants the run to end (Ctrl-C, SIGTERM, SIGHUP).
    pub(crate) interrupted: Arc<AtomicBool>,
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches the signals that end a run; the second one ends the process at once.
    pub(crate) fn watch() -> Signals {
        let signals = Signals::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let set = || -> std::io::Result<()> {
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&signals.interrupted))?;
                flag::register_usize(signal, Arc::clone(&signals.last), signal as usize)?;
                flag::register(signal, Arc::clone(&signals.interrupted))?;
                Ok(())
            };
            if let Err(e) = set() {
                say(format_args!(
                    "metronome run: signal {signal} will end the run without a summary, as it cannot be caught: {e}"
                ));
            }
        }
        signals
    }

    /// The exit status that a signal asks for, if there was one: 128 and its number, as shells have it.
    pub(crate) fn status(&self) -> Option<u8> {
        // Relaxed: a number that carries no other data.
        u8::try_from(self.last.load(Relaxed)).ok().filter(|n| *n != 0).map(|n| 128 + n)
    }
}

/// Keeps the file size limit (`ulimit -f`) from ending the process: a write beyond it fails with an error instead, which
/// is reported where the file is written.
pub(crate) fn errors_at_file_size_limit() {
    // Nobody reads the flag: what counts is that the signal is caught.
    if let Err(e) = flag::register(SIGXFSZ, Arc::default()) {
        say(format_args!("metronome: at the file size limit the process will end without a message: {e}"));
    }
}
