//! The utilization ledger: every interval charged to the collector inside the last window, exact
//! to the nanosecond.
//!
//! Times that come in are readings of one monotonic clock. Internally the ledger keeps *ledger
//! time*, which is the reading plus an offset that only grows. When a reading lies behind what was
//! already charged, the clock stood still or stepped back; the offset then grows so that the reading
//! maps to the end of the last charged interval. The lost stretch counts as no mutator time at all,
//! the collector pays for it, and yet it is not shut out until the clock has caught up
//! ([INV-LEDGER-ORDER](crate::design)).
//!
//! The original Metronome (Bacon, Cheng, Rajan, POPL 2003) alternates fixed quanta; a sliding ledger
//! is what its successors use. This one differs in that it is exact (no sampling, no slots) and that
//! overflow is defined: see [`Ledger::record`].

use std::fmt;

/// Time during which the collector held the mutators: `[start_ns, end_ns)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Interval {
    /// First nanosecond.
    pub start_ns: u64,
    /// First nanosecond after it.
    pub end_ns: u64,
}

impl Interval {
    /// An interval; one whose end lies before its start is empty.
    #[must_use]
    pub const fn new(start_ns: u64, end_ns: u64) -> Self {
        Interval { start_ns, end_ns }
    }

    /// Length in nanoseconds.
    #[must_use]
    pub const fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// The part of it, in nanoseconds, that lies inside `[from_ns, to_ns]`.
    #[must_use]
    pub fn overlap_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.end_ns.min(to_ns).saturating_sub(self.start_ns.max(from_ns))
    }
}

/// What [`Ledger::verify`] can find. Each names the broken invariant of [the design](crate::design).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerFault {
    /// INV-LEDGER-SUM: the running sum is not the sum of the intervals kept.
    Sum {
        /// The running sum.
        kept_ns: u64,
        /// The sum counted afresh.
        counted_ns: u64,
    },
    /// INV-LEDGER-ORDER: an interval is empty, or begins before its predecessor ended.
    Order {
        /// Position of the interval, 0 is the oldest.
        position: usize,
    },
}

impl fmt::Display for LedgerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerFault::Sum { kept_ns, counted_ns } => write!(
                f,
                "INV-LEDGER-SUM: the ledger's running sum is {kept_ns} ns, its intervals add up to {counted_ns} ns"
            ),
            LedgerFault::Order { position } => {
                write!(
                    f,
                    "INV-LEDGER-ORDER: interval {position} is empty or begins before its predecessor ended"
                )
            }
        }
    }
}

impl std::error::Error for LedgerFault {}

/// Sliding window of charged intervals in a ring that is allocated once.
///
/// No operation but construction allocates. Costs are given in intervals kept, which are at most the
/// capacity.
#[derive(Debug, Clone)]
pub struct Ledger {
    ring: Box<[Interval]>,
    oldest: usize,
    len: usize,
    /// Sum of the lengths of all intervals kept (INV-LEDGER-SUM).
    sum_ns: u64,
    retain_ns: u64,
    unmeasured_ns: u64,
    /// Ledger time minus clock reading; only grows. It begins at `retain_ns`, so that the left edge of
    /// a window never falls below zero.
    offset_ns: u64,
    clock_steps: u64,
    merges: u64,
    merged_gap_ns: u64,
}

impl Ledger {
    /// A ledger that keeps what lies within `retain_ns` before the newest charge, in at most `capacity`
    /// intervals (at least 2 are used).
    ///
    /// `unmeasured_ns` is charged for an interval whose end is not after its start: the clock could not
    /// measure it, so the most that was granted is assumed. Allocates the ring.
    #[must_use]
    pub fn new(capacity: usize, retain_ns: u64, unmeasured_ns: u64) -> Self {
        Ledger {
            ring: vec![Interval::default(); capacity.max(2)].into_boxed_slice(),
            oldest: 0,
            len: 0,
            sum_ns: 0,
            retain_ns,
            unmeasured_ns: unmeasured_ns.max(1),
            offset_ns: retain_ns,
            clock_steps: 0,
            merges: 0,
            merged_gap_ns: 0,
        }
    }

