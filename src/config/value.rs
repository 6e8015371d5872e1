//! Values as text: sizes, times and percentages, exact in both directions.
//!
//! Integers throughout; a fraction (`1.5ms`) is accepted exactly if it is a whole number of the base unit.

/// Why a text is not a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Not of the form at all.
    Malformed,
    /// Of the right form, but beyond 64 bits.
    Overflow,
}

const BYTE_UNITS: &[(&str, u64)] = &[
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("k", 1 << 10),
    ("B", 1),
    ("", 1),
];

const TIME_UNITS: &[(&str, u64)] =
    &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("µs", 1_000), ("ns", 1)];

/// Reads a size: `256M`, `64k`, `1.5G`, `65536`. Multiples are binary.
pub(super) fn parse_bytes(text: &str) -> Result<u64, Unreadable> {
    parse_quantity(text, BYTE_UNITS)
}

/// Reads a time: `500us`, `1.5ms`, `1s`, `100ns`. The unit is required, because a bare number would be read as
/// milliseconds by some and as nanoseconds by others.
pub(super) fn parse_time(text: &str) -> Result<u64, Unreadable> {
    parse_quantity(text, TIME_UNITS)
}

/// Reads a plain whole number.
pub(super) fn parse_count(text: &str) -> Result<u64, Unreadable> {
    parse_quantity(text, &[("", 1)])
}

/// Reads a percentage: `70` or `70%`.
pub(super) fn parse_percent(text: &str) -> Result<u64, Unreadable> {
    parse_quantity(text, &[("", 1), ("%", 1)])
}

/// Writes a size so that `parse_bytes` reads it back, in the largest unit that divides it.
pub(super) fn format_bytes(bytes: u64) -> String {
    format_quantity(bytes, &[("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)], "")
}

/// Writes a time so that `parse_time` reads it back, in the largest unit that divides it.
pub(super) fn format_time(ns: u64) -> String {
    format_quantity(ns, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)], "ns")
}

fn format_quantity(value: u64, units: &[(&str, u64)], base: &str) -> String {
    for &(unit, factor) in units {
        if value != 0 && value.is_multiple_of(factor) {
            return format!("{}{unit}", value / factor);
        }
    }
    format!("{value}{base}")
}

/// Digits, at most one point with digits on both sides, optional blanks, a unit of the table.
fn parse_quantity(text: &str, units: &[(&str, u64)]) -> Result<u64, Unreadable> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or(Unreadable::Malformed)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return Err(Unreadable::Malformed),
        Some((whole, fraction)) => (whole, fraction.trim_end_matches('0')),
        None => (number, ""),
    };
    if whole.is_empty() || fraction.contains('.') {
        return Err(Unreadable::Malformed);
    }
    let whole: u64 = whole.parse().map_err(|_| Unreadable::Overflow)?;
    let mut value = u128::from(whole) * u128::from(factor);
    if !fraction.is_empty() {
        // 10^26 times the largest factor, 2^40, still fits 128 bits. Whoever needs more digits can use a smaller unit.
        if fraction.len() > 26 {
            return Err(Unreadable::Malformed);
        }
        let digits: u128 = fraction.parse().map_err(|_| Unreadable::Malformed)?;
        let scale = 10_u128.pow(fraction.len() as u32);
        let scaled = digits.checked_mul(u128::from(factor)).ok_or(Unreadable::Malformed)?;
        if !scaled.is_multiple_of(scale) {
            return Err(Unreadable::Malformed);
        }
        value += scaled / scale;
    }
    u64::try_from(value).map_err(|_| Unreadable::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_binary_multiples() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("64k", 65_536),
            ("64K", 65_536),
            ("64KiB", 65_536),
            ("256M", 268_435_456),
            ("1G", 1_073_741_824),
            ("1T", 1_099_511_627_776),
            ("1.5G", 1_610_612_736),
            ("0.5k", 512),
            (" 12 MiB ", 12_582_912),
            ("7B", 7),
            ("1.50k", 1536),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn times_are_read_exactly() {
        for (text, ns) in [
            ("100ns", 100),
            ("500us", 500_000),
            ("500µs", 500_000),
            ("10ms", 10_000_000),
            ("1.5ms", 1_500_000),
            ("0.000000001s", 1),
            ("1s", 1_000_000_000),
            ("2.25 s", 2_250_000_000),
            ("0ns", 0),
        ] {
            assert_eq!(parse_time(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in [
            "", " ", "M", "-1M", "+1", "1.M", ".5M", "1.2.3k", "1 0", "1e3", "0x10", "1,5M", "1Mb", "1m",
            "1.3", "١",
        ] {
            assert_eq!(parse_bytes(text), Err(Unreadable::Malformed), "{text:?}");
        }
        for text in ["1", "0", "1.5ns", "0.0001us", "1min", "1 m s", "ms", "1S", "1.0000001us"] {
            assert_eq!(parse_time(text), Err(Unreadable::Malformed), "{text:?}");
        }
        for text in ["1k", "1.5", "70%", "-3"] {
            assert_eq!(parse_count(text), Err(Unreadable::Malformed), "{text:?}");
        }
    }

    #[test]
    fn more_than_64_bits_is_an_overflow_not_a_wrap() {
        for text in
            ["18446744073709551616", "16777216T", "99999999999999999999999999999999999999999", "16777216.5T"]
        {
            assert_eq!(parse_bytes(text), Err(Unreadable::Overflow), "{text}");
        }
        assert_eq!(parse_time("18446744074s"), Err(Unreadable::Overflow));
        assert_eq!(parse_time("18446744073.709551616s"), Err(Unreadable::Overflow));
        assert_eq!(parse_time("18446744073.709551615s"), Ok(u64::MAX));
    }

    #[test]
    fn percentages_with_or_without_sign() {
        assert_eq!(
            (parse_percent("70"), parse_percent("70%"), parse_percent("70 %")),
            (Ok(70), Ok(70), Ok(70))
        );
        assert_eq!(parse_percent("70.5%"), Err(Unreadable::Malformed));
    }

    #[test]
    fn formatted_values_are_read_back() {
        let mut value = 1_u64;
        let mut samples = vec![0, u64::MAX, 10_000_000, 268_435_456, 1_500_000];
        // A fixed linear congruence: values of every magnitude, the same in each run.
        for i in 0..2_000_u32 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            samples.push(value >> (i % 64));
        }
        for value in samples {
            assert_eq!(parse_bytes(&format_bytes(value)), Ok(value));
            assert_eq!(parse_time(&format_time(value)), Ok(value));
        }
        assert_eq!((format_bytes(268_435_456).as_str(), format_bytes(1000).as_str()), ("256M", "1000"));
        assert_eq!((format_time(500_000).as_str(), format_time(0).as_str()), ("500us", "0ns"));
    }
}
