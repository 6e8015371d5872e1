//! The straggler: a mutator that now and then does not poll, to see that the run names it.

use super::env::Env;
use metronome_gc::Mutator;
use std::time::{Duration, Instant};

/// Once per second, runs for `ms` milliseconds inside the heap without polling; waits outside in between.
pub(crate) fn run(env: &Env, m: &mut Mutator<'_>, ms: u64) {
    let silent = Duration::from_millis(ms);
    let mut next = Instant::now();
    while !env.over() {
        if Instant::now() >= next {
            next += Duration::from_secs(1);
            let start = Instant::now();
            while start.elapsed() < silent {
                std::hint::spin_loop();
            }
            m.safepoint();
        }
        m.blocking(|| std::thread::sleep(Duration::from_millis(10)));
    }
}
