//! The time axis of a run: from printed times, made monotonic, and refined by intervals where only seconds are printed.

use metronome_verbosegc::LogTime;

/// A printed time that is this far from what an interval says is believed instead.
const REFINE_NS: u64 = 1_500_000_000;

/// No gap within a run is as long as this (ten years): the printed time is wrong.
const ABSURD_NS: i128 = 10 * 366 * 86_400 * 1_000_000_000;

/// Places in a run, in nanoseconds from its first printed time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    origin: Option<LogTime>,
    /// What steps back of the clock have taken away, in sum.
    offset_ns: i128,
    last_ns: u64,
    last: Option<LogTime>,
}

impl Axis {
    /// The place of an event that is written in order. `refined` is the place that an interval gives; it is taken if it
    /// agrees with a time printed in whole seconds. Where it does not and nothing of the log is missing (`whole`), the
    /// clock was set: the interval is right, and the second result tells by how many ns. Without a printed time: where
    /// the axis is.
    pub(crate) fn advance(
        &mut self,
        time: Option<LogTime>,
        refined: Option<u64>,
        whole: bool,
    ) -> (u64, Option<i128>) {
        let Some(time) = time else { return (self.last_ns, None) };
        let mut step = None;
        if let Some(r) = refined.filter(|_| whole && !time.has_millis()) {
            let off = self.signed(time) - i128::from(r);
            if off.unsigned_abs() > u128::from(REFINE_NS) {
                self.offset_ns -= off;
                step = Some(off);
            }
        }
        let printed = self.signed(time);
        let back = i128::from(self.last_ns) - printed;
        if back > i128::from(REFINE_NS) {
            // The clock was set back: go on from here.
            self.offset_ns += back;
            step = step.or(Some(-back));
        }
        let ahead = -back;
        if ahead > ABSURD_NS {
            self.offset_ns -= ahead;
            step = step.or(Some(ahead));
        }
        let printed = self.place(time);
        let at = match refined {
            Some(r) if !time.has_millis() && printed.abs_diff(r) <= REFINE_NS => r,
            _ => printed,
        };
        self.last_ns = self.last_ns.max(at);
        self.last = Some(time);
        (self.last_ns, step)
    }

    fn place(&mut self, time: LogTime) -> u64 {
        u64::try_from(self.signed(time).max(0)).unwrap_or(u64::MAX)
    }

    /// Nanoseconds from the origin; before it where a clock was set back.
    fn signed(&mut self, time: LogTime) -> i128 {
        let origin = *self.origin.get_or_insert(time);
        i128::from(time.ms_since(origin)) * 1_000_000 + self.offset_ns
    }

    pub(crate) const fn now_ns(&self) -> u64 {
        self.last_ns
    }

    /// First and last time; where the clock was set, the last one as if it had not been.
    pub(crate) fn bounds(&self) -> (Option<LogTime>, Option<LogTime>) {
        let set = || Some(self.origin?.offset_ns(i128::from(self.last_ns)));
        (self.origin, if self.offset_ns == 0 { self.last } else { set() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_back_are_taken_out_and_seconds_refined() {
        let t = |s: &str| LogTime::parse(s);
        let mut axis = Axis::default();
        assert_eq!(axis.advance(t("2026-08-31T13:00:00.000"), None, false).0, 0);
        assert_eq!(axis.advance(t("2026-08-31T13:00:02.500"), Some(7), false).0, 2_500_000_000);
        assert_eq!(axis.advance(t("2026-08-31T12:00:00.000"), None, false).0, 2_500_000_000);
        assert_eq!(axis.advance(t("2026-08-31T12:00:01.000"), None, false).0, 3_500_000_000);
        assert_eq!(axis.advance(None, None, false).0, 3_500_000_000);
        let mut axis = Axis::default();
        axis.advance(t("Tue Mar 13 15:17:45 2007"), None, false);
        assert_eq!(axis.advance(t("Tue Mar 13 15:17:46 2007"), Some(1_003_413_000), false).0, 1_003_413_000);
        assert_eq!(axis.advance(t("Tue Mar 13 15:17:56 2007"), Some(1_100_000_000), false).0, 11_000_000_000);
        // With nothing missing it is the clock that is wrong.
        let stepped = axis.advance(t("Tue Mar 13 16:17:57 2007"), Some(12_000_000_000), true);
        assert_eq!(stepped, (12_000_000_000, Some(3_600_000_000_000)));
        assert_eq!(
            axis.advance(t("Tue Mar 13 16:17:59 2007"), Some(13_900_000_000), true),
            (13_900_000_000, None)
        );
        assert_eq!(axis.advance(t("Tue Mar 13 16:17:59 9007"), None, true).0, 13_900_000_000);
    }
}
