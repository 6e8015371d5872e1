//! Mutator utilization of a run: what was achieved, as opposed to what was planned.
//!
//! The *minimum mutator utilization* MMU(w) is the smallest share of any window of length w that the
//! mutators had (Cheng, Blelloch, PLDI 2001). The *bounded* variant BMU(w) is the smallest MMU(w') over
//! all w' >= w, which makes the curve monotone (Sachindran, Moss, Berger, OOPSLA 2004). Windows lie
//! inside the run: time before its start is never counted as mutator time.
//!
//! None of this belongs on the real-time path: it allocates.

use crate::arith::ppm;
use crate::ledger::Interval;
use std::collections::VecDeque;

/// Streaming MMU for one window length.
///
/// Memory: the pauses inside the last window. [`record`](Self::record) costs amortized O(1).
#[derive(Debug, Clone)]
pub struct MmuTracker {
    window_ns: u64,
    allowance_ns: u64,
    start_ns: Option<u64>,
    /// Pauses that reach into the window that ends at the newest one's end.
    pauses: VecDeque<Interval>,
    sum_ns: u64,
    max_used_ns: Option<u64>,
    longest_pause_ns: u64,
    violations: u64,
    disordered: u64,
}

impl MmuTracker {
    /// A tracker that counts no violations. A window of 0 is taken as 1 ns.
    #[must_use]
    pub fn new(window_ns: u64) -> Self {
        Self::with_allowance(window_ns, window_ns.max(1))
    }

    /// A tracker that also counts the windows with more than `allowance_ns` of GC time.
    #[must_use]
    pub fn with_allowance(window_ns: u64, allowance_ns: u64) -> Self {
        MmuTracker {
            window_ns: window_ns.max(1),
            allowance_ns,
            start_ns: None,
            pauses: VecDeque::new(),
            sum_ns: 0,
            max_used_ns: None,
            longest_pause_ns: 0,
            violations: 0,
            disordered: 0,
        }
    }

    /// Says when the run began. Without it the run begins with the first pause. Ignored once a pause was
    /// recorded.
    pub fn start_at(&mut self, time_ns: u64) {
        if self.pauses.is_empty() {
            self.start_ns = Some(time_ns);
        }
    }

    /// Adds a pause `[start_ns, end_ns)`. Pauses come in time order; a part that was already covered by an
    /// earlier pause, or lies before the start of the run, counts once or not at all.
    pub fn record(&mut self, start_ns: u64, end_ns: u64) {
        let run_start = *self.start_ns.get_or_insert(start_ns);
        let last_end = self.pauses.back().map_or(run_start, |p| p.end_ns);
        if start_ns < last_end {
            self.disordered += 1;
        }
        let pause = Interval::new(start_ns.max(last_end), end_ns);
        if pause.len_ns() == 0 {
            return;
        }
        match self.pauses.back_mut() {
            Some(last) if last.end_ns == pause.start_ns => last.end_ns = pause.end_ns,
            _ => self.pauses.push_back(pause),
        }
        self.sum_ns = self.sum_ns.saturating_add(pause.len_ns());
        self.longest_pause_ns = self.longest_pause_ns.max(self.pauses.back().map_or(0, Interval::len_ns));

        let Some(edge) = pause.end_ns.checked_sub(self.window_ns).filter(|&edge| edge >= run_start) else {
            return; // No window of that length ends here inside the run yet.
        };
        if self.max_used_ns.is_none() {
            // The very first window has no neighbour further left, so the argument that only pause ends
            // matter does not cover it (INV-MMU-EDGES).
            let first_end = run_start.saturating_add(self.window_ns);
            let used = self.pauses.iter().map(|p| p.overlap_ns(run_start, first_end)).sum();
            self.max_used_ns = Some(used);
        }
        while let Some(oldest) = self.pauses.front().copied().filter(|p| p.end_ns <= edge) {
            self.sum_ns -= oldest.len_ns();
            self.pauses.pop_front();
        }
        let cut = self.pauses.front().map_or(0, |p| edge.saturating_sub(p.start_ns));
        let used = self.sum_ns - cut;
        self.max_used_ns = self.max_used_ns.max(Some(used));
        if used > self.allowance_ns {
            self.violations += 1;
        }
    }

    /// Minimum mutator utilization of all windows of this length up to the last pause, in parts per
    /// million, rounded down. `None` until the last pause ends at least one window after the start.
    #[must_use]
    pub fn mmu_ppm(&self) -> Option<u32> {
        self.max_used_ns.map(|used| ppm(self.window_ns - used, self.window_ns))
    }

