//! A helper's thread.

use super::seat::Standing;
use super::{Crew, Work};
use crate::sync::{Ordering::Relaxed, spin_loop};
use metronome_alarm::thread_cpu_ns;

/// Looks of a helper that was called and is about to be invited, before it sleeps.
const CALLED_LOOKS: u32 = if cfg!(loom) { 0 } else { 4000 };
/// Looks of one that has run out of work, before it sleeps.
const IDLE_LOOKS: u32 = if cfg!(loom) { 1 } else { 2000 };

/// Says that the helper is no more, also when its thread unwinds.
struct Gone<'a, Q: Work>(&'a Crew<Q>, usize);

impl<Q: Work> Drop for Gone<'_, Q> {
    fn drop(&mut self) {
        self.0.seats[self.1].gone();
    }
}

/// The body of the thread that takes seat `index`, until the crew is ended.
#[cfg_attr(metronome_rtsan, sanitize(realtime = "nonblocking"))]
pub(crate) fn run<Q: Work>(crew: &Crew<Q>, index: usize, heap: &Q::Heap) {
    let _gone = Gone(crew, index);
    let seat = &crew.seats[index];
    while seat.wait(CALLED_LOOKS) {
        if !seat.enter() {
            continue;
        }
        let cpu = thread_cpu_ns();
        while turn(crew, index, heap) {}
        // Relaxed: for reports.
        crew.cpu_ns.fetch_add(thread_cpu_ns().saturating_sub(cpu), Relaxed);
        let mut looks = 0;
        while looks < IDLE_LOOKS && seat.is_open() && crew.pool.is_empty() {
            looks += 1;
            spin_loop();
        }
        if looks == IDLE_LOOKS {
            seat.idle();
        }
    }
}

/// One step of a helper that is in; false if it is out afterwards.
pub(crate) fn turn<Q: Work>(crew: &Crew<Q>, index: usize, heap: &Q::Heap) -> bool {
    let seat = &crew.seats[index];
    match seat.standing() {
        Standing::In => {}
        Standing::Leaving => return !seat.leave(),
        Standing::Ended => return false,
    }
    let work = |queue: &mut Q| {
        if queue.is_empty() && !crew.take(heap, queue) {
            return false;
        }
        // Relaxed: for pacing and reports; complete when the helper is out, by its exchange.
        crew.scanned.fetch_add(queue.work(heap), Relaxed);
        crew.share(queue);
        true
    };
    // SAFETY: the helper is in, so the queue is its own.
    let worked = unsafe { seat.with(work) };
    worked || !seat.rest()
}
