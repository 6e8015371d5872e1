//! What the next cycle will probably take and what bursts of allocation may add to it: for [`pacing`](crate::pacing).
//!
//! Two questions that want different answers. [`Forecast`] says what is most likely, for reports and for whoever sizes a heap
//! by it: averages. [`Bursts`] says what has to be reckoned with: the most that was allocated in any stretch as long as a cycle,
//! which for a program that allocates in bursts shorter than a cycle is far less than its highest rate would give.

use crate::arith::{SECOND_NS, mul_div, mul_div_ceil};
use crate::pacing::CycleFacts;

const MIB: u64 = 1 << 20;

/// Averages over the last few cycles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forecast {
    mark_ns_per_mib: Average,
    sweep_ns: Average,
    other_ns: Average,
    /// Bytes allocated during a cycle per second of its collector time.
    rate: Average,
    live_bytes: u64,
}

/// Moves by a quarter of the difference; a first value counts whole.
#[derive(Debug, Clone, Copy, Default)]
struct Average(Option<u64>);

impl Average {
    fn add(&mut self, x: u64) {
        self.0 = Some(match self.0 {
            None => x,
            Some(mean) if x >= mean => mean + (x - mean) / 4,
            Some(mean) => mean - (mean - x) / 4,
        });
    }

    fn get(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl Forecast {
    /// A cycle has ended.
    pub(crate) fn cycle(&mut self, facts: &CycleFacts) {
        let collector_ns = facts.collector_ns();
        // What is marked besides a live set of nothing is small and constant.
        let live = facts.live_bytes.max(MIB);
        self.mark_ns_per_mib.add(mul_div_ceil(facts.mark_ns, MIB, live));
        self.sweep_ns.add(facts.sweep_ns);
        self.other_ns.add(facts.other_ns);
        self.rate.add(mul_div_ceil(facts.allocated_bytes, SECOND_NS, collector_ns.max(1)));
        self.live_bytes = live;
    }

    /// Collector time of the next cycle, in nanoseconds.
    pub(crate) fn collector_ns(&self) -> u64 {
        let mark = mul_div(self.mark_ns_per_mib.get(), self.live_bytes, MIB);
        mark.saturating_add(self.sweep_ns.get()).saturating_add(self.other_ns.get())
    }

    /// Allocation during the next cycle, in bytes.
    pub(crate) fn allocation_bytes(&self) -> u64 {
        mul_div_ceil(self.rate.get(), self.collector_ns(), SECOND_NS)
    }
}

/// Pieces that a stretch as long as a cycle is cut into.
const PIECES: u64 = 8;
/// Pieces looked at together: any stretch of a cycle's length lies within one more.
const KEPT: usize = PIECES as usize + 1;
/// What is known is forgotten by this part of the difference with each piece.
const FORGET: u64 = 256;

/// The most that was allocated in any stretch as long as a cycle, and the highest rate that has occurred in one.
///
/// A burst that was seen to end is believed to last no longer the next time. One at a rate that has not been seen before is
/// not known to end: it is for the caller to reckon with it for the whole cycle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bursts {
    /// Mutator time and bytes of the last pieces.
    pieces: [(u64, u64); KEPT],
    next: usize,
    filled: usize,
    /// The piece that is being filled.
    time_ns: u64,
    bytes: u64,
    /// The highest rate that is being watched, and pieces since it rose.
    watched_rate: u64,
    since: usize,
    /// The highest rate whose bursts have been seen to their end or through a whole stretch.
    known_rate: u64,
    /// The most bytes in a stretch, and how long that was.
    known_bytes: u64,
    known_ns: u64,
}

impl Bursts {
    /// `bytes` in `time_ns` of mutator time; `rate` is the estimate that follows, `cycle_ns` the mutator time of a cycle.
    /// O([`KEPT`]).
    pub(crate) fn sample(&mut self, time_ns: u64, bytes: u64, rate: u64, cycle_ns: u64) {
        if rate > self.watched_rate {
            if rate - self.watched_rate > self.watched_rate / 8 {
                self.since = 0;
            }
            self.watched_rate = rate;
        }
        if cycle_ns == 0 {
            // How long a piece is will be known after the first cycle.
            return;
        }
        self.time_ns = self.time_ns.saturating_add(time_ns);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.time_ns < cycle_ns / PIECES {
            return;
        }
        self.pieces[self.next] = (self.time_ns, self.bytes);
        self.next = (self.next + 1) % KEPT;
        self.filled = (self.filled + 1).min(KEPT);
        (self.time_ns, self.bytes) = (0, 0);
        self.since = self.since.saturating_add(1);
        if self.filled < KEPT {
            return;
        }
        let sum = |f: fn(&(u64, u64)) -> u64| self.pieces.iter().map(f).fold(0u64, u64::saturating_add);
        let (covered_ns, bytes) = (sum(|p| p.0), sum(|p| p.1));
        // Pieces of shorter cycles: as much again in what they do not cover.
        let bytes =
            if covered_ns < cycle_ns { mul_div_ceil(bytes, cycle_ns, covered_ns.max(1)) } else { bytes };
        self.known_bytes = forget(self.known_bytes, bytes);
        self.known_ns = cycle_ns;
        self.watched_rate = forget(self.watched_rate, rate);
        self.known_rate = if self.since >= KEPT {
            self.watched_rate
        } else {
            forget(self.known_rate, rate.min(self.known_rate))
        };
    }

    /// The most to reckon with in `cycle_ns` of mutator time while the rate is `rate`; `None` if a rate like this is not
    /// known yet.
    pub(crate) fn most(&self, rate: u64, cycle_ns: u64) -> Option<u64> {
        if self.known_rate == 0 || rate > self.known_rate.saturating_add(self.known_rate / 4) {
            return None;
        }
        let longer = cycle_ns > self.known_ns;
        Some(if longer {
            mul_div_ceil(self.known_bytes, cycle_ns, self.known_ns.max(1))
        } else {
            self.known_bytes
        })
    }
}

fn forget(known: u64, now: u64) -> u64 {
    if now >= known { now } else { known - (known - now) / FORGET }
}
