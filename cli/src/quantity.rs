//! Quantities of the command's own flags as text: sizes, seconds, and numbers for people.

use std::time::Duration;

/// Longest run that can be asked for: 30 days.
const SECONDS_MAX: f64 = 30.0 * 86_400.0;
const SECONDS_MIN: f64 = 0.1;

/// Reads a size: `64k`, `256M`, `1.5G` or plain bytes; multiples are binary. For a rate, `/s` may follow.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let refuse = || format!("{text:?} is not a size such as 64k, 256M, 1.5G or plain bytes");
    let bare = text.trim().strip_suffix("/s").unwrap_or(text.trim());
    let (number, unit) = split(bare);
    let shift = match unit {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(refuse()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Eighteen digits are exact in 128 bits whatever the unit.
    if whole.is_empty() || fraction.len() > 18 || number.ends_with('.') {
        return Err(refuse());
    }
    let digits = |s: &str| if s.is_empty() { Ok(0) } else { s.parse::<u128>() };
    let (w, f) = (digits(whole).map_err(|_| refuse())?, digits(fraction).map_err(|_| refuse())?);
    let part = (f << shift) / 10_u128.pow(fraction.len() as u32);
    let bytes = w.checked_mul(1 << shift).and_then(|b| b.checked_add(part));
    match bytes.and_then(|b| u64::try_from(b).ok()) {
        Some(b) if b <= 1 << 44 => Ok(b),
        _ => Err(format!("{text:?} is too large: at most 16T")),
    }
}

/// Reads a length of time for which to run: plain seconds (`20`, `0.5`), or with a unit (`20s`, `500ms`, `2m`, `1h`).
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let refuse = || format!("{text:?} is not a number of seconds such as 20, 0.5, 20s, 500ms or 2m");
    let (number, unit) = split(text.trim());
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(refuse()),
    };
    if number.is_empty() || number.starts_with('.') || number.ends_with('.') {
        return Err(refuse());
    }
    let seconds = number.parse::<f64>().map_err(|_| refuse())? * factor;
    if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("{text:?} is out of range: from 0.1 seconds to 30 days"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads a factor: `1`, `0.6`.
pub(crate) fn parse_factor(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(factor) if (0.05..=100.0).contains(&factor) => Ok(factor),
        Ok(_) => Err(format!("{text:?} is out of range: from 0.05 to 100")),
        Err(_) => Err(format!("{text:?} is not a factor such as 1.0 or 0.6")),
    }
}

/// A number and what follows it.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// A number of bytes for people: `512 B`, `1.5 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A whole number with its digits in groups: `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Nanoseconds for people: `812 ns`, `53.2 us`, `1.04 ms`, `2.5 s`.
pub(crate) fn time(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("64k", 65_536),
            ("64K", 65_536),
            ("1.5M", 1_572_864),
            ("64M/s", 67_108_864),
            (" 2 GiB", 2_147_483_648),
            ("0.5k", 512),
            ("16T", 1 << 44),
        ] {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        for text in
            ["", "M", "-1", "+1", "1.", ".5M", "1.2.3k", "1e3", "0x10", "1Mb", "12 parsecs", "17T", "1\n2"]
        {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
        assert!(parse_size("99999999999999999999999999999999999999999").is_err());
        assert!(parse_size("340282366920938463463374607431768211455T").is_err());
    }

    #[test]
    fn seconds() {
        for (text, ms) in [
            ("20", 20_000),
            ("0.5", 500),
            ("20s", 20_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_seconds(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "-1", "s", "1d", "nan", "inf", "0.01", "1e9", "99999999999", "1.", ".5"] {
            assert!(parse_seconds(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!((bytes(0), bytes(1023), bytes(1536)), ("0 B".into(), "1023 B".into(), "1.5 KiB".into()));
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        assert_eq!((grouped(0), grouped(999), grouped(1000)), ("0".into(), "999".into(), "1,000".into()));
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(
            (time(999), time(1500), time(2_000_000)),
            ("999 ns".into(), "1.5 us".into(), "2.00 ms".into())
        );
    }

    #[test]
    fn factors() {
        assert_eq!((parse_factor("1"), parse_factor(" 0.6 ")), (Ok(1.0), Ok(0.6)));
        for bad in ["", "x", "1x", "-1", "0", "0.04", "101", "nan", "inf"] {
            assert!(parse_factor(bad).is_err(), "{bad}");
        }
    }
}