    /// The most GC time that a window held, in nanoseconds: the exact number behind
    /// [`mmu_ppm`](Self::mmu_ppm).
    #[must_use]
    pub fn max_used_ns(&self) -> Option<u64> {
        self.max_used_ns
    }

    /// Number of pauses at whose end the window that ends there held more GC time than the allowance.
    /// Counted per recorded pause; 0 for a tracker without an allowance.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// Longest time without a mutator, in nanoseconds; pauses that touch count as one.
    #[must_use]
    pub fn longest_pause_ns(&self) -> u64 {
        self.longest_pause_ns
    }

    /// Pauses that began before their predecessor ended, or before the start of the run.
    #[must_use]
    pub fn disordered(&self) -> u64 {
        self.disordered
    }

    /// Window length, in nanoseconds.
    #[must_use]
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }
}

/// Longest time without a mutator, in nanoseconds. Pauses that touch or overlap count as one; order does
/// not matter. O(n log n).
#[must_use]
pub fn max_pause(pauses: &[Interval]) -> u64 {
    normalize(pauses, Interval::new(0, u64::MAX)).iter().map(Interval::len_ns).max().unwrap_or(0)
}

/// MMU for windows of `window_ns` inside `run`, in parts per million, rounded down; `None` if the window is
/// 0 or longer than the run. Order and overlap of the pauses do not matter. O(n log n).
#[must_use]
pub fn mmu(pauses: &[Interval], run: Interval, window_ns: u64) -> Option<u32> {
    let pauses = normalize(pauses, run);
    max_used(&pauses, run, window_ns).map(|used| ppm(window_ns - used, window_ns))
}

/// BMU: the smallest MMU of any window of `window_ns` or longer inside `run`, in parts per million, rounded
/// down; `None` if the window is 0 or longer than the run.
///
/// Beyond the window length itself only windows that reach from a pause's start to a pause's end can be
/// minimal, and only those shorter than two windows: a longer one splits into two, of which one is no
/// better. O(n log n + n k) for k pauses in two windows.
#[must_use]
pub fn bmu(pauses: &[Interval], run: Interval, window_ns: u64) -> Option<u32> {
    let pauses = normalize(pauses, run);
    let mut worst = ppm(window_ns - max_used(&pauses, run, window_ns)?, window_ns);
    for (first, from) in pauses.iter().enumerate() {
        let mut used = 0;
        for to in &pauses[first..] {
            used += to.len_ns();
            let length = to.end_ns - from.start_ns;
            if length >= window_ns {
                worst = worst.min(ppm(length - used, length));
            }
            if length / 2 >= window_ns {
                break;
            }
        }
    }
    Some(worst)
}

/// The most GC time in a window that lies inside `run`. The candidates are the windows whose right edge is
/// a pause end, and the first window of the run (INV-MMU-EDGES).
fn max_used(pauses: &[Interval], run: Interval, window_ns: u64) -> Option<u64> {
    if window_ns == 0 || window_ns > run.len_ns() {
        return None;
    }
    let first_end = run.start_ns + window_ns;
    let mut worst: u64 = pauses.iter().map(|p| p.overlap_ns(run.start_ns, first_end)).sum();
    let (mut oldest, mut sum) = (0, 0);
    for pause in pauses {
        sum += pause.len_ns();
        if pause.end_ns < first_end {
            continue;
        }
        let edge = pause.end_ns - window_ns;
        while pauses[oldest].end_ns <= edge {
            sum -= pauses[oldest].len_ns();
            oldest += 1;
        }
        worst = worst.max(sum - edge.saturating_sub(pauses[oldest].start_ns));
    }
    Some(worst)
}

/// Sorted, disjoint, never touching, cut to the run.
fn normalize(pauses: &[Interval], run: Interval) -> Vec<Interval> {
    let cut = |p: &Interval| Interval::new(p.start_ns.max(run.start_ns), p.end_ns.min(run.end_ns));
    let mut sorted: Vec<Interval> = pauses.iter().map(cut).filter(|p| p.len_ns() > 0).collect();
    sorted.sort_unstable_by_key(|p| p.start_ns);
    let mut merged: Vec<Interval> = Vec::with_capacity(sorted.len());
    for pause in sorted {
        match merged.last_mut() {
            Some(last) if pause.start_ns <= last.end_ns => last.end_ns = last.end_ns.max(pause.end_ns),
            _ => merged.push(pause),
        }
    }
    merged
}