    /// Charges `[start_ns, end_ns)` to the collector and returns the length charged.
    ///
    /// - `start_ns` before the end of the last charge: the clock stepped back (or two charges overlap).
    ///   The interval is put right behind the last one, at full length.
    /// - `end_ns <= start_ns`: the clock stood still or stepped back meanwhile. The "unmeasured" length
    ///   given at construction is charged.
    /// - The ring is full: the two neighbours with the smallest gap become one interval and the gap is
    ///   charged (INV-LEDGER-CONSERVATIVE), so the ledger may overstate GC time, never understate it.
    ///
    /// Cost: O(1) amortized, O(capacity) when the ring is full.
    pub fn record(&mut self, start_ns: u64, end_ns: u64) -> u64 {
        let begin = self.observe(start_ns);
        let length = if end_ns > start_ns {
            end_ns - start_ns
        } else {
            self.clock_steps += 1;
            self.unmeasured_ns
        };
        let end = begin.saturating_add(length);
        // From here on the reading `end_ns` means `end`. It is a no-op for a sane clock.
        self.offset_ns = self.offset_ns.max(end.saturating_sub(end_ns));
        self.push(Interval::new(begin, end));
        debug_assert_eq!(self.verify(), Ok(()));
        length
    }

    /// GC time inside `[now_ns - window_ns, now_ns]`, in nanoseconds.
    ///
    /// Exact for a `now_ns` at or after the last charge and a window up to the retained length; a longer
    /// window is cut to that. Cost: O(intervals in the window).
    #[must_use]
    pub fn used(&self, now_ns: u64, window_ns: u64) -> u64 {
        let to = self.to_ledger(now_ns);
        let from = to.saturating_sub(window_ns.min(self.retain_ns));
        let newest_first = (0..self.len).rev().map(|i| self.at(i));
        newest_first.take_while(|iv| iv.end_ns > from).map(|iv| iv.overlap_ns(from, to)).sum()
    }

    /// How often a reading proved that the clock stood still or stepped back.
    #[must_use]
    pub fn clock_steps(&self) -> u64 {
        self.clock_steps
    }

    /// How often two intervals had to be merged because the ring was full.
    #[must_use]
    pub fn merges(&self) -> u64 {
        self.merges
    }

    /// Mutator time that merging charged to the collector, in nanoseconds.
    #[must_use]
    pub fn merged_gap_ns(&self) -> u64 {
        self.merged_gap_ns
    }

    /// Number of intervals kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True before the first charge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Checks INV-LEDGER-SUM and INV-LEDGER-ORDER.
    ///
    /// # Errors
    /// The first broken invariant. Cost: O(intervals kept).
    pub fn verify(&self) -> Result<(), LedgerFault> {
        let mut counted_ns = 0;
        let mut last_end = 0;
        for position in 0..self.len {
            let iv = self.at(position);
            if iv.start_ns >= iv.end_ns || iv.start_ns < last_end {
                return Err(LedgerFault::Order { position });
            }
            last_end = iv.end_ns;
            counted_ns += iv.len_ns();
        }
        if counted_ns != self.sum_ns {
            return Err(LedgerFault::Sum { kept_ns: self.sum_ns, counted_ns });
        }
        Ok(())
    }

    /// Ledger time of a reading. Grows the offset if the reading lies behind the last charge.
    pub(crate) fn observe(&mut self, now_ns: u64) -> u64 {
        let now = self.to_ledger(now_ns);
        let last = self.last_end();
        if now < last {
            self.clock_steps += 1;
            self.offset_ns = self.offset_ns.saturating_add(last - now);
        }
        now.max(last)
    }

