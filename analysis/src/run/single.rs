//! The least utilization of windows, from heartbeats of one quantum each: of these a log tells length and place. Logs have
//! them where the interval of heartbeats is as short as a beat (`-Xgc:verbosegcCycleTime=1`, `--verbose-interval`).

use crate::figures::{SingleFigures, Window};
use metronome_scheduler::mmu::MmuTracker;
use std::collections::BTreeMap;

/// Windows judged, in ms, beside the run's own. The longest bounds the memory: quanta are a microsecond at least.
const WINDOWS_MS: [u64; 11] = [1, 2, 5, 10, 20, 50, 60, 100, 200, 500, 1_000];
/// Longest window judged.
const LONGEST_NS: u64 = 1_000_000_000;
/// A quantum is written when it is over: where it seems to begin before the last one's end by no more than the grain of
/// printed times, both are as long as told and the later one was later.
const GRAIN_NS: u64 = 2_000_000;
/// What is before the log's first printed time counts from here.
const BEFORE_NS: u64 = 3_600_000_000_000;

/// Follows quanta whose place is known, stretch by stretch: what is not known ends a stretch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Singles {
    trackers: Vec<MmuTracker>,
    /// Where the stretch began: with the log's first time, or after what is not known.
    since_ns: u64,
    /// Where the last quantum of the stretch ended.
    last_ns: u64,
    /// Most collector time in a window of a length.
    used: BTreeMap<u64, u64>,
    quanta: u64,
}

impl Singles {
    /// A quantum or collection that ended at a time. `own` is the window of the target, if the log tells it.
    pub(crate) fn add(&mut self, end_ns: u64, length_ns: u64, own: Option<u64>, is_quantum: bool) {
        self.quanta += u64::from(is_quantum);
        let end_ns = end_ns.saturating_add(BEFORE_NS);
        // Such a length says nothing.
        let Some(start) = end_ns.checked_sub(length_ns) else { return self.unknown(end_ns - BEFORE_NS) };
        if self.trackers.is_empty() {
            let own = own.filter(|w| (1..=LONGEST_NS).contains(w));
            let mut windows: Vec<u64> = WINDOWS_MS.iter().map(|ms| ms * 1_000_000).chain(own).collect();
            windows.sort_unstable();
            windows.dedup();
            self.trackers = windows.into_iter().map(MmuTracker::new).collect();
            // The first one may have begun before the first time that the log prints.
            self.last_ns = start.min(self.since_ns.saturating_add(BEFORE_NS));
            self.trackers.iter_mut().for_each(|t| t.start_at(self.last_ns));
        }
        let late = self.last_ns.saturating_sub(start);
        if late > GRAIN_NS {
            return self.unknown(end_ns - BEFORE_NS);
        }
        let (start, end) = (start + late, end_ns.saturating_add(late));
        self.last_ns = end;
        self.trackers.iter_mut().for_each(|t| t.record(start, end));
    }

    /// Up to a time the log does not tell when the collector was at work.
    pub(crate) fn unknown(&mut self, until_ns: u64) {
        for t in self.trackers.drain(..) {
            if let Some(used) = t.max_used_ns() {
                let most = self.used.entry(t.window_ns()).or_default();
                *most = used.max(*most);
            }
        }
        self.since_ns = until_ns;
    }

    pub(crate) fn done(mut self) -> SingleFigures {
        self.unknown(0);
        let windows = self.used.iter().map(|(&window_ns, &used_ns)| Window {
            window_ns,
            least_ppm: ((window_ns - used_ns) as u128 * 1_000_000 / window_ns as u128) as u32,
        });
        SingleFigures { quanta: self.quanta, windows: windows.collect() }
    }
}
