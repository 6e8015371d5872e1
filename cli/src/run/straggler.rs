//! The straggler: a mutator that now and then does not poll, to see that the run names it.

use super::env::Env;
use metronome_gc::Mutator;
use std::time::{Duration, Instant};

/// Time from the start of a bout to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// Least time outside between bouts, so that cycles can end.
const REST: Duration = Duration::from_millis(100);

/// Once per second, or as often as it can, runs for `ms` milliseconds inside the heap without polling; waits outside
/// in between. Ends, also in the middle of a bout, when the workload is to finish up.
pub(crate) fn run(env: &Env, m: &mut Mutator<'_>, ms: u64) {
    let silent = Duration::from_millis(ms);
    let mut next = Instant::now();
    while !env.stopping() {
        let now = Instant::now();
        if now < next {
            // Short sleeps, so that the end of the run is noticed.
            m.blocking(|| std::thread::sleep((next - now).min(Duration::from_millis(10))));
            continue;
        }
        next = now + PERIOD.max(silent + REST);
        while now.elapsed() < silent && !env.stopping() {
            std::hint::spin_loop();
        }
        m.safepoint();
    }
}