    pub(crate) fn to_ledger(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.offset_ns)
    }

    pub(crate) fn to_clock(&self, ledger_ns: u64) -> u64 {
        ledger_ns.saturating_sub(self.offset_ns)
    }

    /// The newest interval, in ledger time.
    pub(crate) fn newest(&self) -> Option<Interval> {
        self.len.checked_sub(1).map(|i| self.at(i))
    }

    pub(crate) fn last_end(&self) -> u64 {
        self.newest().map_or(0, |iv| iv.end_ns)
    }

    /// GC time after ledger time `edge`.
    pub(crate) fn used_after(&self, edge: u64) -> u64 {
        let newest_first = (0..self.len).rev().map(|i| self.at(i));
        newest_first.take_while(|iv| iv.end_ns > edge).map(|iv| iv.overlap_ns(edge, u64::MAX)).sum()
    }

    /// The smallest ledger time after which at most `budget_ns` of GC time lie; 0 if that is all of it.
    pub(crate) fn edge_leaving(&self, budget_ns: u64) -> u64 {
        let mut left = budget_ns;
        for iv in (0..self.len).rev().map(|i| self.at(i)) {
            if iv.len_ns() > left {
                return iv.end_ns - left;
            }
            left -= iv.len_ns();
        }
        0
    }

    /// The largest `b <= limit_ns` such that `[edge, edge + b]` holds at most `slack_ns` of time that is
    /// *not* GC time. Cost: O(intervals after `edge`).
    pub(crate) fn reach(&self, edge: u64, slack_ns: u64, limit_ns: u64) -> u64 {
        let older = (0..self.len).rev().take_while(|&i| self.at(i).end_ns > edge).last();
        let mut slack = slack_ns;
        let mut position = edge;
        for iv in (older.unwrap_or(self.len)..self.len).map(|i| self.at(i)) {
            let gap = iv.start_ns.saturating_sub(position);
            if gap > slack || position - edge >= limit_ns {
                break;
            }
            slack -= gap;
            position = iv.end_ns;
        }
        (position - edge).saturating_add(slack).min(limit_ns)
    }

    /// Position 0 is the oldest interval.
    fn at(&self, position: usize) -> Interval {
        self.ring[self.index(position)]
    }

    fn index(&self, position: usize) -> usize {
        (self.oldest + position) % self.ring.len()
    }

    fn push(&mut self, new: Interval) {
        if new.len_ns() == 0 {
            return; // Only when ledger time has reached u64::MAX, after 584 years.
        }
        self.drop_before(new.end_ns.saturating_sub(self.retain_ns));
        let touches = self.len > 0 && self.last_end() == new.start_ns;
        if touches {
            self.extend_newest(new.end_ns);
            return;
        }
        if self.len == self.ring.len() {
            let merged_new = self.merge_closest(new);
            if merged_new {
                return;
            }
        }
        let index = self.index(self.len);
        self.ring[index] = new;
        self.len += 1;
        self.sum_ns += new.len_ns();
    }

    fn drop_before(&mut self, edge: u64) {
        while self.len > 0 && self.at(0).end_ns <= edge {
            self.sum_ns -= self.at(0).len_ns();
            self.oldest = self.index(1);
            self.len -= 1;
        }
    }

    fn extend_newest(&mut self, end_ns: u64) {
        let index = self.index(self.len - 1);
        self.sum_ns += end_ns - self.ring[index].end_ns;
        self.ring[index].end_ns = end_ns;
    }

    /// Makes room by closing the smallest gap (the oldest of equals). True if that gap was the one
    /// before `new`, which is then part of the newest interval.
    fn merge_closest(&mut self, new: Interval) -> bool {
        let mut best = (new.start_ns - self.last_end(), self.len - 1);
        for position in (0..self.len - 1).rev() {
            let gap = self.at(position + 1).start_ns - self.at(position).end_ns;
            if gap <= best.0 {
                best = (gap, position);
            }
        }
        let (gap, position) = best;
        self.merges += 1;
        self.merged_gap_ns = self.merged_gap_ns.saturating_add(gap);
        if position == self.len - 1 {
            self.extend_newest(new.end_ns);
            return true;
        }
        let (kept, absorbed) = (self.index(position), self.index(position + 1));
        self.ring[kept].end_ns = self.ring[absorbed].end_ns;
        for later in position + 2..self.len {
            let (to, from) = (self.index(later - 1), self.index(later));
            self.ring[to] = self.ring[from];
        }
        self.len -= 1;
        self.sum_ns += gap;
        false
    }

    /// Test hook: loses the newest interval, as a collector that forgets to charge one would.
    #[cfg(test)]
    pub(crate) fn forget_newest(&mut self) {
        if let Some(iv) = self.newest() {
            self.sum_ns -= iv.len_ns();
            self.len -= 1;
        }
    }

    /// Test hook: damages the running sum.
    #[cfg(test)]
    pub(crate) fn corrupt_sum(&mut self) {
        self.sum_ns += 1;
    }

    /// Test hook: damages the order.
    #[cfg(test)]
    pub(crate) fn corrupt_order(&mut self) {
        let (a, b) = (self.index(0), self.index(self.len - 1));
        self.ring.swap(a, b);
    }
}
