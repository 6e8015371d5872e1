//! Civil (zone-less) time as the logs print it, and the mapping from a monotonic clock to it.
//!
//! Both generations print local time without a zone. A [`LogTime`] is therefore a point on the *printed*
//! calendar, not an instant: across a daylight-saving switch it jumps.

use std::fmt::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

const MS_PER_DAY: i64 = 86_400_000;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/// Days from 0001-01-01 to 1970-01-01.
const EPOCH_DAY: i64 = 719_162;
/// First and last millisecond that four-digit years can print.
const MIN_MS: i64 = -62_135_596_800_000;
const MAX_MS: i64 = 253_402_300_799_999;

/// A printed date and time without a zone, years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogTime {
    civil_ms: i64,
    has_millis: bool,
}

impl LogTime {
    /// From milliseconds since 1970-01-01T00:00:00 on the printed calendar; clamped to the years 1 to 9999.
    pub fn from_civil_ms(civil_ms: i64) -> Self {
        Self { civil_ms: civil_ms.clamp(MIN_MS, MAX_MS), has_millis: true }
    }

    /// Milliseconds since 1970-01-01T00:00:00 on the printed calendar.
    pub const fn civil_ms(self) -> i64 {
        self.civil_ms
    }

    /// False where the log printed whole seconds only (2007 generation).
    pub const fn has_millis(self) -> bool {
        self.has_millis
    }

    /// The same time cut to whole seconds, as the 2007 generation prints it.
    pub fn to_seconds(self) -> Self {
        Self { civil_ms: self.civil_ms.div_euclid(1000) * 1000, has_millis: false }
    }

    /// This time moved by a signed number of nanoseconds (cut to milliseconds), clamped at the calendar's ends.
    pub fn offset_ns(self, ns: i128) -> Self {
        let ms = i64::try_from(ns.div_euclid(1_000_000)).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX });
        Self { civil_ms: self.civil_ms.saturating_add(ms).clamp(MIN_MS, MAX_MS), has_millis: self.has_millis }
    }

    /// Milliseconds from `earlier` to `self` on the printed calendar; negative when it went back.
    pub const fn ms_since(self, earlier: Self) -> i64 {
        self.civil_ms - earlier.civil_ms
    }

    /// Reads every form found in the field: `2026-08-31T13:43:22.804` (fraction optional),
    /// `Tue Mar 13 15:17:18 2007` and `Mar 25 22:40:24 2010`. `None` if it is none of them.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.as_bytes().first()?.is_ascii_digit() { parse_iso(text) } else { parse_ctime(text) }
    }

    fn parts(self) -> Parts {
        let days = self.civil_ms.div_euclid(MS_PER_DAY);
        let ms = self.civil_ms.rem_euclid(MS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        Parts { year, month, day, weekday: (days + 4).rem_euclid(7) as usize, ms }
    }

    /// Appends `Tue Mar 13 15:17:18 2007`.
    pub(crate) fn push_2007(self, out: &mut String) {
        let p = self.parts();
        let _ = write!(
            out,
            "{} {} {:02} {:02}:{:02}:{:02} {:04}",
            WEEKDAYS[p.weekday],
            MONTHS[p.month - 1],
            p.day,
            p.hour(),
            p.minute(),
            p.second(),
            p.year
        );
    }

    /// Appends `2026-08-31T13:43:22.804`.
    pub(crate) fn push_iso(self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
}

/// `YYYY-MM-DDThh:mm:ss`, with `.mmm` where the log had it.
impl fmt::Display for LogTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = self.parts();
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            p.year,
            p.month,
            p.day,
            p.hour(),
            p.minute(),
            p.second()
        )?;
        if self.has_millis { write!(f, ".{:03}", p.ms % 1000) } else { Ok(()) }
    }
}

struct Parts {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    ms: i64,
}

impl Parts {
    const fn hour(&self) -> i64 {
        self.ms / 3_600_000
    }
    const fn minute(&self) -> i64 {
        self.ms / 60_000 % 60
    }
    const fn second(&self) -> i64 {
        self.ms / 1000 % 60
    }
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn month_days(year: i64, month: usize) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the first of January of `year`.
const fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - EPOCH_DAY
}

fn days_from_civil(year: i64, month: usize, day: i64) -> i64 {
    days_before_year(year) + (1..month).map(|m| month_days(year, m)).sum::<i64>() + day - 1
}

