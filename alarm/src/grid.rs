//! The arithmetic of ticks on a fixed grid: pure, integers only, no clock.
//!
//! Invariants (see [`crate::design`]): `INV-ALARM-GRID`, `INV-ALARM-FUTURE`, `INV-ALARM-MISSED`.

/// Points in time `origin + k * period`, `k` any integer, as far as they lie within `u64` nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// `origin mod period`: all that is left of an origin once the grid extends both ways.
    phase: u64,
    period: u64,
}

impl Grid {
    /// The grid through `origin_ns` with this period. A period of 0 is taken as 1 ns.
    pub const fn new(origin_ns: u64, period_ns: u64) -> Grid {
        let period = if period_ns == 0 { 1 } else { period_ns };
        Grid { phase: origin_ns % period, period }
    }

    /// Distance of two neighbouring points, in nanoseconds.
    pub const fn period_ns(&self) -> u64 {
        self.period
    }

    /// Whether `ns` is a point of the grid.
    pub const fn contains(&self, ns: u64) -> bool {
        ns % self.period == self.phase
    }

    /// The first point after `now_ns`, strictly; `u64::MAX` if that would lie beyond the end of time. O(1).
    pub const fn next_after(&self, now_ns: u64) -> u64 {
        // How far `now` is past the last point, computed modulo the period without going below 0.
        let offset = now_ns % self.period;
        let since =
            if offset >= self.phase { offset - self.phase } else { self.period - (self.phase - offset) };
        now_ns.saturating_add(self.period - since)
    }

    /// How many points lie in `(after_ns, until_ns]`; 0 if `until_ns` is not later. O(1).
    pub const fn points_between(&self, after_ns: u64, until_ns: u64) -> u64 {
        if until_ns <= after_ns {
            return 0;
        }
        let first = self.next_after(after_ns);
        // A saturated `first` is no point, unless the end of time happens to be one.
        if first > until_ns || !self.contains(first) { 0 } else { (until_ns - first) / self.period + 1 }
    }
}

/// One call of the tick closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Number of this tick: 0, 1, 2, … without gaps, also over missed points and pauses.
    pub sequence: u64,
    /// The grid point that this tick is for, in nanoseconds of the monotonic clock.
    pub deadline_ns: u64,
    /// The time at which the thread found itself awake; never before the deadline.
    pub now_ns: u64,
    /// Grid points after the deadline that had passed by then and that get no tick of their own.
    pub missed: u64,
}

impl Tick {
    /// How late the tick is, in nanoseconds.
    pub const fn lateness_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.deadline_ns)
    }
}

/// What a wake-up means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Wake {
    /// The deadline has not come (a signal, or the clock went back): sleep until this time.
    Early {
        /// The next deadline, a grid point less than or exactly one period away.
        deadline_ns: u64,
    },
    /// The deadline has come.
    Due(Tick),
}

/// Where a tick thread stands on its grid: the state of an alarm without the thread, to be driven by any clock.
///
/// ```
/// use metronome_alarm::{Ticker, Wake};
///
/// let mut ticker = Ticker::new(1_000, 100);
/// assert_eq!(ticker.deadline_ns(), 1_100);
/// assert!(matches!(ticker.wake(1_099), Wake::Early { deadline_ns: 1_100 }));
/// let Wake::Due(tick) = ticker.wake(1_350) else { unreachable!() };
/// assert_eq!((tick.deadline_ns, tick.lateness_ns(), tick.missed), (1_100, 250, 2));
/// assert_eq!(ticker.deadline_ns(), 1_400);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticker {
    grid: Grid,
    deadline: u64,
    sequence: u64,
}

impl Ticker {
    /// A ticker whose grid goes through `now_ns` and whose first deadline is one period later.
    pub const fn new(now_ns: u64, period_ns: u64) -> Ticker {
        let grid = Grid::new(now_ns, period_ns);
        Ticker { grid, deadline: grid.next_after(now_ns), sequence: 0 }
    }

    /// The grid.
    pub const fn grid(&self) -> Grid {
        self.grid
    }

    /// The next deadline.
    pub const fn deadline_ns(&self) -> u64 {
        self.deadline
    }

    /// Passes over `points` grid points from the present deadline on: they get no tick and are not missed. O(1).
    pub const fn pass_over(&mut self, points: u32) {
        self.deadline = self.deadline.saturating_add(self.grid.period.saturating_mul(points as u64));
    }

