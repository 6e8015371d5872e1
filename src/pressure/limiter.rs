//! How often a source may report: pure, the time comes in as an argument.

use std::time::Duration;

/// At most one report per gap; what is raised in between waits for its end, so that the last one is not lost.
#[derive(Debug)]
pub(super) struct Gate {
    gap: Duration,
    last: Option<Duration>,
    raised: bool,
}

impl Gate {
    pub(super) fn new(gap: Duration) -> Gate {
        Gate { gap, last: None, raised: false }
    }

    /// There is something to report.
    pub(super) fn raise(&mut self) {
        self.raised = true;
    }

    /// There is nothing to report any more.
    pub(super) fn lower(&mut self) {
        self.raised = false;
    }

    /// When what was raised may be reported; `None` if nothing was.
    pub(super) fn due(&self) -> Option<Duration> {
        self.raised.then(|| self.last.map_or(Duration::ZERO, |last| last.saturating_add(self.gap)))
    }

    /// Whether to report now; then the next gap begins.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let take = self.due().is_some_and(|due| due <= now);
        if take {
            (self.raised, self.last) = (false, Some(now));
        }
        take
    }
}

/// Says when a level is worth a report: on becoming low, then once per `repeat` while it stays so.
///
/// Low is `free` at most `percent` of `whole`. It ends only a quarter above (at least one percent), so that a level that
/// trembles about the bound counts as one visit.
#[derive(Debug)]
pub(super) struct Level {
    percent: u32,
    repeat: Duration,
    said: Option<Duration>,
}

impl Level {
    pub(super) fn new(percent: u32, repeat: Duration) -> Level {
        Level { percent, repeat, said: None }
    }

    /// Whether the level is low, as of the last observation.
    pub(super) fn is_low(&self) -> bool {
        self.said.is_some()
    }

    /// Takes an observation; whether it is worth a report.
    pub(super) fn observe(&mut self, now: Duration, free: u64, whole: u64) -> bool {
        let Some(said) = self.said else {
            let enters = at_most(free, self.percent, whole);
            self.said = enters.then_some(now);
            return enters;
        };
        // Below 100, or it would never end.
        let leave = (self.percent + (self.percent / 4).max(1)).min(99);
        if !at_most(free, leave, whole) {
            self.said = None;
            return false;
        }
        let again = now >= said.saturating_add(self.repeat);
        if again {
            self.said = Some(now);
        }
        again
    }
}

fn at_most(free: u64, percent: u32, whole: u64) -> bool {
    u128::from(free) * 100 <= u128::from(percent) * u128::from(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_gate_lets_one_through_per_gap_and_loses_none() {
        let mut gate = Gate::new(ms(1000));
        assert_eq!((gate.due(), gate.take(ms(5))), (None, false));
        gate.raise();
        assert_eq!(gate.due(), Some(ms(0)));
        assert!(gate.take(ms(5)));
        gate.raise();
        gate.raise();
        assert_eq!(gate.due(), Some(ms(1005)));
        assert!(!gate.take(ms(1004)));
        assert!(gate.take(ms(1005)));
        assert!(!gate.take(ms(9000)));
        gate.raise();
        gate.lower();
        assert!(!gate.take(ms(9000)));
    }

    quickcheck::quickcheck! {
        /// Against the definition: no two reports closer than the gap, and each raise is followed by a report.
        fn gates_keep_the_gap(raises: Vec<(u16, bool)>) -> bool {
            let mut gate = Gate::new(ms(700));
            let (mut now, mut reports, mut last_raise) = (0, vec![], None);
            for (step, raise) in raises {
                now += u64::from(step % 300);
                if raise {
                    gate.raise();
                    last_raise = Some(now);
                }
                if gate.take(ms(now)) {
                    reports.push(now);
                }
            }
            if gate.take(ms(now + 700)) {
                reports.push(now + 700);
            }
            reports.windows(2).all(|w| w[1] - w[0] >= 700) && last_raise.is_none_or(|r| reports.last() >= Some(&r))
        }
    }

    #[test]
    fn a_level_reports_on_entering_then_now_and_then() {
        let mut level = Level::new(5, ms(10_000));
        assert!(!level.observe(ms(0), 51, 1000));
        assert!(level.observe(ms(1), 50, 1000));
        assert!(level.is_low());
        // Trembling about the bound is one visit.
        assert!(!level.observe(ms(2), 59, 1000));
        assert!(!level.observe(ms(3), 40, 1000));
        assert!(!level.observe(ms(10_000), 0, 1000));
        assert!(level.observe(ms(10_001), 0, 1000));
        assert!(!level.observe(ms(10_002), 0, 1000));
        // Leaving and entering again.
        assert!(!level.observe(ms(10_003), 61, 1000));
        assert!(!level.is_low());
        assert!(level.observe(ms(10_004), 1, 1000));
    }

    #[test]
    fn levels_of_any_size() {
        let low = |free, whole| Level::new(5, ms(0)).observe(ms(0), free, whole);
        assert!(low(0, 0) && low(0, u64::MAX) && low(u64::MAX / 20, u64::MAX));
        assert!(!low(u64::MAX, u64::MAX) && !low(1, 0));
        let mut high = Level::new(99, ms(0));
        assert!(high.observe(ms(0), 99, 100) && !high.observe(ms(1), 100, 100) && !high.is_low());
    }

    #[test]
    fn a_machine_that_stays_low_for_an_hour_reports_every_ten_seconds() {
        let mut level = Level::new(5, ms(10_000));
        let reports = (0..3600).filter(|s| level.observe(ms(s * 1000), 1, 1000)).count();
        assert_eq!(reports, 360);
    }
}