fn civil_from_days(days: i64) -> (i64, usize, i64) {
    // The mean year gives the year or its neighbour; two comparisons settle it.
    let mut year = (days + EPOCH_DAY).div_euclid(366) + 1;
    while days_before_year(year + 1) <= days {
        year += ((days - days_before_year(year)) / 366).max(1);
    }
    let mut rest = days - days_before_year(year);
    let mut month = 1;
    while rest >= month_days(year, month) {
        rest -= month_days(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
    if digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

fn build(year: i64, month: usize, day: i64, clock: &str, millis: Option<i64>) -> Option<LogTime> {
    let mut fields = clock.split(':');
    let hour = number(fields.next()?, 1..=2)?;
    let minute = number(fields.next()?, 2..=2)?;
    let second = number(fields.next()?, 2..=2)?;
    // 60 is a leap second, which the calendar here folds into the next minute.
    if fields.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if !(1..=12).contains(&month) || year < 1 || day < 1 || day > month_days(year, month) {
        return None;
    }
    let ms = ((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60_000 + second * 1000;
    Some(LogTime { civil_ms: (ms + millis.unwrap_or(0)).clamp(MIN_MS, MAX_MS), has_millis: millis.is_some() })
}

fn parse_iso(text: &str) -> Option<LogTime> {
    let (date, time) = text.split_once(['T', ' '])?;
    let mut fields = date.split('-');
    let year = number(fields.next()?, 4..=4)?;
    let month = number(fields.next()?, 2..=2)? as usize;
    let day = number(fields.next()?, 2..=2)?;
    if fields.next().is_some() {
        return None;
    }
    match time.split_once('.') {
        Some((clock, millis)) => build(year, month, day, clock, Some(number(millis, 3..=3)?)),
        None => build(year, month, day, time, None),
    }
}

fn parse_ctime(text: &str) -> Option<LogTime> {
    let mut words = text.split_ascii_whitespace();
    let mut word = words.next()?;
    if WEEKDAYS.contains(&word) {
        word = words.next()?;
    }
    let month = MONTHS.iter().position(|m| *m == word)? + 1;
    let day = number(words.next()?, 1..=2)?;
    let clock = words.next()?;
    let year = number(words.next()?, 4..=4)?;
    if words.next().is_some() { None } else { build(year, month, day, clock, None) }
}

/// Maps a monotonic clock to the calendar that a log prints.
///
/// The mapping is fixed when it is made: a later step of the system's wall clock does not move the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// Reading of the monotonic clock, in nanoseconds, at the moment of `unix_ns`.
    pub monotonic_ns: u64,
    /// Wall time at that moment, nanoseconds since 1970-01-01 UTC.
    pub unix_ns: i128,
    /// Local time minus UTC in seconds; 0 prints UTC.
    pub offset_seconds: i32,
}

impl WallClock {
    /// UTC, with the system's wall time read now and taken to be the moment of `monotonic_now_ns`.
    pub fn utc_now(monotonic_now_ns: u64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the time of day, asked once for each log")]
        let unix_ns = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        Self { monotonic_ns: monotonic_now_ns, unix_ns, offset_seconds: 0 }
    }

    /// The printed time of a monotonic reading.
    pub fn at(&self, monotonic_ns: u64) -> LogTime {
        let moved = i128::from(monotonic_ns) - i128::from(self.monotonic_ns);
        let ns = self
            .unix_ns
            .saturating_add(moved)
            .saturating_add(i128::from(self.offset_seconds) * 1_000_000_000)
            .div_euclid(1_000_000);
        LogTime::from_civil_ms(i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_read_and_print() {
        let t = LogTime::parse("2026-08-31T13:43:22.804").unwrap();
        assert_eq!(t.civil_ms(), 1_788_183_802_804);
        assert_eq!(t.to_string(), "2026-08-31T13:43:22.804");
        let a = LogTime::parse("Tue Mar 13 15:17:18 2007").unwrap();
        assert_eq!(a, LogTime::parse("Mar 13 15:17:18 2007").unwrap());
        assert_eq!(a.civil_ms(), 1_173_799_038_000);
        let mut text = String::new();
        a.push_2007(&mut text);
        assert_eq!(text, "Tue Mar 13 15:17:18 2007");
    }

    #[test]
    fn every_day_of_the_calendar_round_trips_in_order() {
        // Walks the calendar by its own rules, which is the oracle for both conversions.
        let (mut year, mut month, mut day) = (1, 1, 1);
        for days in -EPOCH_DAY..(MAX_MS / MS_PER_DAY) {
            assert_eq!(civil_from_days(days), (year, month, day));
            assert_eq!(days_from_civil(year, month, day), days);
            day += 1;
            if day > month_days(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn impossible_dates_are_refused() {
        for bad in [
            "",
            "2026-02-29T00:00:00.000",
            "2026-13-01T00:00:00.000",
            "2026-01-01T24:00:00.000",
            "2026-01-01",
            "Foo 13 15:17:18 2007",
            "Mar 13 15:17 2007",
            "Mar 13 15:17:18 2007 CET",
            "2026-01-01T00:00:00.1",
        ] {
            assert_eq!(LogTime::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_wall_clock_never_overflows() {
        for unix_ns in [i128::MIN, 0, i128::MAX] {
            for ns in [0, u64::MAX] {
                let clock = WallClock { monotonic_ns: 1 << 63, unix_ns, offset_seconds: i32::MIN };
                assert_eq!(LogTime::parse(&clock.at(ns).to_string()), Some(clock.at(ns)));
            }
        }
    }
}