    /// Ticks handed out so far.
    pub const fn ticks(&self) -> u64 {
        self.sequence
    }

    /// Judges a wake-up at `now_ns`, from any time to any other: later by years, or earlier. O(1).
    ///
    /// If the deadline has come there is exactly one tick, however many grid points have passed, and the new deadline
    /// lies in the future.
    pub const fn wake(&mut self, now_ns: u64) -> Wake {
        let next = self.grid.next_after(now_ns);
        debug_assert!(
            next > now_ns || now_ns == u64::MAX,
            "INV-ALARM-FUTURE: the next deadline lies after now"
        );
        if now_ns < self.deadline {
            // Normally the same deadline. After a clock that went back it is an earlier one: waiting for the old one
            // would mean silence for as long as the clock went back.
            self.deadline = next;
            return Wake::Early { deadline_ns: next };
        }
        let tick = Tick {
            sequence: self.sequence,
            deadline_ns: self.deadline,
            now_ns,
            missed: self.grid.points_between(self.deadline, now_ns),
        };
        self.sequence = self.sequence.saturating_add(1);
        self.deadline = next;
        Wake::Due(tick)
    }

    /// Takes up again after a pause: the next deadline is the next grid point, and what lies before is not missed,
    /// because nobody wanted it.
    pub const fn resume(&mut self, now_ns: u64) {
        self.deadline = self.grid.next_after(now_ns);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use quickcheck::{TestResult, quickcheck};

    use super::*;

    /// All points of the grid up to `limit`, found by stepping: the oracle knows no division.
    fn naive_points(origin: u64, period: u64, limit: u64) -> Vec<u64> {
        let mut first = origin;
        while first >= period {
            first -= period;
        }
        let mut points = Vec::new();
        let mut point = first;
        while point <= limit {
            points.push(point);
            point += period;
        }
        points
    }

    const LIMIT: u64 = 4_000;

    /// Wakes something that stands where a ticker does, and compares what it says, and its next deadline, with stepping.
    /// The number of ticks, or the invariant that is broken.
    fn compare(
        origin: u64,
        period: u64,
        wakes: &[u16],
        mut wake: impl FnMut(u64) -> (Wake, u64),
    ) -> Result<u64, &'static str> {
        let points = naive_points(origin, period, LIMIT + 2 * period);
        let after = |time: u64| *points.iter().find(|&&point| point > time).unwrap();
        let (mut expected, mut ticks) = (after(origin), 0);
        for &at in wakes {
            let now = u64::from(at) % LIMIT;
            let (woken, next) = wake(now);
            match woken {
                Wake::Early { deadline_ns } => {
                    assert!(now < expected && deadline_ns == next);
                }
                Wake::Due(tick) => {
                    assert!(now >= expected);
                    let missed = points.iter().filter(|&&point| point > expected && point <= now).count();
                    if tick.missed != missed as u64 {
                        return Err("INV-ALARM-MISSED");
                    }
                    let missed = missed as u64;
                    assert_eq!(tick, Tick { sequence: ticks, deadline_ns: expected, now_ns: now, missed });
                    ticks += 1;
                }
            }
            expected = after(now);
            if !points.contains(&next) {
                return Err("INV-ALARM-GRID");
            }
            if next != expected {
                return Err("INV-ALARM-FUTURE");
            }
        }
        Ok(ticks)
    }

    #[test]
    fn a_ticker_that_drifts_bursts_or_forgets_is_found() {
        // Ticks at 1100 and, late, at 1350: two points are missed, and the next is 1400.
        let with = |wrong: fn(&mut Tick, &mut u64)| {
            let mut ticker = Ticker::new(1_000, 100);
            compare(1_000, 100, &[1_050, 1_100, 1_350], |now| {
                let (mut woken, mut next) = (ticker.wake(now), ticker.deadline_ns());
                if let Wake::Due(tick) = &mut woken {
                    wrong(tick, &mut next);
                }
                (woken, next)
            })
        };
        assert_eq!(with(|_, _| ()), Ok(2));
        // The next deadline is counted from the wake-up.
        assert_eq!(with(|tick, next| *next = tick.now_ns + 100), Err("INV-ALARM-GRID"));
        // Or from the last deadline, so that one late tick is followed by many at once.
        assert_eq!(with(|tick, next| *next = tick.deadline_ns + 100), Err("INV-ALARM-FUTURE"));
        // Points passed over are not counted.
        assert_eq!(with(|tick, _| tick.missed = 0), Err("INV-ALARM-MISSED"));
    }

    quickcheck! {
        fn next_and_count_agree_with_stepping(origin: u16, period: u8, a: u16, b: u16) -> TestResult {
            if period == 0 {
                return TestResult::discard();
            }
            let (origin, period) = (u64::from(origin) % LIMIT, u64::from(period));
            let (a, b) = (u64::from(a) % LIMIT, u64::from(b) % LIMIT);
            let grid = Grid::new(origin, period);
            let points = naive_points(origin, period, LIMIT + 2 * period);
            assert!(points.contains(&origin));
            assert_eq!(Some(&grid.next_after(a)), points.iter().find(|&&point| point > a));
            assert_eq!(grid.contains(a), points.contains(&a));
            let between = points.iter().filter(|&&point| point > a && point <= b).count() as u64;
            assert_eq!(grid.points_between(a, b), between);
            TestResult::passed()
        }

        // INV-ALARM-GRID, INV-ALARM-FUTURE and INV-ALARM-MISSED over wake-ups that jump anywhere, back too.
        fn ticker_agrees_with_stepping(origin: u16, period: u8, wakes: Vec<u16>) -> TestResult {
            if period == 0 {
                return TestResult::discard();
            }
            let (origin, period) = (u64::from(origin) % LIMIT, u64::from(period));
            let mut ticker = Ticker::new(origin, period);
            let got = compare(origin, period, &wakes, |now| (ticker.wake(now), ticker.deadline_ns()));
            assert_eq!(got, Ok(ticker.ticks()));
            TestResult::passed()
        }

        // Forward time only: each grid point passed is either a tick or missed, none twice, none lost.
        fn every_point_is_a_tick_or_missed(origin: u16, period: u8, steps: Vec<u8>) -> TestResult {
            if period == 0 {
                return TestResult::discard();
            }
            let (mut now, period) = (u64::from(origin), u64::from(period));
            let start = now;
            let mut ticker = Ticker::new(start, period);
            let (mut ticks, mut missed) = (0, 0);
            for step in steps {
                now += u64::from(step);
                if let Wake::Due(tick) = ticker.wake(now) {
                    ticks += 1;
                    missed += tick.missed;
                    assert!(tick.lateness_ns() >= tick.missed * period);
                }
            }
            let passed = naive_points(start, period, now).iter().filter(|&&point| point > start).count() as u64;
            assert_eq!(ticks + missed, passed);
            TestResult::passed()
        }

        // Any 64-bit numbers: no overflow, and the results keep their promises.
        fn no_number_breaks_it(origin: u64, period: u64, wakes: Vec<u64>) -> bool {
            let mut ticker = Ticker::new(origin, period);
            for now in wakes.into_iter().chain([0, u64::MAX, 1, u64::MAX - 1]) {
                let due = now >= ticker.deadline_ns();
                assert_eq!(due, matches!(ticker.wake(now), Wake::Due(_)));
                let next = ticker.deadline_ns();
                assert!(next > now || now == u64::MAX);
                assert!(next - now <= ticker.grid().period_ns());
                assert!(ticker.grid().contains(next) || next == u64::MAX);
            }
            true
        }
    }

    #[test]
    fn a_clock_that_went_back_shortens_the_wait() {
        let mut ticker = Ticker::new(10_000, 100);
        assert_eq!(ticker.deadline_ns(), 10_100);
        // Back by almost everything: without re-aiming, the next tick would be 10,000 ns away.
        assert_eq!(ticker.wake(45), Wake::Early { deadline_ns: 100 });
        let Wake::Due(tick) = ticker.wake(100) else { panic!("due") };
        assert_eq!((tick.deadline_ns, tick.missed, ticker.deadline_ns()), (100, 0, 200));
    }

    #[test]
    fn a_resumed_ticker_counts_nothing_as_missed() {
        let mut ticker = Ticker::new(0, 10);
        let _ = ticker.wake(10);
        ticker.resume(1_005);
        assert_eq!(ticker.deadline_ns(), 1_010);
        let Wake::Due(tick) = ticker.wake(1_012) else { panic!("due") };
        assert_eq!((tick.sequence, tick.missed, tick.lateness_ns()), (1, 0, 2));
    }
}
